"""The read buffer of a TLS connection, which asyncio has no setting for."""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto

import pytest

from winpool.kubelet.connection import TLS_BUFFER_BYTES, insecure_context, shrink_tls_buffers

ASYNCIO_HAS = 256 * 1024


async def buffer_of_a_connection(server: asyncio.Server) -> int:
    """Connect to a server; return how many bytes the connection reads at once."""
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=insecure_context())
    try:
        protocol = writer.transport._ssl_protocol  # type: ignore[attr-defined]
        return len(protocol.get_buffer(-1))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_connection_that_is_made_afterwards_has_a_small_buffer(
    tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", ASYNCIO_HAS)

    def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        assert await buffer_of_a_connection(server) == ASYNCIO_HAS
        shrink_tls_buffers()
        assert await buffer_of_a_connection(server) == TLS_BUFFER_BYTES == 16 * 1024
