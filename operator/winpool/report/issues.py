"""What a person should look at, node by node, with the fix: the worst first, at most ten."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUES, Issue
from winpool.contract.membership import Claim
from winpool.report.finding import Finding
from winpool.report.os_support import ending_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.contract.assess import Assessment
    from winpool.snapshot import Pool


def issues(
    assessed: Iterable[Assessment], judged: Iterable[Finding], *, pool: Pool, now: datetime
) -> tuple[Issue, ...]:
    """Return the issues in a stable order: by how bad their reason is, then by node.

    ``judged`` is what the support matrix has against nodes. Of nodes with the same trouble as many are named
    as fit.

    Where there are more than fit, ends of support that come keep their places all the same: each is
    announced once, and must not come and go with the troubles of other nodes.

    ``since`` is kept as long as the same issue of the same node goes on.
    """
    since = {_identity(issue.node, issue.reason, issue.message): issue.since for issue in pool.status.issues}
    order = list(IssueReason)
    findings = chain(chain.from_iterable(map(_of_node, assessed)), judged)
    found = sorted(
        ((node, finding) for finding in findings for node in finding.nodes[:MAX_ISSUES]),
        key=lambda pair: (order.index(pair[1].reason), pair[0]),
    )
    endings = [pair for pair in found if pair[1].reason is IssueReason.SUPPORT_ENDING][:MAX_ISSUES]
    worse = [pair for pair in found if order.index(pair[1].reason) < order.index(IssueReason.SUPPORT_ENDING)]
    others = found[len(worse) + len(endings) :]
    shown = [*worse[: MAX_ISSUES - len(endings)], *endings, *others][:MAX_ISSUES]
    return tuple(
        Issue(
            node=node,
            reason=finding.reason,
            since=since.get(_identity(node, finding.reason, finding.message), now),
            message=finding.message,
            fix=finding.fix,
        )
        for node, finding in shown
    )


def _identity(node: str, reason: str, message: str) -> tuple[str, str]:
    """Return what tells an issue from others; an end of support goes on whichever node stands for it."""
    return (ending_of(message) if reason == IssueReason.SUPPORT_ENDING else node, reason)


def _of_node(each: Assessment) -> Iterator[Finding]:
    nodes = (each.node.name,)
    if each.unreadable:
        yield Finding(
            IssueReason.OWNERSHIP_RECORD_UNREADABLE,
            nodes,
            f"annotation {APPLIED_ANNOTATION} cannot be read: {each.unreadable}",
            "check labels and taints of the node by hand: what the pool had put there counts as foreign now",
        )
    if each.refused:
        yield Finding(
            IssueReason.WRITE_REFUSED,
            nodes,
            f"the API server does not let this node be changed: {each.refused}",
            "see to what the message names (a policy, a webhook, a limit), or change the spec",
        )
    if each.rival:
        said = "pool {} selects it too" if each.claim is Claim.OURS else "belongs to pool {}"
        yield Finding(
            IssueReason.POOL_OVERLAP,
            nodes,
            said.format(each.rival),
            "change nodeSelector of one of the two pools so that they exclude each other",
        )
    if each.claim is Claim.UNKNOWN:
        yield Finding(
            IssueReason.OWNER_UNKNOWN,
            nodes,
            f"annotation {APPLIED_ANNOTATION} names a pool that is not known",
            "wait: if there is none, the node is taken over once two lists of all pools have shown it",
        )
