"""Which events a change of a pool's status calls for, and what they say.

An event tells of a transition, once. Those of single nodes: ``node_events``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.conditions import ConditionType, Reason, referred_by
from winpool.api.events import EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.report.os_support import ending_of
from winpool.report.tally import count_nodes, count_pods, counted_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.api.v1alpha1 import Condition, Issue, WindowsNodePoolStatus


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event to be emitted about the object with this name and UID: a pool, or a node."""

    reason: EventReason
    note: str
    name: str
    uid: str
    regarding: Regarding = Regarding.POOL


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
    if (issues := _issues(after, IssueReason.NO_NODES_SELECTED)) and not _issues(
        before, IssueReason.NO_NODES_SELECTED
    ):
        yield EventReason.NO_NODES_SELECTED, issues[0].message
    yield from _of_guard(before, after)
    expired = {issue.message for issue in _issues(before, IssueReason.OVERRIDE_EXPIRED)}
    for issue in _issues(after, IssueReason.OVERRIDE_EXPIRED):
        if issue.message not in expired:
            yield EventReason.OVERRIDE_EXPIRED, issue.message
    known = {ending_of(issue.message) for issue in _issues(before, IssueReason.SUPPORT_ENDING)}
    for issue in _issues(after, IssueReason.SUPPORT_ENDING):
        if ending_of(issue.message) not in known:
            yield EventReason.SUPPORT_ENDING, counted(issue)
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


def _of_guard(
    before: WindowsNodePoolStatus, after: WindowsNodePoolStatus
) -> Iterator[tuple[EventReason, str]]:
    was, now = (_issues(each, IssueReason.GUARD_NOT_IN_FORCE) for each in (before, after))
    if now and not was:
        yield EventReason.GUARD_MISSING, now[0].message
    if was and not now:
        yield EventReason.GUARD_RESTORED, "Kubelets can no longer write the operator's keys on nodes."


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

_ONE_FOR_EACH_CAUSE = (EventReason.SPEC_REJECTED, EventReason.MISSING_PERMISSION)
"""What is news again where it has another cause: a person who has fixed one looks for the next."""

_NOT_AT_FIRST = (EventReason.POOL_RESUMED,)
"""What is news only after something else had been reported: a new pool has not been resumed."""


def _is(condition: Condition, status: str, reason: Reason | None) -> bool:
    return condition.status == status and reason in (None, condition.reason)
