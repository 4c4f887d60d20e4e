"""Pauses that grow: the second try is after 2 seconds, then 4, 8 … 300; ten quiet minutes reset them.

They are made for repairs: the first of a node is immediate. If it is needed again, someone else undoes it,
and repairs without a pause would only load the API server.

A pause delays the goal that it came after, and no other: what blocks one goal says nothing of the next. But
the count is kept for the node, so that repeated repairs that follow a node from goal to goal do not start
from zero with each goal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.control.patience.recurrence import Recurrence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 300.0

WHATEVER: Final = object()
"""In place of a goal: all goals."""


@dataclass(frozen=True, slots=True)
class _Pauses:
    """The pauses of one node. The one that ends first comes first: a later one is never shorter."""

    goals: tuple[object, ...]
    ends: tuple[float, ...]


class Pacer:
    """Which nodes of a pool have to wait for their next write, at most ``longest`` seconds."""

    def __init__(self, *, monotonic: Callable[[], float], longest: float = LONGEST_PAUSE_SECONDS) -> None:
        self._monotonic = monotonic
        self._longest = longest
        self._recurrence = Recurrence(monotonic=monotonic)
        # Pauses that were not over at the last call of ``waiting`` or ``held_back``, and those noted since.
        # Each needs one more pass, though it may end before ``seconds_to_next`` is called: a status is
        # written in between.
        self._of_nodes: dict[str, float] = {}
        self._of_goals: dict[str, _Pauses] = {}

    def note(self, node_uid: str, goal: object = WHATEVER) -> int:
        """Note that it has happened again, to a try at ``goal``; return how often it has, up to nine.

        Callers make sure that not too many goals of one node are paused at the same time.
        """
        times = self._recurrence.note(node_uid)
        end = self._monotonic() + min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), self._longest)
        if goal is WHATEVER:
            self._of_nodes[node_uid] = end
        else:
            before = self._of_goals.get(node_uid)
            others = [each for each in _each(before) if each[0] != goal] if before else ()
            self._of_goals[node_uid] = _pauses((*others, (goal, end)))
        return times

    def forget(self, node_uid: str) -> None:
        """Forget the tries and pauses of a node."""
        self._recurrence.forget(node_uid)
        self._of_nodes.pop(node_uid, None)
        self._of_goals.pop(node_uid, None)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that are not forgotten yet."""
        return self._recurrence.known()

    def held_back(self) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait, with some goal or with all."""
        nodes, goals = self.waiting()
        return nodes | goals.keys()

    def waiting(self) -> tuple[frozenset[str], dict[str, tuple[object, ...]]]:
        """Return which nodes have to wait with any goal, and which goals of other nodes have to, by UID."""
        now = self._monotonic()
        self._recurrence.forget_the_quiet(now)
        self._of_nodes = {uid: end for uid, end in self._of_nodes.items() if end > now}
        for uid in [uid for uid, pauses in self._of_goals.items() if pauses.ends[0] <= now]:
            if left := [each for each in _each(self._of_goals[uid]) if each[1] > now]:
                self._of_goals[uid] = _pauses(left)
            else:
                del self._of_goals[uid]
        return frozenset(self._of_nodes), {uid: pauses.goals for uid, pauses in self._of_goals.items()}

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a pause ends: 0 if one is over now, None where there is none.

        A pause counts until ``waiting`` or ``held_back`` is called again and does not return it any more.
        """
        now = self._monotonic()
        of_goals = (pauses.ends[0] for pauses in self._of_goals.values())
        return min((max(0.0, end - now) for end in (*self._of_nodes.values(), *of_goals)), default=None)


def _each(pauses: _Pauses) -> Iterator[tuple[object, float]]:
    return zip(pauses.goals, pauses.ends, strict=True)


def _pauses(found: Iterable[tuple[object, float]]) -> _Pauses:
    goals, ends = zip(*found, strict=True)
    return _Pauses(goals, ends)
