"""The issues of a pool: one entry per reason and cause, the worst first, at most ten, and since when."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.v1alpha1 import MAX_ISSUE_NODES, MAX_ISSUES, Issue
from winpool.report.pods import POD_ISSUES
from winpool.report.preflight import PREFLIGHT_ISSUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from winpool.objects.pool import Pool
    from winpool.rooms import Finding
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Issues:
    """``shown`` are the issues that the status has room for; ``count`` says how many there are."""

    shown: tuple[Issue, ...]
    count: int


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
    findings: Iterable[Finding], *, pool: Pool, now: datetime, carried: Iterable[Issue] = ()
) -> Issues:
    """Return one issue per reason and cause, in a stable order: by how bad the reason is, then by message.

    ``carried`` is what stands in the status and stays. Where there are more than fit, some keep their places
    all the same (``_KEPT``).
    """
    entries = sorted(_entries(findings, carried), key=_badness)
    kept = [each for each in entries if each.reason in _KEPT][:MAX_ISSUES]
    others = [each for each in entries if each.reason not in _KEPT][: MAX_ISSUES - len(kept)]
    times = _Times(pool.status.issues, found=Counter(each.reason for each in entries))
    shown = (each.as_issue(now) for each in sorted((*kept, *others), key=_badness))
    return Issues(tuple(times.kept(each) for each in shown), count=len(entries))


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


_ORDER: Final = {reason: place for place, reason in enumerate(IssueReason)}


@dataclass(frozen=True, slots=True)
class _Entry:
    """An issue to be, without its time. ``nodes`` are the first of ``node_count`` names."""

    reason: IssueReason
    message: str
    fix: str
    node_count: int
    nodes: Sequence[str]

    def as_issue(self, since: datetime) -> Issue:
        return Issue(
            reason=self.reason,
            node_count=self.node_count,
            nodes=tuple(self.nodes),
            since=since,
            message=self.message,
            fix=self.fix,
        )


def _entries(findings: Iterable[Finding], carried: Iterable[Issue]) -> Iterator[_Entry]:
    alike: dict[tuple[IssueReason, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.reason, finding.key), []).append(finding)
    standing = {(IssueReason(each.reason), each.message): each for each in carried}
    for found in alike.values():
        entry = _entry(found)
        yield _with(entry, standing.pop((entry.reason, entry.message), None))
    for (reason, message), issue in standing.items():
        yield _Entry(reason, message, issue.fix, issue.node_count, issue.nodes)


def _entry(found: Sequence[Finding]) -> _Entry:
    """Put together findings of one cause, whatever their order and that of their nodes."""
    first = min(found, key=lambda each: (each.message, each.fix))
    names = {name for each in found for name in each.nodes}
    return _Entry(first.reason, first.message, first.fix, len(names), nsmallest(MAX_ISSUE_NODES, names))


def _with(entry: _Entry, carried: Issue | None) -> _Entry:
    """Return the entry with the nodes of the same issue as it stands: at least these have it."""
    if carried is None:
        return entry
    names = {*entry.nodes, *carried.nodes}
    count = max(entry.node_count, carried.node_count, len(names))
    return _Entry(entry.reason, entry.message, entry.fix, count, nsmallest(MAX_ISSUE_NODES, names))


def _badness(entry: _Entry) -> tuple[int, str, str, tuple[str, ...]]:
    """Return what orders the issues. Names come last and numbers not at all: nodes come and go."""
    return (_ORDER[entry.reason], entry.message, entry.fix, tuple(entry.nodes))


class _Times:
    """Since when issues go on, by what stands in the status: a restart restarts no clock (P8).

    The cause of an issue is not published. So an issue goes on where one with its reason and message stands;
    else where it is the only one of its reason, before and now; else where those that stand were written by
    an earlier version, one for each node: then since the first of them.
    """

    def __init__(self, standing: Sequence[Issue], *, found: Counter[IssueReason]) -> None:
        self._standing: dict[str, list[Issue]] = {}
        for issue in standing:
            self._standing.setdefault(issue.reason, []).append(issue)
        self._found = found

    def kept(self, issue: Issue) -> Issue:
        """Return ``issue`` with the time since when it goes on."""
        since = self._since(issue)
        return issue if since == issue.since else issue.model_copy(update={"since": since})

    def _since(self, issue: Issue) -> datetime:
        before = self._standing.get(issue.reason, ())
        same = [each.since for each in before if each.message == issue.message]
        if not same and len(before) == 1 == self._found[IssueReason(issue.reason)]:
            same = [before[0].since]
        if not same and issue.node_count:
            same = [each.since for each in before if _is_of_one_node(each)]
        return min(same, default=issue.since)


def _is_of_one_node(issue: Issue) -> bool:
    """Whether an earlier version wrote it, which named one node and counted none. Its name may be pruned."""
    return not issue.node_count
