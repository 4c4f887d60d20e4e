"""Writes the status of a pool: only when it has changed, as a whole, and not too often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api.crd_fields import without_fields
from winpool.api.events import EventReason
from winpool.api.v1alpha1 import status_and_problem
from winpool.cluster.access import explain
from winpool.cluster.errors import Forbidden
from winpool.control.report.announcer import log_transitions
from winpool.report.announce import Announcement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.writer import Writer
    from winpool.control.patience.overtaken import Overtaken
    from winpool.control.relist.pools import Pools
    from winpool.control.report.announcer import Announcer
    from winpool.decide import Decision
    from winpool.objects.issues import KnownIssue
    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot

STATUS_SECONDS: Final = 1.0
"""At most one status write per second and pool: people cannot read faster, and each one wakes
every client that watches the pool."""


class StatusWriter:
    """Writes the status of one pool, and reports what has changed in it."""

    def __init__(
        self,
        *,
        writer: Writer,
        pools: Pools,
        announcer: Announcer,
        conflicts: Overtaken,
        monotonic: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._pools = pools
        self._announcer = announcer
        self._conflicts = conflicts
        self._monotonic = monotonic
        self._written_at = float("-inf")
        self._forbidden = ""
        self.known_issues: Mapping[str, tuple[KnownIssue, ...]] = {}
        """By the UID of the pool: all of its issues when its status was last written, or first read as
        it is to be."""

    async def write(
        self, snapshot: Snapshot, decision: Decision, *, even_at_the_end: bool = False
    ) -> float | None:
        """Write the status if it has changed; return in how many seconds it may be written, if not now.

        Fields that the CRD lacks are left out: the API server would refuse the whole status for one of them.
        A pool that is about to be gone needs none, except ``even_at_the_end`` where something prevents that.
        """
        pool = snapshot.pool
        whole = {"status": decision.status.to_object()}
        written = without_fields(whole, snapshot.lacking_fields).get("status", {})
        if written == pool.written_status and pool.uid not in self.known_issues:
            self.known_issues = {pool.uid: decision.issues}
        if (
            decision.keeps_status
            or written == pool.written_status
            or (decision.releases_pool and not even_at_the_end)
        ):
            return None
        early = self._written_at + STATUS_SECONDS - self._monotonic()
        if (wait := self._conflicts.seconds_to_next(pool)) is not None or early > 0:
            return max(wait or 0.0, early)
        try:
            body = await self._apply(pool, written)
        except Forbidden as error:
            self._announce_forbidden(pool, explain(error))
            raise
        self._forbidden = ""
        self._written_at = self._monotonic()
        self.known_issues = {pool.uid: decision.issues}
        if not pool.status_problem:  # otherwise every condition would count as a new one
            log_transitions(pool, decision.status)
        self._pools.accept(body)
        if not decision.releases_pool:
            self._announcer.announce(decision.pool_events)
        return None

    def _announce_forbidden(self, pool: Pool, rule: str) -> None:
        """Emit an event once: where the status cannot be written, it is the only place to see why."""
        if rule != self._forbidden:
            event = Announcement(EventReason.MISSING_PERMISSION, rule, pool.name, pool.uid)
            self._announcer.announce([event])
        self._forbidden = rule

    async def _apply(self, pool: Pool, written: Mapping[str, Any]) -> Mapping[str, Any]:
        """Apply the status; replace one that cannot be read, even where other field managers wrote to it.

        An apply leaves what other field managers added to the lists. So a status that is still unreadable
        after it is removed completely, and then applied once more.
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
