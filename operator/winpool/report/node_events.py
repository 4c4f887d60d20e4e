"""Events of nodes: for exceptions only, and where many nodes share a cause one of their pool.

A cold start of thousands of nodes has no event of a node, and a storm that hits them all has one of the pool.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.report.announce import Announcement, counted
from winpool.report.left_alone import named, removal
from winpool.report.lost_keys import about_record
from winpool.report.tally import counted_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from winpool.api.v1alpha1 import Issue, WindowsNodePoolStatus
    from winpool.objects.issues import KnownIssue
    from winpool.objects.pool import Pool
    from winpool.report.assessment import Assessment

_NODES, _NODE = "{nodes}", "{node}"


@dataclass(frozen=True, slots=True)
class Cause:
    """What happened to a node of a pool: nodes with equal causes are told of together.

    ``said`` are sentences with "{nodes}" in the place of the nodes, and "{node}" for a name in a command.
    """

    pool: str
    pool_uid: str
    reason: EventReason
    said: str


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """What the write of a node's patch has done there, where it is an exception."""

    cause: Cause
    name: str
    uid: str

    @property
    def reason(self) -> EventReason:
        """That of the event."""
        return self.cause.reason

    @property
    def note(self) -> str:
        """What the event says where it stands on the node."""
        said = self.cause.said.replace(_NODES, "this node").replace(_NODE, self.name)
        return f"Pool {self.cause.pool}: {said}"


def about_node(each: Assessment, *, pool: Pool) -> NodeEvent | None:
    """Return the event that goes with the patch of a node, where it is an exception."""
    if found := _exception(each):
        return NodeEvent(Cause(pool.name, pool.uid, *found), each.node.name, each.node.uid)
    return None


def _exception(each: Assessment) -> tuple[EventReason, str] | None:
    if record := about_record(each, nodes=_NODES, node=_NODE):
        return EventReason.OWNERSHIP_RECORD_UNREADABLE, record
    if each.left_alone and each.patch and APPLIED_ANNOTATION in each.patch.annotations:
        return (
            EventReason.KEYS_LEFT_ALONE,
            f"The operator left {named(each.left_alone)} on {_NODES}, because the ownership record was "
            "written without the guard. Remove it if the pool did set it: "
            f"{removal(_NODE, each.left_alone)}",
        )
    if each.startup.passed:
        return (
            EventReason.NODE_VALIDATED,
            f"The operator removed the startup taints from {_NODES}, which passed validation.",
        )
    if each.drifted:
        what = ", ".join(each.drifted)
        return (
            EventReason.DRIFT_REPAIRED,
            f"Someone removed or changed {what} on {_NODES}. The operator restored it.",
        )
    return None


def shared_by_many(events: Iterable[NodeEvent]) -> frozenset[Cause]:
    """Return the causes that more nodes share than get an event each."""
    counts = Counter(event.cause for event in events)
    return frozenset(cause for cause, number in counts.items() if number > NODES_WITH_OWN_EVENTS)


def announced(events: Iterable[NodeEvent], *, shared: Collection[Cause] = ()) -> Iterator[Announcement]:
    """Yield what to say of these ``events``: for each cause an event of each node, or one of the pool.

    The causes in ``shared`` are told of the pool, however few of their nodes are among the events.
    """
    of_cause: dict[Cause, dict[str, NodeEvent]] = {}
    for event in events:
        of_cause.setdefault(event.cause, {})[event.uid] = event
    for cause, nodes in of_cause.items():
        if len(nodes) > NODES_WITH_OWN_EVENTS or cause in shared:
            yield _of_pool(cause, sorted(event.name for event in nodes.values()))
        else:
            # By name: the order in which the writes of a pass end means nothing.
            for event in sorted(nodes.values(), key=attrgetter("name")):
                yield Announcement(event.reason, event.note, event.name, event.uid, Regarding.NODE)


def _of_pool(cause: Cause, names: list[str]) -> Announcement:
    said = cause.said.replace(_NODES, counted_nodes(names)).replace(_NODE, "NODE")
    return Announcement(cause.reason, said, cause.pool, cause.pool_uid)


_OF_ISSUES = {
    IssueReason.WRITE_REFUSED: EventReason.WRITE_REFUSED,
    IssueReason.FOREIGN_TAINT_CONFLICT: EventReason.FOREIGN_TAINT_CONFLICT,
    IssueReason.RESERVED_MEMORY_MISMATCH: EventReason.RESERVED_MEMORY_MISMATCH,
    IssueReason.MEMORY_PRESSURE: EventReason.MEMORY_PRESSURE_DETECTED,
    IssueReason.UNATTRIBUTED_MEMORY: EventReason.UNATTRIBUTED_MEMORY,
    IssueReason.EVICTION_BLOCKED: EventReason.EVICTION_BLOCKED,
    IssueReason.VALIDATION_TIMED_OUT: EventReason.VALIDATION_TIMED_OUT,
    IssueReason.SURPRISE_OS_CHANGE: EventReason.SURPRISE_OS_CHANGE,
    IssueReason.SURPRISE_REBOOT: EventReason.SURPRISE_REBOOT,
}
"""Issues that their nodes have an event of."""


def of_issues(
    pool: Pool,
    before: WindowsNodePoolStatus,
    after: WindowsNodePoolStatus,
    assessed: Iterable[Assessment],
    *,
    known: Iterable[KnownIssue] = (),
) -> Iterator[Announcement]:
    """Yield the events of nodes that have got an issue which they did not have before.

    An issue of few nodes is an event of each node that is new to it, one that grows beyond them an event of
    the pool. One that shrinks is none. Issues whose cause is ``known`` are the same in other words too.
    """
    causes = {(each.issue.reason, each.issue.message): each.cause for each in known}
    standing = before.issues
    counts = Counter[tuple[str, str]]()
    for issue in standing:
        message = (issue.reason, issue.message)
        for key in {message, (issue.reason, causes.get(message, issue.message))}:
            counts[key] += issue.node_count
    named_before = {(issue.reason, name) for issue in standing for name in issue.nodes}
    # An earlier version named one node in each issue and counted none: those were announced.
    announced_before = {issue.reason for issue in standing if not issue.node_count}
    new: list[tuple[EventReason, Issue, str]] = []
    for issue in after.issues:
        event = _OF_ISSUES.get(IssueReason(issue.reason))
        message = (issue.reason, issue.message)
        count = max(counts[message], counts[issue.reason, causes.get(message, issue.message)])
        if event is None or count > NODES_WITH_OWN_EVENTS or issue.reason in announced_before:
            continue
        if issue.node_count > NODES_WITH_OWN_EVENTS:
            yield Announcement(event, counted(issue), pool.name, pool.uid)
        else:
            new += [(event, issue, name) for name in issue.nodes if (issue.reason, name) not in named_before]
    uids = {each.node.name: each.node.uid for each in assessed} if new else {}
    for event, issue, name in new:
        if uid := uids.get(name):
            yield Announcement(event, f"Pool {pool.name}: {issue.message}", name, uid, Regarding.NODE)
