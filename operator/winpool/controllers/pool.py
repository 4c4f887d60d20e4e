"""Reconciles one pool: takes one snapshot, decides once, and performs the writes of the decision.

A pass that writes nodes does not report what came of it. The next one comes at once: the answers are in the
cache by then, so its decision knows what became of the writes. It writes the status of that decision, and
then continues with what is left. A pass that has nothing to write reports what it has seen.

The order of the writes makes it safe to be killed at any point:

1. our finalizer is on the pool before the first node is written, so that no deletion can complete while
   something of ours is on a node; and the status has what people must know beforehand;
2. each node patch has labels, taints and the record of them together;
3. the status is never computed from what a pass intended to do, and never claims a generation for which no
   write was tried;
4. the finalizer is removed only when no known node has anything of ours, and then the API server, asked once
   more, knows no node with our label either: after that nothing checks again.

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

import msgspec

from winpool.api.events import EventReason, Regarding
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.text import grouped
from winpool.controllers.backoff import Advice, ConflictBackoff, WriteBackoff
from winpool.controllers.services import Observer, Services, owners_of
from winpool.controllers.status import Announcer, StatusWriter
from winpool.controllers.writes import Outcome
from winpool.decide import Decision, decide
from winpool.features.upgrade.claims import drain_seconds
from winpool.kube.backoff import KeyedBackoff
from winpool.kube.errors import ApiError, Conflict, Forbidden, NotFound, explain
from winpool.loops import soonest
from winpool.model.node import ConditionsPatch, Eviction, NodePatch
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.diff import release
from winpool.ownership.members import record_trust_of
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


LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between two restorations of the finalizer. A client that removes it again and again must not make the
operator write as fast as itself; the nodes of the pool wait meanwhile."""


@dataclass(eq=False)
class Finalizers:
    """Adds our finalizer before the first node is written, and removes it when nothing is left on nodes.

    Where someone has removed it, it is restored at once; where they remove it again, after longer and longer
    pauses.
    """

    services: Services
    announcer: Announcer

    def __post_init__(self) -> None:
        self._pauses = KeyedBackoff[str](monotonic=self.services.clock.monotonic, cap=LONGEST_PAUSE_SECONDS)

    def seconds_to_next(self, pool: Pool, decision: Decision) -> float | None:
        """Return how long the finalizer, which someone keeps removing, has to wait; None if it does not."""
        if not decision.writes.restores_finalizer or not self._pauses.is_waiting(pool.uid):
            return None
        return self._pauses.seconds_to_next((pool.uid,))

    async def is_left_anywhere(self, snapshot: Snapshot) -> bool:
        """Whether the API server knows a node with something of the pool: the watch may be behind."""
        pool, rights = snapshot.pool, record_trust_of(snapshot)
        labelled = await self.services.list_labelled(pool.name)
        return any(
            release(node, pool_uid=pool.uid, pool_name=pool.name, rights=rights).patch for node in labelled
        )

    async def write(self, pool: Pool, decision: Decision) -> None:
        """Write the finalizers as ``decision`` has them; raises ApiErrors."""
        assert decision.writes.finalizers is not None
        body = await self.services.writer.patch_pool_finalizers(
            name=pool.name, resource_version=pool.resource_version, finalizers=decision.writes.finalizers
        )
        if decision.writes.restores_finalizer:
            self._pauses.note(pool.uid)
            log.warning(
                "pool %s: someone removed the finalizer %s while nodes have labels or taints of the pool; "
                "the operator restored it",
                pool.name,
                RELEASE_FINALIZER,
            )
        if decision.writes.releases_pool:
            log.info("pool %s: all nodes are released, so the operator removed its finalizer", pool.name)
            self.announcer.announce(decision.pool_events)
        if decision.writes.releases_pool and not decision.writes.finalizers:
            version = body["metadata"]["resourceVersion"]  # the last version that this pool had
            self.services.pools.forget(name=pool.name, uid=pool.uid, version=version)
        else:
            self.services.pools.accept(body)


LEAST_SECONDS: Final = 1.0
"""Between two passes where nothing has changed but the time. Nothing that time alone decides is more
urgent."""


class NextLook(msgspec.Struct, frozen=True):
    """What a pass leaves to be done.

    ``is_unfinished``: something is left that could be written now. ``paced``: in how many seconds something
    may be written, where the cause of the wait makes sure that such waits end (the second between two
    statuses, a backoff). ``time``: in how many seconds time alone may lead to another decision. None: never.
    """

    is_unfinished: bool = False
    paced: float | None = None
    time: float | None = None

    def seconds(self, *, has_progressed: bool) -> float | None:
        """Return in how many seconds the next pass comes; None for not before something changes.

        ``has_progressed`` says that the pool has changed: what is left may then be done at once.
        """
        return soonest(
            (0.0 if has_progressed else LEAST_SECONDS) if self.is_unfinished else None,
            self.paced,
            None if self.time is None else max(LEAST_SECONDS, self.time),
        )


