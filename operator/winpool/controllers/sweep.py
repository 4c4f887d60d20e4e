"""Removes from nodes what no pool removes any more, and reports what it leaves there.

Ownership records on nodes without a pool that have no effect, since their kubelets may have forged them.

No status reports such a node: its pool is gone, or never existed. So the log reports it.

Pools that are gone and did not release their nodes: deleted by force, whether an operator ran or not.

Their status is gone with them. So an event and the log report each: once for a pool, not for each node.

The strays that are not released, since no one has deleted their pools.

The status of these pools reports them.

Nodes whose release is refused: when the operator tries each again, and what it reports.

The pauses are those of a pool's own writes, see ``patience``. No status can report the refusal: the pool is
gone, or does not see the node any more. So the log has one warning for each node and reason.

Removes what no pool removes any more: see ``ownership/leftovers``.

It lists strays at start, every ten minutes, when a node with our label was deleted or is not a Windows node
any more, and when the pool of a stray was deleted. It checks for orphans whenever a pool is gone, and
whenever all pools have been listed, since such a list can show that one is gone. A node that refuses is tried
again after longer and longer pauses, and delays no other node.

The status of a pool reports its strays, see ``kept_strays``. No status reports a node whose pool is gone, or
the refusal of a release. The log does, see ``refusals``, and an event does where a pool left the node behind,
see ``gone_pools``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from winpool.api.fields import is_pool_name
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.controllers.backoff import Advice, Patience
from winpool.controllers.pools import Pools
from winpool.controllers.services import Clock, Wake
from winpool.controllers.writes import PatchLane
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.errors import ApiError, Conflict, Unavailable, explained
from winpool.kube.watch import ListWatch
from winpool.model.node import Node, NodePatch
from winpool.model.pool import Pool, PoolName
from winpool.ownership.diff import Conformity
from winpool.ownership.leftovers import owner_of, release_orphan, release_stray, strays_of
from winpool.ownership.record import Record, record_of
from winpool.ownership.trust import Rights
from winpool.status.events import Announcement, named, pool_gone

log = logging.getLogger(__name__)

TOLD_AT_ONCE: Final = 10
"""Lines in the log for one list. More are not an accident, and a hostile fleet must not fill the log."""


class DoubtedRecords:
    """Logs each such node once, as long as it remains one."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def tell(self, found: Iterable[tuple[Node, Conformity]]) -> None:
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


class GonePools:
    """Reports each such pool once, as long as nodes name it; ``announce`` emits an event."""

    def __init__(self, *, pools: Pools, announce: Callable[[Announcement], None]) -> None:
        self._pools = pools
        self._absences = pools.absences
        self._announce = announce
        self._told: set[str] = set()

    def tell(self, nodes: Iterable[Node], *, rights: Rights) -> None:
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
            if self._absences.is_missed(found.pool_uid) and rights.know_owner(found):
                left.setdefault(found.pool_uid, []).append(node)
        self._told &= named
        for uid, there in left.items():
            if uid not in self._told:
                self._told.add(uid)
                self._tell_of(uid, there)

    def _tell_of(self, uid: str, nodes: list[Node]) -> None:
        name = self._name_of(uid, nodes)
        told = pool_gone(name, uid, nodes=len(nodes), decided_at=self._absences.decided_at(uid))
        log.warning("pool %s (UID %s): %s", name, uid, told.note)
        self._announce(told)

    def _name_of(self, uid: str, nodes: list[Node]) -> str:
        """Return the name that the pool had; where this process has not seen it, what the nodes say.

        Someone may have removed or changed the label there. So it counts where all nodes that have it agree,
        and it can be the name of a pool but is not that of another one. Otherwise it is the UID.
        """
        if known := self._pools.name_of(uid):
            return known
        labels = {name for node in nodes if (name := node.labels.get(POOL_LABEL))}
        name = labels.pop() if len(labels) == 1 else ""
        return name if is_pool_name(name) and self._pools.get(name) is None else uid


class KeptStrays:
    """Those of the last list; ``wake`` asks for a pass of a pool."""

    def __init__(self, *, pools: Pools, wake: Callable[[str], None]) -> None:
        self._pools = pools
        self._wake = wake
        self._strays: tuple[Node, ...] | None = None

    @property
    def owners(self) -> frozenset[str | PoolName]:
        """The UIDs of their pools; names, where their records cannot be read."""
        return frozenset(owner for node in self._strays or () if (owner := owner_of(node)))

    def of(self, pool: Pool) -> tuple[Node, ...] | None:
        """Return those of ``pool``; None before the first list."""
        return None if self._strays is None else strays_of(pool, self._strays)

    def note(self, strays: tuple[Node, ...]) -> None:
        """Note those of a new list, and ask for a pass of each pool for which they have changed."""
        before = {pool.uid: self.of(pool) for pool in self._pools.all()}
        self._strays = strays
        for pool in self._pools.all():
            if before[pool.uid] != self.of(pool):
                self._wake(pool.name)


