"""Reports what happened: events on pools and nodes, transitions of conditions in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from winpool.api.event_table import EVENTS
from winpool.api.keys import API_VERSION
from winpool.cluster.event_record import EventRecord
from winpool.report.node_events import announced, shared_by_many

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.cluster.events import EventRecorder
    from winpool.objects.pool import Pool
    from winpool.report.announce import Announcement
    from winpool.report.deletions import Deletions, Warned
    from winpool.report.node_events import Cause, NodeEvent

log = logging.getLogger(__name__)

API_VERSIONS: Final = {"WindowsNodePool": API_VERSION, "Node": "v1"}

GATHER_SECONDS: Final = 2.0
"""Events of nodes wait until none has come for so long. A client that changes many nodes one after the other,
as kubectl does, causes several passes; the result is one event and not one for each node. On a busy control
plane such changes come up to a second apart."""

LONGEST_GATHER_SECONDS: Final = 10.0
"""No event waits longer: as long as a slice of a large pool takes."""

GATHERED_LIMIT: Final = 10_000
"""Events of nodes that wait. Each is some hundred bytes. With more they are emitted at once."""


class Announcer:
    """Emits the events of one pool, which share a budget; warnings have one of their own."""

    def __init__(self, recorder: EventRecorder, *, pool_name: str) -> None:
        self._recorder = recorder
        self._pool_name = pool_name
        self._gathered: list[NodeEvent] = []
        self._shared: set[Cause] = set()
        self._warned: frozenset[Warned] = frozenset()
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

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
            kind = EVENTS[announcement.reason]
            assert announcement.regarding in kind.objects, announcement
            self._recorder.record(
                EventRecord(
                    api_version=API_VERSIONS[announcement.regarding],
                    kind=announcement.regarding,
                    name=announcement.name,
                    uid=announcement.uid,
                    reason=kind.reason,
                    action=kind.action,
                    note=announcement.note,
                    type=kind.type.value,
                ),
                budget=self._pool_name,
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
