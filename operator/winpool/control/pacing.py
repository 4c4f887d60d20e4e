"""Patience with nodes that somebody else keeps writing, or that the API server refuses.

The first repair of a node is immediate. If it is needed again, somebody disagrees, and a write
war helps nobody: the next comes after 2, 4, 8 … 300 seconds. Ten quiet minutes end it.
Kept in memory only: after a restart the first repair is immediate again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 300.0
QUIET_SECONDS: Final = 600.0
"""Longer than the longest pause, or a war at that pace would look like peace."""


@dataclass(frozen=True, slots=True)
class _History:
    repairs: int
    last: float

    @property
    def due(self) -> float:
        return self.last + min(FIRST_PAUSE_SECONDS * 2.0 ** (self.repairs - 1), LONGEST_PAUSE_SECONDS)


class Pacer:
    """Which nodes of a pool have to wait for their next write."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._histories: dict[str, _History] = {}

    def note(self, node_uid: str) -> None:
        """Take note of a repair, or of a write that was refused."""
        now = self._monotonic()
        self._forget_the_quiet(now)
        before = self._histories.get(node_uid)
        # 2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number.
        self._histories[node_uid] = _History(min(before.repairs + 1, 9) if before else 1, now)

    def held_back(self) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait."""
        now = self._monotonic()
        self._forget_the_quiet(now)
        return frozenset(uid for uid, history in self._histories.items() if history.due > now)

    def seconds_to_next(self) -> float | None:
        """Return how long until a waiting node may be written again; None where none waits."""
        now = self._monotonic()
        waits = [history.due - now for history in self._histories.values() if history.due > now]
        return min(waits, default=None)

    def _forget_the_quiet(self, now: float) -> None:
        loud = {uid: each for uid, each in self._histories.items() if now - each.last < QUIET_SECONDS}
        self._histories = loud