class Refusals:
    """The outcome of the last tries to release nodes that no pool releases any more."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._patience = Patience(monotonic=monotonic)
        # UIDs with the HTTP statuses that were logged. There are few statuses, while a webhook can invent any
        # number of reasons.
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


class Sweeper:
    """Sweeps until cancelled.

    ``list_strays`` asks the API server for them, ``kept_strays`` gets those that are not released,
    ``rights_over`` returns by what records are believed, ``announce`` emits an event, and ``is_complete``
    says whether all that a sweep needs is known: pools, nodes, and the guard.
    """

    def __init__(
        self,
        *,
        pools: Pools,
        nodes: ListWatch[Node],
        patch_lane: PatchLane,
        list_strays: Callable[[], Awaitable[tuple[Node, ...]]],
        kept_strays: KeptStrays,
        rights_over: Callable[[Iterable[Node]], Rights],
        announce: Callable[[Announcement], None],
        is_complete: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._pools = pools
        self._nodes = nodes
        self._patch_lane = patch_lane
        self._list_strays = list_strays
        self._kept_strays = kept_strays
        self._rights_over = rights_over
        self._is_complete = is_complete
        self._doubted_strays, self._doubted_orphans = DoubtedRecords(), DoubtedRecords()
        self._gone_pools = GonePools(pools=pools, announce=announce)
        self._clock = clock
        self._monotonic = clock.monotonic
        self._wake = Wake()
        self._refusals = Refusals(monotonic=clock.monotonic)
        # Those of the last list that are still to be released. Each try needs a new list: nothing else shows
        # their present state.
        self._strays: tuple[NodePatch, ...] = ()
        self._strays_due = float("-inf")
        self._listed_at = float("-inf")

    def node_gone(self, node: Node) -> None:
        """Note that a Windows node was deleted, or is none any more; list strays if it had our label."""
        if POOL_LABEL in node.labels:
            self._look_for_strays_soon()
            self._wake.set()

    def guard_changed(self) -> None:
        """Note that the guard has changed: more records are believed now, or fewer."""
        self._look_for_strays_soon()
        self._wake.set()

    def pool_gone(self) -> None:
        """Note that a pool was deleted, or is gone. Usually it has left nothing behind."""
        self._wake.set()

    def pools_listed(self) -> None:
        """Note a complete list of pools."""
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        backoff = Backoff()
        outage = Outage(
            "leftovers of pools that are gone",
            logger=log,
            monotonic=self._monotonic,
            meanwhile="the operator tries again",
        )
        while True:
            if not self._is_complete():
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

    def _seconds_to_next(self) -> float:
        # This comes first: the next call forgets the nodes whose pause is over.
        to_refused = self._refusals.seconds_to_next()
        if self._due(self._strays):  # a pause has ended while we swept
            self._look_for_strays_soon()
        to_strays = max(0.0, self._strays_due - self._monotonic())
        return to_strays if to_refused is None else min(to_strays, to_refused)

    async def _sweep(self) -> None:
        if self._due(self._strays) or any(map(self._is_let_go, self._kept_strays.owners)):
            self._look_for_strays_soon()
        releases: list[NodePatch] = []
        if self._strays_due <= self._monotonic():
            await self._list()
            releases += self._strays
        releases += self._orphans()
        await self._release(self._due(releases))

    async def _list(self) -> None:
        # Set before the request: a node that goes meanwhile may not be on the list, and is a new occasion.
        self._listed_at = self._monotonic()
        self._strays_due = self._listed_at + STRAYS_SECONDS
        try:
            strays = await self._list_strays()
        except ApiError:
            self._strays_due = float("-inf")
            raise
        rights = self._rights_over(strays)
        now = self._clock.now()
        found = [
            (stray, release_stray(stray, is_let_go=self._is_let_go, rights=rights, now=now))
            for stray in strays
        ]
        self._strays = tuple(state.patch for _, state in found if state.patch)
        self._doubted_strays.tell(found)
        self._kept_strays.note(
            tuple(
                stray
                for stray, state in found
                if not state.is_doubted and (owner := owner_of(stray)) and not self._is_let_go(owner)
            )
        )

    def _is_let_go(self, owner: str | PoolName) -> bool:
        return self._pools.is_deleted(owner) or self._pools.is_vanished(owner)

    def _orphans(self) -> Iterator[NodePatch]:
        nodes = tuple(self._nodes.objects.values())
        pools, is_vanished, rights = self._pools.all(), self._pools.is_vanished, self._rights_over(nodes)
        found = [
            (node, release_orphan(node, pools=pools, is_vanished=is_vanished, rights=rights))
            for node in nodes
        ]
        self._doubted_orphans.tell(found)
        self._gone_pools.tell(nodes, rights=rights)
        return (state.patch for _, state in found if state.patch)

    def _due(self, releases: Sequence[NodePatch]) -> list[NodePatch]:
        strays = {patch.node.name: patch.node for patch in self._strays}
        return self._refusals.due(releases, known={**strays, **self._nodes.objects})

    async def _release(self, releases: Sequence[NodePatch]) -> None:
        outcome = await self._patch_lane.run(releases)
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
        if node.name not in self._nodes.objects:
            if isinstance(error, Conflict):  # no watch brings the newer state of a stray, but a list does
                self._look_for_strays_soon()
        elif advice is Advice.LIST:
            self._nodes.ask_for_list()
