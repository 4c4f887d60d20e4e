"""What is to be said of two operators that both write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.api.v1alpha1 import Issue
    from winpool.snapshot import Snapshot


def other_operator_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what concerns every pool: another operator writes to nodes and pools as well."""
    if snapshot.other_operator and not snapshot.pool.deleting:
        yield Finding(
            IssueReason.SECOND_OPERATOR,
            (),
            f"A second operator is running in this cluster: {snapshot.other_operator} holds the Lease "
            "winpool-system/winpool, and another operator runs without --leader-elect. Both write to nodes "
            "and pools.",
            "Stop the operator that runs without --leader-elect, or start it with --leader-elect "
            "(docs/operator.md#two-replicas).",
            cause="a second operator writes",
        )


def carried_report(snapshot: Snapshot) -> tuple[Issue, ...]:
    """Return what the status says of a second operator, where this one does not know whether it is true."""
    pool = snapshot.pool
    if snapshot.other_operator is not None or pool.deleting:
        return ()
    return tuple(issue for issue in pool.status.issues if issue.reason == IssueReason.SECOND_OPERATOR)
