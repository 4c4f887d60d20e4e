"""What another operator has reported of two operators, where this one cannot know it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.relist.pools import Pools
    from winpool.objects.pool import Pool

KEPT_SECONDS: Final = 600.0
"""How long the issue of another operator stays, from when this process has first seen it. If each removed at
once what the other adds, both would write every status once a second. If it stayed for ever, no one would
remove it when the operator that has added it is gone. After this time the list of pools, every five minutes,
makes the pass that removes it, and an operator that still runs adds it once more."""


class OtherReports:
    """Until when the issue about a second operator stays in the status of each pool."""

    def __init__(
        self, other: Callable[[], str | None], *, pools: Pools, monotonic: Callable[[], float]
    ) -> None:
        """Make it; ``other`` is ``Seat.other``."""
        self._other = other
        self._pools = pools
        self._monotonic = monotonic
        self._seen: dict[str, float] = {}

    def other(self, pool: Pool) -> str | None:
        """Return what to say of another operator: its identity, "" for none, None: what stands is to stay."""
        stands = any(issue.reason == IssueReason.SECOND_OPERATOR for issue in pool.status.issues)
        if (other := self._other()) is not None or not stands:
            self._seen.pop(pool.uid, None)
            return other or ""
        if pool.uid not in self._seen:
            there = {each.uid for each in self._pools.all()}
            self._seen = {uid: moment for uid, moment in self._seen.items() if uid in there}
        seen = self._seen.setdefault(pool.uid, self._monotonic())
        return None if self._monotonic() - seen < KEPT_SECONDS else ""
