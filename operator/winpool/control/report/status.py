"""Writes the status of a pool: only what is new, as a whole, and not too often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api.v1alpha1 import status_and_problem
from winpool.control.report.announcer import log_transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.writer import Writer
    from winpool.control.relist.pools import Pools
    from winpool.control.report.announcer import Announcer
    from winpool.decide import Decision
    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot

STATUS_SECONDS: Final = 1.0
"""At most one status write per second and pool: people cannot read faster, and each one wakes
everybody who watches the pool."""


class StatusWriter:
    """Writes the status of one pool, and says what changed with it."""

    def __init__(
        self, *, writer: Writer, pools: Pools, announcer: Announcer, monotonic: Callable[[], float]
    ) -> None:
        self._writer = writer
        self._pools = pools
        self._announcer = announcer
        self._monotonic = monotonic
        self._written_at = float("-inf")

    async def write(
        self, snapshot: Snapshot, decision: Decision, *, even_at_the_end: bool = False
    ) -> float | None:
        """Write the status, if it says anything new; return in how many seconds it may be where not now.

        A pool that is about to go needs none, but ``even_at_the_end`` where something is in the way.
        """
        pool = snapshot.pool
        written = decision.status.to_object()
        if (
            decision.keeps_status
            or written == pool.written_status
            or (decision.releases_pool and not even_at_the_end)
        ):
            return None
        early = self._written_at + STATUS_SECONDS - self._monotonic()
        if early > 0:
            return early
        body = await self._apply(pool, written)
        self._written_at = self._monotonic()
        if not pool.status_problem:  # or every condition would look like a new one
            log_transitions(pool, decision.status)
        self._pools.accept(body)
        if not decision.releases_pool:
            self._announcer.announce(decision.pool_events)
        return None

    async def _apply(self, pool: Pool, written: Mapping[str, Any]) -> Mapping[str, Any]:
        """Apply the status, in place of one that cannot be read also where others have put things there.

        An apply leaves what other field managers added to the lists; so what is still unreadable after it is
        taken off whole, and then applied once more.
        """
        body = await self._writer.apply_pool_status(
            name=pool.name, resource_version=pool.resource_version, status=written
        )
        if not pool.status_problem or not status_and_problem(body)[1]:
            return body
        body = await self._writer.clear_pool_status(
            name=pool.name, resource_version=body["metadata"]["resourceVersion"]
        )
        return await self._writer.apply_pool_status(
            name=pool.name, resource_version=body["metadata"]["resourceVersion"], status=written
        )
