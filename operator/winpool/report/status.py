"""The whole status of a pool, from one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.v1alpha1 import MAX_PLAN_STEPS, Mode, Plan, PlanAction, PlanStep, WindowsNodePoolStatus
from winpool.report.conditions import View, conditions
from winpool.report.issues import issues
from winpool.report.os_support import builds, findings, grouped
from winpool.report.tally import tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.contract.assess import Assessment
    from winpool.snapshot import NodePatch, Snapshot


def status(snapshot: Snapshot, assessed: Sequence[Assessment], *, refusal: str) -> WindowsNodePoolStatus:
    """Return what is to stand in ``status``: all of it, for one write."""
    pool, counts = snapshot.pool, tally(assessed)
    groups = grouped(assessed)
    judged = findings(groups, today=snapshot.now.date())
    view = View(
        pool=pool,
        tally=counts,
        refusal=refusal,
        missing_permission=snapshot.missing_permission,
        groups=groups,
        judged=judged,
    )
    return WindowsNodePoolStatus(
        observed_generation=pool.generation,
        nodes=counts.nodes,
        ready_nodes=counts.ready,
        up_to_date_nodes=counts.up_to_date,
        up_to_date_and_ready_nodes=counts.up_to_date_and_ready,
        available_nodes=counts.available,
        builds=builds(groups),
        issues=issues(assessed, judged, pool=pool, now=snapshot.now),
        plan=_plan(assessed) if view.mode is Mode.DRY_RUN and not pool.deleting else None,
        conditions=conditions(view, now=snapshot.now),
    )


def _plan(assessed: Sequence[Assessment]) -> Plan:
    patches = [each.patch for each in assessed if each.patch is not None]
    return Plan(
        total_nodes=len(patches),
        steps=tuple(
            PlanStep(node=patch.node.name, action=PlanAction.UPDATE, reason=_difference(patch))
            for patch in patches[:MAX_PLAN_STEPS]
        ),
    )


def _difference(patch: NodePatch) -> str:
    """Name what differs, in one word: a patch that changes neither only renews the ownership record."""
    match bool(patch.labels), patch.taints is not None:
        case True, True:
            return "LabelsAndTaints"
        case True, False:
            return "Labels"
        case False, True:
            return "Taints"
        case _:
            return "OwnershipRecord"
