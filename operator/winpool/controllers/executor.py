"""Performs the writes of a decision to nodes and pods, and notes what became of each.

A pass awaits the patches and conditions of nodes, since the next one reports what became of them. It does not
await evictions: a webhook or a budget can delay one for as long as the API server works on a request, and a
pass never waits that long. Evictions run beside the passes: what a pass decides on beside those that wait
already joins them, so that one that takes long holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from winpool.api.events import EventReason, Regarding
from winpool.api.text import grouped
from winpool.controllers.backoff import Advice, WriteBackoff
from winpool.controllers.services import Services
from winpool.controllers.status import Announcer
from winpool.controllers.writes import Outcome
from winpool.decide import Decision
from winpool.features.upgrade.claims import drain_seconds
from winpool.kube.errors import ApiError
from winpool.loops import soonest
from winpool.model.node import ConditionsPatch, Eviction, NodePatch
from winpool.plan_writes import Writes
from winpool.status.events import Announcement

log = logging.getLogger(__name__)


FORCED_SHOWN: Final = 5
"""Pods that an event names, usually some 40 characters each: a note has 1,024 bytes. The log names all."""


@dataclass(slots=True)
class Executor:
    """Performs what is decided for one pool."""

    pool_name: str
    services: Services
    announcer: Announcer
    _batches: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _waiting: set[str] = field(default_factory=set, init=False)
    """The UIDs of the pods whose evictions wait for their turn. Each is in one batch, so that there are never
    more batches than pods that have to leave."""
    _decided: dict[str, Eviction] = field(default_factory=dict, init=False)
    """The evictions that were decided last, by the UIDs of the pods."""
    _eviction_error: ApiError | None = field(default=None, init=False)

    def follow(self, decision: Decision) -> None:
        """Note the last decision: evictions that still wait for their turn are sent only if it has them."""
        self._decided = {each.uid: each for each in decision.writes.evictions}

    async def perform(
        self, decision: Decision, *, backoff: WriteBackoff, is_wanted: Callable[[], bool]
    ) -> tuple[Outcome[NodePatch], Outcome[ConditionsPatch]]:
        """Perform the writes of ``decision``, as long as ``is_wanted``. Never raises an ApiError.

        Returns the outcome of those that the pass awaited.
        """
        writes = decision.writes
        # Nodes whose writes failed lately come last. Otherwise a few of them could block all others.
        failing = backoff.failing
        patches = sorted(writes.patches, key=lambda patch: patch.node.uid in failing)
        patched = await self.services.patches.run(patches, is_wanted=is_wanted)
        self._note(decision, patched, backoff=backoff)
        conditions: Outcome[ConditionsPatch] = Outcome()
        if patched.error is None:
            # A patch changes its node, and the conditions were decided for the node as it was before: the
            # next pass writes them.
            written = {patch.node.uid for patch in patched.done}
            due = [each for each in writes.conditions if each.node.uid not in written]
            conditions = await self.services.conditions.run(due, is_wanted=is_wanted)
            self._evict(writes.evictions, is_wanted=is_wanted)
        return patched, conditions

    def take_eviction_error(self) -> ApiError | None:
        """Return the error that ended the last evictions for all pods, once."""
        error, self._eviction_error = self._eviction_error, None
        return error

    def has_due_conditions(self, writes: Writes) -> bool:
        """Whether conditions are to be written and none of them has to wait."""
        return bool(writes.conditions) and self.services.conditions.seconds_to_next(writes.conditions) is None

    def seconds_to_next(self, writes: Writes) -> float | None:
        """Return how long until one of ``writes`` that has to wait is worth another try; None if none has."""
        return soonest(
            self.services.conditions.seconds_to_next(writes.conditions),
            self.services.evictions.seconds_to_next(writes.evictions),
        )

    def _evict(self, evictions: tuple[Eviction, ...], *, is_wanted: Callable[[], bool]) -> None:
        is_needless = self.services.evictions.is_needless
        new = [each for each in evictions if each.uid not in self._waiting and not is_needless(each)]
        if not new:
            return
        # What a budget rations takes longest, and memory is urgent: the other pods of drains come last.
        new.sort(key=lambda each: bool(each.drained_uid) and not each.budget)
        self._waiting.update(each.uid for each in new)
        batch = asyncio.create_task(
            self._run_evictions(new, is_wanted=is_wanted), name=f"evictions of pool {self.pool_name}"
        )
        self._batches.add(batch)
        batch.add_done_callback(self._batches.discard)

    async def _run_evictions(self, evictions: Sequence[Eviction], *, is_wanted: Callable[[], bool]) -> None:
        try:
            outcome = await self.services.evictions.run(
                evictions, newest=self._take_turn, is_wanted=is_wanted
            )
        finally:
            self._waiting.difference_update(each.uid for each in evictions)
        self._eviction_error = outcome.error or self._eviction_error
        self.announcer.announce(evicted_pods(self.pool_name, outcome.done))
        self.announcer.announce(forced_pods(self.pool_name, outcome.done))
        if outcome.done or outcome.stopped or outcome.remaining or outcome.error:
            self.services.wake(self.pool_name)

    def _take_turn(self, eviction: Eviction) -> Eviction | None:
        """Return an eviction, whose turn it is, as it was decided last."""
        self._waiting.discard(eviction.uid)
        return self._decided.get(eviction.uid)

    def _note(self, decision: Decision, outcome: Outcome[NodePatch], *, backoff: WriteBackoff) -> None:
        """Note the outcome of each patch of ``decision`` in ``backoff``.

        An event reports a write that was carried out. The status reports one that was refused: its issue has
        the event.
        """
        for patch in outcome.done:
            backoff.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
            if (seconds := drain_seconds(patch)) is not None:
                self.services.stats.drains.note(seconds)
        self.announcer.gather(decision.node_events, written=[patch.node.name for patch in outcome.done])
        self.announcer.announce(decision.deletions.told(patch.node.name for patch in outcome.done))
        self.announcer.forget_warnings({patch.node.uid for patch in outcome.done})
        for patch, error in outcome.stopped:
            advice = backoff.note_stopped(patch, error)
            if advice is Advice.LIST:
                self.services.nodes.ask_for_list()
            elif advice is Advice.TELL:
                log.warning(
                    "pool %s: the operator cannot write node %s: %s; it tries again after longer and longer "
                    "pauses",
                    self.pool_name,
                    patch.node.name,
                    error,
                )


def evicted_pods(pool_name: str, evictions: Iterable[Eviction]) -> Iterator[Announcement]:
    """Yield two events for each pod that was evicted because its node is short of memory.

    One is about the node, the other about the pod: who owns the pod may not see nodes.
    """
    reason = EventReason.POD_EVICTED
    for each in evictions:
        if each.node_uid:
            note = f"Pool {pool_name}: the operator evicted pod {each.full_name}. {each.why}"
            yield Announcement(reason, note, each.node, each.node_uid, Regarding.NODE)
            note = f"The operator evicted this pod from node {each.node} of the pool {pool_name}. {each.why}"
            yield Announcement(reason, note, each.name, each.uid, Regarding.POD, each.namespace)


def forced_pods(pool_name: str, evictions: Iterable[Eviction]) -> Iterator[Announcement]:
    """Yield one event for each node and cause of which pods were deleted that had not left in time."""
    found = grouped(
        ((each.node, each.drained_uid, each.deletion.kept_by), each.full_name)
        for each in evictions
        if each.deletion is not None
    )
    for (node, uid, kept_by), pods in found.items():
        names = ", ".join(sorted(pods)[:FORCED_SHOWN])
        more = f" and {len(pods) - FORCED_SHOWN} more" if len(pods) > FORCED_SHOWN else ""
        why = f" What had kept them: {kept_by}." if kept_by else ""
        note = (
            f"Pool {pool_name}: the operator deleted pods that had not left this node by the deadline of its "
            f"drain (onTimeout: Force): {names}{more}.{why}"
        )
        yield Announcement(EventReason.PODS_FORCED, note, node, uid, Regarding.NODE)
