"""What a damaged ownership record leaves behind: which keys stay on which nodes, and how to remove them.

The record says which labels and taints of a node are the pool's. Where it cannot be read, those that stand
there count as somebody else's. They work as before, but they stay when the pool goes. People hear of it at
once, as long as it is so, and before the nodes of a deleted pool are released.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.texts import SENTENCE
from winpool.ownership.membership import Claim
from winpool.report.left_alone import named, removal
from winpool.report.tally import NAMES_SHOWN
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.keys import Keys
    from winpool.report.assessment import Assessment

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
