"""Removes from nodes what no pool removes any more, and reports what it leaves there.

It lists strays at start, every ten minutes, when a node with our label was deleted or is not a Windows node
any more, and when the pool of a stray was deleted. It checks for orphans whenever a pool is gone, and
whenever all pools have been listed, since such a list can show that one is gone. A node that refuses is tried
again after longer and longer pauses, and delays no other node.

The status of a pool reports its strays. No status reports a node whose pool is gone, or the refusal of a
release: the log does, and an event does where a pool left the node behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from winpool.api.fields import is_pool_name
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.controllers.backoff import Advice, WriteBackoff
from winpool.controllers.pools import Pools
from winpool.controllers.services import Observer, Services, is_complete
from winpool.controllers.status import Announcer
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.errors import ApiError, Conflict, Unavailable, explained
from winpool.kube.events import EventRecorder
from winpool.loops import Wake, soonest
from winpool.model.node import Node, NodePatch
from winpool.model.pool import PoolName
from winpool.ownership.diff import NodeDiff
from winpool.ownership.leftovers import owner_of, release_orphan, release_stray, strays_of
from winpool.ownership.record import Record, record_of
from winpool.ownership.trust import RecordTrust
from winpool.status.events import named, pool_gone

log = logging.getLogger(__name__)

TOLD_AT_ONCE: Final = 10
"""Lines in the log for one list. More are not an accident, and a hostile fleet must not fill the log."""


@dataclass(slots=True)
class DoubtedRecords:
    """Logs each node without a pool whose record may be forged, so that it has no effect, once."""

    _told: frozenset[str] = field(default=frozenset(), init=False)

    def tell(self, found: Iterable[tuple[Node, NodeDiff]]) -> None:
        """Log what is new in ``found``, which is all there are now."""
        left = {node.uid: (node.name, state.left_alone) for node, state in found if state.is_doubted}
        new = [left[uid] for uid in left if uid not in self._told]
        for name, claimed in new[:TOLD_AT_ONCE]:
            log.warning(
                "node %s: annotation %s says that a pool set %s on this node. It was written without the "
                "guard and may be forged, so the operator removes nothing. To have it remove what is under "
                "winpool.dev/: kubectl annotate node %s %s-",
                name,
                APPLIED_ANNOTATION,
                named(claimed) or "nothing",
                name,
                APPLIED_ANNOTATION,
            )
        if len(new) > TOLD_AT_ONCE:
            log.warning(
                "%d more nodes have such an annotation; the operator removes nothing from them",
                len(new) - TOLD_AT_ONCE,
            )
        self._told = frozenset(left)


@dataclass(slots=True)
class GonePools:
    """Reports each pool that is gone and did not release its nodes once, as long as nodes name it.

    It was deleted by force, whether an operator ran or not, and its status is gone with it. So an event and
    the log report it.
    """

    pools: Pools
    recorder: EventRecorder
    _told: set[str] = field(default_factory=set, init=False)

    def tell(self, nodes: Iterable[Node], *, rights: RecordTrust) -> None:
        """Report the pools that records on ``nodes`` name and that the last list of all pools lacked.

        A record that may be forged does not count: it can name any pool, see ``doubted``.
        """
        left: dict[str, list[Node]] = {}
        named: set[str] = set()
        for node in nodes:
            found = record_of(node)
            if not isinstance(found, Record):
                continue
            named.add(found.pool_uid)
            if self.pools.absences.is_missed(found.pool_uid) and rights.know_owner(found):
                left.setdefault(found.pool_uid, []).append(node)
        self._told &= named
        for uid, there in left.items():
            if uid not in self._told:
                self._told.add(uid)
                name, decided_at = self._name_of(uid, there), self.pools.absences.decided_at(uid)
                told = pool_gone(name, uid, nodes=len(there), decided_at=decided_at)
                log.warning("pool %s (UID %s): %s", name, uid, told.note)
                Announcer(self.recorder, name).announce((told,))

    def _name_of(self, uid: str, nodes: list[Node]) -> str:
        """Return the name that the pool had; where this process has not seen it, what the nodes say.

        Someone may have removed or changed the label there. So it counts where all nodes that have it agree,
        and it can be the name of a pool but is not that of another one. Otherwise it is the UID.
        """
        if known := self.pools.name_of(uid):
            return known
        labels = {name for node in nodes if (name := node.labels.get(POOL_LABEL))}
        name = labels.pop() if len(labels) == 1 else ""
        return name if is_pool_name(name) and self.pools.get(name) is None else uid


class Refusals:
    """The outcome of the last tries to release nodes that no pool releases any more.

    No status can report a refusal, so the log has one warning for each node and HTTP status: there are few of
    these, while a webhook can invent any number of reasons.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._patience = WriteBackoff(monotonic=monotonic)
        self._told: dict[str, set[int | None]] = {}

    def note_released(self, patch: NodePatch) -> None:
        """Note a release that was carried out."""
        self._told.pop(patch.node.uid, None)
        self._patience.note_written(patch)

    def note_stopped(self, patch: NodePatch, error: ApiError) -> Advice:
        """Note a release that was not carried out. TELL comes once for each node and HTTP status."""
        advice = self._patience.note_stopped(patch, error)
        if not self._patience.is_refused(patch.node):
            return advice  # it may be over in a moment
        told = self._told.setdefault(patch.node.uid, set())
        if error.status in told:
            return Advice.WAIT
        told.add(error.status)
        return Advice.TELL

    def due(self, releases: Iterable[NodePatch], *, known: Mapping[str, Node]) -> list[NodePatch]:
        """Return those that may be sent now; nodes whose writes failed lately come last.

        Otherwise a few of them could block all others. ``known`` are all nodes that exist, by name; the
        others are forgotten.
        """
        if self._told:
            uids = {node.uid for node in known.values()}
            self._told = {uid: told for uid, told in self._told.items() if uid in uids}
        attempts, failing = self._patience.attempts(known), self._patience.failing
        free = (patch for patch in releases if not attempts.holds_back(patch))
        return sorted(free, key=lambda patch: patch.node.uid in failing)

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a node that has to wait may be tried again; None where none waits."""
        return self._patience.seconds_to_next()


STRAYS_SECONDS: Final = 600.0
"""How often strays are listed without an occasion: one list in 10 minutes (P2)."""

NOT_YET_SECONDS: Final = 0.2
"""How often the sweeper checks whether all is known that the first sweep needs."""

STRAYS_PAUSE_SECONDS: Final = 1.0
"""Least time between two lists of strays: a fleet that is deleted is hundreds of occasions at once."""


@dataclass(eq=False)
class Sweeper:
    """Sweeps until cancelled."""

    services: Services
    observer: Observer
    _doubted_strays: DoubtedRecords = field(default_factory=DoubtedRecords, init=False)
    _doubted_orphans: DoubtedRecords = field(default_factory=DoubtedRecords, init=False)
    _wake: Wake = field(default_factory=Wake, init=False)
    _strays: tuple[NodePatch, ...] = field(default=(), init=False)
    """Those of the last list that are still to be released. Each try needs a new list: nothing else shows
    their present state."""
    _strays_due: float = field(default=float("-inf"), init=False)
    _listed_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._gone_pools = GonePools(self.services.pools, self.services.recorder)
        self._refusals = Refusals(monotonic=self.services.clock.monotonic)

    def node_gone(self, node: Node) -> None:
        """Note that a Windows node was deleted, or is none any more; list strays if it had our label."""
        if POOL_LABEL in node.labels:
            self._look_for_strays_soon()
            self._wake.set()

    def guard_changed(self) -> None:
        """Note that the guard has changed: more records are believed now, or fewer."""
        self._look_for_strays_soon()
        self._wake.set()

    def sweep_soon(self) -> None:
        """Sweep: a pool was deleted or is gone, which usually has left nothing behind, or all were listed."""
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        backoff = Backoff()
        outage = Outage("leftovers of pools that are gone", log, self.services.clock.monotonic)
        while True:
            if not is_complete(self.services):
                await asyncio.sleep(NOT_YET_SECONDS)
                continue
            await self._wake.wait(seconds=self._seconds_to_next())
            try:
                await self._sweep()
            except ApiError as error:
                outage.failed(explained(error))
                await asyncio.sleep(backoff.next(asked=error.retry_after))
                self._wake.set()
            else:
                backoff.reset()
                outage.ended()

    def _look_for_strays_soon(self) -> None:
        self._strays_due = min(self._strays_due, self._listed_at + STRAYS_PAUSE_SECONDS)

    def _seconds_to_next(self) -> float | None:
        # This comes first: the next call forgets the nodes whose pause is over.
        to_refused = self._refusals.seconds_to_next()
        if self._due(self._strays):  # a pause has ended while we swept
            self._look_for_strays_soon()
        return soonest(max(0.0, self._strays_due - self.services.clock.monotonic()), to_refused)

    async def _sweep(self) -> None:
        if self._due(self._strays) or any(
            (owner := owner_of(node)) and self._is_let_go(owner) for node in self.services.strays or ()
        ):
            self._look_for_strays_soon()
        releases: list[NodePatch] = []
        if self._strays_due <= self.services.clock.monotonic():
            await self._list()
            releases += self._strays
        releases += self._orphans()
        await self._release(self._due(releases))

    async def _list(self) -> None:
        # Set before the request: a node that goes meanwhile may not be on the list, and is a new occasion.
        self._listed_at = self.services.clock.monotonic()
        self._strays_due = self._listed_at + STRAYS_SECONDS
        try:
            strays = await self.services.list_strays()
        except ApiError:
            self._strays_due = float("-inf")
            raise
        rights = self.observer.trust_over(strays)
        now = self.services.clock.now()
        found = [
            (stray, release_stray(stray, is_let_go=self._is_let_go, rights=rights, now=now))
            for stray in strays
        ]
        self._strays = tuple(state.patch for _, state in found if state.patch)
        self._doubted_strays.tell(found)
        self._keep(
            tuple(
                stray
                for stray, state in found
                if not state.is_doubted and (owner := owner_of(stray)) and not self._is_let_go(owner)
            )
        )

    def _keep(self, strays: tuple[Node, ...]) -> None:
        """Note the strays that are not released, and wake each pool for which they have changed."""
        services, pools = self.services, self.services.pools.all()
        before = {pool.uid: services.strays and strays_of(pool, services.strays) for pool in pools}
        services.strays = strays
        for pool in pools:
            if before[pool.uid] != strays_of(pool, strays):
                services.wake(pool.name)

    def _is_let_go(self, owner: str | PoolName) -> bool:
        return self.services.pools.is_deleted(owner) or self.services.pools.is_vanished(owner)

    def _orphans(self) -> Iterator[NodePatch]:
        nodes = tuple(self.services.nodes.objects.values())
        pools, is_vanished = self.services.pools.all(), self.services.pools.is_vanished
        rights = self.observer.trust_over(nodes)
        found = [
            (node, release_orphan(node, pools=pools, is_vanished=is_vanished, rights=rights))
            for node in nodes
        ]
        self._doubted_orphans.tell(found)
        self._gone_pools.tell(nodes, rights=rights)
        return (state.patch for _, state in found if state.patch)

    def _due(self, releases: Sequence[NodePatch]) -> list[NodePatch]:
        strays = {patch.node.name: patch.node for patch in self._strays}
        return self._refusals.due(releases, known={**strays, **self.services.nodes.objects})

    async def _release(self, releases: Sequence[NodePatch]) -> None:
        outcome = await self.services.patches.run(releases)
        for patch in outcome.done:
            log.info("node %s: the operator removed what a pool had left on it", patch.node.name)
            self._refusals.note_released(patch)
        written = {patch.node.uid for patch in outcome.done}
        self._strays = tuple(patch for patch in self._strays if patch.node.uid not in written)
        for patch, error in outcome.stopped:
            self._follow_up(patch, error)
        if outcome.remaining:
            self._wake.set()
        if outcome.error:
            raise outcome.error
        if outcome.is_halted:  # the others would fail now as well
            raise next(error for _, error in outcome.stopped if isinstance(error, Unavailable))

    def _follow_up(self, patch: NodePatch, error: ApiError) -> None:
        node, advice = patch.node, self._refusals.note_stopped(patch, error)
        if advice is Advice.TELL:
            log.warning(
                "node %s: the operator cannot remove what a pool had left on it: %s; it tries again after "
                "longer and longer pauses",
                node.name,
                error,
            )
        if node.name not in self.services.nodes.objects:
            if isinstance(error, Conflict):  # no watch brings the newer state of a stray, but a list does
                self._look_for_strays_soon()
        elif advice is Advice.LIST:
            self.services.nodes.ask_for_list()
