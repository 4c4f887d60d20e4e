"""Makes the plan of a dry run: what would be written to which node, and which nodes are due to upgrade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from winpool.api.keys import APPLIED_ANNOTATION, NO_EXECUTE, PREFIX
from winpool.api.status import (
    MAX_CHANGES,
    MAX_PLAN_STEPS,
    Change,
    ChangeKind,
    Plan,
    PlanAction,
    PlanStep,
    PlanUpgrade,
)
from winpool.features.upgrade.plan import UpgradePlan, upgrade_plan
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.node import ConditionsPatch, NodeCondition, NodePatch
from winpool.model.snapshot import Snapshot
from winpool.status.assessment import Assessed, Assessment
from winpool.status.pods import preflight


def plan(snapshot: Snapshot, nodes: Assessed, upgrades: UpgradeOverview | None) -> Plan:
    """Return what would be written to which node, what the taints would meet there, and which node is due.

    ``upgrades`` is None without ``spec.upgrade``. Steps that write come first. Where there is no room for
    all, each kind of step has at least half of it.
    """
    spec = snapshot.pool.spec
    due = [each for each in nodes.notable if (each.diff.patch or each.diff.conditions) and not each.is_held]
    found = None
    if upgrades and spec:
        ours = [node for _, node in sorted(nodes.own_nodes().items())]
        found = upgrade_plan(upgrades, spec=spec, nodes_of_pool=ours, operator_node=snapshot.operator_node)
    steps = tuple(_upgrade_steps(found)) if found else ()
    names = {each.node.name for each in due} | {each.node.name for each in (upgrades.due if upgrades else ())}
    shown = due[: max(MAX_PLAN_STEPS - len(steps), MAX_PLAN_STEPS // 2)]
    return Plan(
        total_nodes=len(names),
        steps=(*map(_step, shown), *steps)[:MAX_PLAN_STEPS],
        preflight=preflight(snapshot, spec, nodes.notable) if spec else (),
        upgrade=_upgrade(found, upgrades) if found and upgrades else None,
    )


def _upgrade_steps(found: UpgradePlan) -> Iterator[PlanStep]:
    """Yield a step for each node that is due. Gates of the pool are not in it: they are the same for all."""
    for each in found.nodes[:MAX_PLAN_STEPS]:
        yield PlanStep(
            node=each.node,
            action=PlanAction.UPGRADE,
            reason=each.upgrade.due[0].trigger,
            batch=each.batch,
            closed_gates=tuple(gate.gate for gate in each.upgrade.closed),
        )


def _upgrade(found: UpgradePlan, overview: UpgradeOverview) -> PlanUpgrade:
    return PlanUpgrade(
        due_nodes=len(found.nodes),
        permitted_nodes=sum(each.upgrade.is_open for each in found.nodes),
        batches=len(found.batches),
        closed_gates=tuple(each.gate for each in overview.closed),
        likely_seconds=found.likely_seconds,
        worst_case_seconds=found.worst_case_seconds,
    )


def _step(found: Assessment) -> PlanStep:
    patch, conditions = found.diff.patch, found.diff.conditions or found.diff.following
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
    differ = ["Labels"] if patch and patch.labels else []
    differ += ["Taints"] if patch and patch.taints is not None else []
    return "And".join(differ) or ("OwnershipRecord" if conditions is None else "Conditions")


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
    standing, wanted = _values(patch.node.conditions), _values(patch.conditions)
    return _of(ChangeKind.CONDITION, standing, {**dict.fromkeys(standing), **wanted})


def _values(conditions: Iterable[NodeCondition]) -> dict[str, str]:
    return {each.type: f"{each.status} ({each.reason})" for each in conditions}


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
