"""What is found of single nodes: whose they are, what cannot be written, what they reserve; their events.

What a damaged ownership record leaves behind: which keys stay on which nodes, and how to remove them.

The record says which labels and taints of a node are the pool's. Where it cannot be read, those that stand
there count as somebody else's. They work as before, but they stay when the pool goes. People hear of it at
once, as long as it is so, and before the nodes of a deleted pool are released.

What is to be said of the reserved memory of a pool's nodes.

What is found of single nodes: whose they are, and what the operator cannot write there, by cause.

Nodes with the same cause are one finding, whatever their number: what is said of it is made once, from any of
them, and says nothing that is of one node alone.

Events of nodes: for exceptions only, and where many nodes share a cause one of their pool.

A cold start of thousands of nodes has no event of a node, and a storm that hits them all has one of the pool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from winpool.api.conditions import ConditionType
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.model import SENTENCE
from winpool.api.v1alpha1 import MAX_ISSUE_NODES, Issue, WindowsNodePoolStatus
from winpool.features.feature import Finding
from winpool.features.reserved_memory import (
    LOW_FIX,
    TOO_LARGE_FIX,
    Reserved,
    ReservedVerdict,
    is_low,
    low_message,
    mismatch_fix,
    mismatch_message,
    too_large_message,
)
from winpool.model.node import Keys
from winpool.model.pool import KnownIssue, Pool
from winpool.ownership.members import Claim
from winpool.status.assessment import NAMES_SHOWN, Assessment, counted_nodes
from winpool.status.events import NODE, Announcement, counted, named, nameless, removal, sentence

UNTOLD_SECONDS: Final = 10
"""Some writes of the status. A kubelet that damages and mends its record all the time must not hold up the
deletion of the pool."""

ANY_NODE = "NODE"
"""Stands for a name in a command that is meant for more nodes than are named."""


def lost_key_findings(assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield one finding for all nodes on which the same keys stay behind."""
    alike: dict[tuple[Keys, bool], list[Assessment]] = {}
    for each in assessed:
        if each.unreadable or each.lost:
            alike.setdefault((each.lost, each.claim is Claim.LEFT), []).append(each)
    for (lost, is_leaving), found in alike.items():
        why = next((each.unreadable for each in found if each.unreadable), "")
        message, fix = _sentences(lost, found, why=why, is_leaving=is_leaving)
        yield Finding(
            IssueReason.OWNERSHIP_RECORD_UNREADABLE,
            [each.node.name for each in found],
            message,
            fix,
            cause=f"{is_leaving and bool(lost)} {named(lost)}",
        )


def _sentences(lost: Keys, found: list[Assessment], *, why: str, is_leaving: bool) -> tuple[str, str]:
    """Return message and fix."""
    told = f" ({why})" if why else ""
    if not lost:
        return (
            f"The ownership record in annotation {APPLIED_ANNOTATION} cannot be read{told}. These nodes have "
            "no label or taint of the pool.",
            "Remove nothing. The operator writes a new record when it next writes to the node.",
        )
    names = [each.node.name for each in found]
    command = removal(" ".join(names) if len(names) <= NAMES_SHOWN else ANY_NODE, lost)
    message = f"The ownership record in annotation {APPLIED_ANNOTATION} could not be read{told}"
    if is_leaving:
        return (
            f"{message}. These keys stay on the node when the pool releases it: {named(lost)}.",
            f"Remove the keys that no one needs: {command}",
        )
    return (
        f"{message}. These keys no longer belong to the pool, and stay on the node when the pool is deleted: "
        f"{named(lost)}.",
        f"Remove these keys. The pool then sets again, as its own, what its spec asks for: {command}",
    )


def about_record(each: Assessment, *, nodes: str, node: str) -> str:
    """Return what an event says of the record on a node when its patch is written; empty where nothing.

    ``nodes`` stands for the nodes in the sentence, and ``node`` for a name in the command.
    """
    is_leaving = each.claim is Claim.LEFT
    if each.unreadable:
        done = "removed only keys under winpool.dev/" if is_leaving else "recreated it"
        said = f"The operator could not read the ownership record on {nodes} ({each.unreadable}) and {done}."
    elif each.lost and is_leaving:
        said = f"The operator could not read an earlier ownership record on {nodes}."
    else:
        return ""
    if not each.lost:
        return said
    when = "stay" if is_leaving else "no longer belong to the pool and stay when it is deleted"
    command = removal(node, each.lost)
    return f"{said} These keys {when}: {named(each.lost)}. Remove them: {command}"


