"""When a node may be written again, by the outcome of the last write.

- *Written again* for the same goal: someone undid what we wrote. Each repeat comes after a longer pause. A
  write for another goal is no repeat, not even for an earlier one: A, B and A again are three goals.
- *Refused* (422, or 403 by a policy): the API server does not accept it, and probably will not soon.
- *Failed* (500 for single nodes): usually a webhook, or a short failure of etcd; it may soon be over.
- *Conflict* (409, 404): see ``conflicts``.

The first three delay a node with the goal that was tried. Another goal is written at once, as long as the
node has free changes left, see ``goal_history``. After that each write counts as a repeat, and the node waits
with every goal. After a conflict it also waits with every goal: a conflict concerns the known state of the
node.

Kept in memory only: after a restart everything is tried at once, once.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import Conflict, NotFound, Unavailable
from winpool.control.patience.conflicts import Conflicts
from winpool.control.patience.goal_history import GoalHistory, is_permission_alone
from winpool.control.patience.pacing import WHATEVER, Pacer
from winpool.control.patience.recurrence import Recurrence
from winpool.objects.attempts import Attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.errors import ApiError
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node

LONGEST_AFTER_FAILURE_SECONDS: Final = 30.0
"""As long as the longest pause of a pool whose API server is out of order. One node does not wait longer."""

CONFLICTS_BEFORE_LIST: Final = 2
"""After so many conflicts on the same state, the watch does not bring the next state."""

CONFLICTS_BEFORE_TELLING: Final = 4
"""By then all nodes have been listed, and the state is still the same: this is not a conflict, but a
refusal."""

FAILURES_BEFORE_TELLING: Final = 3
"""A short failure of etcd ends within these tries, which take six seconds; a broken webhook does not."""


REPAIRS_BEFORE_TELLING: Final = 3
"""Repairs of one node within ten minutes. One or two may be accidents; with the third, someone keeps undoing
what the pool sets."""


class Advice(Enum):
    """What follows from a write that was not carried out, beside another try."""

    WAIT = "wait"
    TELL = "tell"
    """It has to be reported, and was not yet."""
    LIST = "list"
    """The watch has missed a change: list all nodes."""


class Patience:
    """The outcome of the last writes to the nodes of one pool, for one generation of its spec.

    ``is_from_start`` says that no other process has written nodes for that generation.
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
        """What someone keeps undoing on a node, in the words of kubectl, by the UIDs of the nodes."""
        times = self._repairs.times()
        self._repaired = {uid: what for uid, what in self._repaired.items() if uid in times}
        return {uid: what for uid, what in self._repaired.items() if times[uid] >= REPAIRS_BEFORE_TELLING}

    def is_refused(self, node: Node) -> bool:
        """Whether the API server refuses writes to ``node``, as far as is known."""
        return node.uid in self._refused

    @property
    def failing(self) -> frozenset[str]:
        """The UIDs of nodes whose writes failed lately: others come first."""
        return self._refusals.known() | self._failures.known()

    def note_written(self, patch: NodePatch, *, repaired: tuple[str, ...] = ()) -> None:
        """Note a write that was carried out; ``repaired``: what it restored that someone had undone.

        A second write for the same goal is a repeat, whatever was undone. What was undone may be the
        ownership record, without which no drift can be recognized.
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
        """Note a write that was not carried out."""
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
        """Return what a pass needs. ``nodes`` are all that are known, by name; the others are forgotten."""
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
        """Return in how many seconds to check for the newer state of nodes with a conflict; None for none.

        The time between two such checks grows.
        """
        return self._conflicts.seconds_to_next()

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a node that has to wait may be tried again; None where none waits.

        This includes nodes that someone contests, for the moment at which that ends.
        """
        kinds = (self._repeats, self._refusals, self._failures, self._conflicts)
        waits = [wait for kind in kinds if (wait := kind.seconds_to_next()) is not None]
        return min((*waits, *map(self._repairs.seconds_to_quiet, self._contested)), default=None)

    def _paused_by(self, patch: NodePatch) -> tuple[object, bool]:
        """Return which goal a pause after this try delays, and whether the goals of the node flap."""
        is_restless = self._goals.note_tried(patch.node.uid, patch.goal, is_free=is_permission_alone(patch))
        return (WHATEVER if is_restless else patch.goal), is_restless

    def _refuse(self, node: Node, error: ApiError) -> Advice:
        is_news = node.uid not in self._refused
        self._refused[node.uid] = error.message
        return Advice.TELL if is_news else Advice.WAIT
