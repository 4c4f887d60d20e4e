"""Writes patches and conditions of nodes, many at once, each with its precondition.

``WorkerPool`` does many writes of one kind at once, for a bounded time, until an error of the whole cluster.
All pools share one for each kind, since they share the connections with all other requests of the operator.
Each has a limit of its own, so that one that hangs stops no other, and a rule of its own for which error
concerns one object and which the cluster.

``NodePatcher`` sends the patches. A conflict is not an error: someone wrote the node between our read and our
write. The watch brings what they wrote, and the next pass decides on that. Between deciding and sending lie
up to some seconds, in which kubelets report. So a patch is sent on the newest known state of the node, and
not sent at all where that state differs in anything that the decision used.

``ConditionApplier`` writes the conditions: each write names all conditions of ours that a node is to have. A
pause lies between two writes of the same conditions to the same node: after a write that failed, or where
someone keeps undoing it. Another set of conditions does not wait for this pause, but the conditions of a node
follow what its kubelet reports, which may be anything: after 32 changes each one waits (P7). After a
conflict, a write waits only until a newer state of the node is known. A heartbeat wakes no pool, so the pool
looks for that state itself, within 0.2 s at first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from winpool.controllers.backoff import FREE_CHANGES, LOOK_SECONDS
from winpool.kube.backoff import KeyedBackoff
from winpool.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from winpool.kube.wire import is_older
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import ConditionsPatch, Node, NodeCondition, NodePatch

ActT = TypeVar("ActT")
NodeActT = TypeVar("NodeActT", NodePatch, ConditionsPatch)

SLICE_SECONDS: Final = 10.0
"""How long a pass starts writes. The next pass reports and continues, so that a pool of thousands of nodes
shows its progress. Between two passes the API server idles for about 0.2 s, while the operator decides on all
nodes."""

INTERNAL_ERRORS: Final = 32
"""So many in one pass, and no success, mean that the API server is out of order. As many as there are patches
in flight at once, so that they cost it no more than a moment of ordinary work."""

_INTERNAL_ERROR: Final = 500


class Outcome(msgspec.Struct, Generic[ActT]):
    """What became of the acts of a pass.

    ``stopped`` are those that failed for a reason of this one object, with the reason;
    ``internal_errors`` counts the 500s among them. ``remaining``
    counts those that were not started: the time was over, they are not wanted any more,
    their objects changed, or ``error``, a failure of the whole cluster, ended the work.
    """

    done: list[ActT] = msgspec.field(default_factory=list)
    stopped: list[tuple[ActT, ApiError]] = msgspec.field(default_factory=list)
    internal_errors: int = 0
    remaining: int = 0
    error: ApiError | None = None

    @property
    def has_tried(self) -> bool:
        """Whether any act was begun: those that failed have pauses of their own."""
        return bool(self.done or self.stopped)

    @property
    def is_halted(self) -> bool:
        """Whether so many acts failed with internal errors, and none succeeded, that the others can wait.

        A single internal error is usually a webhook that fails for one object, and says nothing of the
        others.
        """
        return not self.done and self.internal_errors >= INTERNAL_ERRORS


@dataclass(eq=False)
class WorkerPool(Generic[ActT]):
    """Performs acts of one kind, at most ``limit`` at once.

    ``perform`` performs one and raises ApiErrors; ``is_of_one`` says whether an error concerns that one
    object only.
    """

    perform: Callable[[ActT], Awaitable[None]]
    is_of_one: Callable[[ApiError], bool]
    limit: int
    monotonic: Callable[[], float]

    def __post_init__(self) -> None:
        self._in_flight = asyncio.Semaphore(self.limit)

    async def run(
        self,
        acts: Sequence[ActT],
        *,
        ready: Callable[[ActT], ActT | None],
        is_wanted: Callable[[], bool],
    ) -> Outcome[ActT]:
        """Perform ``acts``, in order. Never raises an ApiError.

        ``ready`` returns an act as it is to be performed when its turn comes; None to leave it out. No more
        are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        outcome: Outcome[ActT] = Outcome()
        waiting = iter(acts)
        deadline = self.monotonic() + SLICE_SECONDS

        async def work() -> None:
            while True:
                async with self._in_flight:
                    # Checked only now: with many pools, the wait for this place may have been long.
                    if outcome.error or outcome.is_halted or self.monotonic() >= deadline or not is_wanted():
                        return
                    act = next(waiting, None)
                    if act is None:
                        return
                    if (current := ready(act)) is not None:
                        await self._do(current, outcome)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.limit, len(acts))):
                group.create_task(work())
        outcome.remaining = len(acts) - len(outcome.done) - len(outcome.stopped)
        return outcome

    async def _do(self, act: ActT, outcome: Outcome[ActT]) -> None:
        try:
            await self.perform(act)
        except ApiError as error:
            if self.is_of_one(error):
                outcome.stopped.append((act, error))
                outcome.internal_errors += error.status == _INTERNAL_ERROR
            elif outcome.error is None or (error.retry_after or 0) > (outcome.error.retry_after or 0):
                outcome.error = error  # of the cluster: the others would fail as well
        else:
            outcome.done.append(act)


