"""Time as the simulator sees it, so that what depends on time can be tried without waiting."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random


class Clock(Protocol):
    """The three questions about time that the simulator asks."""

    def now(self) -> datetime:
        """Read the wall clock, in UTC: what is written into objects."""

    def monotonic(self) -> float:
        """Read a clock that never jumps, in seconds: what intervals are measured on."""

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Read the wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Read a clock that never jumps, in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """Write a ``metav1.Time``: RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """Write a ``metav1.MicroTime``: RFC 3339 in UTC, always six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def jittered(seconds: float, *, factor: float, random: Random) -> float:
    """Stretch an interval by up to ``factor`` of itself, as apimachinery's ``wait.Jitter`` does."""
    return seconds * (1 + factor * random.random())


class Backoff:
    """Waits that double after every failure, drawn at random so that a fleet does not return as one.

    The bounds are those of a kubelet that registers or claims its lease: 0.1 s at first, 7 s at most.
    Each wait is between half and the whole of the current step.
    """

    __slots__ = ("_limit", "_random", "_step")

    def __init__(self, *, random: Random, first: float = 0.1, limit: float = 7.0) -> None:
        self._random = random
        self._limit = limit
        self._step = first

    def next(self) -> float:
        """Return the seconds to wait before the next try."""
        step = self._step
        self._step = min(2 * step, self._limit)
        return step * (0.5 + 0.5 * self._random.random())
