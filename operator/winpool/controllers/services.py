"""What every loop gets: the clock, the counters, the dirty flag of a pool, and the guard against bugs.

Time, passed in so that a test can set it.

The counters of the loops, on a plain object that ``serve/`` reads at scrape.

Bugs of winpool that something about one pool brings out: they cost that pool, and end no loop.

The dirty flag of a pool: each source of a change sets it, and the pool's loop waits for it.

Level-triggered: it does not matter how often or why it was set, since a pass checks everything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from winpool.status.status import Figures


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """``now`` is for what people and other programs read; ``monotonic`` (seconds) is for waiting."""

    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic

    def seconds_to(self, moment: datetime | None) -> float | None:
        """Return in how many seconds ``moment`` is; None where there is none."""
        return None if moment is None else (moment - self.now()).total_seconds()


PassResult = Literal["success", "error"]


@dataclass(slots=True)
class ControlStats:
    """Passes by result, their time (seconds) in total, and when the last one succeeded (Unix seconds).

    ``figures`` are what the last pass of each pool has found, by the name of the pool.
    """

    passes: Counter[PassResult] = field(default_factory=Counter)
    seconds: float = 0.0
    last_success: float = 0.0
    figures: dict[str, Figures] = field(default_factory=dict)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count one pass: a success unless it raises."""
        started = time.perf_counter()
        result: PassResult = "error"
        try:
            yield
            result = "success"
            self.last_success = time.time()
        finally:
            self.passes[result] += 1
            self.seconds += time.perf_counter() - started

    def note_figures(self, pool: str, figures: Figures) -> None:
        """Keep what a pass of ``pool`` has found, instead of the result of the one before."""
        self.figures[pool] = figures

    def forget_pool(self, pool: str) -> None:
        """Drop the figures of ``pool``, which is gone. No error where there are none."""
        self.figures.pop(pool, None)


class Faults:
    """Logs what fails for a pool, once until it works again or fails in another way.

    ``what`` fails, as people call it, and ``logger`` gets the sentence.
    """

    def __init__(self, what: str, *, logger: logging.Logger) -> None:
        self._what = what
        self._logger = logger
        self._said: dict[str, str] = {}

    def failed(self, pool: str, error: Exception) -> None:
        """Log that it failed for the pool of that name, and the traceback at debug."""
        said = f"{type(error).__name__}: {error}"
        if self._said.get(pool) == said:
            return
        self._said[pool] = said
        self._logger.error(
            "pool %s: %s failed (%s), and other pools are served; this is a bug of winpool, please report it "
            "with the log at level debug, which has the traceback",
            pool,
            self._what,
            said,
        )
        self._logger.debug("pool %s: %s failed", pool, self._what, exc_info=error)

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
