"""The whole status of a pool, from one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.v1alpha1 import (
    MAX_PLAN_STEPS,
    Mode,
    Plan,
    PlanAction,
    PlanStep,
    SetKeys,
    WindowsNodePoolStatus,
)
from winpool.report.blind import blind
from winpool.report.conditions import conditions
from winpool.report.guard import guard_findings
from winpool.report.issues import carried_issues, issues
from winpool.report.os_support import builds, findings, grouped
from winpool.report.pods import misplaced_pods, overdue_at, pod_findings
from winpool.report.preflight import preflight
from winpool.report.reserved_memory import reserved_findings
from winpool.report.tally import tally
from winpool.report.template import node_template
from winpool.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.api.v1alpha1 import NodeTemplate
    from winpool.contract.acceptance import Refusal
    from winpool.objects.acts import NodePatch
    from winpool.objects.keys import Keys
    from winpool.report.assessment import Assessed, Assessment
    from winpool.rooms import RoomResult
    from winpool.snapshot import Snapshot


def status(
    snapshot: Snapshot,
    nodes: Assessed,
    results: Sequence[RoomResult],
    *,
    refusal: Refusal,
    missing_permission: str,
    set_keys: Keys,
) -> WindowsNodePoolStatus:
    """Return what is to stand in ``status``: all of it, for one write."""
    pool, counts = snapshot.pool, tally(nodes.all, results)
    groups = grouped(nodes.all)
    judged = findings(groups, today=snapshot.now.date())
    found = (
        *guard_findings(snapshot),
        *judged,
        *pod_findings(snapshot, nodes),
        *reserved_findings(pool, nodes.all),
        *(finding for result in results for finding in result.findings),
    )
    standing = issues(nodes.notable, found, carried=carried_issues(snapshot), pool=pool, now=snapshot.now)
    overdue = overdue_at(standing)
    view = View(
        pool=pool,
        tally=counts,
        refusal=refusal,
        missing_permission=missing_permission,
        blind=blind(snapshot, nodes.notable),
        is_overdue=overdue is not None and overdue <= snapshot.now,
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
        misplaced_pods=misplaced_pods(snapshot, nodes.all),
        builds=builds(groups),
        issues=standing,
        set_keys=_written_keys(set_keys) if set_keys else None,
        node_template=_template(snapshot) if view.accepted else None,
        plan=_plan(snapshot, nodes.notable) if view.mode is Mode.DRY_RUN and not pool.deleting else None,
        conditions=conditions(view, now=snapshot.now),
    )


def _written_keys(keys: Keys) -> SetKeys:
    return SetKeys(
        labels=tuple(sorted(keys.labels)),
        taints=tuple(f"{key}:{effect}" for key, effect in sorted(keys.taints)),
    )


def _template(snapshot: Snapshot) -> NodeTemplate | None:
    pool = snapshot.pool
    if pool.spec is None or pool.deleting:
        return None
    return node_template(pool.name, pool.spec, matrix=snapshot.support.matrix)


def _plan(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Plan:
    patches = [each.patch for each in assessed if each.patch is not None]
    spec = snapshot.pool.spec
    return Plan(
        total_nodes=len(patches),
        steps=tuple(
            PlanStep(node=patch.node.name, action=PlanAction.UPDATE, reason=_difference(patch))
            for patch in patches[:MAX_PLAN_STEPS]
        ),
        preflight=preflight(snapshot, spec, assessed) if spec else (),
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
