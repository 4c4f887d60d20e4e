"""Says which events follow from a change of a pool and its nodes, with their notes.

An event tells of a transition, once. Nodes have events for exceptions only: what many nodes share is one
event of their pool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from string import ascii_lowercase, ascii_uppercase
from typing import Final

import msgspec

from winpool.api.conditions import ConditionType, Reason, referred_by
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import Condition, Issue, WindowsNodePoolStatus
from winpool.api.text import written_moment
from winpool.api.upgrade import UpgradeState
from winpool.features.memory.overview import Overview
from winpool.model.node import Keys
from winpool.model.pool import KnownIssue, Pool
from winpool.ownership.members import Claim
from winpool.status.assessment import Assessment, count_nodes, count_pods, counted_nodes
from winpool.status.os_support import ending_of

NODE: Final = "NODE"
"""Stands in the place of a node's name."""

_SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Of other alphabets some capitals are longer in small letters, and no name of a node has any."""

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter at its begin and a full stop at its end."""
    text = text.strip()
    return ended(text[:1].upper() + text[1:])


def ended(text: str) -> str:
    """Return ``text`` with a full stop at its end."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def nameless(text: str, *, name: str) -> str:
    """Return ``text`` with ``NODE`` where it names the node ``name``, so that it is the same for all nodes.

    In capitals too, as Windows writes its host names, and by the first label of a name in a domain. Where
    that could be a word or a number of a sentence it stays. Identifiers that are made for one request go.
    """
    text = _without(text, name.lower())
    host = name.partition(".")[0].lower()
    if host != name.lower() and not host.isalpha() and not host.isdigit():
        text = _without(text, host)
    return _without_identifiers(text)


def _without(text: str, name: str) -> str:
    """Return ``text`` with ``NODE`` for each word ``name``, which is in small letters."""
    # No regex: thousands of nodes may be refused, and each has a name of its own.
    lowered = text.translate(_SMALL)
    parts: list[str] = []
    at = 0
    while name and (found := lowered.find(name, at)) >= 0:
        end = found + len(name)
        is_part = text[found - 1 : found].isalnum() or text[end : end + 1].isalnum()
        parts += (text[at:found], text[found:end] if is_part else NODE)
        at = end
    return "".join((*parts, text[at:]))


@lru_cache(maxsize=64)
def _without_identifiers(text: str) -> str:
    return _UUID.sub("UID", text)


def named(left: Keys) -> str:
    """Name them in the words of kubectl."""
    return ", ".join(
        (
            *(f"label {key}" for key in sorted(left.labels)),
            *(f"annotation {key}" for key in sorted(left.annotations)),
            *(f"taint {key}:{effect}" for key, effect in sorted(left.taints)),
            *(("spec.unschedulable",) if left.unschedulable else ()),
        )
    )


def removal(node: str, left: Keys) -> str:
    """Return the commands that remove them from ``node``."""
    labels = " ".join(f"{key}-" for key in sorted(left.labels))
    taints = " ".join(f"{key}:{effect}-" for key, effect in sorted(left.taints))
    annotations = " ".join(f"{key}-" for key in sorted(left.annotations))
    commands = [f"kubectl label node {node} {labels}"] if labels else []
    commands += [f"kubectl annotate node {node} {annotations}"] if annotations else []
    commands += [f"kubectl taint node {node} {taints}"] if taints else []
    commands += [f"kubectl uncordon {node}"] if left.unschedulable else []
    return "; ".join(commands)


class Announcement(msgspec.Struct, frozen=True):
    """An event to be emitted about the object with this name and UID: a pool, a node, or a pod."""

    reason: EventReason
    note: str
    name: str
    uid: str
    regarding: Regarding = Regarding.POOL
    namespace: str = ""


def on_transition(
    *, before: WindowsNodePoolStatus, after: WindowsNodePoolStatus, wrote: bool
) -> Iterator[tuple[EventReason, str]]:
    """Yield the events of a pool whose status goes from ``before`` to ``after``, with their notes.

    ``wrote`` says that nodes were written for the generation of ``after``.
    """
    for type_, status, reason, event in _TRANSITIONS:
        was, now = before.condition(type_), after.condition(type_)
        entered = now is not None and _is(now, status, reason) and not (was and _is(was, status, reason))
        if now and was and event in _ONE_FOR_EACH_CAUSE and _is(now, status, reason):
            entered = entered or now.message != was.message
        if now and entered and (was or event not in _NOT_AT_FIRST):
            yield event, _note(now, after)
    if after.misplaced_pods and not before.misplaced_pods:
        yield EventReason.MISPLACED_PODS, _of_misplaced(after)
    for issue_reason, event, key in _NEW_ISSUES:
        known = {key(issue.message) for issue in _issues(before, issue_reason)}
        yield from (
            (event, counted(issue))
            for issue in _issues(after, issue_reason)
            if key(issue.message) not in known
        )
    if _issues(before, _GUARD) and not _issues(after, _GUARD):
        yield EventReason.GUARD_RESTORED, "Kubelets can no longer write the operator's keys on nodes."
    yield from _of_rollouts(before, after, wrote=wrote)


def _note(condition: Condition, after: WindowsNodePoolStatus) -> str:
    """Return what is to be said of a condition by itself: an event is read without what it could refer to.

    Of OSSupported without the build, which the issue names: a node that reports another build each time must
    not use up the events of its pool.
    """
    type_ = referred_by(condition.message)
    other = after.condition(type_) if type_ else None
    if other is None:
        return condition.message
    return other.message if other.reason == condition.reason else f"{other.reason}: {other.message}"


def released(number: int | None) -> str:
    """Say that nothing of a pool is left on any node; ``number`` is how many had it, None if not known."""
    if number is None:
        return "Released all nodes."
    return f"Released {count_nodes(number)}." if number else "No node was left to release."


def counted(issue: Issue) -> str:
    """Return the message of an issue with its nodes: how many, and the first."""
    if not issue.node_count:
        return issue.message
    return f"{counted_nodes(issue.nodes, issue.node_count)}: {issue.message}"


def _issues(status: WindowsNodePoolStatus, reason: str) -> list[Issue]:
    return [issue for issue in status.issues if issue.reason == reason]


def _of_misplaced(after: WindowsNodePoolStatus) -> str:
    """Count the pods, and their nodes where one issue names them all."""
    pods, issues = count_pods(after.misplaced_pods), _issues(after, IssueReason.MISPLACED_PODS)
    if not issues:  # worse ones have taken its place
        return f"{pods} on nodes of the pool cannot run on Windows."
    if len(issues) == 1 and issues[0].node_count:
        return f"{pods} on {counted(issues[0])}"
    return f"{pods}: {issues[0].message}"


def _of_rollouts(
    before: WindowsNodePoolStatus, after: WindowsNodePoolStatus, *, wrote: bool
) -> Iterator[tuple[EventReason, str]]:
    """Yield start and completion: both at once where a rollout was quicker than its first report.

    A rollout is about labels and taints: it does not wait for the Windows that a person has to change.
    """
    was, now = (each.condition(ConditionType.NODES_UP_TO_DATE) for each in (before, after))
    at_work = after.condition(ConditionType.RECONCILING)
    if now is None or at_work is None:
        return
    generation = f"generation {now.observed_generation}"
    new_spec = was is not None and was.observed_generation != now.observed_generation
    under_way = _is(at_work, "True", Reason.ROLLOUT_IN_PROGRESS)
    done = at_work.status == "False" and now.reason in _ALL_WRITTEN
    was_done = was is not None and (was.status == "True" or was.reason in _ALL_WRITTEN)
    if new_spec and (under_way or (done and wrote)):
        yield EventReason.ROLLOUT_STARTED, f"The operator applies {generation} of the spec to the nodes."
    if done and (not was_done or (new_spec and wrote)):
        nodes = count_nodes(after.nodes)
        yield EventReason.ROLLOUT_COMPLETED, f"The labels and taints of {generation} are on {nodes}."


_ALL_WRITTEN = (Reason.UP_TO_DATE, Reason.WAITING_FOR_ACTOR, Reason.BUILD_UNKNOWN)
"""What NodesUpToDate says of nodes that carry all labels and taints, whatever Windows they run."""

_TRANSITIONS = (
    (ConditionType.PAUSED, "True", None, EventReason.POOL_PAUSED),
    (ConditionType.PAUSED, "False", None, EventReason.POOL_RESUMED),
    (ConditionType.READY, "False", Reason.SPEC_REJECTED, EventReason.SPEC_REJECTED),
    (ConditionType.ACCEPTED, "False", Reason.MISSING_PERMISSION, EventReason.MISSING_PERMISSION),
    (ConditionType.STALLED, "True", Reason.TAINTS_HELD, EventReason.TAINTS_HELD),
    (ConditionType.READY, "False", Reason.POOL_OVERLAP, EventReason.POOL_OVERLAP),
    (ConditionType.OS_SUPPORTED, "False", Reason.BUILD_UNSUPPORTED, EventReason.BUILD_UNSUPPORTED),
    (ConditionType.OS_SUPPORTED, "False", Reason.SUPPORT_ENDED, EventReason.SUPPORT_ENDED),
    (ConditionType.OS_SUPPORTED, "False", Reason.REVISION_BELOW_FLOOR, EventReason.REVISION_BELOW_FLOOR),
    (ConditionType.OS_SUPPORTED, "False", Reason.VERSION_SKEW, EventReason.VERSION_SKEW),
    (ConditionType.OS_SUPPORTED, "False", Reason.RUNTIME_TOO_OLD, EventReason.RUNTIME_TOO_OLD),
    (ConditionType.OS_SUPPORTED, "Unknown", Reason.BUILD_UNKNOWN, EventReason.BUILD_UNKNOWN),
    (ConditionType.OS_SUPPORTED, "True", Reason.BUILD_WARNED, EventReason.BUILD_WARNED),
    (ConditionType.UPGRADE_ALLOWED, "True", Reason.UPGRADE_ALLOWED, EventReason.UPGRADE_ALLOWED),
    (ConditionType.UPGRADE_ALLOWED, "False", None, EventReason.UPGRADE_GATED),
)

_GUARD = IssueReason.GUARD_NOT_IN_FORCE

_NEW_ISSUES: Final[tuple[tuple[IssueReason, EventReason, Callable[[str], str]], ...]] = (
    (IssueReason.NO_NODES_SELECTED, EventReason.NO_NODES_SELECTED, lambda _: ""),
    (_GUARD, EventReason.GUARD_MISSING, lambda _: ""),
    (IssueReason.OVERRIDE_EXPIRED, EventReason.OVERRIDE_EXPIRED, str),
    (IssueReason.SUPPORT_ENDING, EventReason.SUPPORT_ENDING, ending_of),
)
"""Issues that the pool has an event of, and what of their message makes one another issue."""

_ONE_FOR_EACH_CAUSE = (EventReason.SPEC_REJECTED, EventReason.MISSING_PERMISSION)
"""What is news again where it has another cause: a person who has fixed one looks for the next."""

_NOT_AT_FIRST = (EventReason.POOL_RESUMED,)
"""What is an event only after something else had been reported: a new pool has not been resumed."""


def _is(condition: Condition, status: str, reason: Reason | None) -> bool:
    return condition.status == status and reason in (None, condition.reason)


def pool_gone(name: str, uid: str, *, nodes: int, decided_at: datetime | None) -> Announcement:
    """Return the event about the pool of that name and UID, which has left its keys on so many ``nodes``.

    ``decided_at`` is when the list of all pools is due after which they are removed, None where it was made.
    """
    have = "has" if nodes == 1 else "have"
    at = (
        f"at {written_moment(decided_at)}, unless a second list of all pools has the pool"
        if decided_at
        else "now"
    )
    note = (
        f"The pool no longer exists and did not release its nodes. {count_nodes(nodes)} still {have} its "
        f"labels and taints. The operator removes them {at}."
    )
    return Announcement(EventReason.POOL_GONE, note, name, uid)


_NODES, _NODE = "{nodes}", "{node}"

EventCause = tuple[EventReason, str, str]


class NodeEvent(msgspec.Struct, frozen=True):
    """What the write of a node's patch has done there, where it is an exception.

    ``said`` are sentences with "{nodes}" in the place of the nodes, and "{node}" for a name in a command.
    """

    reason: EventReason
    said: str
    pool: str
    pool_uid: str
    name: str
    uid: str

    @property
    def cause(self) -> EventCause:
        """What nodes have in common of which one event tells."""
        return self.reason, self.said, self.pool_uid

    @property
    def note(self) -> str:
        """What the event says where it stands on the node."""
        said = self.said.replace(_NODES, "this node").replace(_NODE, self.name)
        return f"Pool {self.pool}: {said}"


def about_node(each: Assessment, *, pool: Pool) -> NodeEvent | None:
    """Return the event that goes with the patch of a node, where it is an exception."""
    if found := _of_record(each) or _exception(each):
        return NodeEvent(*found, pool.name, pool.uid, each.node.name, each.node.uid)
    return None


def _exception(each: Assessment) -> tuple[EventReason, str] | None:
    diff = each.diff
    if diff.left_alone and diff.patch and APPLIED_ANNOTATION in diff.patch.annotations:
        return (
            EventReason.KEYS_LEFT_ALONE,
            f"The operator left {named(diff.left_alone)} on {_NODES}, because the ownership record was "
            "written without the guard. Remove it if the pool did set it and no one needs it: "
            f"{removal(_NODE, diff.left_alone)}",
        )
    if state := _EVENT_OF.get(_entered(each)):
        return state
    if each.found.startup.passed:
        said = f"The operator removed the startup taints from {_NODES}, which passed validation."
        return EventReason.NODE_VALIDATED, said
    if diff.drifted:
        said = f"Someone removed or changed {', '.join(diff.drifted)} on {_NODES}. The operator restored it."
        return EventReason.DRIFT_REPAIRED, said
    return None


def _entered(each: Assessment) -> tuple[str | None, str | None]:
    """Return the states of the upgrade that the patch of a node takes it from and to; None for no label."""
    patch, label = each.diff.patch, UPGRADE_STATE_LABEL
    return (each.node.labels.get(label), patch.labels.get(label)) if patch else (None, None)


_EVENT_OF: Final[Mapping[tuple[str | None, str | None], tuple[EventReason, str]]] = {
    (UpgradeState.CLAIMED, UpgradeState.DRAINING): (
        EventReason.DRAIN_STARTED,
        f"The operator cordoned {_NODES} and evicts the pods, to have the machine upgraded.",
    ),
    (UpgradeState.DRAINED, UpgradeState.UPGRADING): (
        EventReason.NODE_HANDED_OVER,
        f"The operator drained {_NODES} and handed the machine over to be upgraded.",
    ),
    (UpgradeState.SOAKING, UpgradeState.UP_TO_DATE): (
        EventReason.NODE_UPGRADED,
        f"The upgrade of {_NODES} is complete.",
    ),
}
"""What a step of an upgrade has an event of. The exceptions have issues, whose events they are."""


def _of_record(each: Assessment) -> tuple[EventReason, str] | None:
    """Return what is to be said of an ownership record that could not be read."""
    diff, is_leaving = each.diff, each.claim is Claim.LEFT
    if diff.unreadable:
        done = "removed only keys under winpool.dev/" if is_leaving else "recreated it"
        said = f"The operator could not read the ownership record on {_NODES} ({diff.unreadable}) and {done}."
    elif diff.lost and is_leaving:
        said = f"The operator could not read an earlier ownership record on {_NODES}."
    else:
        return None
    if diff.lost:
        when = "stay" if is_leaving else "no longer belong to the pool and stay when it is deleted"
        said += f" These keys {when}: {named(diff.lost)}. Remove them: {removal(_NODE, diff.lost)}"
    return EventReason.OWNERSHIP_RECORD_UNREADABLE, said


def shared_by_many(events: Iterable[NodeEvent]) -> frozenset[EventCause]:
    """Return the causes that more nodes share than get an event each."""
    counts = Counter(event.cause for event in events)
    return frozenset(cause for cause, number in counts.items() if number > NODES_WITH_OWN_EVENTS)


def announced(events: Iterable[NodeEvent], *, shared: Collection[EventCause] = ()) -> Iterator[Announcement]:
    """Yield what to say of these ``events``: for each cause an event of each node, or one of the pool.

    The causes in ``shared`` are reported of the pool, however few of their nodes are among the events.
    """
    of_cause: dict[EventCause, dict[str, NodeEvent]] = {}
    for event in events:
        of_cause.setdefault(event.cause, {})[event.uid] = event
    for cause, nodes in of_cause.items():
        # By name: the order in which the writes of a pass end means nothing.
        found = sorted(nodes.values(), key=attrgetter("name"))
        if len(found) <= NODES_WITH_OWN_EVENTS and cause not in shared:
            for each in found:
                yield Announcement(each.reason, each.note, each.name, each.uid, Regarding.NODE)
        else:
            names = counted_nodes([event.name for event in found])
            said = found[0].said.replace(_NODES, names).replace(_NODE, NODE)
            yield Announcement(found[0].reason, said, found[0].pool, found[0].pool_uid)


_OF_ISSUES = {
    IssueReason.WRITE_REFUSED: EventReason.WRITE_REFUSED,
    IssueReason.FOREIGN_TAINT_CONFLICT: EventReason.FOREIGN_TAINT_CONFLICT,
    IssueReason.RESERVED_MEMORY_MISMATCH: EventReason.RESERVED_MEMORY_MISMATCH,
    IssueReason.MEMORY_PRESSURE: EventReason.MEMORY_PRESSURE_DETECTED,
    IssueReason.UNATTRIBUTED_MEMORY: EventReason.UNATTRIBUTED_MEMORY,
    IssueReason.EVICTION_BLOCKED: EventReason.EVICTION_BLOCKED,
    IssueReason.VALIDATION_TIMED_OUT: EventReason.VALIDATION_TIMED_OUT,
    IssueReason.DRAIN_BLOCKED: EventReason.DRAIN_BLOCKED,
    IssueReason.UPGRADE_FAILED: EventReason.UPGRADE_FAILED,
    IssueReason.SETTLE_TIMED_OUT: EventReason.SETTLE_TIMED_OUT,
    IssueReason.SURPRISE_OS_CHANGE: EventReason.SURPRISE_OS_CHANGE,
    IssueReason.SURPRISE_REBOOT: EventReason.SURPRISE_REBOOT,
}
"""Issues that their nodes have an event of."""


_OF_ONE: Final = (
    ("These nodes have", "This node has"),
    ("These nodes are", "This node is"),
    ("These nodes were", "This node was"),
    ("These nodes stay cordoned, since their", "This node stays cordoned, since its"),
    ("These nodes", "This node"),
    ("these nodes", "this node"),
    ("The kubelets reserve", "The kubelet reserves"),
    ("their kubelets show", "its kubelet shows"),
    ("each of their pods", "each of its pods"),
    ("no pod of them", "no pod of it"),
    ("because they wait", "because it waits"),
    ("that they can commit", "that it can commit"),
    ("and do little but page", "and does little but page"),
    ("of RAM, and page", "of RAM, and pages"),
)
"""What the issues of _OF_ISSUES say of nodes, and the same of one."""


def of_one_node(message: str) -> str:
    """Return the message of an issue as it is said of a single node."""
    for many, one in _OF_ONE:
        message = message.replace(many, one)
    return message


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
    counts = Counter[tuple[str, str]]()
    for issue in before.issues:
        message = (issue.reason, issue.message)
        for key in {message, (issue.reason, causes.get(message, issue.message))}:
            counts[key] += issue.node_count
    named_before = {(issue.reason, name) for issue in before.issues for name in issue.nodes}
    # An earlier version named one node in each issue and counted none: those were announced.
    announced_before = {issue.reason for issue in before.issues if not issue.node_count}
    new: list[tuple[EventReason, Issue, str]] = []
    for issue in after.issues:
        event, message = _OF_ISSUES.get(IssueReason(issue.reason)), (issue.reason, issue.message)
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
            yield Announcement(
                event, f"Pool {pool.name}: {of_one_node(issue.message)}", name, uid, Regarding.NODE
            )


def cleared(
    pool: Pool,
    before: WindowsNodePoolStatus,
    after: WindowsNodePoolStatus,
    overview: Overview | None,
    nodes: Iterable[Assessment],
) -> Iterator[Announcement]:
    """Yield the events of nodes that are under pressure no more, or one of the pool where these were many.

    A node of which nothing is known has not been cleared, nor has one that has left the pool.
    """
    was = _issues(before, IssueReason.MEMORY_PRESSURE)
    if overview is None or not was:
        return
    event, number = EventReason.MEMORY_PRESSURE_CLEARED, sum(each.node_count for each in was)
    if number > NODES_WITH_OWN_EVENTS:
        if not (overview.pressured or overview.silent or overview.undecided):
            note = f"{count_nodes(number)} were under memory pressure, and no node is any more."
            yield Announcement(event, note, pool.name, pool.uid)
        return
    still = {name for each in _issues(after, IssueReason.MEMORY_PRESSURE) for name in each.nodes}
    calm = {name for each in was for name in each.nodes} - still - overview.undecided
    calm -= {*overview.pressured, *overview.silent}
    note = f"Pool {pool.name}: The node is no longer under memory pressure."
    for each in nodes if calm else ():
        if each.node.name in calm:
            yield Announcement(event, note, each.node.name, each.node.uid, Regarding.NODE)
