"""One port on the addresses of all nodes of a process.

One socket listens for all: the local address of a connection says which node was asked. It is bound to the
loopback device, where connections to addresses of this machine arrive: other machines cannot reach it.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import struct
from asyncio import sslproto
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

# Go's clients give up after ten seconds too (http.DefaultTransport, TLSHandshakeTimeout).
_HANDSHAKE_SECONDS: Final = 10.0
# Nodes of one process that keep a connection each and as many again; 80 kB each with TLS, 160 MB in all.
_CONNECTIONS_AT_MOST: Final = 2_048
_BACKLOG: Final = 1_024
# A socket closed with this is reset: to a client, as a port without a listener.
_RESET: Final = struct.pack("ii", 1, 0)
# 256 KiB of asyncio for each connection with TLS would be half a gigabyte; requests to a kubelet are small.
_READ_BYTES: Final = 16 * 1024


class Listener:
    """Takes connections to nodes and hands them to a server.

    Args:
        port: 0: any that is free.
        is_open: says whether a node at an address answers.
        tls: gives the TLS settings of the node at an address; None: plain HTTP.
        server: speaks HTTP.

    """

    def __init__(
        self,
        *,
        port: int,
        is_open: Callable[[str], bool],
        tls: Callable[[str], ssl.SSLContext] | None,
        server: Callable[[], web.Server],
    ) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        self._socket.bind(("0.0.0.0", port))
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._is_open = is_open
        self._tls = tls
        self._make_server = server
        self._transports: dict[str, set[asyncio.BaseTransport]] = {}
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = min(_CONNECTIONS_AT_MOST, soft // 4)
        self._welcomed = 0
        self.taken = 0
        """How many connections have been taken, whatever has become of them."""

    async def run(self) -> None:
        """Take connections until cancelled."""
        if self._tls is not None:
            sslproto.SSLProtocol.max_size = _READ_BYTES
        loop = asyncio.get_running_loop()
        server = self._make_server()
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    connection, _ = await loop.sock_accept(self._socket)
                    address = connection.getsockname()[0]
                    if not self._is_open(address) or self._count(server) >= self._most:
                        _reset(connection)
                        continue
                    self._welcomed += 1
                    self.taken += 1
                    tasks.create_task(self._welcome(connection, address, server))
        finally:
            self._socket.close()
            await server.shutdown(0)

    def hang_up(self, address: str) -> None:
        """Cut all connections to a node."""
        for transport in self._transports.pop(address, ()):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def _count(self, server: web.Server) -> int:
        return self._welcomed + len(server.connections)

    async def _welcome(self, connection: socket.socket, address: str, server: web.Server) -> None:
        context = self._tls(address) if self._tls is not None else None
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                server,
                connection,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if context is not None else None,
            )
        except (OSError, ssl.SSLError, TimeoutError):
            connection.close()  # hung up, or does not like the certificate
            return
        finally:
            self._welcomed -= 1
        if not self._is_open(address):
            transport.abort()
            return
        kept = self._transports.setdefault(address, set())
        kept.difference_update([each for each in kept if each.is_closing()])
        kept.add(transport)


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()
