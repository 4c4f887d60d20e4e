"""Removes what no pool removes any more: see ``ownership/leftovers``.

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
from typing import TYPE_CHECKING, Final

from winpool.api.keys import POOL_LABEL
from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Conflict, Unavailable
from winpool.cluster.outage import Outage
from winpool.control.leftovers.doubted import DoubtedRecords
from winpool.control.leftovers.gone_pools import GonePools
from winpool.control.leftovers.refusals import Refusals
from winpool.control.loops.wake import Wake
from winpool.control.patience.writes import Advice
from winpool.ownership.leftovers import release_orphan, release_stray
from winpool.ownership.strays import owner_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from winpool.cluster.reflector import NodeReflector
    from winpool.control.act.patches import PatchLane
    from winpool.control.clock import Clock
    from winpool.control.leftovers.kept_strays import KeptStrays
    from winpool.control.relist.pools import Pools
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node
    from winpool.objects.others import PoolName
    from winpool.ownership.rights import Rights
    from winpool.report.announce import Announcement

log = logging.getLogger(__name__)

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
        nodes: NodeReflector,
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
        nodes = tuple(self._nodes.nodes.values())
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
        return self._refusals.due(releases, known={**strays, **self._nodes.nodes})

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
        if node.name not in self._nodes.nodes:
            if isinstance(error, Conflict):  # no watch brings the newer state of a stray, but a list does
                self._look_for_strays_soon()
        elif advice is Advice.LIST:
            self._nodes.ask_for_list()
