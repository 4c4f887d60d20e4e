"""The answer to one GET, read from bytes as they come. It connects to nothing.

The bytes are read by the parser of aiohttp, which is compiled (llhttp). Nothing of an answer gets into an
error, since a server can send back the token that it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpResponseParser

from winpool.kubelet.outcome import Outcome, PollError

if TYPE_CHECKING:
    import asyncio

    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

_OK: Final = 200
_OUTCOMES: Final = {401: Outcome.UNAUTHORIZED, 403: Outcome.FORBIDDEN}
_REDIRECTS: Final = range(300, 400)
_INTERIM: Final = frozenset(range(100, 200)) - {101}
"""Before the answer proper (RFC 9110, 15.2). After 101 comes another protocol."""

_NEVER_FULL: Final = 2**23
"""The parser asks its connection to pause at twice as many bytes, or at a sixteenth of it in chunks. The body
is taken out of it after each piece of a few kilobytes, so it has no connection to pause."""


def refusal(status: int) -> PollError:
    """Return the error of an answer with another status than 200."""
    outcome = Outcome.REDIRECTED if status in _REDIRECTS else _OUTCOMES.get(status, Outcome.SERVER_ERROR)
    return PollError(outcome, f"the answer has the status {status}")


class Answer:
    """An answer that is read piece by piece.

    ``has_begun`` once its head is read, ``is_complete`` once its body is. Then ``is_last`` says whether the
    connection is of no use any more: the server says so, or has sent more than was asked for.
    """

    def __init__(self, *, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        """Read a body of at most ``limit`` bytes."""
        self.body = bytearray()
        self.has_begun = False
        self.is_complete = False
        self.is_last = False
        self._limit = limit
        self._content: StreamReader | None = None
        self._parser = HttpResponseParser(
            BaseProtocol(loop), loop, _NEVER_FULL, read_until_eof=True, auto_decompress=False
        )

    def feed(self, data: bytes) -> None:
        """Read what has come. Raises PollError."""
        try:
            messages, *_ = self._parser.feed_data(data)
        except (HttpProcessingError, ValueError):
            raise PollError(Outcome.UNREADABLE, "the answer is not HTTP") from None
        for message, content in messages:
            self._begin(message, content)
        self._take()

    def end(self) -> None:
        """Note that nothing more comes: some answers end so. Raises PollError."""
        self.is_last = True
        if self._content is None:
            raise PollError(Outcome.NO_CONNECTION, "the connection broke off")
        try:
            self._parser.feed_eof()
        except (HttpProcessingError, ValueError):
            raise PollError(Outcome.NO_CONNECTION, "the answer broke off") from None
        self._take()

    def _begin(self, message: RawResponseMessage, content: StreamReader) -> None:
        if self.has_begun:
            self.is_last = True
        elif message.code not in _INTERIM:
            if message.code != _OK:
                raise refusal(message.code)
            self.has_begun = True
            self.is_last = message.should_close
            self._content = content

    def _take(self) -> None:
        if self._content is None:
            return
        self.body += self._content.read_nowait()
        if len(self.body) > self._limit:
            raise PollError(Outcome.TOO_LARGE, f"the answer has more than {self._limit} bytes")
        self.is_complete = self._content.is_eof()
