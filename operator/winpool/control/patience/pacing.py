"""Pauses that grow: the second time is after 2 seconds, then 4, 8 … 300; ten quiet minutes end it.

Made for repairs: the first of a node is immediate, and if it is needed again somebody disagrees, and a
write war helps nobody.
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
    times: int
    last: float


class Pacer:
    """Which nodes of a pool have to wait for their next write, at most ``longest`` seconds."""

    def __init__(self, *, monotonic: Callable[[], float], longest: float = LONGEST_PAUSE_SECONDS) -> None:
        self._monotonic = monotonic
        self._longest = longest
        self._histories: dict[str, _History] = {}
        # Those that had to wait when that was last asked, and those noted since. Each of them is owed a look,
        # though its time may be over before anybody asks how long that is: a status is written in between.
        self._waiting: set[str] = set()

    def note(self, node_uid: str) -> int:
        """Take note that it has happened again; give how often it has, up to nine times."""
        now = self._monotonic()
        before = self._histories.get(node_uid)
        if before and now - before.last >= QUIET_SECONDS:
            before = None
        # 2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number.
        times = min(before.times + 1, 9) if before else 1
        self._histories[node_uid] = _History(times, now)
        self._waiting.add(node_uid)
        return times

    def forget(self, node_uid: str) -> None:
        """Start anew with a node."""
        self._histories.pop(node_uid, None)
        self._waiting.discard(node_uid)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that are not forgotten yet."""
        return frozenset(self._histories)

    def times(self) -> dict[str, int]:
        """Return how often it has happened of late, by the UIDs of the nodes that it happened to."""
        self._forget_the_quiet(self._monotonic())
        return {uid: history.times for uid, history in self._histories.items()}

    def seconds_to_quiet(self, node_uid: str) -> float:
        """Return how long until that node is forgotten, if nothing happens."""
        history = self._histories.get(node_uid)
        return max(0.0, history.last + QUIET_SECONDS - self._monotonic()) if history else 0.0

    def held_back(self) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait."""
        now = self._monotonic()
        self._forget_the_quiet(now)
        self._waiting = {uid for uid, history in self._histories.items() if self._due(history) > now}
        return frozenset(self._waiting)

    def seconds_to_next(self) -> float | None:
        """Return how long until a waiting node may be written: 0 if it may by now, None where none waits.

        A node waits until ``held_back`` is asked again and does not name it any more.
        """
        now = self._monotonic()
        dues = (self._due(self._histories[uid]) for uid in self._waiting if uid in self._histories)
        return min((max(0.0, due - now) for due in dues), default=None)

    def _due(self, history: _History) -> float:
        return history.last + min(FIRST_PAUSE_SECONDS * 2.0 ** (history.times - 1), self._longest)

    def _forget_the_quiet(self, now: float) -> None:
        loud = {uid: each for uid, each in self._histories.items() if now - each.last < QUIET_SECONDS}
        self._histories = loud
