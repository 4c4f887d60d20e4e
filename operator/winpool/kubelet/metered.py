"""A socket for asyncio that does not receive without an end. For kubelets, ``wire`` counts by itself."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


PIECE_BYTES: Final = 32 * 1024
"""Received at once: the summary of a node with 15 pods is one piece. asyncio would receive 256 kB, and read
them before anyone else has a turn, which takes a tenth of a second if they are 10,000 interim answers."""


class MeteredSocket(socket.socket):
    """A socket that receives ``left`` bytes more, and then breaks.

    The limit of a body alone leaves what is no body without an end: interim answers, empty lines, extensions
    of chunks, and answers that no one has asked for. They would cost as much CPU time as the other side can
    send.
    """

    left = 0

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive, as asyncio does for HTTP."""
        data = super().recv(min(size, PIECE_BYTES), flags)
        self._count(len(data))
        return data

    def recv_into(self, buffer: WriteableBuffer, size: int = 0, flags: int = 0, /) -> int:
        """Receive, as asyncio does for TLS."""
        count = super().recv_into(buffer, min(size or len(memoryview(buffer)), PIECE_BYTES), flags)
        self._count(count)
        return count

    def _count(self, received: int) -> None:
        self.left -= received
        if self.left < 0:
            # asyncio cuts a connection whose socket fails.
            raise OSError("the other side sends more than was asked for")
