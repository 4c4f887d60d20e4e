"""Makes the issues of a status from findings: one for each cause, the worst first, and since when.

What the status says of pods, memory and other operators stays after a start until it is known anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.issues import IssueReason
from winpool.api.status import MAX_ISSUE_NODES, MAX_ISSUES, Issue
from winpool.api.text import grouped
from winpool.features.feature import Finding
from winpool.features.memory.overview import Overview
from winpool.model.pool import KnownIssue, Pool
from winpool.model.snapshot import Snapshot
from winpool.status.pods import POD_ISSUES, PREFLIGHT_ISSUES


class Issues(msgspec.Struct, frozen=True):
    """``shown`` are the issues that the status has room for; ``count`` says how many there are.

    ``all`` are all of them, up to MAX_KNOWN: events tell of those that are not shown as well.
    """

    shown: tuple[Issue, ...]
    all: tuple[KnownIssue, ...]
    count: int


MAX_KNOWN: Final = 100
"""Issues that a process remembers, each of a few kilobytes. A pool has a handful."""


MEMORY_ISSUES: Final = (
    IssueReason.SYSTEMIC_PRESSURE,
    IssueReason.UNATTRIBUTED_MEMORY,
    IssueReason.MEMORY_PRESSURE,
    IssueReason.MEMORY_WARNING,
    IssueReason.MEMORY_UNKNOWN,
    IssueReason.MEMORY_SOURCE_FAILING,
)


def carried_issues(
    snapshot: Snapshot, memory: Overview | None, found: Collection[Finding]
) -> Iterator[Issue]:
    """Yield the issues of the status of which it is not known since the start whether they are still true.

    They stay. Those of memory stay for the nodes that are not judged yet, and that are not ``found`` anew.
    """
    pool, pods = snapshot.pool, snapshot.pods
    unknown: set[str] = set()
    if snapshot.other_operator is None:
        unknown.add(IssueReason.SECOND_OPERATOR)
    if snapshot.strays is None:
        unknown.add(IssueReason.NODE_NOT_WINDOWS)
    if pods.survey is None and pool.status.observed_generation == pool.generation:
        is_failing = bool(pods.problem or pods.pod_list_problems)
        unknown.update({*POD_ISSUES} - ({IssueReason.POD_LIST_FAILING} if is_failing else set()))
    if not pool.deleting:
        yield from (issue for issue in pool.status.issues if issue.reason in unknown)
    for issue in pool.status.issues if memory and memory.undecided else ():
        if memory and issue.reason in MEMORY_ISSUES:
            anew = {name for each in found if each.reason == issue.reason for name in each.nodes}
            names = [name for name in issue.nodes if name in memory.undecided and name not in anew]
            count = max(issue.node_count - (len(issue.nodes) - len(names)), len(names))
            if names:
                yield issue.model_copy(update={"nodes": tuple(names), "node_count": count})


def issues(
    findings: Iterable[Finding],
    *,
    pool: Pool,
    now: datetime,
    carried: Iterable[Issue] = (),
    known: Sequence[KnownIssue] = (),
) -> Issues:
    """Return one issue per reason and cause, in a stable order: by how bad the reason is, then by message.

    ``carried`` is what stands in the status and stays. Where there are more than fit, the worst are shown,
    and a few others keep their places (``_KEPT``). ``known`` are those of the last status of this process.
    """
    entries = sorted(_entries(findings, carried), key=_badness)
    kept = _kept(entries)
    others = [each for each in entries if each not in kept][: MAX_ISSUES - len(kept)]
    times = _Times(pool.status.issues, known=known, found=Counter(each.reason for each in entries))
    shown = [times.kept(each, now) for each in sorted((*kept, *others), key=_badness)]
    remembered = [KnownIssue(times.kept(each, now), each.cause) for each in entries[:MAX_KNOWN]]
    return Issues(tuple(shown), all=tuple(remembered), count=len(entries))


_KEPT: Final = (
    IssueReason.POD_LIST_FAILING,
    *PREFLIGHT_ISSUES,
    IssueReason.SUPPORT_ENDING,
    IssueReason.SELECTOR_OPEN_TO_KUBELETS,
)
"""What keeps a place, one of each reason, the first of them first: the time since pods cannot be listed is
counted; people have to be told of taints before they are written; and what is true of the pool as a whole
must not come and go with the troubles of nodes."""

_MOST_KEPT: Final = 3
"""Places that they keep at most. The others are for the worst."""


def _kept(entries: Sequence[_Entry]) -> list[_Entry]:
    first: dict[IssueReason, _Entry] = {}
    for each in entries:
        first.setdefault(each.reason, each)
    return [first[reason] for reason in _KEPT if reason in first][:_MOST_KEPT]


_ORDER: Final = {reason: place for place, reason in enumerate(IssueReason)}


class _Entry(msgspec.Struct, frozen=True):
    """An issue to be, without its time. ``nodes`` are the first of ``node_count`` names.

    ``cause`` is the key of its findings; of an issue that is carried on, its message.
    """

    reason: IssueReason
    message: str
    fix: str
    node_count: int
    nodes: Sequence[str]
    cause: str

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
    alike = grouped(((finding.reason, finding.key), finding) for finding in findings)
    standing = {(IssueReason(each.reason), each.message): each for each in carried}
    for found in alike.values():
        entry = _entry(found)
        yield _with(entry, standing.pop((entry.reason, entry.message), None))
    for (reason, message), issue in standing.items():
        yield _Entry(reason, message, issue.fix, issue.node_count, issue.nodes, message)


def _entry(found: Sequence[Finding]) -> _Entry:
    """Put together findings of one cause, whatever their order and that of their nodes."""
    first = min(found, key=lambda each: (each.message, each.fix))
    names = {name for each in found for name in each.nodes}
    shown = nsmallest(MAX_ISSUE_NODES, names)
    return _Entry(first.reason, first.message, first.fix, len(names), shown, first.key)


def _with(entry: _Entry, carried: Issue | None) -> _Entry:
    """Return the entry with the nodes of the same issue as it stands: at least these have it."""
    if carried is None:
        return entry
    names = {*entry.nodes, *carried.nodes}
    count = max(entry.node_count, carried.node_count, len(names))
    return replace(entry, node_count=count, nodes=nsmallest(MAX_ISSUE_NODES, names))


def _badness(entry: _Entry) -> tuple[int, str, str, tuple[str, ...], str]:
    """Return what orders the issues. Names come late and numbers not at all: nodes come and go.

    The cause comes last: two causes may have the same message and the same first nodes.
    """
    return (_ORDER[entry.reason], entry.message, entry.fix, tuple(entry.nodes), entry.cause)


class _Times:
    """Since when issues go on, by what stands in the status: a restart restarts no clock (P8).

    An issue goes on where this process has written one of its reason and cause, also where the status had no
    room for it. The cause is not published. So after a restart an issue goes on where one with its reason and
    message stands; else where it is the only one of its reason, before and now; else where those that stand
    were written by an earlier version, one for each node: then since the first of them. One that the status
    had no room for begins anew.
    """

    def __init__(
        self, standing: Sequence[Issue], *, known: Sequence[KnownIssue], found: Counter[IssueReason]
    ) -> None:
        self._of_cause = {(each.issue.reason, each.cause): each.issue.since for each in known}
        self._standing = grouped((issue.reason, issue) for issue in standing)
        self._found = found

    def kept(self, entry: _Entry, now: datetime) -> Issue:
        """Return the issue with the time since when it goes on, which is ``now`` for a new one."""
        issue = entry.as_issue(now)
        since = self._of_cause.get((issue.reason, entry.cause)) or self._since(issue)
        return issue if since == issue.since else issue.model_copy(update={"since": since})

    def _since(self, issue: Issue) -> datetime:
        before = self._standing.get(issue.reason, ())
        same = [each.since for each in before if each.message == issue.message]
        if not same and len(before) == 1 == self._found[IssueReason(issue.reason)]:
            same = [before[0].since]
        if not same and issue.node_count:
            # An earlier version named one node in each and counted none; the name may be pruned.
            same = [each.since for each in before if not each.node_count]
        # The issue begins now at the latest: another wrote the time, or the clock was ahead.
        return min(*same, issue.since) if same else issue.since
