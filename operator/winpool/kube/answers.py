"""Reads the API server's answers: a body into one buffer, a watch into lines, a failure into an ApiError.

A watch sends one JSON object per line, and an object may be as large as etcd accepts. This is far above the
built-in line limits of HTTP libraries, so a stream is cut into lines here, in bounded memory.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from winpool.kube.errors import NoAnswer, StreamCut, StreamSilent, TooLarge, Unavailable, without_passwords
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
    splitter = LineSplitter()
    while chunk := await _read_chunk(content, label, silence_seconds):
        try:
            lines = splitter.feed(chunk)
        except LineTooLongError as error:
            raise TooLarge(f"{label}: {error}") from None
        for line in lines:
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
