"""Sends requests to the API server over one pool of connections, with credentials, limits and counts.

It knows HTTP and errors, not objects: bytes in, bytes out. It costs little more than raw aiohttp, since the
rate of PATCHes limits how fast the operator can write a fleet. A library that makes its own requests (Kopf)
gets a session over the same connections.

A watch sends one JSON object per line, and an object may be as large as etcd accepts. This is far above the
built-in line limits of HTTP libraries, so a stream is cut into lines here, in bounded memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Any, Final, Self

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection as Socket
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from winpool import __version__
from winpool.kube.backoff import FirstRefusals, LogThrottle, doubled, uniform
from winpool.kube.credentials import Authorization, Connection, Proxy
from winpool.kube.errors import (
    ApiError,
    CredentialsError,
    NoAnswer,
    NotLeading,
    NotWanted,
    StreamCut,
    StreamSilent,
    TooLarge,
    TooManyRequests,
    Unavailable,
    error_of,
    without_passwords,
)
from winpool.kube.request import (
    NO_ANSWER,
    OBJECT_LIMIT,
    REPLY_LIMIT,
    TIMED_OUT,
    Request,
    RequestStats,
    last_check,
    namespace_of,
)

LINE_LIMIT: Final = OBJECT_LIMIT
"""Bytes of one line. A longer line is not a Kubernetes object."""


class LineSplitter:
    """Turns chunks into whole lines, and keeps the line that has not ended yet.

    Work is linear in the bytes, for any size of chunks: nothing is scanned twice. A line that is longer than
    the limit ends the stream, since it cannot be skipped safely. The message about it begins with ``label``.
    """

    __slots__ = ("_label", "_limit", "_parts", "_size")

    def __init__(self, label: str, *, limit: int = LINE_LIMIT) -> None:
        self._label = label
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Accept a chunk; return the lines that it completes, without their newline and without empty ones.

        Raises TooLarge.
        """
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        if ended:
            ended[0] = b"".join((*self._parts, ended[0]))
            self._parts, self._size = [], 0
            for line in ended:
                self._check(len(line))
                if line and not line.isspace():
                    lines.append(line)
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            self._check(self._size)
        return lines

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(f"{self._label}: a line of more than {self._limit} bytes")


FAULTS: Final = (
    aiohttp.ClientError,
    OSError,
    # What aiohttp passes on from its parsers and from yarl: an invalid header, chunk, host or URL.
    HttpProcessingError,
    ValueError,
    # A session or connector that was closed meanwhile.
    RuntimeError,
)
"""What aiohttp may raise for a connection or an answer, without timeouts."""


_TEXT_LIMIT: Final = 300
"""Characters of an error's own text that a message quotes: a line of a broken answer may be kilobytes."""


GATHER_SECONDS: Final = 0.25
"""How long a watch that brought nothing of interest is left unread, so that more is read at once. Of 5,000
nodes 17 report every second, and to be woken costs more than to read the line: a quiet operator uses 0.9 of
the CPU with 0.1 s, 0.6 with 0.25 s, 0.5 with 0.5 s. What changes meanwhile is seen so much later."""


