"""The counters of the loops, on a plain object that ``serve/`` reads at scrape."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.report.figures import Figures

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
