"""Whether what an eviction was decided on is still so, right before it is sent.

Between the decision and the request lie the other writes of the pass, the wait for a place among all
evictions, and the wait for a connection. This costs no request: it compares with the nodes as the watch last
reported them, and with the last samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.evicting import VALID_SECONDS

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.objects.pressure import NodeView


def objection(eviction: Eviction, *, node: Node | None, view: NodeView | None, now: datetime) -> str:
    """Return why ``eviction`` is not right any more, for the log; empty where it is.

    ``node`` is the one that has the name now. Any difference counts, since it is not known here what the
    decision used of the node: a hold, a cordon, another owner, the kubelet's own MemoryPressure. A node that
    changed wakes its pool. ``view`` is what is known of its memory ``now``.
    """
    premise = eviction.premise
    if premise is None:
        return ""
    if node is None:
        return "the node is gone"
    if node.uid != premise.node.uid:
        return "another machine has the name of the node"
    if node != premise.node:
        return "the node has changed"
    if view is None or all(each.axis is not premise.axis for each in view.evictable):
        return "no fresh sample shows that the node needs it"
    if (now - premise.intended_at).total_seconds() > VALID_SECONDS:
        return f"its intent is older than {VALID_SECONDS} s"
    return ""
