"""The outcome of the node writes of a pass: when each node may be written again, and what is reported of it.

An event reports a write that was carried out. The status reports one that was refused: its issue has the
event.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.api.events import EventReason, Regarding
from winpool.control.patience.writes import Advice
from winpool.report.announce import Announcement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from winpool.control.act.lane import Outcome
    from winpool.control.patience.writes import Patience
    from winpool.control.report.announcer import Announcer
    from winpool.decide import Decision
    from winpool.objects.acts import Eviction, NodePatch

log = logging.getLogger(__name__)


class Aftermath:
    """Follows up the node writes of one pool. ``ask_for_nodes`` asks for a new list of all nodes."""

    def __init__(self, pool_name: str, *, announcer: Announcer, ask_for_nodes: Callable[[], None]) -> None:
        self._pool_name = pool_name
        self._announcer = announcer
        self._ask_for_nodes = ask_for_nodes

    def evicted(self, evictions: Iterable[Eviction]) -> None:
        """Emit an event for each pod that was evicted because its node is short of memory."""
        self._announcer.announce(
            Announcement(
                EventReason.POD_EVICTED,
                f"Pool {self._pool_name}: the operator evicted pod {each.full_name}. {each.why}",
                each.node,
                each.node_uid,
                Regarding.NODE,
            )
            for each in evictions
            if each.node_uid
        )

    def follow_up(self, decision: Decision, outcome: Outcome[NodePatch], *, patience: Patience) -> None:
        """Note the outcome of each write of ``decision`` in ``patience``, and report it."""
        for patch in outcome.done:
            patience.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
        self._announcer.gather(decision.node_events, written=[patch.node.name for patch in outcome.done])
        self._announcer.announce(decision.deletions.told(patch.node.name for patch in outcome.done))
        self._announcer.forget_warnings({patch.node.uid for patch in outcome.done})
        for patch, error in outcome.stopped:
            advice = patience.note_stopped(patch, error)
            if advice is Advice.LIST:
                self._ask_for_nodes()
            elif advice is Advice.TELL:
                log.warning(
                    "pool %s: the operator cannot write node %s: %s; it tries again after longer and longer "
                    "pauses",
                    self._pool_name,
                    patch.node.name,
                    error,
                )