def untold_nodes(
    assessed: Iterable[Assessment],
    reported: WindowsNodePoolStatus,
    standing: WindowsNodePoolStatus,
    *,
    now: datetime,
) -> frozenset[str]:
    """Return the nodes of a deleted pool that are to wait until the status names what stays behind there.

    Once the status names the node, it waits no more, whatever its kubelet adds and removes meanwhile. And no
    node waits for longer than UNTOLD_SECONDS after the status first reported the deletion.
    """
    deleting = standing.condition(ConditionType.DELETING)
    is_told_of = deleting is not None and deleting.status == "True"
    if is_told_of and deleting and now >= deleting.last_transition_time + timedelta(seconds=UNTOLD_SECONDS):
        return frozenset()
    told = [each for each in standing.issues if _is_of_record(each.reason)]
    news = {each.message for each in reported.issues if _is_of_record(each.reason)} - {
        each.message for each in told
    }
    if not news:
        return frozenset()
    named_nodes = {name for each in told for name in each.nodes} if is_told_of else set()
    return frozenset(
        name
        for finding in lost_key_findings(assessed)
        if SENTENCE.clip(finding.message) in news
        for name in finding.nodes
        if name not in named_nodes
    )


def _is_of_record(reason: str) -> bool:
    return reason == IssueReason.OWNERSHIP_RECORD_UNREADABLE


MISMATCHES = (ReservedVerdict.RESERVES_LESS, ReservedVerdict.RESERVES_MORE)


def reserved_findings(pool: Pool, assessed: Sequence[Assessment]) -> Iterator[Finding]:
    """Yield what kubelets reserve that the pool does not declare.

    Machines of one kind differ by some bytes, so all nodes are told of at once, with the least and the most.
    """
    memory = pool.spec.reserved_memory if pool.spec and not pool.deleting else None
    if memory is None:
        return
    known = [(each.node.name, each.reserved) for each in assessed if each.reserved is not None]
    if large := [each for each in known if each[1].is_too_large]:
        yield Finding(
            IssueReason.RESERVED_MEMORY_TOO_LARGE,
            _names(large),
            too_large_message(_reserved(large), memory),
            TOO_LARGE_FIX,
            cause="too large",
        )
    if wrong := [each for each in known if each[1].verdict in MISMATCHES]:
        yield Finding(
            IssueReason.RESERVED_MEMORY_MISMATCH,
            _names(wrong),
            mismatch_message(_reserved(wrong), memory),
            mismatch_fix(pool.name),
            cause="mismatch",
        )
    if any(each.claim is Claim.OURS for each in assessed) and is_low(memory.declared_bytes):
        yield Finding(IssueReason.RESERVED_MEMORY_LOW, (), low_message(memory), LOW_FIX, cause="low")


def _names(known: Sequence[tuple[str, Reserved]]) -> list[str]:
    return [name for name, _ in known]


def _reserved(known: Sequence[tuple[str, Reserved]]) -> list[Reserved]:
    return [reserved for _, reserved in known]


REFUSAL_LENGTH: Final = 600
"""Characters of a refusal that are told. It was cut once before, behind names of different length: so much of
it is the same for all nodes. Enough for a policy's message, and short enough to be read."""


MOST_REFUSALS: Final = 5
"""Different refusals that are told one by one; a webhook may give each answer a number of its own."""


