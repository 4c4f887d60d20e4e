"""What a pool in mode DryRun would do to which node: the patches and conditions that are due, in words.

What the plan of a dry run says of upgrades: a step for each node that is due, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from winpool.api.fields import NO_EXECUTE
from winpool.api.keys import APPLIED_ANNOTATION, PREFIX
from winpool.api.status import MAX_PLAN_STEPS, PlanAction, PlanStep, PlanUpgrade
from winpool.api.v1alpha1 import MAX_CHANGES, Change, ChangeKind, Plan, WindowsNodePoolSpec
from winpool.features.upgrade.plan import PlannedNode, upgrade_plan
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.node import ConditionsPatch, Node, NodeCondition, NodePatch
from winpool.model.snapshot import Snapshot
from winpool.status.assessment import Assessment
from winpool.status.pods import preflight


def planned_upgrades(
    overview: UpgradeOverview, spec: WindowsNodePoolSpec, nodes_of_pool: Sequence[Node]
) -> tuple[tuple[PlanStep, ...], PlanUpgrade]:
    """Return a step for each node that is due, as many as a plan has room for, and what is true of all.

    ``nodes_of_pool`` are all nodes of the pool. Gates of the pool are not in the steps: they are the same for
    every node.
    """
    found = upgrade_plan(overview, spec=spec, nodes_of_pool=nodes_of_pool)
    return tuple([_upgrade_step(each) for each in found.nodes[:MAX_PLAN_STEPS]]), PlanUpgrade(
        due_nodes=len(found.nodes),
        permitted_nodes=sum(not each.closed and not each.stops for each in found.nodes),
        batches=len(found.batches),
        closed_gates=tuple(each.gate for each in overview.closed),
        likely_seconds=found.likely_seconds,
        worst_case_seconds=found.worst_case_seconds,
    )


def _upgrade_step(planned: PlannedNode) -> PlanStep:
    return PlanStep(
        node=planned.node,
        action=PlanAction.UPGRADE,
        reason=planned.due[0].trigger,
        batch=planned.batch,
        closed_gates=tuple(each.gate for each in planned.closed),
    )


def plan(
    snapshot: Snapshot,
    assessed: Sequence[Assessment],
    upgrades: UpgradeOverview | None = None,
    *,
    nodes_of_pool: Sequence[Node] = (),
) -> Plan:
    """Return what would be written to which node, what the taints would meet there, and which node is due.

    ``upgrades`` is None without ``spec.upgrade``. Steps that write come first. Where there is no room for
    all, each kind of step has at least half of it.
    """
    due = [each for each in assessed if (each.patch or each.conditions) and not each.is_held]
    spec = snapshot.pool.spec
    steps, upgrade = planned_upgrades(upgrades, spec, nodes_of_pool) if upgrades and spec else ((), None)
    names = {each.node.name for each in due}
    names.update(each.node.name for each in (upgrades.due if upgrades else ()))
    shown = due[: max(MAX_PLAN_STEPS - len(steps), MAX_PLAN_STEPS // 2)]
    return Plan(
        total_nodes=len(names),
        steps=(*map(_step, shown), *steps)[:MAX_PLAN_STEPS],
        preflight=preflight(snapshot, spec, assessed) if spec else (),
        upgrade=upgrade,
    )


def _step(found: Assessment) -> PlanStep:
    patch, conditions = found.patch, found.conditions or found.following
    changes = [] if patch is None else [*_changes(patch)]
    changes += [] if conditions is None else _of_conditions(conditions)
    changes.sort(key=_place)
    return PlanStep(
        node=found.node.name,
        action=PlanAction.UPDATE,
        reason=_difference(patch, conditions),
        changes=tuple(changes[:MAX_CHANGES]),
        change_count=len(changes),
    )


def _difference(patch: NodePatch | None, conditions: ConditionsPatch | None) -> str:
    """Name what differs, in one word: a patch that changes nothing only renews the ownership record."""
    match bool(patch and patch.labels), patch is not None and patch.taints is not None:
        case True, True:
            return "LabelsAndTaints"
        case True, False:
            return "Labels"
        case False, True:
            return "Taints"
        case _:
            return "OwnershipRecord" if conditions is None else "Conditions"


def _changes(patch: NodePatch) -> Iterator[Change]:
    """Yield each key that the patch adds, changes or removes. The ownership record follows from the rest."""
    node = patch.node
    yield from _of(ChangeKind.LABEL, node.labels, patch.labels)
    if patch.taints is not None:
        standing = {f"{taint.key}:{taint.effect}": taint.value for taint in node.taints}
        wanted = {f"{taint.key}:{taint.effect}": taint.value for taint in patch.taints}
        removed = dict.fromkeys(standing.keys() - wanted.keys())
        yield from _of(ChangeKind.TAINT, standing, {**wanted, **removed})
    annotations = {key: value for key, value in patch.annotations.items() if key != APPLIED_ANNOTATION}
    yield from _of(ChangeKind.ANNOTATION, node.annotations, annotations)


def _of(kind: ChangeKind, standing: Mapping[str, str], wanted: Mapping[str, str | None]) -> Iterator[Change]:
    for key, value in wanted.items():
        if standing.get(key) != value:
            yield Change(kind=kind, key=key, from_=standing.get(key), to=value)


def _of_conditions(patch: ConditionsPatch) -> Iterator[Change]:
    """Return the changes of our conditions. A new message alone is none."""
    standing = {each.type: _told(each) for each in patch.node.conditions}
    wanted = {each.type: _told(each) for each in patch.conditions}
    return _of(ChangeKind.CONDITION, standing, {**dict.fromkeys(standing), **wanted})


def _told(condition: NodeCondition) -> str:
    return f"{condition.status} ({condition.reason})"


_KINDS = (ChangeKind.TAINT, ChangeKind.CONDITION, ChangeKind.LABEL, ChangeKind.ANNOTATION)


def _place(change: Change) -> tuple[bool, bool, bool, bool, int, str]:
    """Return what orders the changes: what may end pods, other taints, conditions, the spec, our own keys."""
    is_taint = change.kind is ChangeKind.TAINT
    return (
        not (is_taint and change.key.endswith(f":{NO_EXECUTE}")),
        not is_taint,
        change.kind is not ChangeKind.CONDITION,
        change.key.startswith(PREFIX),
        _KINDS.index(change.kind),
        change.key,
    )
