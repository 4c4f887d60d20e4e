"""In which order the nodes of a pool that are due are upgraded, and why each has its place.

Canaries first, then zone by zone, in a zone the easiest first. A node whose last upgrade failed comes after
the others, and the node that the operator runs on is the last. Names decide between equals, so that the order
does not depend on the order of any list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.moments import LAST
from winpool.ownership.membership import selects
from winpool.upgrade.gates.health import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.api.upgrade import Canary, Upgrade
    from winpool.upgrade.records import GateFinding, NodeUpgrade


class Turn(IntEnum):
    """When the turn of a node is, whatever its zone."""

    CANARY = 0
    ZONE = 1
    FAILED = 2
    OPERATOR = 3


@dataclass(frozen=True, slots=True)
class Placed:
    """A node that is due, in its place.

    ``closed`` are its own closed gates, ``moving_pods`` is how many pods a drain moves (0 where that is not
    known), ``why`` is in sentences.
    """

    upgrade: NodeUpgrade
    turn: Turn
    zone: str
    closed: tuple[GateFinding, ...]
    moving_pods: int
    why: str


def in_order(
    due: Iterable[NodeUpgrade], block: Upgrade, *, up_to_date: int = 0, operator_node: str = ""
) -> list[Placed]:
    """Return the nodes that are due in the order in which they are upgraded.

    ``up_to_date`` is how many nodes of the pool are up to date already: of ``canary.nodes`` so many are
    served, since they run the target. ``operator_node`` is the name of the node that the operator runs on,
    empty where it is not known.
    """
    standing = [_Standing(each, block.topology_key) for each in due]
    turns = _turns(standing, block.canary, up_to_date=up_to_date, operator_node=operator_node)
    ordered = sorted(
        zip(turns, standing, strict=True), key=lambda each: (each[0], *each[1].zone_key, each[1].ease)
    )
    return [
        Placed(
            each.upgrade, turn, each.zone, each.closed, each.moving_pods, " ".join(_why(each, turn, block))
        )
        for turn, each in ordered
    ]


class _Standing:
    """What the place of a node is by."""

    __slots__ = ("closed", "ease", "is_blocked", "moving_pods", "upgrade", "zone", "zone_key")

    def __init__(self, upgrade: NodeUpgrade, topology_key: str) -> None:
        self.upgrade = upgrade
        node, workload = upgrade.node, upgrade.workload
        self.closed = upgrade.closed
        self.is_blocked = bool(self.closed or upgrade.stops or (workload and workload.blocked))
        self.zone = node.labels.get(topology_key, "") if topology_key else ""
        self.zone_key = (not self.zone, self.zone)
        self.moving_pods = workload.moving_pods if workload else 0
        self.ease = (
            self.is_blocked,
            workload is None,
            self.moving_pods,
            node.created or LAST,
            node.name,
        )


def _turns(
    standing: Sequence[_Standing], canary: Canary | None, *, up_to_date: int, operator_node: str
) -> list[Turn]:
    turns = [_late(each, operator_node) for each in standing]
    if canary is None:
        return turns
    early = [number for number, turn in enumerate(turns) if turn is Turn.ZONE]
    if canary.node_selector is not None:
        chosen = [
            number for number in early if selects(canary.node_selector, standing[number].upgrade.node.labels)
        ]
    else:
        wanted = max((canary.nodes or 0) - up_to_date, 0)
        chosen = sorted(early, key=lambda number: standing[number].ease)[:wanted]
    for number in chosen:
        turns[number] = Turn.CANARY
    return turns


def _late(each: _Standing, operator_node: str) -> Turn:
    node = each.upgrade.node
    if operator_node and node.name == operator_node:
        return Turn.OPERATOR
    return Turn.FAILED if node.labels.get(UPGRADE_STATE_LABEL) in FAILED else Turn.ZONE


def _why(each: _Standing, turn: Turn, block: Upgrade) -> Iterable[str]:
    """Yield sentences: what decides first is the first."""
    if turn is Turn.OPERATOR:
        yield "The operator runs on it, so it is the last."
    elif turn is Turn.FAILED:
        yield "Its last upgrade failed, so it follows all nodes whose upgrade has not."
    elif turn is Turn.CANARY:
        by = "nodeSelector selects it" if block.canary and block.canary.node_selector else "nodes chooses it"
        yield f"spec.upgrade.canary.{by}, so it precedes all others."
    if block.topology_key:
        yield (
            f"It is in the zone {each.zone}; zones follow each other by name."
            if each.zone
            else f"It has no label {block.topology_key}, so it follows the zones."
        )
    if each.is_blocked:
        yield "Something keeps it from being upgraded now, so it follows the nodes that nothing keeps."
    if each.upgrade.workload is None:
        yield "Its pods are not known."
    else:
        pods = each.moving_pods
        yield f"{pods} pod{'' if pods == 1 else 's'} would move; fewer come first, then the older node."
