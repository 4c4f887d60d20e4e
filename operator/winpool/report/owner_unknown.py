"""Nodes that a pool selects and whose ownership record names a pool that is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.ownership.members import rights_of
from winpool.ownership.membership import Claim
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.report.pool_gone import utc
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


def owner_findings(snapshot: Snapshot, nodes: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for all nodes of which the same is to be said, whichever owners their records name."""
    rights = rights_of(snapshot)
    found: dict[tuple[datetime | None, bool, bool], list[str]] = {}
    for each in nodes:
        record = record_of(each.node) if each.claim is Claim.UNKNOWN else None
        if isinstance(record, Record):
            is_believed = rights.know_owner(record) or rights.is_in_doubt(record)
            decided_at = None if each.owner_is_gone else snapshot.others.decided_at.get(record.pool_uid)
            found.setdefault((decided_at, each.owner_is_gone, is_believed), []).append(each.node.name)
    for (decided_at, is_gone, is_believed), names in found.items():
        message, fix = never_seen(names) if is_gone else undecided(decided_at, is_believed=is_believed)
        yield Finding(IssueReason.OWNER_UNKNOWN, tuple(names), message, fix)


def undecided(decided_at: datetime | None, *, is_believed: bool) -> tuple[str, str]:
    """Return message and fix where it is not known yet whether the owner is gone.

    ``decided_at`` is when the second list of all pools is due, None where none was asked for. The pool gets
    the node then where the record is believed.
    """
    written = "" if is_believed else ", which was written without the guard,"
    message = f"annotation {APPLIED_ANNOTATION}{written} names a pool that is not known"
    if decided_at is None:
        return message, "wait until the operator has listed all pools twice"
    message = f"{message}; it is known at {utc(decided_at)} whether there is one"
    then = "this pool takes the node over" if is_believed else "this issue says what to do"
    return message, f"wait until {utc(decided_at)}: if a second list of all pools lacks it too, {then}"


def never_seen(names: list[str]) -> tuple[str, str]:
    """Return message and fix where the owner is gone, and nothing vouches for the record."""
    node = names[0] if len(names) == 1 else "NODE"
    return (
        f"annotation {APPLIED_ANNOTATION}, which was written without the guard, names a pool that does not "
        "exist and that this operator has never seen",
        "check the labels and taints that it names by hand, then let the pool have the node: "
        f"kubectl annotate node {node} {APPLIED_ANNOTATION}-",
    )
