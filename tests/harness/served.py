"""A server of metrics and health that listens, and clients of it that behave well or badly."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from winpool.serve.access import Access
from winpool.serve.http import Memory, Server
from winpool.serve.metrics import Source
from winpool.serve.tls import ServingTls

HOST = "127.0.0.1"
GUARD_SECONDS = 60.0
"""Against waiting for ever."""


@dataclass(eq=False)
class Counting(Collector):
    """Counts how often it is asked, and has as many samples as it is told."""

    renders: int = 0
    samples: int = 1
    padding: str = ""
    unready: list[str] = field(default_factory=list)

    def snapshot(self) -> Counting:
        return self

    def collect(self) -> Iterator[Metric]:
        self.renders += 1
        family = GaugeMetricFamily("winpool_example", "An example.", labels=["number"])
        for number in range(self.samples):
            family.add_metric([f"{self.padding}{number}"], self.renders)
        yield family


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    server: Server
    collector: Counting
    port: int
    scheme: str = "http"

    def url(self, path: str, *, port: int | None = None) -> str:
        return f"{self.scheme}://{HOST}:{port or self.port}{path}"

    async def status(self, path: str, *, port: int | None = None) -> int:
        async with aiohttp.ClientSession() as session, session.get(self.url(path, port=port)) as answer:
            return answer.status

    async def answer(
        self, path: str = "/metrics", *, token: str | None = None, trust: ssl.SSLContext | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and header fields of the answer to a request with ``token``."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(self.url(path), ssl=trust or True) as answer,
        ):
            return answer.status, await answer.text(), answer.headers


@asynccontextmanager
async def serving(
    metrics: Source | None = None,
    *,
    access: Access | None = None,
    memory: Memory | None = None,
    tls: ServingTls | None = None,
    health_port: int | None = None,
) -> AsyncIterator[Served]:
    collector = Counting()
    server = Server(
        metrics=metrics or collector,
        unready=lambda: collector.unready,
        access=access,
        memory=memory,
        tls=tls,
    )
    port = await server.start(host=HOST, port=0, health_port=health_port)
    try:
        async with asyncio.timeout(GUARD_SECONDS):
            yield Served(server, collector, port, scheme="http" if tls is None else "https")
    finally:
        await server.close()


Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(
    port: int, *, address: str = HOST, trust: ssl.SSLContext | None = None
) -> AsyncIterator[Connected]:
    """Connect from ``address``: all of 127.0.0.0/8 are this machine. With ``trust`` by TLS."""
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=(address, 0), ssl=trust)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, path: str = "/healthz") -> int:
    """Ask over a connection that is kept; return the status of the answer."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: winpool\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split(b" ", 2)[1])


async def until(check: Callable[[], object]) -> None:
    """Return when ``check`` is true; the guard of ``serving`` ends the wait."""
    while not check():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.05)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Read to the end, however it comes; what was sent by then does not matter."""
    try:
        await reader.read()
    except ConnectionError:
        return True
    return reader.at_eof()


async def crowd(stack: AsyncExitStack, port: int, *, addresses: int, each: int) -> list[Connected]:
    """Open connections that do nothing, as many of ``each`` address, one address after the other."""
    return [
        await stack.enter_async_context(connected(port, address=f"127.0.1.{number + 1}"))
        for number in range(addresses)
        for _ in range(each)
    ]


async def asked_anew(port: int, *, path: str = "/healthz", trust: ssl.SSLContext | None = None) -> int:
    """Ask over a new connection, as a kubelet does."""
    async with connected(port, trust=trust) as probe:
        return await ask(*probe, path=path)
