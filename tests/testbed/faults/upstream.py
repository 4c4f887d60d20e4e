"""The way on to the API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from testbed.faults.exchange import Exchange, Reply

T = TypeVar("T")

CONNECT_SECONDS: Final = 10.0
"""To an API server on this machine; one that is frozen accepts nothing once its backlog is full."""
KEEP_ALIVE_SECONDS: Final = 60.0
"""Below the 90 s after which the API server closes a connection that nobody uses."""
HEADER_LIMIT: Final = 256 * 1024
"""Bytes of a request line or a header; a test may use continue tokens and selectors of any length."""
CARRY_OUT_SECONDS: Final = 0.3
"""For writes that are on their way to the API server when the proxy is closed."""

_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
     "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Headers about one connection (RFC 9110, 7.6.1). All others go through, both ways."""
_OF_THE_REQUEST: Final = _HOP_BY_HOP | {"host", "content-length"}
_AUTOMATIC: Final = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT, hdrs.CONTENT_TYPE)


class Upstream:
    """Pooled connections to one API server, without credentials: those are the client's."""

    def __init__(self, *, server: str, ca_file: str) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._writing: set[asyncio.Task[Reply]] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTOMATIC,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            max_line_size=HEADER_LIMIT,
            max_field_size=HEADER_LIMIT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writing:
            await asyncio.wait(self._writing, timeout=CARRY_OUT_SECONDS)
        await self._session.close()  # ends whatever is connected; the rest is still connecting
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    @asynccontextmanager
    async def open(
        self, exchange: Exchange, *, method: str, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; inside the ``with`` its answer can be read. What is not read is broken off."""
        # In a task of its own: cancelled in mid-request, aiohttp would close the connection politely, and
        # nobody could wait for the end of that.
        task = self._start(self._send(exchange, method=method, headers=headers))
        try:
            response = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_abandon)
            raise
        try:
            yield response
        finally:
            break_off(response)

    async def fetch(self, exchange: Exchange, *, method: str, headers: Mapping[str, str]) -> Reply:
        """Send a request and return the answer whole; a write is carried out even if its client leaves."""
        task = self._start(self._fetch(exchange, method=method, headers=headers))
        if exchange.record.writes:
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
            exchange.carried_out_by(task)
        return await asyncio.shield(task)

    async def _fetch(self, exchange: Exchange, *, method: str, headers: Mapping[str, str]) -> Reply:
        response = await self._send(exchange, method=method, headers=headers)
        body = await response.read()
        return Reply(
            status=response.status,
            reason=response.reason or "",
            headers=passed_on(response.headers),
            body=body,
        )

    async def _send(
        self, exchange: Exchange, *, method: str, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        exchange.update(forwarded=True)
        response = await self._session.request(
            method,
            URL(self._server + exchange.path, encoded=True),
            headers=passed_on(headers, without=_OF_THE_REQUEST),
            data=exchange.record.body or None,
            allow_redirects=False,
        )
        exchange.update(server_status=response.status)
        return response

    def _start(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # it was seen by the request that waited for it, if that still does


def break_off(response: aiohttp.ClientResponse) -> None:
    """Break off the connection of an answer that was not read to its end."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _abandon(task: asyncio.Task[aiohttp.ClientResponse]) -> None:
    if not task.cancelled() and task.exception() is None:
        break_off(task.result())


def passed_on(headers: Mapping[str, str], *, without: frozenset[str] = _HOP_BY_HOP) -> CIMultiDict[str]:
    """Return the headers that concern more than one connection."""
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in without)
