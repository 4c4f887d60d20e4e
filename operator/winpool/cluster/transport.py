"""One session and one pool of connections to the API server, for all requests of winpool.

The transport knows HTTP and errors, not objects: bytes in, bytes out. It costs little more than
raw aiohttp, since the rate of PATCHes limits how fast the operator can write a fleet.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from winpool import __version__
from winpool.cluster.answers import LineStream, read_body, translated
from winpool.cluster.errors import ApiError, Unavailable, error_of
from winpool.cluster.guests import GuestCredentials, GuestRefusals
from winpool.cluster.notices import Notices
from winpool.cluster.request import REPLY_LIMIT
from winpool.cluster.retry import is_worth_repeating, retrying
from winpool.cluster.route import requests_over
from winpool.cluster.stats import NO_ANSWER, TIMED_OUT, RequestStats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from winpool.cluster.credentials import Connection
    from winpool.cluster.first_refusals import FirstRefusals
    from winpool.cluster.request import Request

USER_AGENT: Final = f"winpool/{__version__}"

MAX_CONNECTIONS: Final = 64
"""HTTP/1.1 has one request per connection. 32 node patches in flight (more gain nothing against an API
server on two cores), and as many connections for the rest: 8 evictions, 8 writes of conditions, 8 lists of
the pods of a node, five watches, and requests of milliseconds: lists, status writes and events. The API
server itself accepts 400 reads and 200 writes at once by default."""

CONNECT_SECONDS: Final = 10.0
"""For TCP and TLS. In one data centre it takes milliseconds; a lost SYN is sent again after 1, 3 and 7 s."""

ANSWER_SECONDS: Final = 30.0
"""For one request and its answer, including the wait for credentials. The API server's own promise
is 1 s for single objects and 30 s for lists (its SLOs, p99); at 60 s it gives up by itself."""

KEEP_ALIVE_SECONDS: Final = 60.0
"""How long an idle connection is kept: less than the 90 s after which the API server closes it, so that no
request uses a connection that is just being closed."""

_GUEST_LIMITS: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
"""A guest has limits of its own; it may be watching. Our own requests always set theirs."""
_UNAUTHORIZED: Final = 401
_OK: Final = 200
_FAILED_FROM: Final = 300


class Transport:
    """Sends requests with credentials, time limits and counts. Make it inside a running event loop.

    Everything it raises is an ApiError. Use it as an async context manager, or call ``close``.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        stats: RequestStats | None = None,
        refusals: FirstRefusals | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        identity: str = "",
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make a transport. With ``refusals``, a refusal that has not lasted is an UnconfirmedRefusal.

        ``identity`` distinguishes this process from others of the same account: it is part of the User-Agent,
        which the audit log has. Where ``may_write`` returns False, a write is not sent and is NotLeading.
        """
        self._user_agent = f"{USER_AGENT} ({identity})" if identity else USER_AGENT
        self.stats = stats if stats is not None else RequestStats()
        self._server = connection.server
        self._authorization = connection.authorization
        self._impersonation = connection.impersonation
        self._request_class = requests_over(connection, user_agent=self._user_agent, may_write=may_write)
        self._refusals = refusals
        self._guest_credentials = GuestCredentials(connection, seconds=ANSWER_SECONDS)
        self._guest_refusals = () if refusals is None else (GuestRefusals(refusals),)
        self._notices = Notices(monotonic=monotonic)
        self._closing = asyncio.Event()
        self._connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=KEEP_ALIVE_SECONDS)
        self._session = self._make_session()

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """End the pauses before retries, a run for credentials, and every connection."""
        self._closing.set()
        await self._authorization.close()
        await self._session.close()
        await self._connector.close()

    async def request(self, request: Request) -> bytes | bytearray:
        """Send ``request`` and return the body of its answer.

        Raises the ApiError for the answer; Unavailable where there is none.
        """
        # The first attempt does not use tenacity, which costs 20 µs where a patch costs 300.
        try:
            return await self._attempt(request)
        except ApiError as error:
            if not request.is_repeatable or not is_worth_repeating(error):
                raise
            failed: ApiError | None = error

        async def next_attempt() -> bytes | bytearray:
            nonlocal failed
            if failed is not None:
                first, failed = failed, None
                raise first
            return await self._attempt(request)

        policy = retrying(sleep=self._pause, on_retry=self._count_retry)
        return await policy(next_attempt)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[LineStream]:
        """Open a watch; inside the ``with`` its lines can be iterated.

        ``silence_seconds`` is how long nothing may come before it counts as dead (StreamSilent).
        It is never repeated here: only the caller knows where to continue.
        """
        with translated(request.label, seconds=ANSWER_SECONDS):
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._open(request, silence_seconds=silence_seconds)
                try:
                    if response.status != _OK:
                        await self._refuse(request, response)
                except BaseException:
                    response.close()
                    raise
        try:
            yield LineStream(response.content, label=request.label, silence_seconds=silence_seconds)
        finally:
            response.close()  # not released: the rest of a watch is not read

    def guest_session(self) -> aiohttp.ClientSession:
        """Make a session over our connections and credentials, for a library that makes its own requests.

        The guest may close it; our connections stay open. Every request gets our credentials, and new
        ones once after a 401, so the guest never needs to log in again. See ``guests``.
        """
        return self._make_session(middlewares=(*self._guest_refusals, self._guest_credentials))

    def _make_session(
        self, *, middlewares: tuple[aiohttp.ClientMiddlewareType, ...] = ()
    ) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            # Uncompressed: gzip takes the API server more time than the bytes take in a cluster's network.
            headers={hdrs.USER_AGENT: self._user_agent, hdrs.ACCEPT_ENCODING: "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_GUEST_LIMITS,
            request_class=self._request_class,
            middlewares=middlewares,
        )

    async def _attempt(self, request: Request) -> bytes | bytearray:
        self.stats.in_flight += 1
        try:
            with translated(request.label, seconds=ANSWER_SECONDS):
                async with await self._open(request) as response:
                    if response.status >= _FAILED_FROM:
                        await self._refuse(request, response)
                    return await read_body(response, limit=request.reply_limit, label=request.label)
        finally:
            self.stats.in_flight -= 1

    async def _open(
        self, request: Request, *, silence_seconds: float | None = None
    ) -> aiohttp.ClientResponse:
        """Send, and after a 401 send once more if other credentials are available."""
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
        header = await self._authorization.header(within=ANSWER_SECONDS)
        response = await self._send(request, header, _limits(deadline, silence_seconds))
        if response.status != _UNAUTHORIZED:
            return response
        self._authorization.reject(header)
        try:
            fresh = await self._authorization.header(within=_seconds_until(deadline))
        except BaseException:
            response.close()
            raise
        if fresh == header:
            return response
        response.close()
        return await self._send(request, fresh, _limits(deadline, silence_seconds))

    async def _send(
        self, request: Request, header: str | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._closing.is_set():
            raise _closing_error()
        headers = CIMultiDict(self._impersonation)
        headers[hdrs.ACCEPT] = request.accept
        if request.gzipped:
            headers[hdrs.ACCEPT_ENCODING] = "gzip"
        if header is not None:
            headers[hdrs.AUTHORIZATION] = header
        if request.body is not None:
            headers[hdrs.CONTENT_TYPE] = request.content_type
        code = NO_ANSWER
        try:
            response = await self._session.request(
                request.method,
                URL(self._server + request.path, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,  # the token is for this server and no other
                timeout=limits,
            )
            code = str(response.status)
            if self._refusals is not None and response.ok:
                self._refusals.permitted(
                    verb=request.verb, resource=request.resource, namespace=request.namespace
                )
        except TimeoutError:
            code = TIMED_OUT
            raise
        finally:
            self.stats.count(verb=request.verb, resource=request.resource, code=code)
        if hdrs.WARNING in response.headers:
            self._notices.take(response.headers.getall(hdrs.WARNING), request=request.label)
        return response

    async def _refuse(self, request: Request, response: aiohttp.ClientResponse) -> None:
        """Raise the ApiError for the answer."""
        body = await read_body(response, limit=REPLY_LIMIT, label=request.label)
        error = error_of(
            status=response.status,
            body=bytes(body),
            request=request.label,
            retry_after=response.headers.get(hdrs.RETRY_AFTER),
            group=request.group,
        )
        raise error if self._refusals is None else self._refusals.judge(error)

    async def _pause(self, seconds: float) -> None:
        """Wait before an attempt; closing the transport ends the wait and the request."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise _closing_error()

    def _count_retry(self) -> None:
        self.stats.retries += 1


def _seconds_until(deadline: float) -> float:
    # Not 0 when no time is left: for aiohttp, 0 means no limit.
    return max(deadline - asyncio.get_running_loop().time(), 0.001)


def _limits(deadline: float, silence_seconds: float | None) -> aiohttp.ClientTimeout:
    """Return the limits: for a request the time that is left, for a watch the longest silence."""
    if silence_seconds is not None:
        return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
    return aiohttp.ClientTimeout(total=_seconds_until(deadline), sock_connect=CONNECT_SECONDS)


def _closing_error() -> Unavailable:
    return Unavailable("the connection to the API server is being closed", reason="Closing")
