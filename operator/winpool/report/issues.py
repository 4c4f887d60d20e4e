"""What a person should look at, node by node, with the fix: the worst first, at most ten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUES, Issue
from winpool.contract.membership import Claim
from winpool.report.os_support import ending_of, findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date, datetime

    from winpool.contract.assess import Assessment
    from winpool.report.os_support import Group
    from winpool.snapshot import Pool


@dataclass(frozen=True, slots=True)
class _Finding:
    reason: IssueReason
    message: str
    fix: str


def issues(
    assessed: Sequence[Assessment], groups: Sequence[Group], *, pool: Pool, now: datetime
) -> tuple[Issue, ...]:
    """Return the issues in a stable order: by how bad their reason is, then by node.

    Where there are more than fit, ends of support that come keep their places all the same: each is
    announced once, and must not come and go with the troubles of other nodes.

    ``since`` is kept as long as the same issue of the same node goes on.
    """
    since = {_identity(issue.node, issue.reason, issue.message): issue.since for issue in pool.status.issues}
    order = list(IssueReason)
    found = sorted(
        (*_of_nodes(assessed), *_of_groups(groups, today=now.date())),
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


def _of_nodes(assessed: Iterable[Assessment]) -> Iterator[tuple[str, _Finding]]:
    for each in assessed:
        # Asked here, of thousands of nodes: to begin a generator costs more than the answer.
        if each.unreadable or each.refused or each.rival or each.claim is Claim.UNKNOWN:
            for finding in _of_node(each):
                yield each.node.name, finding


def _of_groups(groups: Iterable[Group], *, today: date) -> Iterator[tuple[str, _Finding]]:
    """Yield what the support matrix has against nodes; of those with the same trouble as many as fit."""
    for found in findings(groups, today=today):
        for name in found.nodes[:MAX_ISSUES]:
            yield name, _Finding(found.reason, found.message, found.fix)


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
