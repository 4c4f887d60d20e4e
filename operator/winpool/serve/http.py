"""Serves /metrics, /memory, /healthz and /readyz, on at most MAX_CONNECTIONS connections of a port.

Alive means: this process answers. Its event loop is the one that does the work, so a loop that
hangs does not answer. Ready means: nodes and pools have been listed and the API server has answered
lately. Neither is derived from Kopf, which reports itself ready before its first request.

/memory has the memory of every node that is watched, for those who may read it. Only the operator that leads
polls, so the others answer with who leads. The page names nodes, which /metrics does not. So without reviews
of tokens only clients of the operator's own network namespace read it: those of ``kubectl port-forward``,
whom the API server has permitted to be there (``docs/adr/0029-who-reads-the-memory-of-nodes.md``).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

import msgspec
from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError

from winpool.model.memory_report import MemoryReport
from winpool.serve.access import Access
from winpool.serve.metrics import CONTENT_TYPE, Pages, Source, exposition, takes_gzip
from winpool.serve.tls import ServingTls

MEMORY_PATH: Final = "/memory"

MOST_PLAIN_BYTES: Final = 1024 * 1024
"""Of an answer that is not compressed: some 2,000 nodes. What a client does not read stays in the operator's
memory, on 32 connections. Compressed, 10,000 nodes are far less."""


class MemorySource(Protocol):
    """Knows the memory of nodes."""

    def snapshot(self) -> Callable[[], MemoryReport]:
        """Return what makes the report of what is known now, in another thread than the event loop.

        It is called in the event loop and must return at once. No change reaches the report any more.
        """


class Memory:
    """Answers /memory. Make it inside a running event loop.

    ``standby`` returns why this process has no data, as a sentence; nothing where it leads. Without
    ``access``, only clients on this host, or in this Pod, are answered.
    """

    def __init__(
        self,
        source: MemorySource,
        *,
        standby: Callable[[], str],
        access: Access | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._standby = standby
        self._access = access

        def snapshot() -> Callable[[], bytes]:
            report = source.snapshot()
            return lambda: msgspec.json.encode(report())

        self._pages = Pages(snapshot, name="memory", monotonic=monotonic)

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request that is not permitted; None for one that is."""
        if self._access is not None:
            return await self._access.refusal(request)
        if _is_loopback(request.remote):
            return None
        return web.Response(
            status=HTTPStatus.FORBIDDEN,
            text="/memory is for kubectl winpool memory, which connects by kubectl port-forward; clients of "
            "the network may read it if the operator runs with --metrics-auth=token\n",
        )

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the answer to a request."""
        if (refusal := await self.refusal(request)) is not None:
            return refusal
        if why := self._standby():
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{why}\n")
        page = await self._pages.page()
        wish = request.headers.get(hdrs.ACCEPT_ENCODING, "")
        if len(page.plain) > MOST_PLAIN_BYTES and not takes_gzip(wish):
            return web.Response(
                status=HTTPStatus.NOT_ACCEPTABLE,
                text=f"the answer has {len(page.plain)} bytes and is served compressed only: send the header "
                "Accept-Encoding: gzip\n",
            )
        return page.answer(request, content_type="application/json")

    async def close(self) -> None:
        """End what is under way."""
        await self._pages.close()
        if self._access is not None:
            await self._access.close()


def _is_loopback(address: str | None) -> bool:
    """Whether a client is on this host, in this network namespace; False where that is not known."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


log = logging.getLogger(__name__)

Routes = dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]]

METRICS_PATH: Final = "/metrics"

MAX_CONNECTIONS: Final = 32
"""At once, on each port. Two Prometheus servers, an agent, the probes of a kubelet and one or two people need
a few; the rest is for clients that reconnect before the operator has noticed that they left. One more
connection replaces the one that has sent no request for the longest time: if the port refused new connections
instead, 32 idle ones would block it for all clients, probes included."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may be idle after a request: scrapers that return within this time need no new
handshake, and an abandoned connection does not keep its place for long."""

HANDSHAKE_SECONDS: Final = 10.0
"""For a handshake of TLS, until whose end a connection does not count as one of MAX_CONNECTIONS. It takes
milliseconds, and asyncio itself would wait for a minute."""

LAST_SECONDS: Final = 0.1
"""For requests that are under way at the end."""

MAX_LINE_BYTES: Final = 2048
MAX_FIELD_BYTES: Final = 4096
MAX_FIELDS: Final = 64
"""Header fields of a request. A scraper sends some ten, the longest of which is a token of 1 to 2 kB. On all
connections together that is at most 8 MiB."""

_METHODS: Final = ("GET", "HEAD")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether ``record`` is about a fault of ours; an invalid request gets a 400 and no entry in our log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


