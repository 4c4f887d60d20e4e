"""How many events may be written: about one pool, and about all pools together.

Event storms have filled etcd, which must have room for all events of an hour (their time to live).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from winpool.cluster.budgets import Budgets

if TYPE_CHECKING:
    from collections.abc import Callable

Refusal = Literal["rate_limited", "cluster_rate_limited"]

PER_SECOND: Final = 1.0
BURST: Final = 20
"""New events per pool: as many as a person can read, and enough for those of one edit."""

CLUSTER_PER_SECOND: Final = 5
CLUSTER_BURST: Final = 100
"""Writes of events about all pools and nodes together: five a second are 18,000 an hour, and some 20 MB in
etcd. The burst is that of five pools, so that an edit that concerns many of them, such as a new row of the
support matrix, is reported completely."""

KEPT_FOR_NEW: Final = CLUSTER_BURST // 2
"""The part of that burst that repetitions do not use: they can wait without loss, new events cannot."""

WARNINGS_BURST: Final = 20
"""Warnings of what is about to be done, per pool: one for each of the 16 taints of a spec, with some room."""

CLUSTER_WARNINGS_PER_SECOND: Final = 1
CLUSTER_WARNINGS_BURST: Final = 100
"""Those of all pools together, beside all other events. No other event takes their room: what they warn of
cannot be undone."""

_CLUSTER: Final = "cluster"


class EventBudget:
    """Says what may be written now. ``monotonic`` returns seconds."""

    def __init__(self, *, per_second: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pools = Budgets(per_second=PER_SECOND, burst=BURST, monotonic=monotonic)
        self._cluster = Budgets(per_second=per_second, burst=CLUSTER_BURST, monotonic=monotonic)
        self._pools_warnings = Budgets(per_second=PER_SECOND, burst=WARNINGS_BURST, monotonic=monotonic)
        self._cluster_warnings = Budgets(
            per_second=CLUSTER_WARNINGS_PER_SECOND, burst=CLUSTER_WARNINGS_BURST, monotonic=monotonic
        )
        self._token_seconds = 1 / per_second
        self.repetitions_from = float("-inf")
        """Before this time there is no room for a repetition."""

    def refuse_new(self, name: str, *, is_warning: bool = False) -> Refusal | None:
        """Take the room for a new event in the budget ``name`` and in that of all; return which has none."""
        pools = self._pools_warnings if is_warning else self._pools
        cluster = self._cluster_warnings if is_warning else self._cluster
        if not pools.take(name):
            return "rate_limited"
        return None if cluster.take(_CLUSTER) else "cluster_rate_limited"

    def take_repetition(self) -> bool:
        """Take the room for writing a repetition; False where there is none now."""
        now = self._monotonic()
        if now < self.repetitions_from:
            return False
        if self._cluster.take(_CLUSTER, leaving=KEPT_FOR_NEW):
            return True
        self.repetitions_from = now + self._token_seconds
        return False
