"""Connections to a port of the operator: limited in number and time, and served in turn.

Every client in the cluster's network may be able to reach the port, and the event loop that answers them is
the one that reads the watches (P7).

A TLS connection from its first byte to the end of its handshake.

The event loop's own TLS servers show a connection to its owner only after the handshake. Handshakes that
never end would then have no limit, and anyone who reaches the port can begin as many as they want (P7). So a
connection is accepted without TLS, gets its place among all others, and begins the handshake in its turn.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http import HttpProcessingError

HANDSHAKE_TURN_SECONDS: Final = 0.02
"""Between two handshakes on a port. Each takes one to two milliseconds of the event loop, so they take a
tenth of it at most (a quarter with an RSA key of 4096 bits). If all places of a port wait, the last one waits
0.6 s."""

GOODBYE_SECONDS: Final = 1.0
"""How long to wait for the client's part of closing a connection (close_notify). Clients that send it do so
at once."""


class Places(Protocol):
    """The server that a connection is for, which gives places to connections."""

    def admit(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        """Give a place to a new connection."""

    def forget(self, protocol: asyncio.BaseProtocol) -> None:
        """Free the place of a connection."""

    def successor(self, protocol: asyncio.BaseProtocol) -> asyncio.Protocol:
        """Return what handles a connection from now on, in the same place."""

    async def handshake_turn(self) -> None:
        """Return when the next handshake may begin."""


class Handshake(asyncio.Protocol):
    """Makes the handshake of a connection, and then passes the connection on."""

    def __init__(self, places: Places, *, context: Callable[[], ssl.SSLContext], seconds: float) -> None:
        """``seconds`` is the limit of a handshake."""
        self._places = places
        self._context = context
        self._seconds = seconds
        self._early: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection. Nothing is read from it until its handshake begins."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._places.admit(self, transport)
        self._task = asyncio.get_running_loop().create_task(self._enter(transport), name="handshake")

    def data_received(self, data: bytes) -> None:
        """Keep what arrives, decrypted, right behind the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Forget a connection that ended before it was passed on."""
        self._places.forget(self)
        if self._task is not None:
            self._task.cancel()

    async def _enter(self, transport: asyncio.Transport) -> None:
        try:
            await self._places.handshake_turn()
            if transport.is_closing():
                return
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except OSError:
            # Whatever the client does wrong in a handshake. It is not logged, as invalid HTTP is not.
            self._places.forget(self)
            return
        if secured is None or secured.is_closing():  # it was closed meanwhile
            self._places.forget(self)
            return
        handler = self._places.successor(self)
        secured.set_protocol(handler)
        handler.connection_made(secured)
        for data in self._early:
            handler.data_received(data)
        self._early.clear()


log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 32
"""At once, on each port. Two Prometheus servers, an agent, the probes of a kubelet and one or two people need
a few; the rest is for clients that reconnect before the operator has noticed that they left. One more
connection replaces an open one: if the port refused new connections instead, 32 idle ones would block it for
all clients, probes included."""

MAX_CONNECTIONS_OF_ONE: Final = 8
"""Of these, from one address. A kubelet's probes and a Prometheus need one or two each; the rest is for
clients that share an address, behind a NAT or on a node. One address alone cannot fill a port."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may be idle: scrapers that return within this time need no new handshake, and an
abandoned connection does not keep its place for long."""

REQUEST_SECONDS: Final = 5.0
"""From a new connection to its first whole request, with the TLS handshake: a client that connects has its
request ready."""

EXCHANGE_SECONDS: Final = 25.0
"""From a request to the next on its connection, including the answer to the first: 10 s to read the answer,
after which Prometheus by default gives up a scrape, and KEEP_ALIVE_SECONDS. This is against clients that ask
and do not read."""

MAX_LINE_BYTES: Final = 2048
MAX_FIELD_BYTES: Final = 4096
MAX_FIELDS: Final = 64
"""Header fields of a request. A scraper sends some ten, the longest of which is a token of 1 to 2 kB. On all
connections together that is at most 8 MiB."""

_METHODS: Final = ("GET", "HEAD")
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405
_CONTENT_TOO_LARGE: Final = 413


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether ``record`` is about a fault of ours; an invalid request gets a 400 and no entry in our log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


log.addFilter(_is_ours)


class Turns:
    """Lets callers continue one after the other, at least ``seconds`` apart, in the order of their calls."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._next = float("-inf")

    async def take(self) -> None:
        """Return when it is the caller's turn. A caller that is cancelled while waiting uses no turn."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if (pause := self._next - loop.time()) > 0:
                await asyncio.sleep(pause)
            self._next = loop.time() + self._seconds


@dataclass(slots=True)
class _Connection:
    """An open connection: its address, and when it is closed if nothing comes on it before.

    ``transport`` is that of TCP, which ends a connection at once, with TLS or without.
    """

    transport: asyncio.Transport
    address: str
    end: asyncio.TimerHandle


class BoundedServer(web.Server):
    """Answers GET and HEAD by ``routes``, from path to answer. Make it inside a running event loop.

    It refuses everything else, one request at each turn of ``refusals``.

    With ``tls``, which returns the context for a new connection, it speaks HTTPS. A connection has its place
    and its limits from its beginning, before and during the handshake.

    Where there is no place for a new connection, the one that has been quiet for longest is closed: of those
    from the same address where that has too many, otherwise of those from the address with the most. So a
    client with few connections is served beside one with many, even if the latter sends requests without
    end, does not finish them, or does not read the answers.
    """

    def __init__(
        self,
        routes: dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]],
        *,
        refusals: Turns,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        super().__init__(
            self._answer,
            # Otherwise a client that asks and leaves, again and again, would leave more and more answers
            # that wait for their turn.
            handler_cancellation=True,
            access_log=None,
            logger=log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=0,  # an unwanted body is not read to its end
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_FIELDS,
        )
        self._routes = routes
        self._refusals = refusals
        self._tls = tls
        self._handshakes = Turns(HANDSHAKE_TURN_SECONDS)
        # In the order in which they came or last sent a request: the longest quiet first.
        self._open: dict[asyncio.BaseProtocol, _Connection] = {}

    def __call__(self) -> Any:
        """Return what handles a new connection."""
        if self._tls is None:
            return super().__call__()
        return Handshake(self, context=self._tls, seconds=REQUEST_SECONDS)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept a connection; one that had a handshake has its place already."""
        if self._tls is None:
            self.admit(handler, transport)
        super().connection_made(handler, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self.forget(handler)
        super().connection_lost(handler, exc)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in aiohttp
        """End all connections; those with TLS without a wait for what their clients still have to say."""
        await super().shutdown(timeout)
        if self._tls is not None:
            for protocol in tuple(self._open):
                self._close(protocol)
            await asyncio.sleep(0)

    def admit(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        """Give a place to a new connection; close another where there are too many."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""  # none: it is gone already
        if (quiet := self._in_the_way_of(address)) is not None:
            self._close(quiet)
        end = asyncio.get_running_loop().call_later(REQUEST_SECONDS, transport.abort)
        self._open[protocol] = _Connection(transport, address, end)

    def forget(self, protocol: asyncio.BaseProtocol) -> None:
        """Free the place of a connection."""
        if (connection := self._open.pop(protocol, None)) is not None:
            connection.end.cancel()

    def successor(self, protocol: asyncio.BaseProtocol) -> web.RequestHandler:
        """Return what handles the requests of a connection after its handshake."""
        handler = super().__call__()
        if (connection := self._open.pop(protocol, None)) is not None:
            self._open[handler] = connection
        return handler

    async def handshake_turn(self) -> None:
        """Return when the next handshake may begin."""
        await self._handshakes.take()

    def _in_the_way_of(self, address: str) -> asyncio.BaseProtocol | None:
        """Return which connection has to close for one more from ``address``; None where there is room."""
        held = Counter(each.address for each in self._open.values())
        if held[address] >= MAX_CONNECTIONS_OF_ONE:
            payers = {address}
        elif len(self._open) >= MAX_CONNECTIONS:
            most = max(held.values())
            payers = {each for each, count in held.items() if count == most}
        else:
            return None
        return next(handler for handler, each in self._open.items() if each.address in payers)

    def _close(self, protocol: asyncio.BaseProtocol) -> None:
        # Its place is free at once; ``connection_lost`` is called later.
        transport = self._open[protocol].transport
        self.forget(protocol)
        transport.abort()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self._put_off_end(request)
        is_read = request.method in _METHODS and not request.body_exists
        route = self._routes.get(request.path) if is_read else None
        if route is not None:
            return await route(request)
        await self._refusals.take()
        return _refusal_of(request)

    def _put_off_end(self, request: web.BaseRequest) -> None:
        connection = self._open.pop(request.protocol, None)
        if connection is None:  # it was closed meanwhile
            return
        connection.end.cancel()
        connection.end = asyncio.get_running_loop().call_later(EXCHANGE_SECONDS, connection.transport.abort)
        self._open[request.protocol] = connection  # the last of all, again


def _refusal_of(request: web.BaseRequest) -> web.Response:
    if request.body_exists:
        response = web.Response(status=_CONTENT_TOO_LARGE, text="a body is not taken here\n")
        response.force_close()
        return response
    if request.method not in _METHODS:
        return web.Response(status=_METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(_METHODS)})
    return web.Response(status=_NOT_FOUND, text="not found\n")
