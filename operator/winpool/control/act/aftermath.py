"""What came of the node writes of a pass: when each node may be written again, and what people hear of it.

Of a write that was carried out people hear in an event, of one that was refused in the status: its issue has
the event.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.control.patience.writes import Advice

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.act.lane import Outcome
    from winpool.control.patience.writes import Patience
    from winpool.control.report.announcer import Announcer
    from winpool.decide import Decision
    from winpool.objects.acts import NodePatch

log = logging.getLogger(__name__)


class Aftermath:
    """Follows up the node writes of one pool. ``ask_for_nodes`` has all nodes listed anew."""

    def __init__(self, pool_name: str, *, announcer: Announcer, ask_for_nodes: Callable[[], None]) -> None:
        self._pool_name = pool_name
        self._announcer = announcer
        self._ask_for_nodes = ask_for_nodes

    def follow_up(self, decision: Decision, outcome: Outcome[NodePatch], *, patience: Patience) -> None:
        """Note what came of each write of ``decision`` in ``patience``, and say it to people."""
        for patch in outcome.done:
            patience.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
        self._announcer.gather(decision.node_events, written=[patch.node.name for patch in outcome.done])
        self._announcer.announce(decision.deletions.told(patch.node.name for patch in outcome.done))
        for patch, error in outcome.stopped:
            advice = patience.note_stopped(patch, error)
            if advice is Advice.LIST:
                self._ask_for_nodes()
            elif advice is Advice.TELL:
                log.warning("pool %s: node %s cannot be written: %s", self._pool_name, patch.node.name, error)
