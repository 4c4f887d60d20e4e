"""Connections to a port of ours: few, none for long, and taking turns.

Anybody in the cluster's network may be able to reach the port, and whatever is done for them is done by the
event loop that reads the watches (P7).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 32
"""At once, on each port. A pair of Prometheus servers, an agent beside them, the probes of a kubelet and a
person or two hold a handful; the rest is room for those who reconnect before we noticed that they left.
One more takes the place of another: a port that closed who comes last would be closed to everybody, probes
included, by 32 connections that do nothing."""

MAX_CONNECTIONS_OF_ONE: Final = 8
"""Of these, from one address. A kubelet's probes and a Prometheus need one or two each; the rest is for those
who share an address, behind a NAT or on a node. One address alone cannot fill a port."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may be idle: scrapers that come back within it spare themselves a handshake, and
one that is forgotten does not keep its place for long."""

REQUEST_SECONDS: Final = 5.0
"""From a new connection to its first whole request: who connects to ask has the question ready."""

EXCHANGE_SECONDS: Final = 25.0
"""From a request to the next on its connection, the answer to the first included: 10 s to take the answer,
which is when Prometheus gives a scrape up by default, and KEEP_ALIVE_SECONDS. Against who asks and does not
read."""

MAX_LINE_BYTES: Final = 2048
MAX_FIELD_BYTES: Final = 4096
MAX_FIELDS: Final = 64
"""Of a request. A scraper sends some ten fields, the longest of which is a token of 1 to 2 kB. On all
connections together that is 8 MiB at most."""

_METHODS: Final = ("GET", "HEAD")
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405
_CONTENT_TOO_LARGE: Final = 413


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether ``record`` is of a fault of ours; who sends garbage gets a 400 and no page in our log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


log.addFilter(_is_ours)


class Turns:
    """Lets one through after the other, at least ``seconds`` apart, in the order in which they came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._next = float("-inf")

    async def take(self) -> None:
        """Return when it is the caller's turn. Who is cancelled while waiting takes none."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if (pause := self._next - loop.time()) > 0:
                await asyncio.sleep(pause)
            self._next = loop.time() + self._seconds


@dataclass(slots=True)
class _Connection:
    """One that is open: who it is from, and when it is cut if nothing comes on it before."""

    transport: asyncio.Transport
    address: str
    end: asyncio.TimerHandle


class BoundedServer(web.Server):
    """Answers GET and HEAD by ``routes``, from path to answer. Make it inside a running event loop.

    Where there is no place for a new connection, the longest quiet one makes room: of those from the same
    address where that has too many, otherwise of those from the address that has most. So who holds few is
    served beside who takes many, whether these ask, do not finish asking, or do not read the answer.
    """

    def __init__(self, routes: dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]]) -> None:
        super().__init__(
            self._answer,
            # Or who asks and leaves, again and again, would leave ever more answers waiting for their turn.
            handler_cancellation=True,
            access_log=None,
            logger=log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=0,  # a body that nobody asked for is not read to its end
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_FIELDS,
        )
        self._routes = routes
        # In the order in which they came or last asked: the longest quiet first.
        self._open: dict[web.RequestHandler, _Connection] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection; close another where there are too many."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""  # none: it is gone already
        if (quiet := self._in_the_way_of(address)) is not None:
            self._close(quiet)
        super().connection_made(handler, transport)
        end = asyncio.get_running_loop().call_later(REQUEST_SECONDS, transport.abort)
        self._open[handler] = _Connection(transport, address, end)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._forget(handler)
        super().connection_lost(handler, exc)

    def _in_the_way_of(self, address: str) -> web.RequestHandler | None:
        """Return whose place one more connection from ``address`` takes; None where there is room."""
        held = Counter(each.address for each in self._open.values())
        if held[address] >= MAX_CONNECTIONS_OF_ONE:
            payers = {address}
        elif len(self._open) >= MAX_CONNECTIONS:
            most = max(held.values())
            payers = {each for each, count in held.items() if count == most}
        else:
            return None
        return next(handler for handler, each in self._open.items() if each.address in payers)

    def _close(self, handler: web.RequestHandler) -> None:
        # Its place is free at once; that it is lost is told later.
        transport = self._open[handler].transport
        self._forget(handler)
        transport.abort()

    def _forget(self, handler: web.RequestHandler) -> None:
        if (connection := self._open.pop(handler, None)) is not None:
            connection.end.cancel()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self._put_off_end(request)
        if request.body_exists:
            response = web.Response(status=_CONTENT_TOO_LARGE, text="a body is not taken here\n")
            response.force_close()
            return response
        if request.method not in _METHODS:
            return web.Response(status=_METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(_METHODS)})
        route = self._routes.get(request.path)
        if route is None:
            return web.Response(status=_NOT_FOUND, text="not found\n")
        return await route(request)

    def _put_off_end(self, request: web.BaseRequest) -> None:
        connection = self._open.pop(request.protocol, None)
        if connection is None:  # it was closed meanwhile
            return
        connection.end.cancel()
        connection.end = asyncio.get_running_loop().call_later(EXCHANGE_SECONDS, connection.transport.abort)
        self._open[request.protocol] = connection  # the last of all, again
