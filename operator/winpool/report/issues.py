"""What a person should look at, of the pool and node by node, with the fix: the worst first, at most ten."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUES, Issue
from winpool.ownership.membership import Claim
from winpool.report.left_alone import named, removal
from winpool.report.os_support import ending_of
from winpool.report.pods import POD_ISSUES
from winpool.report.preflight import PREFLIGHT_ISSUES
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.objects.pool import Pool
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


def carried_issues(snapshot: Snapshot) -> tuple[Issue, ...]:
    """Return what the status says of pods, where no look at them has been made since the start.

    Not to know them yet is no reason to take back what was true a moment ago.
    """
    pool = snapshot.pool
    if (
        snapshot.pods.survey is not None
        or pool.deleting
        or pool.status.observed_generation != pool.generation
    ):
        return ()
    known_anew = IssueReason.POD_LIST_FAILING if snapshot.pods.problem or snapshot.pods.look_problems else ""
    return tuple(
        issue for issue in pool.status.issues if issue.reason in POD_ISSUES and issue.reason != known_anew
    )


def issues(
    assessed: Iterable[Assessment],
    judged: Iterable[Finding],
    *,
    pool: Pool,
    now: datetime,
    carried: Iterable[Issue] = (),
) -> tuple[Issue, ...]:
    """Return the issues in a stable order: by how bad their reason is, then by node.

    ``judged`` is what there is to be said of nodes beside their assessments, ``carried`` what stands in the
    status and stays. Of nodes with the same trouble as many are named as fit.

    Where there are more than fit, some keep their places all the same (``_KEPT``).

    ``since`` is kept as long as the same issue of the same node goes on.
    """
    since = {_identity(issue.node, issue.reason, issue.message): issue.since for issue in pool.status.issues}
    standing = (_finding_of(each) for each in carried)
    findings = chain(chain.from_iterable(map(_of_node, assessed)), judged, standing)
    found = sorted(
        ((node, finding) for finding in findings for node in finding.nodes[:MAX_ISSUES] or (None,)),
        key=_badness,
    )
    kept = [pair for pair in found if pair[1].reason in _KEPT][:MAX_ISSUES]
    others = [pair for pair in found if pair[1].reason not in _KEPT][: MAX_ISSUES - len(kept)]
    shown = sorted((*kept, *others), key=_badness)
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


_KEPT: Final = (
    IssueReason.GUARD_NOT_IN_FORCE,
    IssueReason.SELECTOR_OPEN_TO_KUBELETS,
    *PREFLIGHT_ISSUES,
    IssueReason.SUPPORT_ENDING,
    IssueReason.POD_LIST_FAILING,
)
"""What keeps its place: what is true of the pool as a whole; people have to be told of taints before they are
written; an end of support is announced once and must not come and go with the troubles of other nodes; and
the time since pods cannot be listed is counted. There are a handful of them."""


_ORDER: Final = list(IssueReason)


def _finding_of(issue: Issue) -> Finding:
    nodes = () if issue.node is None else (issue.node,)
    return Finding(IssueReason(issue.reason), nodes, issue.message, issue.fix)


def _badness(pair: tuple[str | None, Finding]) -> tuple[int, str]:
    """Return what orders the issues: the worst reason first, then by node."""
    return (_ORDER.index(pair[1].reason), pair[0] or "")


def _identity(node: str | None, reason: str, message: str) -> tuple[str | None, str]:
    """Return what tells an issue from others; some go on whichever node stands for them."""
    if reason == IssueReason.POD_LIST_FAILING:
        return ("", reason)
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
    if each.startup.timed_out:
        yield Finding(
            IssueReason.VALIDATION_TIMED_OUT,
            nodes,
            f"the node has not passed validation in time: it waits for {each.startup.waits_for}",
            "see to what it waits for; its startup taints come off once it has passed",
        )
    if each.contested:
        yield Finding(
            IssueReason.FOREIGN_TAINT_CONFLICT,
            nodes,
            f"somebody keeps undoing what the pool puts here: {', '.join(each.contested)}",
            "find out who writes it (kubectl get node -o yaml --show-managed-fields), and leave it to one of "
            "the two",
        )
    if each.rival:
        said = "pool {} selects it too" if each.claim is Claim.OURS else "belongs to pool {}"
        yield Finding(
            IssueReason.POOL_OVERLAP,
            nodes,
            said.format(each.rival),
            "change nodeSelector of one of the two pools so that they exclude each other",
        )
    if each.left_alone:
        yield Finding(
            IssueReason.KEYS_LEFT_ALONE,
            nodes,
            f"an annotation {APPLIED_ANNOTATION} that was written without the guard says that the pool has "
            f"set {named(each.left_alone)}; the pool does not know of that, so it stays",
            f"if the pool did set it and nobody needs it: {removal(each.node.name, each.left_alone)}",
        )
    if each.claim is Claim.UNKNOWN and each.owner_is_gone:
        yield Finding(
            IssueReason.OWNER_UNKNOWN,
            nodes,
            f"annotation {APPLIED_ANNOTATION}, which was written without the guard, names a pool that there "
            "is not, and that this operator has never seen",
            "check the labels and taints that it names by hand, then let the pool have the node: "
            f"kubectl annotate node {each.node.name} {APPLIED_ANNOTATION}-",
        )
    elif each.claim is Claim.UNKNOWN:
        yield Finding(
            IssueReason.OWNER_UNKNOWN,
            nodes,
            f"annotation {APPLIED_ANNOTATION} names a pool that is not known",
            "wait: if there is none, the node is taken over once two lists of all pools have shown it",
        )
