"""Describes a request to the API server, and reads its answer: a body in one buffer, or a watch as lines.

Whatever aiohttp and the operating system raise becomes an ApiError. A watch has one JSON object per line,
and an object may be as large as etcd accepts, far above the built-in line limits of HTTP libraries.
"""

from __future__ import annotations

import re
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import unquote

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from winpool.kube.errors import (
    ApiError,
    NoAnswer,
    NotWanted,
    StreamCut,
    StreamSilent,
    TooLarge,
    Unavailable,
    without_passwords,
)

NO_ANSWER: Final = "error"
"""Instead of an HTTP status where no answer came (connection refused, broken, cut)."""
TIMED_OUT: Final = "timeout"
"""Instead of an HTTP status where no answer came in time."""


@dataclass(slots=True)
class RequestStats:
    """Requests by verb, resource and code.

    Verbs and resources are those of RBAC ("patch", "nodes", "windowsnodepools/status");
    codes are HTTP statuses as text, or ``NO_ANSWER``, or ``TIMED_OUT``. Every attempt
    counts, also one that is repeated. The keys are few: all three come from our own code
    or from HTTP.
    """

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    in_flight: int = 0
    retries: int = 0

    def count(self, *, verb: str, resource: str, code: str) -> None:
        """Count one attempt that has ended (for a watch: one that was answered)."""
        self.requests[verb, resource, code] += 1


_NONE: Final[tuple[Callable[[], str], ...]] = ()
_objections: Final[ContextVar[tuple[Callable[[], str], ...]]] = ContextVar("objections", default=_NONE)


@contextmanager
def unless(objection: Callable[[], str]) -> Iterator[None]:
    """Send requests of this block, and of tasks that it starts, only while ``objection`` returns nothing.

    Otherwise they raise NotWanted with what it returns. Blocks in blocks add up. A request may wait half a
    minute for credentials and for a connection, and a process may be frozen for hours. So the check is made
    when the connection is there, and again where head and body are written. It is of the task that sends, so
    that no layer in between has to pass it on.
    """
    token = _objections.set((*_objections.get(), objection))
    try:
        yield
    finally:
        _objections.reset(token)


def last_check() -> Callable[[str], None]:
    """Return the check of a request that is made now. It raises NotWanted; its argument is the request."""
    found = _objections.get()

    def check(label: str) -> None:
        for objection in found:
            if said := objection():
                raise NotWanted(f"{label}: not sent: {said}")

    return check


JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply. The body is JSON, which is YAML."""

OBJECT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of one object as JSON. etcd accepts 1.5 MiB for each by default, and the API server writes some
characters that are one byte in etcd as six (``<`` as ``\\u003c``). The rest is for what it adds."""

REPLY_LIMIT: Final = OBJECT_LIMIT
"""Bytes of an answer that is not a list."""

_NAMESPACE: Final = re.compile(r"/namespaces/([^/?]+)/")

_GROUP: Final = re.compile(r"/apis/([^/?]+)/")

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
}


def namespace_of(path: str) -> str | None:
    """Return the namespace in the path of a request; None for a request in no namespace, or in all."""
    found = _NAMESPACE.search(path.partition("?")[0])
    return unquote(found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the API server.

    ``verb`` and ``resource`` are RBAC's, with the subresource ("nodes", "windowsnodepools/status").
    ``path`` is the URL's path and query, already encoded. ``name`` is only for messages.
    ``guarded`` says of a write that it has the resourceVersion it was decided on (see
    ``ATTEMPTS``). ``reply_limit`` is in bytes.
    """

    verb: str
    resource: str
    path: str
    name: str = ""
    body: bytes | None = field(default=None, repr=False)
    """Not part of the repr: that of a TokenReview is a token."""
    content_type: str = JSON
    accept: str = JSON
    guarded: bool = False
    reply_limit: int = REPLY_LIMIT

    @property
    def method(self) -> str:
        """The HTTP method of the verb (Kubernetes: "Authorization Overview", request verbs)."""
        return _METHODS[self.verb]

    @property
    def namespace(self) -> str | None:
        """The namespace of the request; None where it is in none, or in all."""
        return namespace_of(self.path)

    @property
    def group(self) -> str:
        """The API group that it is in, as RBAC names it: empty for the core group."""
        found = _GROUP.match(self.path)
        return unquote(found[1]) if found else ""

    @property
    def label(self) -> str:
        """The beginning of an error message: "patch nodes w1"."""
        return f"{self.verb} {self.resource} {self.name}".rstrip()

    @property
    def is_repeatable(self) -> bool:
        """Whether the transport may send it again by itself."""
        return self.guarded or self.verb in {"get", "list"}


LINE_LIMIT: Final = OBJECT_LIMIT
"""Bytes of one line. A longer line is not a Kubernetes object."""


class LineTooLongError(ValueError):
    """A line is longer than the limit: the stream has to end, since a line cannot be skipped safely."""


class LineSplitter:
    """Turns chunks into whole lines, and keeps the line that has not ended yet.

    Work is linear in the bytes, for any size of chunks: nothing is scanned twice.
    """

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, *, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Accept a chunk; return the lines that it completes, without their newline and without empty ones.

        Raises LineTooLongError.
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
            raise LineTooLongError(f"a line of more than {self._limit} bytes")


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


class LineStream:
    """The lines of an open watch, without their newline. Ends when the server ends it properly."""

    __slots__ = ("_content", "_label", "_lines", "_silence_seconds", "_splitter")

    def __init__(self, content: aiohttp.StreamReader, *, label: str, silence_seconds: float) -> None:
        self._content = content
        self._label = label
        self._silence_seconds = silence_seconds
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> Self:
        """Give itself."""
        return self

    async def __anext__(self) -> bytes:
        """Give the next line.

        Raises StreamSilent, StreamCut, or TooLarge.
        """
        while not self._lines:
            chunk = await self._chunk()
            if not chunk:
                if self._splitter.pending:
                    raise StreamCut(f"{self._label}: the stream ended in the middle of a line")
                raise StopAsyncIteration
            try:
                self._lines.extend(self._splitter.feed(chunk))
            except LineTooLongError as error:
                raise TooLarge(f"{self._label}: {error}") from None
        return self._lines.popleft()

    async def _chunk(self) -> bytes:
        try:
            return await self._content.readany()
        except TimeoutError:
            raise StreamSilent(f"{self._label}: nothing came for {self._silence_seconds:.0f} s") from None
        except FAULTS as error:
            raise StreamCut(f"{self._label}: the stream broke: {describe(error)}") from None


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
    except ApiError:
        raise
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
