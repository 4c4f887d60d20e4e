"""When a node may be written again, after whatever came of the last write.

- *Written again* for the same goal: somebody undid what we wrote. Once more comes later and later. With
  another goal it is no repeat, not even with one from before: A, B and A again is no quarrel.
- *Refused* (422, or 403 by a policy): the API server will not have it, today and likely tomorrow.
- *Failed* (500 for single nodes): a webhook, mostly, or a moment of etcd; it may be well again soon.
- *Conflict* (409, 404): see ``conflicts``.

The first three hold back a node with the goal that was tried. Another goal goes at once, as long as there
are free changes left, see ``goals``: after that each write is a repeat, and it is the node that waits. So it
does after a conflict, which is about the state that is known of the node, whatever the goal.

Kept in memory only: after a restart everything is tried at once, once.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import Conflict, NotFound, Unavailable
from winpool.control.patience.conflicts import Conflicts
from winpool.control.patience.goal_history import GoalHistory
from winpool.control.patience.pacing import WHATEVER, Pacer
from winpool.control.patience.recurrence import Recurrence
from winpool.objects.attempts import Attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.errors import ApiError
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node

LONGEST_AFTER_FAILURE_SECONDS: Final = 30.0
"""As long as the pauses of a pool whose API server is out of order: not longer for one node."""

CONFLICTS_BEFORE_LIST: Final = 2
"""Conflicts on one and the same state that say that the watch does not bring the next one."""

CONFLICTS_BEFORE_TELLING: Final = 4
"""By then all nodes have been listed, and the state is still the same: it is no conflict, but a refusal."""

FAILURES_BEFORE_TELLING: Final = 3
"""A moment of etcd passes within these tries, which take six seconds; a broken webhook does not."""


REPAIRS_BEFORE_TELLING: Final = 3
"""Repairs of one node within ten minutes. Once is an accident and twice a habit; the third time somebody
works against us."""


class Advice(Enum):
    """What a write that was not carried out calls for, beside another try."""

    WAIT = "wait"
    TELL = "tell"
    """People have to hear of it, and have not yet."""
    LIST = "list"
    """The watch has missed something: list all nodes."""


class Patience:
    """What came of the last writes to the nodes of one pool, for one generation of its spec.

    ``is_from_start`` says that no other process has written any for that generation.
    """

    def __init__(self, *, monotonic: Callable[[], float], is_from_start: bool = False) -> None:
        self._is_from_start = is_from_start
        self._repeats = Pacer(monotonic=monotonic)
        self._repairs = Recurrence(monotonic=monotonic)
        self._refusals = Pacer(monotonic=monotonic)
        self._failures = Pacer(monotonic=monotonic, longest=LONGEST_AFTER_FAILURE_SECONDS)
        self._conflicts = Conflicts(monotonic=monotonic)
        self._goals = GoalHistory(monotonic=monotonic)
        self._refused: dict[str, str] = {}
        self._repaired: dict[str, tuple[str, ...]] = {}

    @property
    def _contested(self) -> dict[str, tuple[str, ...]]:
        """What of a node somebody keeps undoing, in the words of kubectl, by the UIDs of the nodes."""
        times = self._repairs.times()
        self._repaired = {uid: what for uid, what in self._repaired.items() if uid in times}
        return {uid: what for uid, what in self._repaired.items() if times[uid] >= REPAIRS_BEFORE_TELLING}

    def is_refused(self, node: Node) -> bool:
        """Whether the API server does not let ``node`` be written, for all that is known."""
        return node.uid in self._refused

    @property
    def failing(self) -> frozenset[str]:
        """The UIDs of nodes whose writes failed lately: others go first."""
        return self._refusals.known() | self._failures.known()

    def note_written(self, patch: NodePatch, *, repaired: tuple[str, ...] = ()) -> None:
        """Take note of a write that was carried out; ``repaired``: what it put back that somebody had undone.

        A second write for the same goal is one in any case, whatever was undone: the ownership record,
        for one, which leaves nothing to tell drift by.
        """
        node = patch.node
        goal, is_restless = self._paused_by(patch)
        is_repeat = self._goals.note_written(node.uid, patch.goal)
        self._refused.pop(node.uid, None)
        self._conflicts.forget(node.uid)
        self._refusals.forget(node.uid)
        self._failures.forget(node.uid)
        if repaired or is_repeat or is_restless:
            self._repeats.note(node.uid, goal)
        if repaired:
            self._repairs.note(node.uid)
            self._repaired[node.uid] = repaired

    def note_stopped(self, patch: NodePatch, error: ApiError) -> Advice:
        """Take note of a write that was not carried out."""
        node = patch.node
        if isinstance(error, Conflict | NotFound):
            tries = self._conflicts.note(node)
            if tries == 1:
                self._refused.pop(node.uid, None)
            if tries >= CONFLICTS_BEFORE_TELLING:
                return self._refuse(node, error)
            return Advice.LIST if tries >= CONFLICTS_BEFORE_LIST else Advice.WAIT
        goal, _ = self._paused_by(patch)
        if isinstance(error, Unavailable):
            tries = self._failures.note(node.uid, goal)
            return self._refuse(node, error) if tries >= FAILURES_BEFORE_TELLING else Advice.WAIT
        self._refusals.note(node.uid, goal)
        return self._refuse(node, error)

    def attempts(self, nodes: Mapping[str, Node], *, written_generation: int = 0) -> Attempts:
        """Return what a pass goes by. ``nodes`` are all that are known, by name; the others are forgotten."""
        if len(self._goals) + len(self._refused) > 2 * len(nodes):  # machines come and go for years
            known = {node.uid for node in nodes.values()}
            self._goals.forget_all_but(known)
            self._refused = {uid: why for uid, why in self._refused.items() if uid in known}
        waiting_nodes, waiting = self._conflicts.held_back(nodes), dict[str, tuple[object, ...]]()
        for pacer in (self._repeats, self._refusals, self._failures):
            paused_nodes, paused = pacer.waiting()
            waiting_nodes |= paused_nodes
            for uid in waiting.keys() & paused.keys():
                paused[uid] += waiting[uid]
            waiting |= paused
        return Attempts(
            waiting=waiting,
            waiting_nodes=waiting_nodes,
            refused=self._refused.copy(),
            contested=self._contested,
            written=self._goals.written(),
            written_generation=written_generation,
            written_nodes=self._goals.written_nodes,
            is_from_start=self._is_from_start,
        )

    def seconds_to_newer_state(self) -> float | None:
        """Return how long until to look for the newer state of nodes that were written too late, or None.

        Such looks come later and later by themselves.
        """
        return self._conflicts.seconds_to_next()

    def seconds_to_next(self) -> float | None:
        """Return how long until a node that has to wait is worth another look; None where none waits.

        A node that is contested is worth one when that is over, too.
        """
        kinds = (self._repeats, self._refusals, self._failures, self._conflicts)
        waits = [wait for kind in kinds if (wait := kind.seconds_to_next()) is not None]
        return min((*waits, *map(self._repairs.seconds_to_quiet, self._contested)), default=None)

    def _paused_by(self, patch: NodePatch) -> tuple[object, bool]:
        """Return which goal a pause after this try holds back, and whether the goals of the node flap."""
        is_restless = self._goals.note_tried(patch.node.uid, patch.goal)
        return (WHATEVER if is_restless else patch.goal), is_restless

    def _refuse(self, node: Node, error: ApiError) -> Advice:
        is_news = node.uid not in self._refused
        self._refused[node.uid] = error.message
        return Advice.TELL if is_news else Advice.WAIT