log.addFilter(_is_ours)


class BoundedServer(web.Server):
    """Answers the requests of one port, and limits its connections (P7)."""

    def __init__(self, routes: Routes) -> None:
        super().__init__(
            self._answer,
            handler_cancellation=True,  # the answer to a client that has left is not needed
            access_log=None,
            logger=log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=0,  # an unwanted body is not read to its end
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_FIELDS,
        )
        self._routes = routes
        # In the order in which they came or last sent a request.
        self._open: dict[asyncio.BaseProtocol, asyncio.Transport] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept a connection, and close another one where there are too many."""
        if len(self._open) >= MAX_CONNECTIONS:
            self._open.pop(next(iter(self._open))).abort()
        self._open[handler] = transport
        super().connection_made(handler, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in aiohttp
        """End all connections; those with TLS without a wait for what their clients still have to say."""
        transports = tuple(self._open.values())
        await super().shutdown(timeout)
        for transport in transports:
            transport.abort()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if (transport := self._open.pop(request.protocol, None)) is not None:
            self._open[request.protocol] = transport
        is_read = request.method in _METHODS and not request.body_exists
        route = self._routes.get(request.path) if is_read else None
        if route is not None:
            return await route(request)
        if request.body_exists:
            response = web.Response(
                status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text="a body is not taken here\n"
            )
            response.force_close()
            return response
        if request.method not in _METHODS:
            return web.Response(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(_METHODS)})
        return web.Response(status=HTTPStatus.NOT_FOUND, text="not found\n")


@dataclass(slots=True, kw_only=True)
class Server:
    """Serves until closed. ``unready`` returns why the operator is not ready; nothing where it is.

    ``health_port`` is, once started, the port of /healthz and /readyz: that of the metrics, or another one.
    With ``access`` /metrics is for those whom it permits; health never needs a token, since the kubelet has
    none. With ``memory`` the port of the metrics serves /memory too. With ``tls`` that port speaks HTTPS, and
    a port of its own for health does not.
    """

    metrics: Source
    unready: Callable[[], Sequence[str]]
    monotonic: Callable[[], float] = time.monotonic
    access: Access | None = None
    memory: Memory | None = None
    tls: ServingTls | None = None
    health_port: int = field(default=0, init=False)
    _pages: Pages = field(init=False)
    _ports: list[tuple[asyncio.Server, BoundedServer]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Listen nowhere yet."""
        self._pages = exposition(self.metrics, monotonic=self.monotonic)

    async def start(self, *, host: str, port: int, health_port: int | None = None) -> int:
        """Listen, and return the port of the metrics (a free one was taken where ``port`` is 0).

        With a ``health_port`` health is served there, and only there. Raises OSError.
        """
        metrics: Routes = {METRICS_PATH: self._metrics}
        if self.memory is not None:
            metrics[MEMORY_PATH] = self.memory.answer
        health: Routes = {"/healthz": self._healthz, "/readyz": self._readyz}
        if health_port is None:
            self.health_port = await self._listen({**metrics, **health}, host=host, port=port, tls=self.tls)
            return self.health_port
        bound = await self._listen(metrics, host=host, port=port, tls=self.tls)
        self.health_port = await self._listen(health, host=host, port=health_port, tls=None)
        return bound

    async def close(self) -> None:
        """Stop listening and close all connections."""
        for listening, server in self._ports:
            listening.close()
            await asyncio.sleep(0)  # what has been accepted may begin, so that it is ended too
            server.pre_shutdown()
            # A scrape that is under way is cut: the last numbers of a process are not needed.
            await server.shutdown(LAST_SECONDS)
        for each in (self._pages, self.access, self.memory):
            if each is not None:
                await each.close()

    async def _listen(self, routes: Routes, *, host: str, port: int, tls: ServingTls | None) -> int:
        server = BoundedServer(routes)
        listening = await asyncio.get_running_loop().create_server(
            server,
            host,
            port,
            ssl=tls.listening if tls else None,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
            # The kernel queues connections that wait to be accepted: not more than there is room for.
            backlog=MAX_CONNECTIONS,
        )
        self._ports.append((listening, server))
        return int(listening.sockets[0].getsockname()[1])

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        if self.access is not None and (refusal := await self.access.refusal(request)) is not None:
            return refusal
        page = await self._pages.page()
        return page.answer(request, content_type=CONTENT_TYPE)

    async def _healthz(self, _: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.BaseRequest) -> web.Response:
        if reasons := self.unready():
            text = "".join(f"not ready: {reason}\n" for reason in reasons)
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=text)
        return web.Response(text="ok\n")
