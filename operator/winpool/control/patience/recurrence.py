"""How often something has happened to nodes lately. After ten quiet minutes the count starts at zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_SECONDS: Final = 600.0
"""Longer than the longest pause. Otherwise repeated repairs at that pace would not count as repeated."""

MOST_TIMES: Final = 9
"""2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number."""


@dataclass(frozen=True, slots=True)
class _History:
    times: int
    last: float


class Recurrence:
    """Counts one kind of happening by the UIDs of nodes, each up to ``most``."""

    def __init__(self, *, monotonic: Callable[[], float], most: int = MOST_TIMES) -> None:
        self._monotonic = monotonic
        self._most = most
        self._histories: dict[str, _History] = {}

    def note(self, node_uid: str) -> int:
        """Note that it has happened again; return how often it has."""
        now = self._monotonic()
        before = self._histories.get(node_uid)
        is_quiet = before is None or now - before.last >= QUIET_SECONDS
        times = 1 if before is None or is_quiet else min(before.times + 1, self._most)
        self._histories[node_uid] = _History(times, now)
        return times

    def forget(self, node_uid: str) -> None:
        """Forget the count of a node."""
        self._histories.pop(node_uid, None)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that are not forgotten yet."""
        return frozenset(self._histories)

    def times_of(self, node_uid: str) -> int:
        """Return how often it has happened to that node lately."""
        history = self._histories.get(node_uid)
        return history.times if history and self._monotonic() - history.last < QUIET_SECONDS else 0

    def times(self) -> dict[str, int]:
        """Return how often it has happened lately, by the UIDs of the nodes that it happened to."""
        self.forget_the_quiet(self._monotonic())
        return {uid: history.times for uid, history in self._histories.items()}

    def seconds_to_quiet(self, node_uid: str) -> float:
        """Return in how many seconds that node is forgotten, if nothing happens."""
        history = self._histories.get(node_uid)
        return max(0.0, history.last + QUIET_SECONDS - self._monotonic()) if history else 0.0

    def forget_the_quiet(self, now: float) -> None:
        """Forget the nodes without a happening for QUIET_SECONDS: machines come and go for years (P7)."""
        loud = {uid: each for uid, each in self._histories.items() if now - each.last < QUIET_SECONDS}
        self._histories = loud
