"""Performs the actions of a decision, each kind beside the others, and notes their outcomes.

The outcome of the node writes of a pass: when each node may be written again, and what is reported of it.

An event reports a write that was carried out. The status reports one that was refused: its issue has the
event.

Performs the acts of a decision, each kind in its lane: what a pass does to nodes and pods.

A pass awaits the patches and conditions of nodes, since its report includes them. It does not await
evictions: a webhook or a budget can delay one for as long as the API server works on a request, and a pass
never waits that long. Evictions run beside the passes, one batch at a time for a pool, and wake the pool when
they end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from winpool.api.events import EventReason, Regarding
from winpool.controllers.backoff import Advice, Patience
from winpool.controllers.evictions import EvictionLane
from winpool.controllers.status import Announcer
from winpool.controllers.writes import ConditionLane, Outcome, PatchLane
from winpool.decide import Decision
from winpool.kube.errors import ApiError
from winpool.model.node import Acts, ConditionsPatch, Eviction, NodePatch
from winpool.status.events import Announcement

log = logging.getLogger(__name__)


class Aftermath:
    """Follows up the node writes of one pool. ``ask_for_nodes`` asks for a new list of all nodes."""

    def __init__(self, pool_name: str, *, announcer: Announcer, ask_for_nodes: Callable[[], None]) -> None:
        self._pool_name = pool_name
        self._announcer = announcer
        self._ask_for_nodes = ask_for_nodes

    def evicted(self, evictions: Iterable[Eviction]) -> None:
        """Emit an event for each pod that was evicted because its node is short of memory."""
        self._announcer.announce(
            Announcement(
                EventReason.POD_EVICTED,
                f"Pool {self._pool_name}: the operator evicted pod {each.full_name}. {each.why}",
                each.node,
                each.node_uid,
                Regarding.NODE,
            )
            for each in evictions
            if each.node_uid
        )

    def follow_up(self, decision: Decision, outcome: Outcome[NodePatch], *, patience: Patience) -> None:
        """Note the outcome of each write of ``decision`` in ``patience``, and report it."""
        for patch in outcome.done:
            patience.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
        self._announcer.gather(decision.node_events, written=[patch.node.name for patch in outcome.done])
        self._announcer.announce(decision.deletions.told(patch.node.name for patch in outcome.done))
        self._announcer.forget_warnings({patch.node.uid for patch in outcome.done})
        for patch, error in outcome.stopped:
            advice = patience.note_stopped(patch, error)
            if advice is Advice.LIST:
                self._ask_for_nodes()
            elif advice is Advice.TELL:
                log.warning(
                    "pool %s: the operator cannot write node %s: %s; it tries again after longer and longer "
                    "pauses",
                    self._pool_name,
                    patch.node.name,
                    error,
                )


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of all pools together: they share the connections with all other requests of the operator."""

    patches: PatchLane
    conditions: ConditionLane
    evictions: EvictionLane


@dataclass(frozen=True, slots=True)
class Performed:
    """The outcome of the acts that the pass awaited."""

    patches: Outcome[NodePatch]
    conditions: Outcome[ConditionsPatch]

    @property
    def error(self) -> ApiError | None:
        """The error that is not of a single object, if there was one."""
        return self.patches.error or self.conditions.error

    @property
    def is_halted(self) -> bool:
        """Whether so many acts failed with internal errors, and none succeeded, that the others can wait."""
        return self.patches.is_halted or self.conditions.is_halted

    @property
    def has_tried(self) -> bool:
        """Whether any act was sent: those that were sent have pauses of their own."""
        done = self.patches.done or self.patches.stopped
        return bool(done or self.conditions.done or self.conditions.stopped)


class Actor:
    """Performs what is decided for one pool.

    ``create_task`` starts a task with a name, which the owner of the tasks ends; ``wake`` asks for a pass.
    """

    def __init__(
        self,
        pool_name: str,
        *,
        lanes: Lanes,
        aftermath: Aftermath,
        create_task: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        wake: Callable[[], None],
    ) -> None:
        self._pool_name = pool_name
        self._lanes = lanes
        self._aftermath = aftermath
        self._create_task = create_task
        self._wake = wake
        self._evicting: asyncio.Task[None] | None = None
        self._decided: dict[str, Eviction] = {}
        """The evictions that were decided last, by the UIDs of the pods."""
        self._eviction_error: ApiError | None = None

    def follow(self, decision: Decision) -> None:
        """Note the last decision: evictions that still wait for their turn are sent only if it has them."""
        self._decided = {each.uid: each for each in decision.acts.evictions}

    async def perform(
        self, decision: Decision, *, patience: Patience, is_wanted: Callable[[], bool]
    ) -> Performed:
        """Perform the acts of ``decision``, as long as ``is_wanted``. Never raises an ApiError."""
        acts = decision.acts
        # Nodes whose writes failed lately come last. Otherwise a few of them could block all others.
        failing = patience.failing
        patches = sorted(acts.patches, key=lambda patch: patch.node.uid in failing)
        patched = await self._lanes.patches.run(patches, is_wanted=is_wanted)
        self._aftermath.follow_up(decision, patched, patience=patience)
        conditions: Outcome[ConditionsPatch] = Outcome()
        if patched.error is None:
            # A patch changes its node, and the conditions were decided for the node as it was before: the
            # next pass writes them.
            written = {patch.node.uid for patch in patched.done}
            due = [each for each in acts.conditions if each.node.uid not in written]
            conditions = await self._lanes.conditions.run(due, is_wanted=is_wanted)
            self._evict(acts.evictions, is_wanted=is_wanted)
        return Performed(patched, conditions)

    def take_eviction_error(self) -> ApiError | None:
        """Return the error that ended the last evictions for all pods, once."""
        error, self._eviction_error = self._eviction_error, None
        return error

    def has_due_conditions(self, acts: Acts) -> bool:
        """Whether conditions are to be written and none of them has to wait."""
        return bool(acts.conditions) and self._lanes.conditions.seconds_to_next(acts.conditions) is None

    def seconds_to_next(self, acts: Acts) -> float | None:
        """Return how long until one of ``acts`` that has to wait is worth another try; None if none has."""
        waits = (
            self._lanes.conditions.seconds_to_next(acts.conditions),
            self._lanes.evictions.seconds_to_next(acts.evictions),
        )
        return min((wait for wait in waits if wait is not None), default=None)

    def _evict(self, evictions: tuple[Eviction, ...], *, is_wanted: Callable[[], bool]) -> None:
        if not evictions or (self._evicting is not None and not self._evicting.done()):
            return
        self._evicting = self._create_task(
            self._run_evictions(evictions, is_wanted=is_wanted), f"evictions of pool {self._pool_name}"
        )

    async def _run_evictions(self, evictions: tuple[Eviction, ...], *, is_wanted: Callable[[], bool]) -> None:
        outcome = await self._lanes.evictions.run(
            evictions, newest=lambda each: self._decided.get(each.uid), is_wanted=is_wanted
        )
        self._eviction_error = outcome.error
        self._aftermath.evicted(outcome.done)
        if outcome.done or outcome.stopped or outcome.remaining or outcome.error:
            self._wake()
