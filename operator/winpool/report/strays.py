"""Nodes that were in the pool and are not Windows nodes any more: what the operator leaves on them.

See ``ownership/strays`` for the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.api.v1alpha1 import MAX_ISSUE_NODES
from winpool.ownership.members import rights_of
from winpool.ownership.strays import kept_on
from winpool.report.left_alone import named, removal
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.api.v1alpha1 import Issue
    from winpool.objects.keys import Keys
    from winpool.snapshot import Snapshot


def stray_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for all strays on which the same stays, with the commands that remove it.

    A pool that is being deleted releases them.
    """
    if snapshot.pool.deleting or not snapshot.strays:
        return
    rights, windows = rights_of(snapshot), {node.name for node in snapshot.nodes}
    found: dict[Keys, list[str]] = {}
    for node in snapshot.strays:
        if node.name in windows:
            continue  # again, since the list of strays
        if kept := kept_on(node, rights=rights):
            found.setdefault(kept, []).append(node.name)
    for kept, names in found.items():
        nodes = " ".join(sorted(names)[:MAX_ISSUE_NODES])
        on_each = " from each of these nodes" if len(names) > MAX_ISSUE_NODES else ""
        yield Finding(
            IssueReason.NODE_NOT_WINDOWS,
            tuple(names),
            f"These nodes were in the pool, and do not have the label {OS_LABEL}={OS_WINDOWS} any more. "
            "Kubelets may change that label. The operator leaves what a kubelet may not remove: "
            f"{named(kept)}.",
            "Check what runs on the nodes. If it is Windows, find out who changed the label. If it is not, "
            f"remove the rest{on_each}: {removal(nodes, kept)}",
            cause=named(kept),
        )


def carried_strays(snapshot: Snapshot) -> tuple[Issue, ...]:
    """Return what the status says of strays, where they were not listed since the start."""
    pool = snapshot.pool
    if snapshot.strays is not None or pool.deleting:
        return ()
    return tuple(issue for issue in pool.status.issues if issue.reason == IssueReason.NODE_NOT_WINDOWS)
