"""What a pool in mode DryRun would do to which node: the patches that are due, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import APPLIED_ANNOTATION, PREFIX
from winpool.api.syntax import NO_EXECUTE
from winpool.api.v1alpha1 import (
    MAX_CHANGES,
    MAX_PLAN_STEPS,
    Change,
    ChangeKind,
    Plan,
    PlanAction,
    PlanStep,
)
from winpool.report.preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.objects.acts import NodePatch
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


def plan(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Plan:
    """Return what would be written to which node, and what the taints would meet there."""
    patches = [each.patch for each in assessed if each.patch is not None and not each.is_held]
    spec = snapshot.pool.spec
    return Plan(
        total_nodes=len(patches),
        steps=tuple(_step(patch) for patch in patches[:MAX_PLAN_STEPS]),
        preflight=preflight(snapshot, spec, assessed) if spec else (),
    )


def _step(patch: NodePatch) -> PlanStep:
    changes = sorted(_changes(patch), key=_place)
    return PlanStep(
        node=patch.node.name,
        action=PlanAction.UPDATE,
        reason=_difference(patch),
        changes=tuple(changes[:MAX_CHANGES]),
        change_count=len(changes),
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


_KINDS = (ChangeKind.TAINT, ChangeKind.LABEL, ChangeKind.ANNOTATION)


def _place(change: Change) -> tuple[bool, bool, bool, int, str]:
    """Return what orders the changes: what may end pods, other taints, the keys of the spec, our own."""
    is_taint = change.kind is ChangeKind.TAINT
    return (
        not (is_taint and change.key.endswith(f":{NO_EXECUTE}")),
        not is_taint,
        change.key.startswith(PREFIX),
        _KINDS.index(change.kind),
        change.key,
    )