async def read_lines(
    content: aiohttp.StreamReader,
    transport: asyncio.Transport | None,
    *,
    label: str,
    silence_seconds: float,
    is_calm: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    """Give the lines of an open watch, without their newline, until the server ends it properly.

    ``is_calm`` says, after all that came has been given, whether nothing of it was of interest: then
    ``transport`` is not read for GATHER_SECONDS. Raises StreamSilent, StreamCut, or TooLarge.
    """
    splitter = LineSplitter(label)
    while chunk := await _read_chunk(content, label, silence_seconds):
        for line in splitter.feed(chunk):
            yield line
        # ``content`` is empty now, so aiohttp has not paused the transport itself. One that was closed
        # meanwhile cannot be resumed: https://github.com/python/cpython/blob/3.11/Lib/asyncio/sslproto.py
        if transport is not None and is_calm() and not transport.is_closing():
            transport.pause_reading()
            await asyncio.sleep(GATHER_SECONDS)
            if not transport.is_closing():
                transport.resume_reading()
    if splitter.pending:
        raise StreamCut(f"{label}: the stream ended in the middle of a line")


async def _read_chunk(content: aiohttp.StreamReader, label: str, silence_seconds: float) -> bytes:
    try:
        return await content.readany()
    except TimeoutError:
        raise StreamSilent(f"{label}: nothing came for {silence_seconds:.0f} s") from None
    except FAULTS as error:
        raise StreamCut(f"{label}: the stream broke: {describe(error)}") from None


async def read_body(response: aiohttp.ClientResponse, *, limit: int, label: str) -> bytes | bytearray:
    """Read a body into one buffer, so that a list of megabytes is in memory once and not twice.

    Raises TooLarge above ``limit`` bytes.
    """
    content = response.content
    body: bytes | bytearray = await content.readany()
    while not content.at_eof():
        chunk = await content.readany()
        if isinstance(body, bytes):
            body = bytearray(body)
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"{label}: an answer of more than {limit} bytes")
    return body


@contextmanager
def translated(label: str, *, seconds: float) -> Iterator[None]:
    """Turn what aiohttp and the operating system raise into an ApiError whose message begins with ``label``.

    ``seconds`` is the time limit, for the message of a timeout.
    """
    try:
        yield
    except TimeoutError:
        raise NoAnswer(f"{label}: no answer within {seconds:.0f} s") from None
    except FAULTS as error:
        raise Unavailable(f"{label}: {describe(error)}", reason="NoConnection") from None


def describe(error: Exception) -> str:
    """Say in one line what is wrong with the connection; the same line for the same fault.

    The text of an error that contains a request or a URL is never used: both have credentials in them.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the API server's certificate is not believed: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        return f"cannot connect to {error.host}:{error.port}: {cause.strerror or cause}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the API server closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return without_passwords(f"the proxy answers {error.status} {error.message}")[:_TEXT_LIMIT]
    if isinstance(error, OSError | aiohttp.ClientConnectionError):
        return without_passwords(str(error))[:_TEXT_LIMIT] or type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        said = " ".join(error.message.split())
        return without_passwords(f"the answer is not HTTP: {said}")[:_TEXT_LIMIT]
    return type(error).__name__


ATTEMPTS: Final = 3
"""In all. With the pauses below they cover about a second: a leader change of etcd, the end of one API
server of several, a full queue of priority and fairness, so that a page of a long list or one patch of
thousands does not fail. An outage is for the loops above, which have their own back-off and observe again
before they try again. Only reads are sent again, and guarded writes: they have the resourceVersion that they
were decided on, so where only the answer was lost, the second is a 409. A request that reached its time
limit is never sent again."""

FIRST_PAUSE_SECONDS: Final = 0.2
PAUSE_CAP_SECONDS: Final = 2.0

RETRY_AFTER_LIMIT_SECONDS: Final = 10.0
"""A server that asks for more than this is overloaded: the caller gets the error instead of waiting."""


def is_worth_repeating(error: ApiError) -> bool:
    """Whether the same request may succeed in a moment."""
    if not isinstance(error, TooManyRequests | Unavailable) or isinstance(error, NoAnswer):
        return False
    return error.retry_after is None or error.retry_after <= RETRY_AFTER_LIMIT_SECONDS


def pause_before(*, attempt: int, error: ApiError) -> float:
    """Return the seconds to wait after ``attempt`` (1 = the first): full jitter, at least Retry-After.

    Full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog) spreads the many
    requests in flight that failed in the same instant.
    """
    return (error.retry_after or 0.0) + uniform(
        0.0, doubled(FIRST_PAUSE_SECONDS, attempt, cap=PAUSE_CAP_SECONDS)
    )


log = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 3600.0
"""The same text is logged again after this time, with how often it came."""

_WARNING: Final = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def parse_warnings(header: str) -> list[str]:
    """Return the texts of one Warning header, which may have several."""
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]


def log_warnings(headers: Iterable[str], *, request: str, throttle: LogThrottle) -> None:
    """Log the warnings in an answer: each text once in REPEAT_SECONDS, with how often it came.

    The API server warns of a stored pool that newer rules would refuse at every status write, and of
    a deprecated API at every call (header "Warning: 299 - ...", RFC 7234 5.5; KEP-1693).
    """
    for text in [text for header in headers for text in parse_warnings(header)]:
        skipped = throttle.take(text, seconds=REPEAT_SECONDS)
        if skipped is not None:
            often = f" ({skipped + 1} times since it was last reported)" if skipped else ""
            log.warning("the API server warns on %s: %s%s", request, text, often)


_NO_HEADERS: Final = CIMultiDictProxy(CIMultiDict[str]())


_READS: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_REVIEWS: Final = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""Reviews of tokens and rights are POSTs that change nothing."""


