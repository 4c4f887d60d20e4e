"""Cuts a stream of bytes into lines, in bounded memory.

A watch sends one JSON object per line, and an object may be as large as etcd accepts. This is far above
the built-in line limits of HTTP libraries.
"""

from __future__ import annotations

from typing import Final

from winpool.cluster.request import OBJECT_LIMIT

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
