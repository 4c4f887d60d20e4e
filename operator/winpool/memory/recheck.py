"""Whether what an eviction was decided on is still so, right before it is sent.

Between the decision and the request lie the other writes of the pass, the wait for a place among all
evictions, and the wait for a connection. This costs no request: it compares with the nodes as the watch last
reported them, and with the last samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.breaker import Breaker, Share
from winpool.memory.evicting import VALID_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.objects.pressure import NodeView


def objection(
    eviction: Eviction, *, node: Node | None, pool: Mapping[str, tuple[Node, NodeView]], now: datetime
) -> str:
    """Return why ``eviction`` is not right any more, for the log; empty where it is.

    ``node`` is the one that has the name now. Any difference counts, since it is not known here what the
    decision used of the node: a hold, a cordon, another owner, the kubelet's own MemoryPressure. A node that
    changed wakes its pool. ``pool`` has all nodes of the pool by their UIDs, with what is known of their
    memory ``now``; nothing where that is not watched.
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
    evictable = pool[node.uid][1].evictable if node.uid in pool else ()
    axis = next((each for each in evictable if each.axis is premise.axis), None)
    if axis is None:
        return "no fresh sample shows that the node needs it"
    if (now - premise.intended_at).total_seconds() > VALID_SECONDS:
        return f"its intent is older than {VALID_SECONDS} s"
    # This is the last, since it looks at each node: some 15 ms in a pool of 5,000.
    views = {uid: view for uid, (_, view) in pool.items()}
    breaker = Breaker([each for each, _ in pool.values()], views, Share.of(premise.max_pressured_nodes))
    if breaker.is_open_for(axis.ready_since):
        return "too much of the pool may be under pressure"
    return ""
