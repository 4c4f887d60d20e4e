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
    """Yield a finding for all nodes of which the same is to be said, whichever owners their records name.

    It names the time at which the last of their owners is decided on. The time is no part of the cause: a
    kubelet without the guard can name another owner each second.
    """
    rights = rights_of(snapshot)
    found: dict[tuple[bool, bool], list[str]] = {}
    moments: dict[tuple[bool, bool], list[datetime]] = {}
    for each in nodes:
        record = record_of(each.node) if each.claim is Claim.UNKNOWN else None
        if isinstance(record, Record):
            is_believed = rights.know_owner(record) or rights.is_in_doubt(record)
            group = (each.owner_is_gone, is_believed)
            found.setdefault(group, []).append(each.node.name)
            if decided_at := snapshot.others.decided_at.get(record.pool_uid):
                moments.setdefault(group, []).append(decided_at)
    for group, names in found.items():
        is_gone, is_believed = group
        last = max(moments.get(group, ()), default=None)
        message, fix = never_seen(names) if is_gone else undecided(last, is_believed=is_believed)
        cause = f"{'gone' if is_gone else 'undecided'} {'believed' if is_believed else 'doubted'}"
        yield Finding(IssueReason.OWNER_UNKNOWN, tuple(names), message, fix, cause)


def undecided(decided_at: datetime | None, *, is_believed: bool) -> tuple[str, str]:
    """Return message and fix where it is not known yet whether the owner is gone.

    ``decided_at`` is when the second list of all pools is due, None where none was asked for. The pool gets
    the node then where the record is believed. Only the fix names the time, so that the message stays.
    """
    written = "" if is_believed else " was written without the guard, and"
    message = f"The annotation {APPLIED_ANNOTATION}{written} names a pool that the operator does not know."
    if decided_at is None:
        return message, "Wait until the operator has listed all pools twice."
    then = "this pool takes over the nodes" if is_believed else "this issue says what to do"
    return (
        message,
        f"Wait until {utc(decided_at)}. If a second list of all pools lacks that pool too, {then}.",
    )


def never_seen(names: list[str]) -> tuple[str, str]:
    """Return message and fix where the owner is gone, and nothing vouches for the record."""
    node = names[0] if len(names) == 1 else "NODE"
    return (
        f"The annotation {APPLIED_ANNOTATION} was written without the guard. It names a pool that does not "
        "exist and that this operator has never seen.",
        "Check the labels and taints that it names by hand. Then let the pool have the node: "
        f"kubectl annotate node {node} {APPLIED_ANNOTATION}-",
    )
