"""One pass of one pool: observe, decide, act, and report what is true afterwards.

The order within a pass is what makes it safe to be killed anywhere:

1. our finalizer is on the pool before the first node is written, so that no deletion can pass
   while something of ours is on a node;
2. each node patch carries labels, taints and the record of them together;
3. status is computed from a new look at the world, never from what the pass meant to do;
4. the finalizer comes off only when a look at all nodes finds nothing of ours, and then the API server,
   asked once more, knows of no node with our label either: after that nobody looks again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.cluster.access import explain
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import Conflict, Forbidden, NotFound
from winpool.contract.conform import release
from winpool.control.announcer import Announcer, log_transitions
from winpool.control.patience import Patience
from winpool.decide import decide
from winpool.report.announce import about_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from winpool.cluster.events import EventRecorder
    from winpool.cluster.writer import Writer
    from winpool.control.clock import Clock
    from winpool.control.executor import Executor, Outcome
    from winpool.control.observe import Observer
    from winpool.control.pools import Pools
    from winpool.control.relist import Relister
    from winpool.decide import Decision
    from winpool.snapshot import Node, Pool, Snapshot

log = logging.getLogger(__name__)

STATUS_SECONDS: Final = 1.0
"""At most one status write per second and pool: people cannot read faster, and each one wakes
everybody who watches the pool."""

STILL_MARKED_SECONDS: Final = 1.0
"""A node with our label that we do not know of yet is on its way: the watch is behind."""


class Reconciler:
    """Runs the passes of one pool, one at a time."""

    def __init__(
        self,
        pool_name: str,
        *,
        observer: Observer,
        pools: Pools,
        executor: Executor,
        writer: Writer,
        recorder: EventRecorder,
        relister: Relister,
        list_marked: Callable[[str], Awaitable[Sequence[Node]]],
        ask_for_nodes: Callable[[], None],
        clock: Clock,
    ) -> None:
        """Make the reconciler of one pool.

        ``list_marked`` asks the API server which Windows nodes carry the label of that pool;
        ``ask_for_nodes`` has all nodes listed anew, where the watch has missed something.
        """
        self._pool_name = pool_name
        self._observer = observer
        self._pools = pools
        self._executor = executor
        self._writer = writer
        self._announcer = Announcer(recorder, pool_name=pool_name)
        self._relister = relister
        self._list_marked = list_marked
        self._ask_for_nodes = ask_for_nodes
        self._clock = clock
        self._patience = Patience(monotonic=clock.monotonic)
        self._after_conflict = Backoff()
        self._intent = ("", 0)
        self._overtaken = ""
        self._written_generation = 0
        self._missing_permission = ""
        self._status_written_at = float("-inf")

    async def run(self) -> float | None:
        """Do one pass; return in how many seconds to look again, None for not before something changes.

        Raises ApiError where the API server fails or refuses: the caller waits and tries again.
        """
        pool = self._pools.get(self._pool_name)
        if pool is None:
            return None
        self._forgive(pool)
        snapshot = self._look()
        assert snapshot is not None, "nothing was awaited since the pool was there"
        try:
            seconds = await self._act(snapshot, decide(snapshot))
        except Conflict:  # on the pool itself
            return self._wait_for_pool(snapshot.pool)
        except NotFound:
            self._relister.ask()
            return None
        except Forbidden as error:
            self._missing_permission = explain(error)
            await self._report()
            raise
        self._after_conflict.reset()
        self._overtaken = ""
        return seconds

    async def _act(self, snapshot: Snapshot, decision: Decision) -> float | None:
        pool = snapshot.pool
        if not decision.patches and decision.finalizers is None and not snapshot.missing_permission:
            # Nothing is done, so nothing is awaited: what was just seen is still what there is (P9).
            return _soonest(await self._write_status(snapshot, decision), self._patience.seconds_to_next())
        if decision.finalizers is not None:
            if decision.releases_pool and await self._is_marked_anywhere(pool):
                self._ask_for_nodes()
                return STILL_MARKED_SECONDS
            await self._write_finalizers(pool, decision)
            if decision.releases_pool:
                return None
        outcome = await self._executor.run(decision.patches, is_wanted=lambda: self._is_latest(pool))
        self._follow_up(decision, outcome)
        if outcome.written:
            self._written_generation = pool.generation
        if outcome.error is not None:
            await self._report()  # a fault that lasts must not leave people with an old status
            raise outcome.error
        self._missing_permission = ""
        reported, again = await self._report(), 0 if outcome.remaining else None
        return _soonest(reported, again, self._patience.seconds_to_next())

    def _is_latest(self, pool: Pool) -> bool:
        held = self._pools.get(pool.name)
        return held is not None and (held.uid, held.generation) == (pool.uid, pool.generation)

    def _follow_up(self, decision: Decision, outcome: Outcome) -> None:
        for patch in outcome.written:
            self._patience.note_written(patch.node)
            if event := decision.node_events.get(patch.node.name):
                self._announcer.announce((event,))
                self._patience.note_repaired(patch.node)
        for patch, error in outcome.stopped:
            if self._patience.note_stopped(patch.node, error):
                log.warning("pool %s: node %s cannot be written: %s", self._pool_name, patch.node.name, error)
                self._announcer.announce(
                    (about_refusal(patch.node, pool=self._pool_name, why=error.message),)
                )
        if outcome.stopped and self._patience.lost_news:
            self._ask_for_nodes()

    def _wait_for_pool(self, pool: Pool) -> float:
        """Return in how many seconds to look again after a conflict on the pool itself.

        Its watch event wakes us, mostly within milliseconds. Where it does not come, and the same state
        conflicts again, all pools are listed.
        """
        if self._overtaken == pool.resource_version:
            self._relister.ask()
        self._overtaken = pool.resource_version
        return self._after_conflict.next()

    async def _is_marked_anywhere(self, pool: Pool) -> bool:
        marked = await self._list_marked(pool.name)
        return any(release(node, pool_uid=pool.uid, pool_name=pool.name) for node in marked)

    def _forgive(self, pool: Pool) -> None:
        """Start patience anew for a changed spec or a deletion: pauses are between repairs of the same."""
        if (pool.uid, pool.generation) != self._intent:
            self._intent = (pool.uid, pool.generation)
            self._written_generation = 0
            self._patience = Patience(monotonic=self._clock.monotonic)

    def _look(self) -> Snapshot | None:
        return self._observer.snapshot(
            self._pool_name,
            patience=self._patience,
            written_generation=self._written_generation,
            missing_permission=self._missing_permission,
        )

    async def _write_finalizers(self, pool: Pool, decision: Decision) -> None:
        assert decision.finalizers is not None
        body = await self._writer.patch_pool_finalizers(
            name=pool.name, resource_version=pool.resource_version, finalizers=decision.finalizers
        )
        if decision.releases_pool:
            log.info("pool %s: all nodes are released", pool.name)
            self._announcer.announce(decision.pool_events)
        if decision.releases_pool and not decision.finalizers:
            version = body["metadata"]["resourceVersion"]
            self._pools.forget(
                name=pool.name, uid=pool.uid, version=version
            )  # that was its last sign of life
        else:
            self._pools.accept(body)

    async def _report(self) -> float | None:
        """Look again, since things were done, and write what is true now."""
        snapshot = self._look()
        return None if snapshot is None else await self._write_status(snapshot, decide(snapshot))

    async def _write_status(self, snapshot: Snapshot, decision: Decision) -> float | None:
        """Write the status, if it says anything new; return in how many seconds to look again."""
        pool = snapshot.pool
        again = 0 if decision.patches or decision.finalizers is not None else None
        written = decision.status.to_object()
        if decision.releases_pool or written == pool.written_status:
            return again
        early = self._status_written_at + STATUS_SECONDS - self._clock.monotonic()
        if early > 0:
            return early if again is None else again
        body = await self._writer.apply_pool_status(
            name=pool.name, resource_version=pool.resource_version, status=written
        )
        self._status_written_at = self._clock.monotonic()
        log_transitions(pool, decision.status)
        self._pools.accept(body)
        self._announcer.announce(decision.pool_events)
        return again


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)
