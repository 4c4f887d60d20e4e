"""A node whose pods are listed: what the last list said, and when the next one may be made."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from winpool.pods.node_pods import NodePods

LEAST_SECONDS: Final = 1.0
"""Between two lists of one node, and after the first failure; twice as long after each further one."""

LONGEST_SECONDS: Final = 30.0
"""Between two lists that fail: as often as pods of other nodes are listed again."""

MOST_IN_A_MINUTE: Final = 20
"""Lists of one node. An eviction needs one for each sample, of which a hot node has six in a minute, and a
few to follow the pod. The rest is for lists that fail. A node whose memory or whose annotation goes up and
down costs no more."""

MINUTE_SECONDS: Final = 60.0


@dataclass(slots=True)
class ListedNode:
    """``pods`` is the last list, ``problem`` why the last try failed, in words for people.

    ``failures`` counts the tries that failed since. ``due`` is when the next one may be made.
    """

    pool_uid: str
    pods: NodePods | None = None
    problem: str = ""
    failures: int = 0
    due: float = float("-inf")
    is_running: bool = False
    _begun: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_IN_A_MINUTE))

    def begin(self, pool_uid: str, *, now: float) -> None:
        """Note that a list begins, for the pool of that UID."""
        self.pool_uid, self.is_running = pool_uid, True
        self._begun.append(now)

    def end(self, *, now: float) -> None:
        """Note that it has ended."""
        pause = min(LEAST_SECONDS * 2.0 ** min(max(self.failures - 1, 0), 10), LONGEST_SECONDS)
        self.due, self.is_running = now + pause, False
        if len(self._begun) == MOST_IN_A_MINUTE:
            self.due = max(self.due, self._begun[0] + MINUTE_SECONDS)
