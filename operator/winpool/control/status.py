"""Writes the status of a pool: only what is new, as a whole, and not too often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.control.announcer import log_transitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.writer import Writer
    from winpool.control.announcer import Announcer
    from winpool.control.pools import Pools
    from winpool.decide import Decision
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
        """Write the status, if it says anything new; return in how many seconds to look again.

        A pool that is about to go needs none, but ``even_at_the_end`` where something is in the way.
        """
        pool = snapshot.pool
        again = 0 if decision.patches or decision.finalizers is not None else None
        written = decision.status.to_object()
        if (
            decision.keeps_status
            or written == pool.written_status
            or (decision.releases_pool and not even_at_the_end)
        ):
            return again
        early = self._written_at + STATUS_SECONDS - self._monotonic()
        if early > 0:
            return early if again is None or decision.reports_first else again
        body = await self._writer.apply_pool_status(
            name=pool.name, resource_version=pool.resource_version, status=written
        )
        self._written_at = self._monotonic()
        log_transitions(pool, decision.status)
        self._pools.accept(body)
        if not decision.releases_pool:
            self._announcer.announce(decision.pool_events)
        return again
