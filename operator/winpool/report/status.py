"""The whole status of a pool, from one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.v1alpha1 import Mode, SetKeys, WindowsNodePoolStatus
from winpool.judging.judge import layers_of
from winpool.ownership.membership import Claim
from winpool.report.blind import blind
from winpool.report.conditions import conditions
from winpool.report.crd_fields import crd_findings
from winpool.report.guard import guard_findings
from winpool.report.history import history
from winpool.report.holds import held_findings
from winpool.report.issues import Issues, carried_issues, issues
from winpool.report.lost_keys import lost_key_findings
from winpool.report.memory import memory_capabilities, pool_memory
from winpool.report.node_findings import node_findings
from winpool.report.os_support import builds, findings, grouped
from winpool.report.other_operator import carried_report, other_operator_findings
from winpool.report.owner_unknown import owner_findings
from winpool.report.plan import plan
from winpool.report.pods import misplaced_pods, overdue_at, pod_findings
from winpool.report.reserved_memory import reserved_findings
from winpool.report.strays import carried_strays, stray_findings
from winpool.report.tally import tally
from winpool.report.template import node_template
from winpool.report.unselected import unselected_findings
from winpool.report.upgrade import control_plane_of, upgrades_of
from winpool.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.api.v1alpha1 import NodeTemplate, Plan
    from winpool.contract.acceptance import Refusal
    from winpool.objects.keys import Keys
    from winpool.report.assessment import Assessed
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
) -> tuple[WindowsNodePoolStatus, Issues]:
    """Return what is to stand in ``status``, all of it, for one write; and all issues."""
    pool, counts = snapshot.pool, tally(nodes.all, results)
    groups = grouped(nodes.all)
    judged = findings(groups, today=snapshot.now.date())
    found = (
        *node_findings(nodes.notable),
        *held_findings(nodes.notable),
        *guard_findings(snapshot),
        *other_operator_findings(snapshot),
        *crd_findings(snapshot),
        *unselected_findings(snapshot, nodes.all),
        *lost_key_findings(nodes.notable),
        *stray_findings(snapshot),
        *owner_findings(snapshot, nodes.notable),
        *judged,
        *pod_findings(snapshot, nodes),
        *reserved_findings(pool, nodes.all),
        *(finding for result in results for finding in result.findings),
    )
    memory = pool_memory(pool, results)
    carried = (
        *carried_report(snapshot),
        *carried_strays(snapshot),
        *carried_issues(snapshot),
        *(memory.carried if memory else ()),
    )
    standing = issues(found, carried=carried, pool=pool, now=snapshot.now, known=snapshot.known_issues)
    overdue = overdue_at((*standing.shown, *(each.issue for each in standing.all)))
    view = View(
        pool=pool,
        tally=counts,
        refusal=refusal,
        missing_permission=missing_permission,
        blind=blind(snapshot, nodes.notable),
        is_overdue=overdue is not None and overdue <= snapshot.now,
        groups=groups,
        judged=judged,
        found=frozenset((*(each.reason for each in found), *(each.reason for each in carried))),
        memory=memory,
        upgrades=upgrades_of(results),
    )
    reported = WindowsNodePoolStatus(
        observed_generation=pool.generation,
        nodes=counts.nodes,
        ready_nodes=counts.ready,
        up_to_date_nodes=counts.up_to_date,
        up_to_date_and_ready_nodes=counts.up_to_date_and_ready,
        available_nodes=counts.available,
        held_nodes=counts.held,
        pressured_nodes=memory.pressured if memory else 0,
        memory_capabilities=memory_capabilities(pool, snapshot.memory.capabilities) or None
        if memory
        else None,
        misplaced_pods=misplaced_pods(snapshot, nodes.all),
        builds=builds(groups),
        issues=standing.shown,
        issue_count=standing.count,
        set_keys=_written_keys(set_keys) if set_keys else None,
        node_template=_template(snapshot) if view.accepted else None,
        plan=_plan(snapshot, nodes, view),
        control_plane=control_plane_of(view),
        history=history(pool, view.upgrades, now=snapshot.now),
        conditions=conditions(view, now=snapshot.now),
    )
    return reported, standing


def _plan(snapshot: Snapshot, nodes: Assessed, view: View) -> Plan | None:
    """Return what would be done, in the mode that asks for it."""
    if view.mode is not Mode.DRY_RUN or snapshot.pool.deleting:
        return None
    ours = [each.node for each in nodes.all if each.claim is Claim.OURS]
    return plan(snapshot, nodes.notable, view.upgrades, nodes_of_pool=ours)


def _written_keys(keys: Keys) -> SetKeys:
    return SetKeys(
        labels=tuple(sorted(keys.labels)),
        taints=tuple(f"{key}:{effect}" for key, effect in sorted(keys.taints)),
    )


def _template(snapshot: Snapshot) -> NodeTemplate | None:
    pool = snapshot.pool
    if pool.spec is None or pool.deleting:
        return None
    return node_template(pool.name, pool.spec, layers=layers_of(snapshot, pool.spec))
