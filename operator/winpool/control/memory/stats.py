"""What is counted for the metrics: samples, the time that polls take, and evictions."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from winpool.kubelet.outcome import Outcome

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds. A kubelet that is well answers within the first few, one above 5 s is late, and the longest
deadline is 10 s (``kubelet.limits``)."""

EvictionResult = Literal["evicted", "refused", "gone", "failed", "unanswered"]
"""How a request to evict a pod ended, see ``control.act.evictions``."""


@dataclass(slots=True)
class Durations:
    """How many took how long. ``counts`` are by the bucket that each fell into, the last for all longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def note(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class MemoryStats:
    """``samples`` are by source and outcome: one for each node and poll. ``polls`` are by source.

    A poll of Prometheus is one set of queries, for all nodes. ``evictions`` are requests, by result.
    """

    samples: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    polls: dict[str, Durations] = field(default_factory=dict)
    evictions: Counter[EvictionResult] = field(default_factory=Counter)

    def note_sample(self, source: str, outcome: Outcome) -> None:
        """Count the sample of a node."""
        self.samples[source, outcome] += 1

    def note_poll(self, source: str, seconds: float) -> None:
        """Count a poll that has taken so long, whatever its outcome."""
        self.polls.setdefault(source, Durations()).note(seconds)
