"""Reads the API server's answers: a body into one buffer, a watch into lines, a failure into an ApiError.

A watch sends one JSON object per line, and an object may be as large as etcd accepts. This is far above the
built-in line limits of HTTP libraries, so a stream is cut into lines here, in bounded memory.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from winpool.kube.errors import (
    ApiError,
    NoAnswer,
    StreamCut,
    StreamSilent,
    TooLarge,
    Unavailable,
    without_passwords,
)
from winpool.kube.request import OBJECT_LIMIT

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
