"""Writes the status of a pool, only when it has changed and not too often, and emits the events about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from winpool.api.crd import without_fields
from winpool.api.events import EventReason
from winpool.api.keys import API_VERSION
from winpool.api.spec import status_and_problem
from winpool.api.status import WindowsNodePoolStatus
from winpool.controllers.backoff import ConflictBackoff
from winpool.controllers.services import Services
from winpool.decide import Decision
from winpool.kube.errors import Forbidden, explain
from winpool.kube.events import EventRecord, EventRecorder
from winpool.model.pool import KnownIssue, Pool
from winpool.model.snapshot import Snapshot
from winpool.status.events import Announcement, EventCause, NodeEvent, announced, shared_by_many
from winpool.status.pods import Deletions, Warned

log = logging.getLogger(__name__)

API_VERSIONS: Final = {"WindowsNodePool": API_VERSION, "Node": "v1", "Pod": "v1"}

GATHER_SECONDS: Final = 2.0
"""Events of nodes wait until none has come for so long. A client that changes many nodes one after the other,
as kubectl does, causes several passes; the result is one event and not one for each node. On a busy control
plane such changes come up to a second apart."""

LONGEST_GATHER_SECONDS: Final = 10.0
"""No event waits longer: as long as a slice of a large pool takes."""

GATHERED_LIMIT: Final = 10_000
"""Events of nodes that wait. Each is some hundred bytes. With more they are emitted at once."""


@dataclass(slots=True)
class Announcer:
    """Emits the events of one pool, which share a budget; warnings have one of their own."""

    recorder: EventRecorder
    pool_name: str
    _gathered: list[NodeEvent] = field(default_factory=list, init=False)
    _shared: set[EventCause] = field(default_factory=set, init=False)
    _warned: frozenset[Warned] = field(default=frozenset(), init=False)
    _deadline: float = field(default=0.0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def warn(self, deletions: Deletions) -> None:
        """Emit an event for each taint that is about to have pods deleted, once for each of its nodes.

        To be called before a node is written.
        """
        self.announce(deletions.warnings(self._warned), are_warnings=True)
        still_due = (each for each in self._warned if each[1] in deletions.lacking)
        self._warned = frozenset((*still_due, *deletions.coming))

    def forget_warnings(self, written: Collection[str]) -> None:
        """Forget what was said of these nodes, by UID: the next time it is news again."""
        if self._warned:
            self._warned = frozenset(each for each in self._warned if each[1] not in written)

    def announce(self, announcements: Iterable[Announcement], *, are_warnings: bool = False) -> None:
        """Emit an event for each. Those that ``are_warnings`` no other event takes the room of."""
        for announcement in announcements:
            reason = announcement.reason
            assert announcement.regarding in reason.objects, announcement
            self.recorder.record(
                EventRecord(
                    api_version=API_VERSIONS[announcement.regarding],
                    kind=announcement.regarding,
                    namespace=announcement.namespace,
                    name=announcement.name,
                    uid=announcement.uid,
                    reason=reason,
                    action=reason.action,
                    note=announcement.note,
                    type=reason.type.value,
                ),
                budget=self.pool_name,
                is_warning=are_warnings,
            )

    def gather(self, decided: Mapping[str, NodeEvent], *, written: Sequence[str]) -> None:
        """Keep the events of the nodes that were ``written`` until those of others, at about that time, come.

        ``decided`` are those of all nodes that are to be written, by name: a cause that many of them share is
        reported as one of many, also where some could not be written yet.
        """
        events = [event for name in written if (event := decided.get(name))]
        if not events:
            return
        loop = asyncio.get_running_loop()
        if not self._gathered:
            self._deadline = loop.time() + LONGEST_GATHER_SECONDS
        self._gathered += events
        self._shared |= shared_by_many(decided.values())
        if len(self._gathered) >= GATHERED_LIMIT:
            self.flush()
            return
        if self._timer:
            self._timer.cancel()
        self._timer = loop.call_at(min(loop.time() + GATHER_SECONDS, self._deadline), self.flush)

    def flush(self) -> None:
        """Emit the events that wait for others."""
        if self._timer:
            self._timer.cancel()
        events, shared = self._gathered, self._shared
        self._gathered, self._shared, self._timer = [], set(), None
        self.announce(announced(events, shared=shared))


def log_transitions(pool: Pool, status: WindowsNodePoolStatus) -> None:
    """Log each condition whose status or reason differs from that on the pool."""
    for condition in status.conditions:
        before = pool.status.condition(condition.type)
        if before is None or (before.status, before.reason) != (condition.status, condition.reason):
            log.info(
                "pool %s: %s=%s %s: %s",
                pool.name,
                condition.type,
                condition.status,
                condition.reason,
                condition.message,
            )
    known = {issue.reason for issue in pool.status.issues}
    for issue in status.issues:
        # Conditions refer to issues, and each reason is logged once: its message may change with each pass.
        if issue.reason not in known:
            known.add(issue.reason)
            log.info(
                "pool %s: issue %s on %d nodes: %s", pool.name, issue.reason, issue.node_count, issue.message
            )


STATUS_SECONDS: Final = 1.0
"""At most one status write per second and pool: people cannot read faster, and each one wakes
every client that watches the pool."""


@dataclass(slots=True)
class StatusWriter:
    """Writes the status of one pool, and reports what has changed in it."""

    services: Services
    announcer: Announcer
    conflicts: ConflictBackoff
    known_issues: Mapping[str, tuple[KnownIssue, ...]] = field(default_factory=dict, init=False)
    """By the UID of the pool: all of its issues when its status was last written, or first read as
    it is to be."""
    _written_at: float = field(default=float("-inf"), init=False)
    _forbidden: str = field(default="", init=False)

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
            or (decision.writes.releases_pool and not even_at_the_end)
        ):
            return None
        early = self._written_at + STATUS_SECONDS - self.services.clock.monotonic()
        if (wait := self.conflicts.seconds_to_next(pool)) is not None or early > 0:
            return max(wait or 0.0, early)
        try:
            body = await self._apply(pool, written)
        except Forbidden as error:
            self._announce_forbidden(pool, explain(error))
            raise
        self._forbidden = ""
        self._written_at = self.services.clock.monotonic()
        self.known_issues = {pool.uid: decision.issues}
        if not pool.status_problem:  # otherwise every condition would count as a new one
            log_transitions(pool, decision.status)
        self.services.pools.accept(body, is_own_status=True)
        if not decision.writes.releases_pool:
            self.announcer.announce(decision.pool_events)
        return None

    def _announce_forbidden(self, pool: Pool, rule: str) -> None:
        """Emit an event once: where the status cannot be written, it is the only place to see why."""
        if rule != self._forbidden:
            event = Announcement(EventReason.MISSING_PERMISSION, rule, pool.name, pool.uid)
            self.announcer.announce([event])
        self._forbidden = rule

    async def _apply(self, pool: Pool, written: Mapping[str, Any]) -> Mapping[str, Any]:
        """Apply the status; replace one that cannot be read, even where other field managers wrote to it.

        An apply leaves what other field managers added to the lists. So a status that is still unreadable
        after it is removed completely, and then applied once more.
        """
        body = await self.services.writer.apply_pool_status(
            name=pool.name, resource_version=pool.resource_version, status=written
        )
        if not pool.status_problem or not status_and_problem(body)[1]:
            return body
        body = await self.services.writer.clear_pool_status(
            name=pool.name, resource_version=body["metadata"]["resourceVersion"]
        )
        return await self.services.writer.apply_pool_status(
            name=pool.name, resource_version=body["metadata"]["resourceVersion"], status=written
        )
