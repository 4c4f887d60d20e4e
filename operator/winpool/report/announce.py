"""Which events a change of status calls for, and what they say.

An event tells of a transition, once. Nodes get events for exceptions only: a cold start of
thousands of nodes is one event on the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.conditions import ConditionType, Reason
from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.ownership.membership import Claim
from winpool.report.left_alone import named, removal
from winpool.report.os_support import ending_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.api.v1alpha1 import Condition, WindowsNodePoolStatus
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.report.assessment import Assessment


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event to be emitted about the object with this name and UID."""

    reason: EventReason
    note: str
    name: str
    uid: str


def on_transition(
    *, before: WindowsNodePoolStatus, after: WindowsNodePoolStatus, wrote: bool
) -> Iterator[tuple[EventReason, str]]:
    """Yield the events of a pool whose status goes from ``before`` to ``after``, with their notes.

    ``wrote`` says that nodes were written for the generation of ``after``.
    """
    for type_, status, reason, event in _TRANSITIONS:
        was, now = before.condition(type_), after.condition(type_)
        entered = now is not None and _is(now, status, reason) and not (was and _is(was, status, reason))
        if now and entered and (was or event not in _NOT_AT_FIRST):
            yield event, now.message
    if after.misplaced_pods and not before.misplaced_pods:
        yield EventReason.MISPLACED_PODS, _message_of(after, IssueReason.MISPLACED_PODS)
    yield from _of_guard(before, after)
    known = _endings(before).keys()
    for ending, message in _endings(after).items():
        if ending not in known:
            yield EventReason.SUPPORT_ENDING, message
    yield from _of_rollouts(
        before.condition(ConditionType.NODES_UP_TO_DATE),
        after.condition(ConditionType.NODES_UP_TO_DATE),
        wrote=wrote,
    )


def _message_of(status: WindowsNodePoolStatus, reason: IssueReason) -> str:
    """Return the message of the issue; where worse ones have taken its place, the reason itself."""
    return next((issue.message for issue in status.issues if issue.reason == reason), reason)


def _of_guard(
    before: WindowsNodePoolStatus, after: WindowsNodePoolStatus
) -> Iterator[tuple[EventReason, str]]:
    was, now = (
        any(issue.reason == IssueReason.GUARD_NOT_IN_FORCE for issue in each.issues)
        for each in (before, after)
    )
    if now and not was:
        yield EventReason.GUARD_MISSING, _message_of(after, IssueReason.GUARD_NOT_IN_FORCE)
    if was and not now:
        yield EventReason.GUARD_RESTORED, "kubelets cannot write the keys of winpool on nodes any more"


_OF_NODES = {
    IssueReason.FOREIGN_TAINT_CONFLICT: EventReason.FOREIGN_TAINT_CONFLICT,
    IssueReason.RESERVED_MEMORY_MISMATCH: EventReason.RESERVED_MEMORY_MISMATCH,
    IssueReason.VALIDATION_TIMED_OUT: EventReason.VALIDATION_TIMED_OUT,
}
"""Issues that their node has an event of. As many as the status names: not a storm, whatever happens."""


def of_issues(
    pool: Pool, after: WindowsNodePoolStatus, assessed: Iterable[Assessment]
) -> Iterator[Announcement]:
    """Yield the events of nodes that have got an issue which they did not have before."""
    known = {(issue.node, issue.reason) for issue in pool.status.issues}
    new = [
        (event, issue)
        for issue in after.issues
        if (issue.node, issue.reason) not in known and (event := _OF_NODES.get(IssueReason(issue.reason)))
    ]
    if not new:
        return
    uids = {each.node.name: each.node.uid for each in assessed}
    for event, issue in new:
        if issue.node is not None and (uid := uids.get(issue.node)):
            yield Announcement(event, f"pool {pool.name}: {issue.message}", issue.node, uid)


def _endings(status: WindowsNodePoolStatus) -> dict[str, str]:
    """Return what the issues say of releases whose support ends: the condition tells of it only later."""
    ending = (issue.message for issue in status.issues if issue.reason == IssueReason.SUPPORT_ENDING)
    return {ending_of(message): message for message in ending}


