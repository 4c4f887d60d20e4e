"""The lane of node conditions: each write names all conditions of ours that a node is to have.

A pause lies between two writes of the same conditions to the same node: after a write that failed, or where
someone keeps undoing it. Another set of conditions does not wait for this pause. After a conflict, the lane
waits only until a newer state of the node is known.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from winpool.cluster.errors import ApiError, Conflict
from winpool.control.act.lane import Lane, is_of_one_object, on_newest_state
from winpool.control.act.pauses import Pauses
from winpool.control.patience.pacing import LONGEST_PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from winpool.cluster.writer import Writer
    from winpool.control.act.lane import Outcome
    from winpool.control.clock import Clock
    from winpool.objects.acts import ConditionsPatch
    from winpool.objects.node import Node, NodeCondition

log = logging.getLogger(__name__)

CONDITIONS_IN_FLIGHT: Final = 8
"""The conditions of few nodes change at once: nodes under pressure and nodes being upgraded. The API server
accepts 90 such writes a second from 8 in flight, if each takes as long as one of 32 node patches does."""

Goal: TypeAlias = "tuple[str, tuple[NodeCondition, ...]]"
"""The UID of a node, and the conditions that it is to have."""


class ConditionLane:
    """Applies conditions of all pools through ``writer`` and hands each answer to ``accept_written``.

    ``known`` are the nodes as last seen, by name; a node that is not among them is written as decided.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        known: Mapping[str, Node],
        accept_written: Callable[[Node], None],
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._known = known
        self._accept_written = accept_written
        self._now = clock.now
        self._standing: dict[str, tuple[NodeCondition, ...]] = {}
        # UIDs of nodes whose last write was a conflict, and the resourceVersion that was too old.
        self._overtaken: dict[str, str] = {}
        # UIDs of nodes that cannot be written, and that the log has reported.
        self._told: set[str] = set()
        self._pauses: Pauses[Goal] = Pauses(monotonic=clock.monotonic, longest=LONGEST_PAUSE_SECONDS)
        self._lane = Lane(
            perform=self._apply,
            is_of_one=is_of_one_object,
            in_flight=CONDITIONS_IN_FLIGHT,
            monotonic=clock.monotonic,
        )

    async def run(
        self, patches: Sequence[ConditionsPatch], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome[ConditionsPatch]:
        """Write ``patches``, in order, at most CONDITIONS_IN_FLIGHT at once. Never raises an ApiError.

        Those that have to wait are left out, and not counted as remaining. No more are started once
        ``is_wanted`` returns False: what they were decided on has changed.
        """
        due = [each for each in patches if not self._has_to_wait(each)]
        return await self._lane.run(due, ready=self._due, is_wanted=is_wanted)

    def standing(self, uid: str) -> tuple[NodeCondition, ...] | None:
        """Return what was last written to the node of that UID, by type; None where nothing was."""
        return self._standing.get(uid)

    def held(self, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Return the UIDs of nodes that have to wait with the conditions that they were last to have.

        ``nodes`` are all that are known, by name. Others are forgotten in time.
        """
        remembered = len(self._standing) + len(self._overtaken) + len(self._told)
        if remembered > 2 * len(nodes):  # machines come and go for years
            known = {node.uid for node in nodes.values()}
            self._told &= known
            self._standing = {uid: what for uid, what in self._standing.items() if uid in known}
            self._overtaken = {uid: version for uid, version in self._overtaken.items() if uid in known}
        waiting = {uid for uid, _ in self._pauses.waiting()}
        newer = {node.uid for node in nodes.values() if self._is_newer(node)} if self._overtaken else set()
        return frozenset(waiting - newer)

    def seconds_to_next(self, patches: Sequence[ConditionsPatch]) -> float | None:
        """Return in how many seconds one of these that wait may be tried again; None where none waits.

        0 where one may be tried now.
        """
        waiting = [each for each in patches if self._pauses.has_to_wait(_goal(each))]
        if any(not self._has_to_wait(each) for each in waiting):
            return 0.0
        return self._pauses.seconds_to_next(map(_goal, patches))

    def _has_to_wait(self, patch: ConditionsPatch) -> bool:
        node = self._known.get(patch.node.name, patch.node)
        return self._pauses.has_to_wait(_goal(patch)) and not self._is_newer(node)

    def _is_newer(self, node: Node) -> bool:
        """Whether ``node`` is known in another state than the one that was too old."""
        return self._overtaken.get(node.uid, node.resource_version) != node.resource_version

    def _due(self, patch: ConditionsPatch) -> ConditionsPatch | None:
        return None if self._has_to_wait(patch) else on_newest_state(patch, self._known)

    async def _apply(self, patch: ConditionsPatch) -> None:
        uid, goal = patch.node.uid, _goal(patch)
        try:
            node = await self._writer.apply_node_conditions(patch, now=self._now())
        except ApiError as error:
            if is_of_one_object(error):
                self._note_stopped(patch, error)
            raise
        self._overtaken.pop(uid, None)
        self._told.discard(uid)
        before = self._standing.get(uid)
        self._standing[uid] = goal[1]
        if before != goal[1]:
            self._pauses.forget(goal)
            if before is not None:  # to return to the conditions before is no repeat
                self._pauses.forget((uid, before))
        elif self._pauses.note(goal) == 1:
            log.info("node %s: someone changed conditions of winpool; the operator restored them", node.name)
        self._accept_written(node)

    def _note_stopped(self, patch: ConditionsPatch, error: ApiError) -> None:
        uid = patch.node.uid
        self._pauses.note(_goal(patch), at_least=error.retry_after or 0.0)
        if isinstance(error, Conflict):
            self._overtaken[uid] = patch.node.resource_version
            return
        self._overtaken.pop(uid, None)
        if uid not in self._told:
            self._told.add(uid)
            log.warning(
                "node %s: the operator cannot write its conditions: %s; it tries again after longer and "
                "longer pauses",
                patch.node.name,
                error,
            )


def _goal(patch: ConditionsPatch) -> Goal:
    return patch.node.uid, tuple(sorted(patch.conditions, key=lambda each: each.type))
