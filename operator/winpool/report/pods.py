"""What looks at pods found: pods that cannot run where they are, and what taints meet.

A look counts for a node only where it saw that very machine: another that has its name by now has other pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.moments import later
from winpool.ownership.membership import Claim
from winpool.pods.evidence import Evidence
from winpool.pods.survey import EXAMPLES_KEPT
from winpool.report.blind import blind
from winpool.report.preflight import PREFLIGHT_ISSUES, preflight_findings
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from winpool.api.v1alpha1 import Issue
    from winpool.objects.node import Node
    from winpool.pods.survey import Misplaced
    from winpool.report.assessment import Assessed, Assessment
    from winpool.snapshot import Snapshot

POD_ISSUES = (
    *PREFLIGHT_ISSUES,
    IssueReason.MISPLACED_PODS,
    IssueReason.PODS_UNREADABLE,
    IssueReason.POD_LIST_FAILING,
)
"""What is known from a look at pods only."""

FAILING_SECONDS: Final = 300.0
"""How long nodes may wait for a look at their pods that fails before a person has to see to it: an API server
that is restarted or too busy lists pods again within minutes."""


def misplaced_pods(snapshot: Snapshot, assessed: Iterable[Assessment]) -> int:
    """Return how many pods cannot run where they are; what was known last, until pods have been looked at."""
    pool = snapshot.pool
    if pool.deleting:
        return 0
    if snapshot.pods.survey is None or snapshot.pods.survey.pool_uid != pool.uid:
        return pool.status.misplaced_pods
    return sum(_misplaced_on(Evidence(snapshot), _ours(assessed)).values())


def pod_findings(snapshot: Snapshot, nodes: Assessed) -> Iterator[Finding]:
    """Yield what is to be said of pods on the nodes of the pool."""
    pool, evidence = snapshot.pool, Evidence(snapshot)
    if pool.deleting or pool.spec is None:
        return
    ours = _ours(nodes.all)
    yield from preflight_findings(snapshot, pool.spec, nodes.notable, ours=ours)
    unseen = blind(snapshot, nodes.notable)
    if unseen and not snapshot.pods.forbidden:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            unseen.nodes,
            unseen.finding,
            unseen.fix,
            cause="pods are not listed",
        )
    if misplaced := _misplaced_on(evidence, ours):
        shown = _examples(evidence, ours)
        such_as = ", such as " + ", ".join(f"{each.pod} ({each.why})" for each in shown) if shown else ""
        yield Finding(
            IssueReason.MISPLACED_PODS,
            sorted(misplaced),
            f"Some pods on these nodes cannot run on Windows{such_as}.",
            "Add the nodeSelector kubernetes.io/os: linux to their owners, or use an image for Windows. A "
            "taint on the nodes of the pool keeps such pods away.",
            cause="pods cannot run there",
        )
    if unread := _unreadable(evidence, ours):
        yield Finding(
            IssueReason.PODS_UNREADABLE,
            sorted(unread),
            "The operator cannot read some pods on these nodes, so it adds no NoExecute taint there.",
            "Read the operator's log. It names the pods and what is wrong with them.",
        )


def overdue_at(issues: Iterable[Issue]) -> datetime | None:
    """Return when a person has to see to it that pods cannot be listed; None where nothing waits for that.

    Counted from what stands in the status, so that a restart does not begin anew (P8).
    """
    since = (each.since for each in issues if each.reason == IssueReason.POD_LIST_FAILING)
    return min((later(each, FAILING_SECONDS) for each in since), default=None)


def _ours(assessed: Iterable[Assessment]) -> dict[str, Node]:
    return {each.node.name: each.node for each in assessed if each.claim is Claim.OURS}


def _misplaced_on(evidence: Evidence, ours: Mapping[str, Node]) -> dict[str, int]:
    """Return how many misplaced pods there are on each node that has any."""
    return {
        name: look.misplaced_on[name]
        for look in evidence.all()
        for name in look.misplaced_on.keys() & ours.keys()
        if evidence.latest(ours[name]) is look
    }


def _examples(evidence: Evidence, ours: Mapping[str, Node]) -> list[Misplaced]:
    found = [
        each
        for look in evidence.all()
        for each in look.misplaced_examples
        if each.node in ours and evidence.latest(ours[each.node]) is look
    ]
    return found[:EXAMPLES_KEPT]


def _unreadable(evidence: Evidence, ours: Mapping[str, Node]) -> set[str]:
    return {
        name
        for look in evidence.all()
        for name in look.unreadable & ours.keys()
        if evidence.latest(ours[name]) is look
    }
