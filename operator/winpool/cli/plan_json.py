"""What ``kubectl winpool plan -o json`` prints: for programs, with the names and values of the API.

Equal plans are equal byte for byte: it has no time of reading, and everything is in an order of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from winpool.cli.gate_json import due_content, gate_content, stop_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.cli.upgrade_judge import Judged
    from winpool.cli.upgrade_world import Cluster
    from winpool.features.upgrade.plan import Batch, PlannedNode, UpgradePlan


def as_json(found: Iterable[Judged], cluster: Cluster) -> str:
    """Return the plans of pools, each with all of its nodes."""
    content = {
        "pools": [_pool(each) for each in found],
        **({"podsProblem": cluster.pods_problem} if cluster.pods_problem else {}),
        **({"unreadNodes": list(cluster.unread)} if cluster.unread else {}),
    }
    return json.dumps(content, indent=2) + "\n"


def _pool(judged: Judged) -> Mapping[str, Any]:
    overview, plan = judged.overview, judged.plan
    return {
        "name": judged.pool.name,
        "generation": judged.pool.generation,
        "nodes": len(judged.nodes),
        **({"refusal": judged.refusal} if judged.refusal else {}),
        "dueNodes": len(overview.due) if overview is not None else 0,
        **({} if plan is None or overview is None else _plan(plan, permitted=len(overview.permitted))),
    }


def _plan(plan: UpgradePlan, *, permitted: int) -> Mapping[str, Any]:
    return {
        "target": plan.target,
        "permittedNodes": permitted,
        "upToDateNodes": plan.up_to_date,
        "unknownNodes": list(plan.unknown),
        "stops": list(map(stop_content, plan.stops)),
        "gates": list(map(gate_content, plan.gates)),
        "maxUnavailable": plan.max_unavailable,
        "unavailableNodes": plan.unavailable,
        "batchSize": plan.batch_size,
        "likelySeconds": plan.likely_seconds,
        "worstCaseSeconds": plan.worst_case_seconds,
        "batches": list(map(_batch, plan.batches)),
        "steps": list(map(_node, plan.nodes)),
    }


def _batch(batch: Batch) -> Mapping[str, Any]:
    return {
        "number": batch.number,
        "zone": batch.zone,
        "canary": batch.is_canary,
        "nodes": list(batch.nodes),
        "likelySeconds": batch.likely_seconds,
        "worstCaseSeconds": batch.worst_case_seconds,
    }


def _node(node: PlannedNode) -> Mapping[str, Any]:
    return {
        "node": node.node,
        "place": node.place,
        "batch": node.batch,
        "zone": node.zone,
        "action": str(node.action),
        "why": node.why,
        "due": list(map(due_content, node.due)),
        "stops": list(map(stop_content, node.stops)),
        "closedGates": list(map(gate_content, node.closed)),
        "pods": _pods(node) if node.pods_known else None,
    }


def _pods(node: PlannedNode) -> Mapping[str, Any]:
    return {
        "moving": node.moving_pods,
        "unfit": node.unfit_pods,
        "unfitExamples": list(node.unfit_examples),
        "unclear": node.unclear_pods,
        "fitUnknown": node.is_fit_unknown,
        "unmanaged": node.unmanaged_pods,
        "emptyDir": node.local_pods,
        "blocked": node.blocked_pods,
        "blockers": [
            {"pod": each.pod, "reason": str(each.why), "budgets": list(each.budgets)}
            for each in node.blockers
        ],
    }
