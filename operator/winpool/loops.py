"""Gives every loop the time, the flag that wakes it, a count of durations, and a short log of bugs."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")


def utc_now() -> datetime:
    """Return the wall clock, for times that people read."""
    return datetime.now(UTC)


class Clock(msgspec.Struct, frozen=True):
    """``now`` is for what people and other programs read; ``monotonic`` (seconds) is for waiting."""

    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic

    def seconds_to(self, moment: datetime | None) -> float | None:
        """Return in how many seconds ``moment`` is; None where there is none."""
        return None if moment is None else (moment - self.now()).total_seconds()


def soonest(*waits: float | None) -> float | None:
    """Return the shortest of these waits, or the first of these moments, in seconds; None is never."""
    return min((wait for wait in waits if wait is not None), default=None)


PassResult = Literal["Success", "Error"]


class Durations:
    """How many took how long: ``counts`` by the bucket of ``bounds`` of each, the last for all longer.

    ``seconds`` is their sum.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """Count one that took so long."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class Faults:
    """Logs what fails for a pool, once until it works again or fails in another way.

    ``what`` fails, as people call it, and ``logger`` gets the sentence.
    """

    what: str
    logger: logging.Logger
    _said: dict[str, str] = field(default_factory=dict, init=False)

    def failed(self, pool: str, error: Exception) -> None:
        """Log that it failed for the pool of that name, and the traceback at debug."""
        said = f"{type(error).__name__}: {error}"
        if self._said.get(pool) == said:
            return
        self._said[pool] = said
        self.logger.error(
            "pool %s: %s failed (%s), and other pools are served; this is a bug of winpool, please report it "
            "with the log at level debug, which has the traceback",
            pool,
            self.what,
            said,
        )
        self.logger.debug("pool %s: %s failed", pool, self.what, exc_info=error)

    def ended(self, pool: str) -> None:
        """Take note that it works for ``pool``, or that there is no such pool."""
        self._said.pop(pool, None)


class Wake:
    """An event that can also be waited for with a time limit."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Ask for a pass. May be called any number of times, also during one."""
        self._event.set()

    async def wait(self, *, seconds: float | None) -> bool:
        """Return when set, or after ``seconds`` (None: only when set), and whether it was; clears the flag.

        It is cleared before the pass observes, so that a change during the pass is not lost.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        is_set = self._event.is_set()
        self._event.clear()
        return is_set

    def clear(self) -> None:
        """Clear the flag: a pass that observes right now serves all that asked until now."""
        self._event.clear()


def keep_newest(kept: dict[K, V], key: K, value: V, *, most: int) -> None:
    """Keep ``value`` as the newest, and no more than ``most``: the oldest is forgotten."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
