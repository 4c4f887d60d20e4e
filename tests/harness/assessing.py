"""The part of a decision that is about single nodes."""

from __future__ import annotations

from winpool.decide import FEATURES, allowed_actions
from winpool.features.contract.feature import contract_refusal_of
from winpool.model.snapshot import Snapshot
from winpool.ownership.diff import diffs_of
from winpool.ownership.members import divide, held_nodes
from winpool.plan_writes import contract_result
from winpool.status.assessment import Assessed, Assessment, assessed


def assess(snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Return what a decision on ``snapshot`` knows of each node, in the order of their names."""
    return tuple(sorted(assess_all(snapshot), key=lambda each: each.node.name))


def assess_all(snapshot: Snapshot) -> Assessed:
    """Return what a decision on ``snapshot`` knows of the nodes."""
    members = divide(snapshot)
    allowed = allowed_actions(snapshot.pool, is_accepted=not contract_refusal_of(snapshot, members))
    results = [feature(snapshot, members, allowed) for feature in FEATURES]
    diffs = diffs_of(snapshot, members, [each.desired for each in results])
    held = held_nodes(snapshot, members)
    return assessed(snapshot, members, contract_result(results), diffs, held=held)
