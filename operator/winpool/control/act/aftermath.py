"""What came of the node writes of a pass: when each node may be written again, and what people hear of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.control.patience.writes import Advice
from winpool.report.announce import about_refusal

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
        """Tell ``patience`` what came of each write of ``decision``, and people what they have to know."""
        for patch in outcome.done:
            event = decision.node_events.get(patch.node.name)
            patience.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
            if event:
                self._announcer.announce((event,))
        for patch, error in outcome.stopped:
            advice = patience.note_stopped(patch, error)
            if advice is Advice.LIST:
                self._ask_for_nodes()
            elif advice is Advice.TELL:
                log.warning("pool %s: node %s cannot be written: %s", self._pool_name, patch.node.name, error)
                self._announcer.announce(
                    (about_refusal(patch.node, pool=self._pool_name, why=error.message),)
                )
