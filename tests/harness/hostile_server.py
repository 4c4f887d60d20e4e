"""An HTTPS server on loopback that answers well, badly or never, as a kubelet or a Prometheus may."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.listener import SHUTDOWN_SECONDS, a_pair
from testbed.pki import Authority

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Gets the head of a request, and writes what it likes."""


def response(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer; an underscore in the name of a header is a hyphen."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answering(content: bytes) -> Answer:
    """Return an answer that is always the same bytes."""

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return answer


async def never(_: str, __: asyncio.StreamWriter) -> None:
    """Do not answer."""
    await asyncio.Event().wait()


def trickling(content: bytes, *, every: float) -> Answer:
    """Return an answer that comes one byte at a time."""

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        for byte in content:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(every)

    return answer


async def endless(_: str, writer: asyncio.StreamWriter) -> None:
    """Answer with a body that never ends, in chunks."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"8000\r\n" + 0x8000 * b"x" + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)  # a drain alone does not let the end of the connection be noticed


def deaf(answer: Answer) -> Answer:
    """Return an answer after whose beginning the server reads nothing more, and no goodbye either."""

    async def answer_deaf(head: str, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await answer(head, writer)

    return answer_deaf


class HostileServer:
    """What is listening, and what it has heard."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.port = 0
        self.heads: list[str] = []
        """Each request up to its empty line, oldest first."""
        self.connections = 0
        self.open = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.open += 1
        try:
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                # A client that has gone ends the answer.
                gone = asyncio.ensure_future(reader.read(1))
                answered = asyncio.ensure_future(self.answer(self.heads[-1], writer))
                try:
                    await asyncio.wait({gone, answered}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in (gone, answered):
                        each.cancel()
                    await asyncio.gather(gone, answered, return_exceptions=True)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            return
        finally:
            self.open -= 1
            # No goodbye: one that is deaf would wait for that of the other side.
            writer.transport.abort()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def close(self) -> None:
        """Close every connection."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def a_server(tls: ssl.SSLContext | None, answer: Answer) -> AsyncIterator[HostileServer]:
    """Listen on a free port of 127.0.0.1."""
    server = HostileServer(answer)
    listening = await asyncio.start_server(
        server.serve,
        "127.0.0.1",
        0,
        ssl=tls,
        ssl_shutdown_timeout=None if tls is None else SHUTDOWN_SECONDS,
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.close()
        await listening.wait_closed()


def tls_for(
    authority: Authority, folder: Path, *, names: Sequence[str] = (), addresses: Sequence[str] = ()
) -> ssl.SSLContext:
    """Return the TLS of a server whose certificate is for these names and addresses, and no others."""
    stem = "-".join([authority.paths.certificate.stem, *names, *addresses])
    pair = authority.issue_serving(
        a_pair(folder, stem), common_name=stem, now=datetime.now(UTC), names=names, addresses=addresses
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context