def _is_write(method: str, url: URL, *, below: str) -> bool:
    """Whether a request may change something; ``below`` is the path of the API server's own address."""
    return method not in _READS and not url.path.removeprefix(below).startswith(_REVIEWS)


def _fail(conn: Socket, error: ApiError) -> None:
    """End a request on whose connection nothing was sent: what waits for the answer raises ``error``."""
    if conn.protocol is not None:
        conn.protocol.set_exception(error)
    conn.close()


def _proxy_headers(proxy: Proxy, user_agent: str) -> CIMultiDict[str]:
    # New for each request: aiohttp adds to them.
    headers = CIMultiDict({hdrs.USER_AGENT: user_agent})
    if proxy.authorization is not None:
        headers[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
    return headers


def requests_over(
    connection: Connection, *, user_agent: str, may_write: Callable[[], bool] = lambda: True
) -> type[aiohttp.ClientRequest]:
    """Return the class of requests that use the TLS, name and proxy of ``connection`` in any session.

    Guests' sessions do not set these. It also is the last place before a request is sent.

    A write raises NotLeading where ``may_write`` returns False. It is asked when the connection is there and
    nothing was sent on it: waiting for credentials or for a connection can take half a minute. It is asked
    again where head and body go out, because a process can be frozen between the two, for hours. So is the
    check of the task that sends (``last_check``).

    The proxy's password is a header of its own, and not part of a URL: aiohttp's errors quote URLs.
    """
    proxy = connection.proxy
    below = URL(connection.server).path.rstrip("/")

    class Routed(aiohttp.ClientRequest):
        def __init__(self, method: str, url: URL, **options: Any) -> None:
            options.update(ssl=connection.tls.context(), server_hostname=connection.server_hostname)
            if proxy is not None:
                options.update(proxy=proxy.url, proxy_headers=_proxy_headers(proxy, user_agent))
            super().__init__(method, url, **options)
            self._check_wanted = last_check()

        async def send(self, conn: Socket) -> aiohttp.ClientResponse:
            """Send it, unless it is a write that may not be, or is not wanted any more."""
            self._check()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Socket, content_length: int | None = None
        ) -> None:
            """Write head and body. aiohttp does it in a task of its own, which begins after ``send``."""
            try:
                self._check()
            except (NotLeading, NotWanted) as error:
                _fail(conn, error)
                return
            await super().write_bytes(writer, conn, content_length)

        def _check(self) -> None:
            if _is_write(self.method, self.url, below=below) and not may_write():
                raise NotLeading(
                    f"{self.method} {self.url.path}: not sent: this operator does not hold the Lease"
                    " winpool-system/winpool"
                )
            self._check_wanted(f"{self.method} {self.url.path}")

        @property
        def request_info(self) -> aiohttp.RequestInfo:
            """What errors and answers contain of the request: not its headers, which have the token."""
            return aiohttp.RequestInfo(self.url, self.method, _NO_HEADERS, self.original_url)

    return Routed


