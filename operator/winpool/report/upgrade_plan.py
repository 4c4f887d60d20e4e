"""What the plan of a dry run says of upgrades: a step for each node that is due, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.plan import MAX_PLAN_STEPS, PlanAction, PlanStep, PlanUpgrade
from winpool.upgrade.plan import upgrade_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.node import Node
    from winpool.upgrade.planned import PlannedNode
    from winpool.upgrade.records import UpgradeOverview


def planned_upgrades(
    overview: UpgradeOverview, spec: WindowsNodePoolSpec, nodes_of_pool: Sequence[Node]
) -> tuple[tuple[PlanStep, ...], PlanUpgrade]:
    """Return a step for each node that is due, as many as a plan has room for, and what is true of all.

    ``nodes_of_pool`` are all nodes of the pool. Gates of the pool are not in the steps: they are the same for
    every node.
    """
    found = upgrade_plan(overview, spec=spec, nodes_of_pool=nodes_of_pool)
    return tuple([_step(each) for each in found.nodes[:MAX_PLAN_STEPS]]), PlanUpgrade(
        due_nodes=len(found.nodes),
        permitted_nodes=sum(not each.closed and not each.stops for each in found.nodes),
        batches=len(found.batches),
        closed_gates=tuple(each.gate for each in overview.closed),
        likely_seconds=found.likely_seconds,
        worst_case_seconds=found.worst_case_seconds,
    )


def _step(planned: PlannedNode) -> PlanStep:
    return PlanStep(
        node=planned.node,
        action=PlanAction.UPGRADE,
        reason=planned.due[0].trigger,
        batch=planned.batch,
        closed_gates=tuple(each.gate for each in planned.closed),
    )
