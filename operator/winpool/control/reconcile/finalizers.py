"""Our finalizer on a pool: added before the first node is written, removed when nothing is left."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.api.keys import RELEASE_FINALIZER
from winpool.control.act.pauses import Pauses
from winpool.ownership.members import rights_of
from winpool.ownership.release import release

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from winpool.cluster.writer import Writer
    from winpool.control.relist.pools import Pools
    from winpool.control.report.announcer import Announcer
    from winpool.decide import Decision
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot

log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between two restorations of the finalizer. A client that removes it again and again must not make the
operator write as fast as itself; the nodes of the pool wait meanwhile."""


class Finalizers:
    """Writes the finalizers of one pool.

    ``list_labelled`` asks the API server which Windows nodes have the label of that pool. Where someone has
    removed the finalizer, it is restored at once; where they remove it again, after longer and longer pauses.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        pools: Pools,
        announcer: Announcer,
        list_labelled: Callable[[str], Awaitable[Sequence[Node]]],
        monotonic: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._pools = pools
        self._announcer = announcer
        self._list_labelled = list_labelled
        self._pauses: Pauses[str] = Pauses(monotonic=monotonic, longest=LONGEST_PAUSE_SECONDS)

    def seconds_to_next(self, pool: Pool, decision: Decision) -> float | None:
        """Return how long the finalizer, which someone keeps removing, has to wait; None if it does not."""
        if not decision.promise.puts_back or not self._pauses.has_to_wait(pool.uid):
            return None
        return self._pauses.seconds_to_next((pool.uid,))

    async def is_left_anywhere(self, snapshot: Snapshot) -> bool:
        """Whether the API server knows a node with something of the pool: the watch may be behind."""
        pool, rights = snapshot.pool, rights_of(snapshot)
        labelled = await self._list_labelled(pool.name)
        return any(
            release(node, pool_uid=pool.uid, pool_name=pool.name, rights=rights).patch for node in labelled
        )

    async def write(self, pool: Pool, decision: Decision) -> None:
        """Write the finalizers as ``decision`` has them; raises ApiErrors."""
        assert decision.finalizers is not None
        body = await self._writer.patch_pool_finalizers(
            name=pool.name, resource_version=pool.resource_version, finalizers=decision.finalizers
        )
        if decision.promise.puts_back:
            self._pauses.note(pool.uid)
            log.warning(
                "pool %s: someone removed the finalizer %s while nodes have labels or taints of the pool; "
                "the operator restored it",
                pool.name,
                RELEASE_FINALIZER,
            )
        if decision.releases_pool:
            log.info("pool %s: all nodes are released, so the operator removed its finalizer", pool.name)
            self._announcer.announce(decision.pool_events)
        if decision.releases_pool and not decision.finalizers:
            version = body["metadata"]["resourceVersion"]  # the last version that this pool had
            self._pools.forget(name=pool.name, uid=pool.uid, version=version)
        else:
            self._pools.accept(body)