_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""What aiohttp follows."""


async def _authorized(
    authorization: Authorization, send: Callable[[str | None], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """Send, and after a 401 send once more if other credentials are available."""
    header = await authorization.header()
    response = await send(header)
    if response.status != HTTPStatus.UNAUTHORIZED:
        return response
    authorization.reject(header)
    try:
        fresh = await authorization.header()
    except BaseException:
        response.close()
        raise
    if fresh == header:
        return response
    response.close()
    return await send(fresh)


class GuestMiddleware:
    """Puts our credentials on the requests of a library's session, and on no others.

    A session follows redirects by itself, and asks for credentials at each step; and libraries log whole
    errors, with the request in them. So the token is sent to our server only, a redirect is an error, and no
    error that contains a request is passed on. Failures are errors of aiohttp, which a library takes for
    temporary. So is a refusal that has not lasted: our own are judged where they are read, but a library
    would log its own at once.
    """

    def __init__(self, connection: Connection, *, refusals: FirstRefusals | None) -> None:
        self._origin = URL(connection.server).origin()
        self._connection = connection
        self._refusals = refusals

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send ``request``."""
        origin = request.url.origin()
        if origin != self._origin:
            raise aiohttp.ClientConnectionError(f"{origin} is not the API server {self._origin}")
        request.headers.extend(self._connection.impersonation)

        async def send(header: str | None) -> aiohttp.ClientResponse:
            if header is not None:
                request.headers[hdrs.AUTHORIZATION] = header
            return await _answer(request, handler)

        try:
            response = await _authorized(self._connection.authorization, send)
        except CredentialsError as error:
            raise aiohttp.ClientConnectionError(error.message) from None
        if request.method == hdrs.METH_GET and self._refusals is not None:
            self._judge(response)
        return response

    def _judge(self, response: aiohttp.ClientResponse) -> None:
        assert self._refusals is not None
        url = response.url
        asked = ("watch" if "watch" in url.query else "list", url.name, namespace_of(url.raw_path))
        if response.ok:
            self._refusals.permitted(*asked)
        elif response.status == HTTPStatus.FORBIDDEN and not self._refusals.has_lasted(*asked):
            response.close()
            raise aiohttp.ClientConnectionError(f"{asked[0]} {asked[1]}: 403; the API server may be starting")


