"""Says what happened to those who look: events on pools and nodes, transitions in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from winpool.api.event_table import EVENTS
from winpool.api.keys import API_VERSION
from winpool.cluster.event_record import EventRecord
from winpool.report.node_events import announced, shared_by_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.cluster.events import EventRecorder
    from winpool.objects.pool import Pool
    from winpool.report.announce import Announcement
    from winpool.report.node_events import Cause, NodeEvent

log = logging.getLogger(__name__)

API_VERSIONS: Final = {"WindowsNodePool": API_VERSION, "Node": "v1"}

GATHER_SECONDS: Final = 1.0
"""Events of nodes wait until none has come for so long. Whoever changes many nodes one after the other, as
kubectl does, causes several passes, and that is one event and not one of each node."""

LONGEST_GATHER_SECONDS: Final = 10.0
"""No event waits longer: as long as a slice of a large pool takes."""

GATHERED_LIMIT: Final = 10_000
"""Events of nodes that wait. Each is some hundred bytes. With more they are told at once."""


class Announcer:
    """Emits the events of one pool, which share a budget."""

    def __init__(self, recorder: EventRecorder, *, pool_name: str) -> None:
        self._recorder = recorder
        self._pool_name = pool_name
        self._gathered: list[NodeEvent] = []
        self._shared: set[Cause] = set()
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Emit an event for each."""
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
            )

    def gather(self, decided: Mapping[str, NodeEvent], *, written: Sequence[str]) -> None:
        """Take the events of the nodes that were ``written``; what came of others at about that time follows.

        ``decided`` are those of all nodes that are to be written, by name: a cause that many of them share is
        one of many, also where some could not be written yet.
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
    """Log each condition whose status or reason is another than what stands on the pool."""
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
