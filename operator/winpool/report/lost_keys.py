"""What a damaged ownership record leaves behind: which keys stay on which nodes, and how to remove them.

The record says which labels and taints of a node are the pool's. Where it cannot be read, those that stand
there count as somebody else's. They work as before, but they stay when the pool goes. People hear of it at
once, as long as it is so, and before the nodes of a deleted pool are released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.ownership.membership import Claim
from winpool.report.left_alone import named, removal
from winpool.report.tally import NAMES_SHOWN
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.keys import Keys
    from winpool.report.assessment import Assessment

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
            cause=f"{is_leaving} {named(lost)}",
        )


def _sentences(lost: Keys, found: list[Assessment], *, why: str, is_leaving: bool) -> tuple[str, str]:
    """Return message and fix."""
    told = f" ({why})" if why else ""
    if not lost:
        return (
            f"The ownership record in annotation {APPLIED_ANNOTATION} cannot be read{told}. It names nothing "
            "that is there: the node carries no label or taint of the pool.",
            "Nothing needs to be removed. The pool writes a new record when it next writes the node.",
        )
    names = [each.node.name for each in found]
    command = removal(" ".join(names) if len(names) <= NAMES_SHOWN else ANY_NODE, lost)
    message = f"The ownership record in annotation {APPLIED_ANNOTATION} could not be read{told}"
    if is_leaving:
        return (
            f"{message}. These keys stay on the node when the pool releases it: {named(lost)}.",
            f"Remove what nobody needs: {command}",
        )
    return (
        f"{message}. These keys no longer belong to the pool, and stay on the node when the pool is deleted: "
        f"{named(lost)}.",
        f"Remove them; the pool then sets what its spec asks for again, as its own: {command}",
    )


def about_record(each: Assessment, *, nodes: str, node: str) -> str:
    """Return what an event says of the record on a node when its patch is written; empty where nothing.

    ``nodes`` stands for the nodes in the sentence, and ``node`` for a name in the command.
    """
    is_leaving = each.claim is Claim.LEFT
    if each.unreadable:
        done = ", so only keys under winpool.dev/ were removed" if is_leaving else " and was recreated"
        said = f"the ownership record on {nodes} could not be read ({each.unreadable}){done}"
    elif each.lost and is_leaving:
        said = f"an earlier ownership record on {nodes} could not be read"
    else:
        return ""
    if not each.lost:
        return said
    when = "stay" if is_leaving else "no longer belong to the pool and stay when it is deleted"
    command = removal(node, each.lost)
    return f"{said}; these keys {when}: {named(each.lost)}; to remove them: {command}"


def are_untold(reported: WindowsNodePoolStatus, standing: WindowsNodePoolStatus) -> bool:
    """Whether ``reported`` names keys that stay behind and that the status does not name yet."""
    told = {each.message for each in standing.issues if _is_of_record(each.reason)}
    return any(_is_of_record(each.reason) and each.message not in told for each in reported.issues)


def _is_of_record(reason: str) -> bool:
    return reason == IssueReason.OWNERSHIP_RECORD_UNREADABLE
