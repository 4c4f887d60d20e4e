"""The part of a decision that is about single nodes."""

from __future__ import annotations

from winpool.contract.acceptance import refusal_of
from winpool.decide import ROOMS
from winpool.mandate import mandate_of
from winpool.ownership.dues import dues_of
from winpool.ownership.members import divide
from winpool.report.assessment import Assessment, assessed
from winpool.snapshot import Snapshot


def assess(snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Return what a decision on ``snapshot`` knows of each node."""
    members = divide(snapshot)
    mandate = mandate_of(snapshot.pool, is_accepted=not refusal_of(snapshot, members))
    results = [room(snapshot, members, mandate) for room in ROOMS]
    dues = dues_of(snapshot, members, [each.goals for each in results])
    return assessed(snapshot, members, results, dues).all
