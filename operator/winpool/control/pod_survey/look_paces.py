"""How soon the pods of a single node may be listed again (a look), and how its looks failed.

Both are remembered by the UID of the node for a while after no pool wants it any more. So a kubelet that
flips what makes its node wanted cannot cause lists at will (P2).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import TooLarge
from winpool.pods.known import LookProblem

if TYPE_CHECKING:
    from collections.abc import Container

    from winpool.cluster.errors import ApiError
    from winpool.objects.pool import Pool

LEAST_SECONDS: Final = 1.0
"""Between two looks at one node; twice as long each time."""

LONGEST_SECONDS: Final = 30.0
"""Between two looks at one node: as long as between two lists of all pods. If no pool wants a look for so
long after it would be due, the pause starts again at the shortest."""

LASTING_FAILURES: Final = 3
"""In a row, before a look counts as one that keeps failing. An answer that is too large counts at once."""


@dataclass(slots=True)
class Pace:
    """The looks at one node. ``intent`` is the pool and the generation that they are made for.

    ``due`` is when the next may be made, in monotonic seconds; it is infinite while one is under way.
    ``problem`` is why the last one failed.
    """

    intent: tuple[str, int]
    times: int = 0
    due: float = -inf
    failures: int = 0
    problem: LookProblem | None = None

    def begin(self) -> None:
        """Note that a look is under way."""
        self.due = inf

    def end(self, now: float) -> None:
        """Note that it is over, with any outcome."""
        self.due = now + min(LEAST_SECONDS * 2.0 ** min(self.times, 10), LONGEST_SECONDS)
        self.times += 1

    def succeeded(self) -> None:
        """Forget how looks failed."""
        self.failures, self.problem = 0, None

    def failed(self, error: ApiError) -> bool:
        """Note why a look failed; return whether that is news."""
        self.failures += 1
        lasts = isinstance(error, TooLarge) or self.failures >= LASTING_FAILURES
        before, self.problem = self.problem, LookProblem(error.message, lasts=lasts)
        return before != self.problem


class Paces:
    """The paces of all nodes that are wanted, or were lately, by their UIDs."""

    def __init__(self) -> None:
        self._paces: dict[str, Pace] = {}

    def of(self, node_uid: str, pool: Pool) -> Pace:
        """Return the pace of a node that ``pool`` wants; another generation of its spec begins again."""
        intent = (pool.uid, pool.generation)
        pace = self._paces.get(node_uid)
        if pace is None or (pace.intent[0] == pool.uid and pace.intent != intent):
            pace = self._paces[node_uid] = Pace(intent)
        return pace

    def problems(self) -> dict[str, LookProblem]:
        """Return why looks failed, by the UIDs of the nodes."""
        return {uid: pace.problem for uid, pace in self._paces.items() if pace.problem}

    def forget_old(self, *, now: float, wanted: Container[str]) -> None:
        """Forget those that no pool wants and whose next look was due long ago."""
        oldest = now - LONGEST_SECONDS
        kept = {uid: pace for uid, pace in self._paces.items() if uid in wanted or pace.due >= oldest}
        self._paces = kept
