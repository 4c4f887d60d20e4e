"""What a person should look at, node by node, with the fix: the worst first, at most ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUES, Issue
from winpool.contract.membership import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from winpool.contract.assess import Assessment
    from winpool.snapshot import Pool


@dataclass(frozen=True, slots=True)
class _Finding:
    reason: IssueReason
    message: str
    fix: str


def issues(assessed: Sequence[Assessment], *, pool: Pool, now: datetime) -> tuple[Issue, ...]:
    """Return the issues in a stable order: by how bad their reason is, then by node.

    ``since`` is kept as long as the same issue of the same node goes on.
    """
    since = {(issue.node, issue.reason): issue.since for issue in pool.status.issues}
    order = list(IssueReason)
    found = sorted(
        ((each.node.name, finding) for each in assessed for finding in _of_node(each)),
        key=lambda pair: (order.index(pair[1].reason), pair[0]),
    )
    return tuple(
        Issue(
            node=node,
            reason=finding.reason,
            since=since.get((node, finding.reason), now),
            message=finding.message,
            fix=finding.fix,
        )
        for node, finding in found[:MAX_ISSUES]
    )


def _of_node(each: Assessment) -> Iterable[_Finding]:
    if each.unreadable:
        yield _Finding(
            IssueReason.OWNERSHIP_RECORD_UNREADABLE,
            f"annotation {APPLIED_ANNOTATION} cannot be read: {each.unreadable}",
            "check labels and taints of the node by hand: what the pool had put there counts as foreign now",
        )
    if each.refused:
        yield _Finding(
            IssueReason.WRITE_REFUSED,
            f"the API server does not let this node be changed: {each.refused}",
            "see to what the message names (a policy, a webhook, a limit), or change the spec",
        )
    if each.rival:
        said = "pool {} selects it too" if each.claim is Claim.OURS else "belongs to pool {}"
        yield _Finding(
            IssueReason.POOL_OVERLAP,
            said.format(each.rival),
            "change nodeSelector of one of the two pools so that they exclude each other",
        )
    if each.claim is Claim.UNKNOWN:
        yield _Finding(
            IssueReason.OWNER_UNKNOWN,
            f"annotation {APPLIED_ANNOTATION} names a pool that is not known",
            "wait: if there is none, the node is taken over once two lists of all pools have shown it",
        )
