"""The part of a decision that is about single nodes."""

from __future__ import annotations

from winpool.allowed import mandate_of
from winpool.decide import ROOMS
from winpool.features.contract.feature import contract_refusal_of
from winpool.model.snapshot import Snapshot
from winpool.ownership.diff import diffs_of
from winpool.ownership.members import divide
from winpool.status.assessment import Assessed, Assessment, assessed


def assess(snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Return what a decision on ``snapshot`` knows of each node, in the order of their names."""
    return tuple(sorted(assess_all(snapshot), key=lambda each: each.node.name))


def assess_all(snapshot: Snapshot) -> Assessed:
    """Return what a decision on ``snapshot`` knows of the nodes."""
    members = divide(snapshot)
    mandate = mandate_of(snapshot.pool, is_accepted=not contract_refusal_of(snapshot, members))
    results = [room(snapshot, members, mandate) for room in ROOMS]
    diffs = diffs_of(snapshot, members, [each.goals for each in results])
    return assessed(snapshot, members, results, diffs)