async def _answer(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        response = await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ClientResponseError) as error:
        # These may contain the headers that were sent to the proxy. Others must be raised as they are: a
        # session needs them to know that it may send a request again.
        raise aiohttp.ClientConnectionError(describe(error)) from None
    if response.status in _REDIRECTS:
        response.close()
        raise aiohttp.ClientConnectionError(
            f"the API server answered {response.status}, a redirect, which is not followed:"
            " the token is for this server and no other"
        )
    return response


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
        identity: str = "",
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make a transport. With ``refusals``, a refusal that has not lasted is an UnconfirmedRefusal.

        ``identity`` distinguishes this process from others of the same account: it is part of the User-Agent,
        which the audit log has. Where ``may_write`` returns False, a write is not sent and is NotLeading.
        """
        self._user_agent = f"{USER_AGENT} ({identity})" if identity else USER_AGENT
        self.stats = stats if stats is not None else RequestStats()
        self._connection = connection
        self._authorization = connection.authorization
        self._request_class = requests_over(connection, user_agent=self._user_agent, may_write=may_write)
        self._refusals = refusals
        self._guest = GuestMiddleware(connection, refusals=refusals)
        self._warnings = LogThrottle(monotonic=time.monotonic)
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
        """End the pauses before retries, and every connection."""
        self._closing.set()
        await self._session.close()
        await self._connector.close()

    async def request(self, request: Request) -> bytes | bytearray:
        """Send ``request`` and return the body of its answer.

        Raises the ApiError for the answer; Unavailable where there is none.
        """
        attempt = 1
        while True:
            try:
                return await self._attempt(request)
            except ApiError as error:
                if attempt == ATTEMPTS or not (request.is_repeatable and is_worth_repeating(error)):
                    raise
                pause = pause_before(attempt=attempt, error=error)
            attempt += 1
            self.stats.retries += 1
            await self._pause(pause)

    @asynccontextmanager
    async def stream(
        self, request: Request, *, silence_seconds: float, is_calm: Callable[[], bool]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; inside the ``with`` its lines can be iterated, as ``read_lines`` says.

        ``silence_seconds`` is how long nothing may come before it counts as dead (StreamSilent).
        It is never repeated here: only the caller knows where to continue.
        """
        with translated(request.label, seconds=ANSWER_SECONDS):
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._open(request, silence_seconds=silence_seconds)
                try:
                    if response.status != HTTPStatus.OK:
                        await self._refuse(request, response)
                except BaseException:
                    response.close()
                    raise
        connection = response.connection  # None where the answer has ended already
        lines = read_lines(
            response.content,
            connection.transport if connection else None,
            label=request.label,
            silence_seconds=silence_seconds,
            is_calm=is_calm,
        )
        try:
            async with aclosing(lines):
                yield lines
        finally:
            response.close()  # not released: the rest of a watch is not read

    def guest_session(self) -> aiohttp.ClientSession:
        """Make a session over our connections and credentials, for a library that makes its own requests.

        The guest may close it; our connections stay open. Every request gets our credentials, and new
        ones once after a 401, so the guest never needs to log in again.
        """
        return self._make_session(middlewares=(self._guest,))

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
                    if response.status >= HTTPStatus.MULTIPLE_CHOICES:  # a redirect is not followed
                        await self._refuse(request, response)
                    return await read_body(response, limit=request.reply_limit, label=request.label)
        finally:
            self.stats.in_flight -= 1

    async def _open(
        self, request: Request, *, silence_seconds: float | None = None
    ) -> aiohttp.ClientResponse:
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS

        async def send(header: str | None) -> aiohttp.ClientResponse:
            return await self._send(request, header, _limits(deadline, silence_seconds))

        return await _authorized(self._authorization, send)

    async def _send(
        self, request: Request, header: str | None, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._closing.is_set():
            raise _closing_error()
        headers = CIMultiDict(self._connection.impersonation)
        headers[hdrs.ACCEPT] = request.accept
        if header is not None:
            headers[hdrs.AUTHORIZATION] = header
        if request.body is not None:
            headers[hdrs.CONTENT_TYPE] = request.content_type
        code = NO_ANSWER
        try:
            response = await self._session.request(
                request.method,
                URL(self._connection.server + request.path, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,  # the token is for this server and no other
                timeout=limits,
            )
            code = str(response.status)
            if self._refusals is not None and response.ok:
                self._refusals.permitted(request.verb, request.resource, request.namespace)
        except TimeoutError:
            code = TIMED_OUT
            raise
        finally:
            self.stats.count(verb=request.verb, resource=request.resource, code=code)
        if hdrs.WARNING in response.headers:
            told = response.headers.getall(hdrs.WARNING)
            log_warnings(told, request=request.label, throttle=self._warnings)
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


def _limits(deadline: float, silence_seconds: float | None) -> aiohttp.ClientTimeout:
    """Return the limits: for a request the time that is left, for a watch the longest silence."""
    if silence_seconds is not None:
        return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
    # Not 0 when no time is left: for aiohttp, 0 means no limit.
    left = max(deadline - asyncio.get_running_loop().time(), 0.001)
    return aiohttp.ClientTimeout(total=left, sock_connect=CONNECT_SECONDS)


def _closing_error() -> Unavailable:
    return Unavailable("the connection to the API server is being closed", reason="Closing")
