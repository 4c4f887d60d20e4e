"""One pass of one pool: observe, decide, act, and report what is true afterwards.

The order within a pass is what makes it safe to be killed anywhere:

1. our finalizer is on the pool before the first node is written, so that no deletion can pass
   while something of ours is on a node; and so is what people have to know beforehand in the status;
2. each node patch carries labels, taints and the record of them together;
3. status is computed from a new look at the world, never from what the pass meant to do;
4. the finalizer comes off only when a look at all nodes finds nothing of ours, and then the API server,
   asked once more, knows of no node with our label either: after that nobody looks again.
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
"""A node with our label that we do not know of yet is on its way: the watch is behind."""

HALTED_SECONDS: Final = 5.0
"""After a pass in which nothing but internal errors came back. A change cuts it short: it may be the cure."""


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
        ask_for_nodes: Callable[[], None],
        ask_for_pods: Callable[[], None],
        ask_for_looks: Callable[[Pool, Sequence[Node]], None],
        note_figures: Callable[[str, Figures], None],
        clock: Clock,
        rooms: Sequence[Room] = ROOMS,
    ) -> None:
        """Make the reconciler of one pool.

        ``list_labelled`` asks the API server which Windows nodes carry the label of that pool;
        ``ask_for_nodes`` has all nodes listed anew, where the watch has missed something, and
        ``ask_for_pods`` all pods looked at, ``ask_for_looks`` those of each of these nodes, and of no others.
        ``create_task`` starts a task beside the passes, and ``wake`` asks for another pass.
        ``note_figures`` is told what each pass has counted. ``rooms`` say what is wanted.
        """
        self._pool_name = pool_name
        self._observer = observer
        self._pools = pools
        self._announcer = Announcer(recorder, pool_name=pool_name)
        self._actor = Actor(
            pool_name,
            lanes=lanes,
            aftermath=Aftermath(pool_name, announcer=self._announcer, ask_for_nodes=ask_for_nodes),
            create_task=create_task,
            wake=lambda: wake(pool_name),
        )
        self._status = StatusWriter(
            writer=writer, pools=pools, announcer=self._announcer, monotonic=clock.monotonic
        )
        self._relister = relister
        self._finalizers = Finalizers(
            writer=writer,
            pools=pools,
            announcer=self._announcer,
            list_labelled=list_labelled,
            monotonic=clock.monotonic,
        )
        self._ask_for_nodes = ask_for_nodes
        self._ask_for_pods = ask_for_pods
        self._ask_for_looks = ask_for_looks
        self._note_figures = note_figures
        self._clock = clock
        self._rooms = rooms
        self._patience = Patience(monotonic=clock.monotonic)
        self._conflicts = Overtaken(ask_for_pools=relister.ask)
        self._intent = ("", 0)
        self._is_deleting = False
        self._written_generation = 0
        self._missing_permission = ""
        self._status_problem = ""
        self._has_tried_nodes = False

    def close(self) -> None:
        """Tell what still waits to be told. Call it when no pass runs any more."""
        self._announcer.flush()

    async def run(self) -> float | None:
        """Do one pass; return in how many seconds to look again, None for not before something changes.

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
            left = await self._act(snapshot, self._decide(snapshot))
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
        self._conflicts.forget()
        return left

    async def _act(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        pool = snapshot.pool
        if error := self._actor.take_eviction_error():
            raise error
        if not decision.acts and decision.finalizers is None and not snapshot.missing_permission:
            # Nothing is done, so nothing is awaited: what was just seen is still what there is (P9).
            return self._left(decision, reported=await self._status.write(snapshot, decision))
        if (wait := self._finalizers.seconds_to_next(pool, decision)) is not None:
            return NextLook(paced=soonest(wait, await self._status.write(snapshot, decision)))
        if decision.finalizers is not None:
            if decision.releases_pool:
                return await self._let_go(snapshot, decision)
            await self._finalizers.write(pool, decision)
        if decision.reports_first:
            # What was just written to the pool is in the next look, and the status goes on top of that.
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
        """Write the status before any node, and begin anew: it is the next pass that writes them."""
        early = await self._status.write(snapshot, decision)
        if decision.keeps_status:
            return NOTHING_LEFT  # the look at all pods that it waits for wakes us
        return UNFINISHED if early is None else NextLook(paced=early)

    @contextmanager
    def _before_raising(self) -> Iterator[None]:
        """Let nothing that goes wrong within take the place of the error that is about to be raised.

        That one says how long to stay away, and what is in the way.
        """
        try:
            yield
        except ApiError as error:
            log.debug("pool %s: nor could that be reported: %s", self._pool_name, error)

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
        if decision.needs_pods:
            self._ask_for_pods()
        self._ask_for_looks(snapshot.pool, decision.looks)
        self._note_figures(self._pool_name, decision.figures)
        return decision

    async def _let_go(self, snapshot: Snapshot, decision: Decision) -> NextLook:
        """Take our finalizer off if the API server knows of nothing that is left; say what is in the way."""
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
        self._ask_for_nodes()
        await self._status.write(snapshot, decision, even_at_the_end=True)
        return NextLook(paced=STILL_LABELLED_SECONDS)

    def _is_latest(self, pool: Pool) -> bool:
        held = self._pools.get(pool.name)
        return held is not None and (held.uid, held.generation) == (pool.uid, pool.generation)

    def _begin_anew_with(self, pool: Pool) -> None:
        """Forget all pauses for a changed spec or a deletion: they are between writes of the same."""
        self._has_tried_nodes = False
        if pool.status_problem and not self._status_problem:
            log.warning(
                "pool %s: its status cannot be read, so it is written anew before any node: %s",
                pool.name,
                pool.status_problem,
            )
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
        )

    async def _report(self, pool: Pool, *, even_at_the_end: bool = False) -> NextLook:
        """Look again, since things were done, and write what is true now.

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
