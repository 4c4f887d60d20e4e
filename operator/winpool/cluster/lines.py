"""Cuts a stream of bytes into lines, in bounded memory.

A watch sends one JSON object per line, and an object may be as large as etcd takes
(1.5 MiB by default), far above the line limits that HTTP libraries have built in.
"""

from __future__ import annotations

from typing import Final

LINE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of one line. etcd takes 1.5 MiB per request by default; JSON is not what is stored
(escapes, protobuf inside), and some clusters raise the limit, so there is more than twice the
room. Whatever is longer is no Kubernetes object."""


class LineTooLongError(ValueError):
    """A line outgrew the limit: the stream has to be given up, since it cannot be skipped safely."""


class LineSplitter:
    """Feed it chunks, get whole lines; keeps what is not yet ended.

    Work is linear in the bytes fed, whatever the chunks: nothing is scanned twice.
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
        """Take a chunk; give the lines that it completes, without their newline, empty ones left out.

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
