"""Why a node is upgraded now or not: its pool, what is due, and whether every gate is open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from winpool.api.upgrade import Gate, UpgradeState
from winpool.cli.node_place import place_of
from winpool.cli.upgrade_judge import judged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from winpool.cli.node_place import Place
    from winpool.cli.upgrade_judge import Judged
    from winpool.cli.upgrade_world import Cluster
    from winpool.features.upgrade.records import NodeUpgrade
    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.support.rows import Row


class Standing(Enum):
    """What ``why`` answers. The values are those of its JSON."""

    NO_POOL = "NoPool"
    NOTHING_DUE = "NothingDue"
    NOT_GATED = "NotGated"
    OPEN = "Open"
    IN_WORK = "InWork"
    """It is unavailable itself, which closes the gate Budget for the others only."""
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"

    @property
    def is_blocked(self) -> bool:
        """Whether the node must not be upgraded now, although it is due or may be."""
        return self in (Standing.BLOCKED, Standing.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """All that is known of one node. ``judged`` is about its pool; None where it has none."""

    node: Node
    place: Place
    now: datetime
    judged: Judged | None = None
    pods_problem: str = ""

    @property
    def due(self) -> NodeUpgrade | None:
        """What is due on the node; None where nothing is, or where it is not known."""
        return self.judged.due(self.node) if self.judged is not None else None

    @property
    def standing(self) -> Standing:
        """What the answer is."""
        judged = self.judged
        if judged is None:
            return Standing.NO_POOL
        if judged.pool.deleting:
            return Standing.NOTHING_DUE
        overview, due = judged.overview, self.due
        if overview is None or (due is None and self.node.name in overview.unknown):
            return Standing.UNKNOWN
        if due is None:
            return Standing.NOTHING_DUE
        if not judged.is_gated:
            return Standing.NOT_GATED
        if overview.is_open and due.is_open:
            return Standing.OPEN
        is_permitted = due.is_open and due.state is UpgradeState.REQUIRED and not overview.stops
        if is_permitted and all(each.gate is Gate.BUDGET for each in overview.closed):
            return Standing.IN_WORK
        return Standing.BLOCKED


def why_of(cluster: Cluster, name: str, *, rows: tuple[Row, ...] = ()) -> Why | str:
    """Return all that is known of the node, or a sentence that says why nothing is."""
    node = cluster.node(name) or cluster.stranger
    if node is None:
        unread = next((each for each in cluster.unread if each.startswith(f"node {name}: ")), None)
        said = f'there is no node "{name}" in this cluster: list the nodes with kubectl get nodes'
        return said if unread is None else f"the API server has a node that cannot be read: {unread}"
    place = place_of(cluster, node)
    return Why(
        node=node,
        place=place,
        now=cluster.now,
        judged=None if place.pool is None else judged(cluster, place.pool, rows=rows),
        pods_problem=cluster.pods_problem,
    )


def pools_of(cluster: Cluster, name: str) -> Sequence[Pool]:
    """Return the pool of the node, whose pods have to be read too."""
    node = cluster.node(name)
    pool = place_of(cluster, node).pool if node is not None else None
    return () if pool is None else (pool,)
