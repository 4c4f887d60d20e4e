"""How many events may be written: about one pool, and about all of them together.

Event storms have filled etcd, where every event of an hour (their time to live) must fit with ease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from winpool.cluster.budgets import Budgets

if TYPE_CHECKING:
    from collections.abc import Callable

Refusal = Literal["rate_limited", "cluster_rate_limited"]

PER_SECOND: Final = 1.0
BURST: Final = 20
"""New events per pool: what an eye can follow, and room for what comes with one edit."""

CLUSTER_PER_SECOND: Final = 5
CLUSTER_BURST: Final = 100
"""Writes of events about all pools and nodes together: five a second are 18,000 an hour, and some 20 MB in
etcd. The burst is that of five pools, so that an edit which many of them feel, such as a row of the support
matrix for all, is told of in full."""

KEPT_FOR_NEW: Final = CLUSTER_BURST // 2
"""Of that burst, what repetitions leave: they can wait and lose nothing, what is new cannot."""

_CLUSTER: Final = "cluster"


class EventBudget:
    """Says what may be written now. ``monotonic`` gives seconds."""

    def __init__(self, *, per_second: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pools = Budgets(per_second=PER_SECOND, burst=BURST, monotonic=monotonic)
        self._cluster = Budgets(per_second=per_second, burst=CLUSTER_BURST, monotonic=monotonic)
        self._token_seconds = 1 / per_second
        self.repetitions_from = float("-inf")
        """Before then there is no room for a repetition: asking again is not worth it."""

    def refuse_new(self, name: str) -> Refusal | None:
        """Take the room for a new event in the budget ``name`` and that of all; say which has none."""
        if not self._pools.take(name):
            return "rate_limited"
        return None if self._cluster.take(_CLUSTER) else "cluster_rate_limited"

    def take_repetition(self) -> bool:
        """Take the room for writing a repetition; False where there is none now."""
        now = self._monotonic()
        if now < self.repetitions_from:
            return False
        if self._cluster.take(_CLUSTER, leaving=KEPT_FOR_NEW):
            return True
        self.repetitions_from = now + self._token_seconds
        return False
