"""Says what happened to those who look: events on pools and nodes, transitions in the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.api.events import EVENTS
from winpool.api.keys import API_VERSION
from winpool.cluster.event_record import EventRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.cluster.events import EventRecorder
    from winpool.objects.pool import Pool
    from winpool.report.announce import Announcement

log = logging.getLogger(__name__)

API_VERSIONS: Final = {"WindowsNodePool": API_VERSION, "Node": "v1"}


class Announcer:
    """Emits the events of one pool, which share a budget."""

    def __init__(self, recorder: EventRecorder, *, pool_name: str) -> None:
        self._recorder = recorder
        self._pool_name = pool_name

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Emit an event for each."""
        for announcement in announcements:
            kind = EVENTS[announcement.reason]
            self._recorder.record(
                EventRecord(
                    api_version=API_VERSIONS[kind.regarding],
                    kind=kind.regarding,
                    name=announcement.name,
                    uid=announcement.uid,
                    reason=kind.reason,
                    action=kind.action,
                    note=announcement.note,
                    type=kind.type.value,
                ),
                budget=self._pool_name,
            )


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
