"""Connections to a port of ours: few, none for long, and taking turns.

Anybody in the cluster's network may be able to reach the port, and whatever is done for them is done by the
event loop that reads the watches (P7).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 32
"""At once, on each port. A pair of Prometheus servers, an agent beside them, the probes of a kubelet and a
person or two hold a handful; the rest is room for those who reconnect before we noticed that they left.
One more is closed as soon as it is there, which costs nobody else anything."""

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


class BoundedServer(web.Server):
    """Answers GET and HEAD by ``routes``, from path to answer. Make it inside a running event loop."""

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
        # When each connection is cut if nothing comes on it before.
        self._ends: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection, or close it where there are too many."""
        if len(self._ends) >= MAX_CONNECTIONS:
            transport.abort()
            return
        super().connection_made(handler, transport)
        self._ends[handler] = asyncio.get_running_loop().call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        if (end := self._ends.pop(handler, None)) is not None:
            end.cancel()
        super().connection_lost(handler, exc)

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
        end = self._ends.get(request.protocol)
        if end is not None and request.transport is not None:
            end.cancel()
            self._ends[request.protocol] = asyncio.get_running_loop().call_later(
                EXCHANGE_SECONDS, request.transport.abort
            )
