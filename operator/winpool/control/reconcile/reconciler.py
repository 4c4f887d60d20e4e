"""One pass of one pool: observe, decide, act, and report what is true afterwards.

The order within a pass makes it safe to be killed at any point:

1. our finalizer is on the pool before the first node is written, so that no deletion can complete
   while something of ours is on a node; and the status has what people must know beforehand;
2. each node patch has labels, taints and the record of them together;
3. the status is computed from a new snapshot, never from what the pass intended to do;
4. the finalizer is removed only when no known node has anything of ours, and then the API server,
   asked once more, knows no node with our label either: after that nothing checks again.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from winpool.cluster.access import explain
from winpool.cluster.errors import ApiError, Conflict, Forbidden, NotFound
from winpool.control.act.actor import Actor
from winpool.control.act.aftermath import Aftermath
from winpool.control.patience.overtaken import Overtaken
from winpool.control.patience.writes import Patience
from winpool.control.reconcile.finalizers import Finalizers
from winpool.control.reconcile.next_look import NOTHING_LEFT, UNFINISHED, NextLook, soonest
from winpool.control.report.announcer import Announcer
from winpool.control.report.status import StatusWriter
from winpool.decide import ROOMS, decide

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from winpool.cluster.events import EventRecorder
    from winpool.cluster.writer import Writer
    from winpool.control.act.actor import Lanes
    from winpool.control.clock import Clock
    from winpool.control.reconcile.asking import Asking
    from winpool.control.reconcile.observe import Observer
    from winpool.control.relist.pools import Pools
    from winpool.control.relist.relister import Relister
    from winpool.decide import Decision
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.report.figures import Figures
    from winpool.rooms import Room
    from winpool.snapshot import Snapshot

log = logging.getLogger(__name__)

STILL_LABELLED_SECONDS: Final = 2.0
"""The API server lists a node with our label that is not in the store: the watch is behind and will bring
it."""

HALTED_SECONDS: Final = 5.0
"""The pause after a pass with only internal errors. A change ends it early: it may be the fix."""


class Reconciler:
    """Runs the passes of one pool, one at a time."""

    def __init__(
        self,
        pool_name: str,
        *,
        observer: Observer,
        pools: Pools,
        lanes: Lanes,
        create_task: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        wake: Callable[[str], None],
        writer: Writer,
        recorder: EventRecorder,
        relister: Relister,
        list_labelled: Callable[[str], Awaitable[Sequence[Node]]],
        asking: Asking,
        note_figures: Callable[[str, Figures], None],
        clock: Clock,
        rooms: Sequence[Room] = ROOMS,
    ) -> None:
        """Make the reconciler of one pool.

        ``list_labelled`` asks the API server which Windows nodes have the label of that pool.
        ``asking`` has who is asked for what a pass has to know.
        ``create_task`` starts a task beside the passes, and ``wake`` asks for another pass.
        ``note_figures`` gets what each pass has counted. ``rooms`` say what nodes must have.
        """
        self._pool_name = pool_name
        self._observer = observer
        self._pools = pools
        self._announcer = Announcer(recorder, pool_name=pool_name)
        self._actor = Actor(
            pool_name,
            lanes=lanes,
            aftermath=Aftermath(pool_name, announcer=self._announcer, ask_for_nodes=asking.nodes),
            create_task=create_task,
            wake=lambda: wake(pool_name),
        )
        self._relister = relister
        self._conflicts = Overtaken(ask_for_pools=relister.ask, monotonic=clock.monotonic)
        self._status = StatusWriter(
            writer=writer,
            pools=pools,
            announcer=self._announcer,
            conflicts=self._conflicts,
            monotonic=clock.monotonic,
        )
        self._finalizers = Finalizers(
            writer=writer,
            pools=pools,
            announcer=self._announcer,
            list_labelled=list_labelled,
            monotonic=clock.monotonic,
        )
        self._asking = asking
        self._note_figures = note_figures
        self._clock = clock
        self._rooms = rooms
        self._patience = Patience(monotonic=clock.monotonic)
        self._intent = ("", 0)
        self._is_deleting = False
        self._written_generation = 0
        self._missing_permission = ""
        self._status_problem = ""
        self._has_tried_nodes = False

    def close(self) -> None:
        """Emit the events that still wait. Call it when no pass runs any more."""
        self._announcer.flush()

    async def run(self) -> float | None:
        """Do one pass; return in how many seconds the next comes, None for not before something changes.

        Raises ApiError where the API server fails or refuses: the caller waits and tries again.
        """
        pool = self._pools.get(self._pool_name)
        if pool is None:
            return None
        self._begin_anew_with(pool)
        snapshot = self._look()
        assert snapshot is not None, "nothing was awaited since the pool was there"
        left = await self._perform(snapshot)
        held = self._pools.get(self._pool_name)
        has_news = held is not None and held.resource_version != pool.resource_version
        return left.seconds(has_progressed=has_news or self._has_tried_nodes)

    async def _perform(self, snapshot: Snapshot) -> NextLook:
        try:
            return await self._act(snapshot, self._decide(snapshot))
        except Conflict:  # on the pool itself
            return NextLook(paced=self._conflicts.note(snapshot.pool))
        except NotFound:
            self._relister.ask()
            return NOTHING_LEFT
        except Forbidden as error:
            self._missing_permission = explain(error)
            with self._before_raising():
                await self._report(snapshot.pool, even_at_the_end=True)
            raise

    async def _act(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        pool = snapshot.pool
        if error := self._actor.take_eviction_error():
            raise error
        self._announcer.warn(decision.deletions)
        if not decision.acts and decision.finalizers is None and not snapshot.missing_permission:
            # Nothing is written to nodes, so nothing is awaited: the snapshot is still up to date (P9).
            return self._left(decision, reported=await self._status.write(snapshot, decision))
        if (wait := self._finalizers.seconds_to_next(pool, decision)) is not None:
            return NextLook(paced=soonest(wait, await self._status.write(snapshot, decision)))
        if decision.finalizers is not None:
            if decision.releases_pool:
                return await self._let_go(snapshot, decision)
            await self._finalizers.write(pool, decision)
        if decision.reports_first:
            # The next snapshot has what was just written to the pool, and the status is written over that.
            return (
                UNFINISHED
                if decision.finalizers is not None
                else await self._report_first(snapshot, decision)
            )
        outcome = await self._actor.perform(
            decision, patience=self._patience, is_wanted=lambda: self._is_latest(pool)
        )
        self._has_tried_nodes = outcome.has_tried
        if outcome.patches.done:
            self._written_generation = pool.generation
        if outcome.error is not None:
            if not isinstance(outcome.error, Forbidden):  # that is reported with the rule that is missing
                with self._before_raising():
                    await self._report(pool)  # a fault that lasts must not leave people with an old status
            raise outcome.error
        self._missing_permission = ""
        left = await self._report(pool)
        return NextLook(paced=HALTED_SECONDS) if outcome.is_halted else left

    async def _report_first(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        """Write the status before any node, and end this pass: the next one writes nodes."""
        early = await self._status.write(snapshot, decision)
        if decision.keeps_status:
            return NOTHING_LEFT  # the list of all pods that it waits for wakes the pool
        return UNFINISHED if early is None else NextLook(paced=early)

    @contextmanager
    def _before_raising(self) -> Iterator[None]:
        """Log an ApiError of the block, so that it does not replace the error that is about to be raised.

        The latter says how long to wait, and what the problem is.
        """
        try:
            yield
        except ApiError as error:
            log.debug("pool %s: its status cannot be written after an error: %s", self._pool_name, error)

    def _left(self, decision: Decision, *, reported: float | None) -> NextLook:
        """Return what ``decision``, the latest, leaves; its status can be written in ``reported`` seconds."""
        is_due = (
            bool(decision.patches)
            or decision.finalizers is not None
            or self._actor.has_due_conditions(decision.acts)
        )
        awaits_status = decision.reports_first and (decision.keeps_status or reported is not None)
        return NextLook(
            is_unfinished=is_due and not awaits_status,
            paced=soonest(reported, self._patience.seconds_to_newer_state()),
            time=soonest(
                self._patience.seconds_to_next(),
                self._actor.seconds_to_next(decision.acts),
                self._clock.seconds_to(decision.look_again),
            ),
        )

    def _decide(self, snapshot: Snapshot) -> Decision:
        decision = decide(snapshot, self._rooms)
        self._asking.follow(snapshot.pool, decision)
        self._actor.follow(decision)
        self._note_figures(self._pool_name, decision.figures)
        return decision

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
            with self._before_raising():
                await self._status.write(snapshot, decision, even_at_the_end=True)
            raise
        self._asking.nodes()
        await self._status.write(snapshot, decision, even_at_the_end=True)
        return NextLook(paced=STILL_LABELLED_SECONDS)

    def _is_latest(self, pool: Pool) -> bool:
        held = self._pools.get(pool.name)
        return held is not None and (held.uid, held.generation) == (pool.uid, pool.generation)

    def _begin_anew_with(self, pool: Pool) -> None:
        """Forget all pauses for a changed spec or a deletion: they lie between writes of the same goal."""
        self._has_tried_nodes = False
        if pool.status_problem and not self._status_problem:
            said = "pool %s: its status cannot be read: %s; it is replaced before any node is written"
            log.warning(said, pool.name, pool.status_problem)
        self._status_problem = pool.status_problem
        if (pool.uid, pool.generation) != self._intent:
            was_there = self._intent[0] == pool.uid and not self._is_deleting
            self._intent, self._is_deleting = (pool.uid, pool.generation), pool.deleting
            self._written_generation = 0
            self._patience = Patience(monotonic=self._clock.monotonic, is_from_start=was_there)

    def _look(self) -> Snapshot | None:
        return self._observer.snapshot(
            self._pool_name,
            patience=self._patience,
            written_generation=self._written_generation,
            missing_permission=self._missing_permission,
            known_issues=self._status.known_issues,
        )

    async def _report(self, pool: Pool, *, even_at_the_end: bool = False) -> NextLook:
        """Observe again, since the pass has written, and write the status that is true now.

        Not for a generation that came meanwhile: nothing was done for it yet, and its pass is next (P9).
        """
        snapshot = self._look()
        if snapshot is None:
            return NOTHING_LEFT
        if not self._is_latest(pool):
            return UNFINISHED
        decision = self._decide(snapshot)
        written = await self._status.write(snapshot, decision, even_at_the_end=even_at_the_end)
        return self._left(decision, reported=written)