def is_of_one_object(error: ApiError) -> bool:
    """Whether a failure concerns only the written object. A 403 that is not from RBAC is from a policy."""
    if isinstance(error, Forbidden):
        return error.permission is None
    return isinstance(error, Conflict | NotFound | Invalid) or error.status == _INTERNAL_ERROR


def on_newest_state(act: NodeActT, known: Mapping[str, Node]) -> NodeActT | None:
    """Return the act on the newest known state of its node; None where what the decision used has changed.

    Between deciding and sending lie up to some seconds, in which kubelets report. A node that is not known
    keeps the state that was decided on.
    """
    node = known.get(act.node.name)
    if node is None or is_older(node.resource_version, than=act.node.resource_version):
        return act
    return replace(act, node=node) if node == act.node else None


PATCHES_IN_FLIGHT: Final = 32
"""Where the API server's own throughput levels off: 32 in flight give 375 patches a second on two
cores, 100 give 413 and triple the latency of each (measured against a raw loader)."""


@dataclass(eq=False)
class NodePatcher:
    """Sends node patches through ``writer`` and hands each answer to ``accept_written``.

    ``known`` are the nodes as last seen, by name; a node that is not among them is patched as decided.
    """

    writer: Writer
    known: Mapping[str, Node]
    accept_written: Callable[[Node], None]
    clock: Clock

    def __post_init__(self) -> None:
        self._workers = WorkerPool(self._send, is_of_one_object, PATCHES_IN_FLIGHT, self.clock.monotonic)

    async def run(
        self, patches: Sequence[NodePatch], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome[NodePatch]:
        """Send ``patches``, in order, at most PATCHES_IN_FLIGHT at once. Never raises an ApiError.

        No more are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        newest = partial(on_newest_state, known=self.known)
        return await self._workers.run(patches, ready=newest, is_wanted=is_wanted)

    async def _send(self, patch: NodePatch) -> None:
        self.accept_written(await self.writer.patch_node(patch))


log = logging.getLogger(__name__)

CONDITIONS_IN_FLIGHT: Final = 8
"""The conditions of few nodes change at once: nodes under pressure and nodes being upgraded. The API server
accepts 90 such writes a second from 8 in flight, if each takes as long as one of 32 node patches does."""

Goal: TypeAlias = "tuple[str, tuple[NodeCondition, ...]]"
"""The UID of a node, and the conditions that it is to have."""

ANY: Final[tuple[NodeCondition, ...]] = ()
"""In place of the conditions: whichever."""


@dataclass(eq=False)
class ConditionApplier:
    """Applies conditions of all pools through ``writer`` and hands each answer to ``accept_written``.

    ``known`` are the nodes as last seen, by name; a node that is not among them is written as decided.
    """

    writer: Writer
    known: Mapping[str, Node]
    accept_written: Callable[[Node], None]
    clock: Clock
    standing: dict[str, tuple[NodeCondition, ...]] = field(default_factory=dict, init=False)
    """What was last written to nodes, by their UIDs, in the order of the types."""
    _overtaken: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    """UIDs of nodes whose last write was a conflict, the resourceVersion that was too old, and since when."""
    _told: set[str] = field(default_factory=set, init=False)
    """UIDs of nodes that cannot be written, and that the log has reported."""

    def __post_init__(self) -> None:
        self._pauses = KeyedBackoff[Goal](monotonic=self.clock.monotonic)
        # How often the conditions of a node changed lately, by its UID.
        self._changes = KeyedBackoff[str](monotonic=self.clock.monotonic)
        self._workers = WorkerPool(self._apply, is_of_one_object, CONDITIONS_IN_FLIGHT, self.clock.monotonic)

    async def run(
        self, patches: Sequence[ConditionsPatch], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome[ConditionsPatch]:
        """Write ``patches``, in order, at most CONDITIONS_IN_FLIGHT at once. Never raises an ApiError.

        Those that have to wait are left out, and not counted as remaining. No more are started once
        ``is_wanted`` returns False: what they were decided on has changed.
        """
        self._forget_gone()
        due = [each for each in patches if not self._has_to_wait(each)]
        return await self._workers.run(due, ready=self._due, is_wanted=is_wanted)

    def _forget_gone(self) -> None:
        remembered = len(self.standing) + len(self._overtaken) + len(self._told)
        if remembered > 2 * len(self.known):  # machines come and go for years
            known = {node.uid for node in self.known.values()}
            self._told &= known
            self.standing = {uid: what for uid, what in self.standing.items() if uid in known}
            self._overtaken = {uid: state for uid, state in self._overtaken.items() if uid in known}

    def seconds_to_next(self, patches: Sequence[ConditionsPatch]) -> float | None:
        """Return in how many seconds one of these that wait is worth another try; None where none waits.

        0 where one may be tried now. After a conflict, in how many seconds to check for a newer state.
        """
        waiting = [each for each in patches if any(map(self._pauses.is_waiting, _goals(each)))]
        if any(not self._has_to_wait(each) for each in waiting):
            return 0.0
        waits = (wait for each in patches if (wait := self._wait(each)) is not None)
        return min(waits, default=None)

    def _wait(self, patch: ConditionsPatch) -> float | None:
        """Return how long ``patch`` has to wait, with no newer state known; None where nothing was noted."""
        own, any_other = (self._pauses.seconds_to_next([goal]) for goal in _goals(patch))
        if own and patch.node.uid in self._overtaken:
            _, since = self._overtaken[patch.node.uid]
            # The time between two looks grows, so that a dead watch costs few of them.
            own = min(own, max(LOOK_SECONDS, self.clock.monotonic() - since))
        # Both pauses of a node have to be over: with the shorter one, passes would follow each other at once.
        return max((wait for wait in (own, any_other) if wait is not None), default=None)

    def _has_to_wait(self, patch: ConditionsPatch) -> bool:
        own, any_other = map(self._pauses.is_waiting, _goals(patch))
        return any_other or (own and not self._is_newer(self.known.get(patch.node.name, patch.node)))

    def _is_newer(self, node: Node) -> bool:
        """Whether ``node`` is known in another state than the one that was too old."""
        return node.uid in self._overtaken and self._overtaken[node.uid][0] != node.resource_version

    def _due(self, patch: ConditionsPatch) -> ConditionsPatch | None:
        return None if self._has_to_wait(patch) else on_newest_state(patch, self.known)

    async def _apply(self, patch: ConditionsPatch) -> None:
        uid, goal = patch.node.uid, _goal(patch)
        try:
            node = await self.writer.apply_node_conditions(patch, now=self.clock.now())
        except ApiError as error:
            if is_of_one_object(error):
                self._note_stopped(patch, error)
            raise
        self._overtaken.pop(uid, None)
        self._told.discard(uid)
        before = self.standing.get(uid)
        self.standing[uid] = goal[1]
        if before != goal[1]:
            self._pauses.forget(goal)
            if before is not None:  # to return to the conditions before is no repeat
                self._pauses.forget((uid, before))
                if self._changes.note(uid) > FREE_CHANGES:
                    self._pauses.note((uid, ANY))
        elif self._pauses.note(goal) == 1:
            log.info("node %s: someone changed conditions of winpool; the operator restored them", node.name)
        self.accept_written(node)

    def _note_stopped(self, patch: ConditionsPatch, error: ApiError) -> None:
        uid = patch.node.uid
        self._pauses.note(_goal(patch), at_least=error.retry_after or 0.0)
        if isinstance(error, Conflict):
            version = patch.node.resource_version
            if uid not in self._overtaken or self._overtaken[uid][0] != version:
                self._overtaken[uid] = version, self.clock.monotonic()
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


def _goals(patch: ConditionsPatch) -> tuple[Goal, Goal]:
    """Return the keys of the pauses that hold up ``patch``: that of its conditions, and that of any."""
    return _goal(patch), (patch.node.uid, ANY)


def _goal(patch: ConditionsPatch) -> Goal:
    return patch.node.uid, tuple(sorted(patch.conditions, key=lambda each: each.type))