_CODE: Final = re.compile(r"^\d{3} ")
"""The HTTP code before the server's words. They say more, and the code reads like a number of nodes."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of trouble; ``told`` returns message and fix for the nodes that have it for one cause."""

    reason: IssueReason
    told: Callable[[_Alike], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Nodes with one kind of trouble for one cause, by their names, and what is known of one of them."""

    cause: str
    example: Assessment
    names: Sequence[str]

    @property
    def for_commands(self) -> str:
        """Their names as kubectl takes them, as many as an issue shows."""
        return " ".join(sorted(self.names)[:MAX_ISSUE_NODES])

    @property
    def on_each(self) -> str:
        """What to add to a command that does not name all of them."""
        return " from each of these nodes" if len(self.names) > MAX_ISSUE_NODES else ""


def node_findings(assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for each cause, with the names of all nodes that have it."""
    found: dict[tuple[_Kind, str], tuple[Assessment, list[str]]] = {}
    for each in assessed:
        for key in _causes(each):
            found.setdefault(key, (each, []))[1].append(each.node.name)
    yield from _various(found)
    for (kind, cause), (example, names) in found.items():
        message, fix = kind.told(_Alike(cause, example, names))
        yield Finding(kind.reason, names, message, fix, cause=cause)


def _various(found: dict[tuple[_Kind, str], tuple[Assessment, list[str]]]) -> Iterator[Finding]:
    """Take all refusals but those of the most nodes out of ``found``, and yield one finding for them."""
    refusals = [key for key in found if key[0] is _REFUSED]
    if len(refusals) <= MOST_REFUSALS:
        return
    refusals.sort(key=lambda key: (-len(found[key][1]), min(found[key][1])))
    rest = {key: found.pop(key)[1] for key in refusals[MOST_REFUSALS:]}
    message, fix = _refused_for(" for various reasons, such as", min(cause for _, cause in rest))
    names = [name for there in rest.values() for name in there]
    yield Finding(IssueReason.WRITE_REFUSED, names, message, fix, cause="various reasons")


def _causes(each: Assessment) -> Iterator[tuple[_Kind, str]]:
    """Yield each kind of trouble of a node with its cause, which no other kind of that reason has."""
    if each.refused:
        yield _REFUSED, _refusal(each)
    if each.startup.timed_out:
        yield _TIMED_OUT, each.startup.waits_for
    if each.contested:
        yield _CONTESTED, ", ".join(sorted({*each.contested}))
    if each.rival:
        yield _OVERLAP, each.rival
    if each.left_alone:
        yield _LEFT_ALONE, named(each.left_alone)


def _refusal(each: Assessment) -> str:
    """Return the server's own words, without what is of this node or this request alone."""
    name = each.node.name
    words = each.refused.removeprefix(f"patch nodes {name}: ")
    said = nameless(_CODE.sub("", words), name=name)
    return said if len(said) <= REFUSAL_LENGTH else f"{said[: REFUSAL_LENGTH - 1]}…"


def _refused(alike: _Alike) -> tuple[str, str]:
    return _refused_for("", alike.cause)


def _refused_for(how: str, cause: str) -> tuple[str, str]:
    return (
        sentence(f"The API server refuses to change these nodes{how}: {cause}"),
        "Change the policy, webhook or limit that the message names, or change the spec. The operator tries "
        "again after at most five minutes.",
    )


def _timed_out(alike: _Alike) -> tuple[str, str]:
    return (
        f"These nodes did not pass validation in time, because they wait for {alike.cause}.",
        "Make the kubelet or the listed pods Ready. The operator then removes the startup taints.",
    )


def _contested(alike: _Alike) -> tuple[str, str]:
    return (
        f"Someone repeatedly undoes what the pool sets on these nodes: {alike.cause}.",
        f"Find the other writer (kubectl get node {NODE} -o yaml --show-managed-fields). Let only one of the "
        "two set these keys.",
    )


def _overlap(alike: _Alike) -> tuple[str, str]:
    return (
        f"This pool and the pool {alike.cause} select the same nodes. Each node stays with the pool that "
        "has it.",
        f"Change nodeSelector of this pool or of {alike.cause} so that they exclude each other.",
    )


def _left_alone(alike: _Alike) -> tuple[str, str]:
    """Name nodes in the commands: no label selects just them, and others may carry the same keys by right."""
    commands = removal(alike.for_commands, alike.example.left_alone)
    return (
        f"The annotation {APPLIED_ANNOTATION} was written without the guard. It says that the pool set "
        f"{alike.cause}. The status of the pool does not say so, and the operator leaves it.",
        f"Remove it{alike.on_each} if the pool did set it and no one needs it: {commands}",
    )


_REFUSED: Final = _Kind(IssueReason.WRITE_REFUSED, _refused)
_TIMED_OUT: Final = _Kind(IssueReason.VALIDATION_TIMED_OUT, _timed_out)
_CONTESTED: Final = _Kind(IssueReason.FOREIGN_TAINT_CONFLICT, _contested)
_OVERLAP: Final = _Kind(IssueReason.POOL_OVERLAP, _overlap)
_LEFT_ALONE: Final = _Kind(IssueReason.KEYS_LEFT_ALONE, _left_alone)


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
