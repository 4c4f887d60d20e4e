"""The plan of the upgrades of a pool: which node when, with which others, and what is in the way.

It is of what is known now, and is made for closed gates too: it says what would happen once they are open.
Nothing is reserved by it, and nothing done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.moments import written_moment
from winpool.upgrade.duration import Duration, duration_of
from winpool.upgrade.gates.health import is_unavailable, max_unavailable
from winpool.upgrade.order import Turn, in_order
from winpool.upgrade.planned import Batch, PlannedAction, PlannedGate, PlannedNode, UpgradePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.api.upgrade import Upgrade
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.node import Node
    from winpool.upgrade.order import Placed
    from winpool.upgrade.records import GateFinding, UpgradeOverview

__all__ = [
    "Batch",
    "PlannedAction",
    "PlannedGate",
    "PlannedNode",
    "UpgradePlan",
    "planned_gate",
    "upgrade_plan",
]

LEAST_BATCH: Final = 1
"""Nodes of a batch where as many nodes are unavailable as may be: the Budget gate opens with one."""


def upgrade_plan(
    overview: UpgradeOverview,
    *,
    spec: WindowsNodePoolSpec,
    nodes_of_pool: Sequence[Node],
    operator_node: str = "",
) -> UpgradePlan:
    """Return how the nodes of a pool that are due would be upgraded. Raises ValueError without spec.upgrade.

    ``nodes_of_pool`` are all nodes of the pool, due or not. ``operator_node`` is the name of the node that
    the operator runs on, empty where it is not known.
    """
    block = spec.upgrade
    if block is None:
        raise ValueError("the spec has no upgrade, so there is nothing to plan")
    allowed = max_unavailable(block.max_unavailable, nodes=len(nodes_of_pool))
    unavailable = sum(map(is_unavailable, nodes_of_pool))
    size = max(allowed - unavailable, LEAST_BATCH) if allowed else 0
    placed = in_order(overview.due, block, up_to_date=overview.up_to_date, operator_node=operator_node)
    together = list(_together(placed, size)) if size else []
    numbers = [number for number, each in enumerate(together, start=1) for _ in each]
    batches = tuple(_batches(together, spec, block))
    gates = _Gates()
    is_open = overview.is_open
    total = sum((Duration(each.likely_seconds, each.worst_case_seconds) for each in batches), Duration())
    return UpgradePlan(
        target=overview.target,
        gates=gates.of(overview.gates),
        stops=overview.stops,
        max_unavailable=allowed,
        unavailable=unavailable,
        batch_size=size,
        nodes=tuple(
            [
                _planned(each, place, numbers[place - 1] if size else None, gates, is_open=is_open)
                for place, each in enumerate(placed, start=1)
            ]
        ),
        batches=batches,
        unknown=tuple(sorted(overview.unknown)),
        up_to_date=overview.up_to_date,
        likely_seconds=total.likely if batches else None,
        worst_case_seconds=total.worst_case if batches else None,
    )


class _Gates:
    """Gates as the plan has them. Nodes share findings, and share what is made of them."""

    def __init__(self) -> None:
        self._made: dict[int, PlannedGate] = {}

    def of(self, findings: Iterable[GateFinding]) -> tuple[PlannedGate, ...]:
        """Return the gates of ``findings``, which must be kept meanwhile: they are known by identity."""
        return tuple([self._made.get(id(each)) or self._make(each) for each in findings])

    def _make(self, finding: GateFinding) -> PlannedGate:
        made = self._made[id(finding)] = planned_gate(finding)
        return made


def planned_gate(finding: GateFinding) -> PlannedGate:
    """Return a gate as the plan has it."""
    return PlannedGate(
        gate=finding.gate,
        stand=finding.stand.value,
        message=finding.message,
        opens=finding.opens,
        permits=finding.permits,
        override=written_moment(finding.override.until) if finding.override else "",
    )


def _together(placed: Sequence[Placed], size: int) -> Iterator[list[Placed]]:
    """Yield the nodes of each batch: ``size`` at most, of one turn and one zone."""
    batch: list[Placed] = []
    for each in placed:
        if batch and (len(batch) == size or (batch[0].turn, batch[0].zone) != (each.turn, each.zone)):
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def _batches(together: Iterable[list[Placed]], spec: WindowsNodePoolSpec, block: Upgrade) -> Iterator[Batch]:
    for number, nodes in enumerate(together, start=1):
        is_canary = nodes[0].turn is Turn.CANARY
        takes = duration_of((each.upgrade.workload for each in nodes), spec, block, is_canary=is_canary)
        yield Batch(
            number=number,
            zone=nodes[0].zone,
            is_canary=is_canary,
            nodes=tuple([each.upgrade.node.name for each in nodes]),
            likely_seconds=takes.likely,
            worst_case_seconds=takes.worst_case,
        )


def _planned(each: Placed, place: int, batch: int | None, gates: _Gates, *, is_open: bool) -> PlannedNode:
    upgrade, workload, fit = each.upgrade, each.upgrade.workload, each.upgrade.fit
    may_begin = is_open and not each.closed and not upgrade.stops
    return PlannedNode(
        node=upgrade.node.name,
        place=place,
        batch=batch,
        zone=each.zone,
        why=each.why,
        action=PlannedAction.UPGRADE if may_begin else PlannedAction.WAIT,
        due=upgrade.due,
        closed=gates.of(each.closed) if each.closed else (),
        stops=upgrade.stops,
        pods_known=workload is not None,
        moving_pods=each.moving_pods,
        blockers=workload.blocks if workload else (),
        blocked_pods=workload.blocked if workload else 0,
        unfit_pods=fit.unfit if fit else 0,
        unfit_examples=fit.examples if fit else (),
        unclear_pods=fit.unclear if fit else 0,
        is_fit_unknown=fit is None or fit.unknown,
        unmanaged_pods=workload.unmanaged if workload else 0,
        local_pods=workload.local if workload else 0,
    )