def _of_rollouts(
    was: Condition | None, now: Condition | None, *, wrote: bool
) -> Iterator[tuple[EventReason, str]]:
    """Yield start and completion: both at once where a rollout was quicker than its first report."""
    if now is None:
        return
    generation = f"generation {now.observed_generation}"
    new_spec = was is not None and was.observed_generation != now.observed_generation
    under_way = _is(now, "False", Reason.ROLLOUT_IN_PROGRESS)
    done = _is(now, "True", Reason.UP_TO_DATE)
    if new_spec and (under_way or (done and wrote)):
        yield EventReason.ROLLOUT_STARTED, f"{generation} is being brought to the nodes"
    if done and (was is None or was.status != "True" or (new_spec and wrote)):
        yield EventReason.ROLLOUT_COMPLETED, f"{generation} is complete: {now.message}"


_TRANSITIONS = (
    (ConditionType.PAUSED, "True", None, EventReason.POOL_PAUSED),
    (ConditionType.PAUSED, "False", None, EventReason.POOL_RESUMED),
    (ConditionType.ACCEPTED, "False", Reason.SPEC_REJECTED, EventReason.SPEC_REJECTED),
    (ConditionType.ACCEPTED, "False", Reason.RESERVED_MEMORY_TOO_LARGE, EventReason.SPEC_REJECTED),
    (ConditionType.STALLED, "True", Reason.TAINTS_HELD, EventReason.TAINTS_HELD),
    (ConditionType.READY, "False", Reason.POOL_OVERLAP, EventReason.POOL_OVERLAP),
    (ConditionType.OS_SUPPORTED, "False", Reason.BUILD_UNSUPPORTED, EventReason.BUILD_UNSUPPORTED),
    (ConditionType.OS_SUPPORTED, "False", Reason.SUPPORT_ENDED, EventReason.SUPPORT_ENDED),
    (ConditionType.OS_SUPPORTED, "False", Reason.REVISION_BELOW_FLOOR, EventReason.REVISION_BELOW_FLOOR),
    (ConditionType.OS_SUPPORTED, "False", Reason.VERSION_SKEW, EventReason.VERSION_SKEW),
    (ConditionType.OS_SUPPORTED, "False", Reason.RUNTIME_TOO_OLD, EventReason.RUNTIME_TOO_OLD),
    (ConditionType.OS_SUPPORTED, "Unknown", Reason.BUILD_UNKNOWN, EventReason.BUILD_UNKNOWN),
    (ConditionType.OS_SUPPORTED, "True", Reason.BUILD_WARNED, EventReason.BUILD_WARNED),
)

_NOT_AT_FIRST = (EventReason.POOL_RESUMED,)
"""What is news only after something else had been reported: a new pool has not been resumed."""


def _is(condition: Condition, status: str, reason: Reason | None) -> bool:
    return condition.status == status and reason in (None, condition.reason)


def about_node(each: Assessment, *, pool: str) -> Announcement | None:
    """Return the event that goes with the patch of a node, where it is an exception."""
    node = each.node
    if each.unreadable:
        done = "was begun anew" if each.claim is Claim.OURS else "only keys under winpool.dev/ were taken off"
        note = f"pool {pool}: the ownership record could not be read ({each.unreadable}): {done}"
        return Announcement(EventReason.OWNERSHIP_RECORD_UNREADABLE, note, node.name, node.uid)
    if each.left_alone and each.patch and APPLIED_ANNOTATION in each.patch.annotations:
        note = (
            f"pool {pool}: {named(each.left_alone)} stays: the ownership record was written without the "
            f"guard; if the pool did set it: {removal(node.name, each.left_alone)}"
        )
        return Announcement(EventReason.KEYS_LEFT_ALONE, note, node.name, node.uid)
    if each.startup.passed:
        note = f"pool {pool}: passed validation, so its startup taints were taken off"
        return Announcement(EventReason.NODE_VALIDATED, note, node.name, node.uid)
    if each.drifted:
        note = f"pool {pool}: put back what had been changed: {', '.join(each.drifted)}"
        return Announcement(EventReason.DRIFT_REPAIRED, note, node.name, node.uid)
    return None


def about_refusal(node: Node, *, pool: str, why: str) -> Announcement:
    """Return the event of a patch that the API server refused."""
    return Announcement(EventReason.WRITE_REFUSED, f"pool {pool}: {why}", node.name, node.uid)
