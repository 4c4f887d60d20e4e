"""A connection to a kubelet: what it costs the others, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from cluster.door import until
from harness.hostile_server import a_server, answering, never, response, tls_for
from harness.kubelet_payloads import a_summary
from harness.polling import AMPLE, TOKEN, a_client, at, refused, trusted
from testbed.pki import Authority
from winpool.kubelet import client as client_module
from winpool.kubelet import connection as wire_module
from winpool.kubelet.addresses import Target
from winpool.kubelet.connection import PIECE_BYTES, Wire, request_of
from winpool.kubelet.samples import MAX_BODY_BYTES, Outcome, PollError

WELL: Final = answering(response(a_summary("w1")))


def open_files() -> set[str]:
    """Return the sockets that this process has."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(each.readlink()))
    return {each for each in found if each.startswith("socket:")}


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[Target, list[asyncio.StreamWriter]]]:
    """Listen, and say nothing to those who connect."""
    connected: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        await reader.read(-1)
        writer.close()
        connected.remove(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Target(node="w1", host="127.0.0.1", port=server.sockets[0].getsockname()[1]), connected


async def test_a_poll_that_is_cancelled_in_its_handshake_leaves_nothing(authority: Authority) -> None:
    async with silent() as (target, connected), a_client(authority) as client:
        poll = asyncio.ensure_future(client.summary(target, deadline=AMPLE, keep=True))
        await until(lambda: connected, what="it is connected")
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await until(lambda: not connected, what="the connection is closed")


async def test_a_poll_that_is_cancelled_leaves_no_thread_and_no_socket(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, never) as server:
        before, threads = open_files(), threading.active_count()
        async with a_client(authority) as client:
            polls = [
                asyncio.ensure_future(client.summary(at(server, node=f"w{number}"), deadline=AMPLE))
                for number in range(8)
            ]
            await until(lambda: len(server.heads) == 8, what="all of them are asked")
            for each in polls:
                each.cancel()
            ended = await asyncio.wait_for(asyncio.gather(*polls, return_exceptions=True), timeout=5)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        await until(lambda: server.open == 0, what="its side is closed too")
        assert open_files() <= before
        assert threading.active_count() == threads


@pytest.mark.slow
async def test_a_connection_that_idles_for_too_long_is_closed(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "KEEP_ALIVE_SECONDS", 0.3)
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        for _ in range(3):
            await client.summary(at(server), deadline=AMPLE, keep=True)
        assert (server.connections, server.open) == (1, 1)
        await until(lambda: server.open == 0, what="it has idled for too long")
        assert client._kept == {}
        await client.summary(at(server), deadline=AMPLE, keep=True)
        assert server.connections == 2


async def test_a_connection_that_the_kubelet_closes_takes_no_place(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        await client.summary(at(server), deadline=AMPLE, keep=True)
        await server.close()
        await until(lambda: not client._kept, what="it is forgotten")
        await client.summary(at(server), deadline=AMPLE, keep=True)
        assert server.connections == 2


async def test_what_comes_within_the_handshake_is_counted(
    authority: Authority, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL alone takes whatever has the form of a handshake."""
    monkeypatch.setattr(wire_module, "WRAPPING_BYTES", 200)
    async with a_server(tls, WELL) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.UNREADABLE
        assert server.heads == []


async def test_what_surrounds_the_answer_is_counted_as_it_comes_over_the_network(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    """Records of one byte have 23 bytes. A head of 6,000 bytes, which is a good one, comes in 138 kB then."""
    answer = response(a_summary("w1"), **{f"X{number}": 2000 * "y" for number in range(3)})

    async def bytewise(_: str, writer: asyncio.StreamWriter) -> None:
        for byte in answer:
            writer.write(bytes([byte]))  # each write is a record
            await writer.drain()

    async with a_server(tls, bytewise) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.UNREADABLE


async def test_a_server_that_has_the_name_of_no_server_is_asked_for_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    node = "w" * 64
    async with a_server(tls_for(authority, tmp_path, names=["w1"]), WELL) as server:
        async with a_client(authority) as client:
            found = await refused(client.summary(at(server, node=node), deadline=AMPLE))
        assert found is Outcome.CERTIFICATE
        assert server.heads == []


def test_an_address_of_ipv6_is_in_brackets() -> None:
    request = request_of("fd00::1", 10250, "/configz", authorization=f"Bearer {TOKEN}")
    assert request.startswith(b"GET /configz HTTP/1.1\r\nHost: [fd00::1]:10250\r\n")
    assert request.endswith(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())


@contextmanager
def flooding(tls: ssl.SSLContext, content: bytes) -> Iterator[tuple[int, threading.Event]]:
    """Serve one connection in a thread; set the event once all of the content is with the kernel."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    listening.settimeout(AMPLE)
    is_sent = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        connection.settimeout(AMPLE)
        with suppress(OSError), tls.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(content)
            is_sent.set()
            secured.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1], is_sent
    finally:
        listening.close()
        thread.join()


async def test_others_have_a_turn_while_one_has_much_to_say(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    """All of it is there already, so the reading waits for nothing."""
    body = 10 * PIECE_BYTES * b" "
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with flooding(tls, response(body)) as (port, is_sent):
        wire = Wire(context=trusted(authority)(), name="127.0.0.1")
        try:
            await wire.connect("127.0.0.1", port)
            reading = asyncio.ensure_future(wire.ask(b"GET / HTTP/1.1\r\n\r\n", limit=MAX_BODY_BYTES))
            await asyncio.sleep(0)  # it has asked
            is_sent.wait(timeout=AMPLE)  # nothing else runs in this thread meanwhile
            task = asyncio.ensure_future(others())
            found, _ = await reading
            task.cancel()
        finally:
            wire.close()
    assert len(found) == len(body)
    assert turns >= 7


async def test_what_is_refused_keeps_no_socket(authority: Authority, tls: ssl.SSLContext) -> None:
    async with a_server(tls, answering(response(b"", status="403 Forbidden"))) as server:
        before = open_files()
        async with a_client(authority) as client:
            for number in range(4):
                with pytest.raises(PollError):
                    await client.summary(at(server, node=f"w{number}"), deadline=AMPLE, keep=True)
            await until(lambda: server.open == 0, what="its side is closed too")
            assert open_files() <= before