NOTHING_LEFT: Final = NextLook()
UNFINISHED: Final = NextLook(is_unfinished=True)
AT_ONCE: Final = NextLook(paced=0.0)


STILL_LABELLED_SECONDS: Final = 2.0
"""The API server lists a node with our label that is not in the store: the watch is behind and will bring
it."""

HALTED_SECONDS: Final = 5.0
"""The pause after a pass with only internal errors. A change ends it early: it may be the fix."""


@dataclass(eq=False)
class Reconciler:
    """Runs the passes of one pool, one at a time."""

    pool_name: str
    services: Services
    observer: Observer
    _intent: tuple[str, int] = field(default=("", 0), init=False)
    _is_deleting: bool = field(default=False, init=False)
    _written_generation: int = field(default=0, init=False)
    _missing_permission: str = field(default="", init=False)
    _status_problem: str = field(default="", init=False)
    _had_nodes: bool | None = field(default=None, init=False)
    _has_written: bool = field(default=False, init=False)
    """Whether the pass before has tried to write, for the generation that is known now."""

    def __post_init__(self) -> None:
        services, monotonic = self.services, self.services.clock.monotonic
        self._announcer = Announcer(services.recorder, self.pool_name)
        self._executor = Executor(self.pool_name, services, self._announcer)
        self._conflicts = ConflictBackoff(ask_for_pools=services.relister.ask, monotonic=monotonic)
        self._status = StatusWriter(services, self._announcer, self._conflicts)
        self._finalizers = Finalizers(services, self._announcer)
        self._backoff = WriteBackoff(monotonic=monotonic)

    @property
    def has_nodes(self) -> bool:
        """Whether the pool had nodes in the last pass; before the first, whether records on nodes name it."""
        if self._had_nodes is None:
            pool = self.services.pools.get(self.pool_name)
            return pool is not None and pool.uid in owners_of(self.services.nodes.objects.values())
        return self._had_nodes

    def close(self) -> None:
        """Emit the events that still wait. Call it when no pass runs any more."""
        self._announcer.flush()

    async def run(self) -> float | None:
        """Do one pass; return in how many seconds the next comes, None for not before something changes.

        Raises ApiError where the API server fails or refuses: the caller waits and tries again.
        """
        pool = self.services.pools.get(self.pool_name)
        if pool is None:
            return None
        self._begin_anew_with(pool)
        snapshot = self._observe(pool)
        left = await self._perform(snapshot, self._decide(snapshot))
        held = self.services.pools.get(self.pool_name)
        has_news = held is not None and held.resource_version != pool.resource_version
        self._status_problem = held.status_problem if held else ""
        return left.seconds(has_progressed=has_news)

    async def _perform(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        try:
            return await self._act(snapshot, decision)
        except Conflict:  # on the pool itself
            return NextLook(paced=self._conflicts.note(snapshot.pool))
        except NotFound:
            self.services.relister.ask()
            return NOTHING_LEFT
        except Forbidden as error:
            self._missing_permission = explain(error)
            await self._report_fault(snapshot.pool, even_at_the_end=True)
            raise

    async def _act(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        pool, writes = snapshot.pool, decision.writes
        follows_writes, self._has_written = self._has_written, False
        if error := self._executor.take_eviction_error():
            raise error
        self._announcer.warn(decision.deletions)
        if (wait := self._finalizers.seconds_to_next(pool, decision)) is not None:
            return NextLook(paced=soonest(wait, await self._status.write(snapshot, decision)))
        if writes.releases_pool:
            return await self._let_go(snapshot, decision)
        if writes.finalizers is not None:
            await self._finalizers.write(pool, decision)
            if writes.status_first:
                return UNFINISHED  # the next snapshot has this, and the status is written over it
        elif writes.status_first:
            return await self._report_first(snapshot, decision)
        return await self._write_nodes(snapshot, decision, follows_writes=follows_writes)

    async def _write_nodes(self, snapshot: Snapshot, decision: Decision, *, follows_writes: bool) -> NextLook:
        """Write nodes and conditions, and start evictions.

        The status comes before that where this pass ``follows_writes`` of the last one, and where nothing was
        written.
        """
        pool, writes = snapshot.pool, decision.writes
        is_due = bool(writes.patches) or self._executor.has_due_conditions(writes)
        problem: ApiError | None = None
        if is_due and follows_writes and writes.finalizers is None and not writes.takes_permissions:
            problem = await self._try_to_report(snapshot, decision)  # no node waits for a report that fails
        patched, conditions = await self._executor.perform(
            decision, backoff=self._backoff, is_wanted=lambda: self._is_latest(pool)
        )
        if patched.done:
            self._written_generation = pool.generation
        if error := patched.error or conditions.error:
            if not isinstance(error, Forbidden):  # that is reported with the rule that is missing
                await self._report_fault(pool)
            raise error
        self._missing_permission = ""
        if problem is not None:
            raise problem
        if patched.is_halted or conditions.is_halted:
            await self._report_fault(pool)
            return NextLook(paced=HALTED_SECONDS)
        if patched.has_tried or conditions.has_tried or snapshot.missing_permission:
            self._has_written = True
            return AT_ONCE
        if is_due or writes.finalizers is not None:
            return UNFINISHED
        # Nothing was written to nodes, so nothing was awaited: the snapshot is still up to date (P9).
        return self._left(decision, reported=await self._status.write(snapshot, decision))

    async def _report_first(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        """Write the status before any node, and end this pass: the next one writes nodes."""
        early = await self._status.write(snapshot, decision)
        if decision.keeps_status:
            return NOTHING_LEFT  # the list of all pods that it waits for wakes the pool
        return UNFINISHED if early is None else NextLook(paced=early)

    async def _report_fault(self, pool: Pool, *, even_at_the_end: bool = False) -> None:
        """Write the status that is true after a fault, since the next pass comes after a pause.

        Not for a generation that came meanwhile: nothing was done for it yet (P9).
        """
        current = self.services.pools.get(self.pool_name)
        if current is not None and self._is_latest(pool):
            snapshot = self._observe(current)
            await self._try_to_report(snapshot, self._decide(snapshot), even_at_the_end=even_at_the_end)

    async def _try_to_report(
        self, snapshot: Snapshot, decision: Decision, *, even_at_the_end: bool = False
    ) -> ApiError | None:
        """Write the status; return the error where that fails, so that it replaces no other.

        The error of another write says how long to wait, and what the problem is.
        """
        try:
            await self._status.write(snapshot, decision, even_at_the_end=even_at_the_end)
        except ApiError as error:
            log.debug("pool %s: its status cannot be written: %s", self.pool_name, error)
            return error
        return None

    def _left(self, decision: Decision, *, reported: float | None) -> NextLook:
        """Return what a ``decision`` without writes leaves; its status is written in ``reported`` seconds."""
        return NextLook(
            paced=soonest(reported, self._backoff.seconds_to_newer_state()),
            time=soonest(
                self._backoff.seconds_to_next(),
                self._executor.seconds_to_next(decision.writes),
                self.services.clock.seconds_to(decision.look_again),
            ),
        )

    def _decide(self, snapshot: Snapshot) -> Decision:
        decision = decide(snapshot, self.services.features)
        self._ask(snapshot.pool, decision)
        self._executor.follow(decision)
        self._had_nodes = decision.has_nodes
        self.services.nodes_in_work.note(snapshot.pool, decision.status.slots)
        self.services.stats.figures[self.pool_name] = decision.figures
        return decision

    def _ask(self, pool: Pool, decision: Decision) -> None:
        """Ask for what ``decision`` needs, and no longer for what it does not."""
        services = self.services
        if decision.needs_pods:
            services.pod_pass.ask()
        services.node_pods.want_surveys(pool, decision.node_lists)
        services.node_pods.want_for_evictions(pool, decision.pod_list_requests)
        services.rollout_facts.want(
            pool,
            workloads=decision.reads_workloads,
            attachments=decision.reads_attachments,
            budgets=decision.drains,
        )
        if services.memory is not None:
            services.memory.want(pool, decision.sampled)

    async def _let_go(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        """Remove our finalizer if the API server knows nothing that is left; report what prevents it."""
        pool = snapshot.pool
        try:
            if not await self._finalizers.is_left_anywhere(snapshot):
                await self._finalizers.write(pool, decision)
                return NOTHING_LEFT
        except (Conflict, NotFound, Forbidden):
            raise
        except ApiError:
            await self._try_to_report(snapshot, decision, even_at_the_end=True)
            raise
        self.services.nodes.ask_for_list()
        await self._status.write(snapshot, decision, even_at_the_end=True)
        return NextLook(paced=STILL_LABELLED_SECONDS)

    def _is_latest(self, pool: Pool) -> bool:
        held = self.services.pools.get(pool.name)
        return held is not None and (held.uid, held.generation) == (pool.uid, pool.generation)

    def _begin_anew_with(self, pool: Pool) -> None:
        """Forget all pauses for a changed spec or a deletion: they lie between writes of the same goal."""
        if pool.status_problem and not self._status_problem:
            said = "pool %s: its status cannot be read: %s; it is replaced before any node is written"
            log.warning(said, pool.name, pool.status_problem)
        self._status_problem = pool.status_problem
        if (pool.uid, pool.generation) != self._intent:
            was_there = self._intent[0] == pool.uid and not self._is_deleting
            self._intent, self._is_deleting = (pool.uid, pool.generation), pool.deleting
            self._written_generation = 0
            self._has_written = False  # not for this generation, which no report may claim yet (P9)
            self._backoff = WriteBackoff(monotonic=self.services.clock.monotonic, is_from_start=was_there)

    def _observe(self, pool: Pool) -> Snapshot:
        nodes = self.services.nodes.objects
        return self.observer.snapshot(
            pool,
            attempts=self._backoff.attempts(nodes, written_generation=self._written_generation),
            missing_permission=self._missing_permission,
            known_issues=self._status.known_issues.get(pool.uid, ()),
        )
