"""Which events a change of a pool calls for, and texts of others as a sentence.

Texts of others, made fit to stand in an issue: as a sentence, and without the name of one node.

What is left alone on a node, since the record that names it may be forged, in words and as commands.

Which events a change of a pool's status calls for, and what they say.

An event tells of a transition, once. Those of single nodes: ``node_events``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from winpool.api.conditions import ConditionType, Reason, referred_by
from winpool.api.events import EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.v1alpha1 import Condition, Issue, WindowsNodePoolStatus
from winpool.model.node import Keys
from winpool.status.assessment import count_nodes, count_pods, counted_nodes
from winpool.status.os_support import ending_of

NODE: Final = "NODE"
"""Stands in the place of a node's name."""

_SMALL: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
"""Of other alphabets some capitals are longer in small letters, and no name of a node has any."""

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)


def sentence(text: str) -> str:
    """Return ``text`` with a capital letter at its begin and a full stop at its end."""
    text = text.strip()
    begun = text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?", "…")) else f"{begun}."


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
