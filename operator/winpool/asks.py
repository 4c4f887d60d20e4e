"""What a decision asks for: lists of pods, and when time alone may change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.contract.room import ContractResult
from winpool.pods.evidence import OWN_LOOKS, current_survey, is_too_slow
from winpool.report.pods import overdue_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.node import Node
    from winpool.report.assessment import Assessment
    from winpool.rooms import RoomResult
    from winpool.snapshot import Snapshot


def asking_nodes(snapshot: Snapshot, nodes: Iterable[Assessment]) -> tuple[Assessment, ...]:
    """Return the nodes whose pods have to be listed before they are written."""
    attempts = snapshot.attempts
    return tuple(
        [
            each
            for each in nodes
            if (each.needs_pods or (each.held.wants_own_look and not each.is_held))
            and not (
                attempts.holds_back(each.patch) if each.patch else attempts.holds_back_some(each.node.uid)
            )
        ]
    )


def looks_of(
    snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[RoomResult]
) -> tuple[Node, ...]:
    """Return the nodes whose pods are listed for each node alone: all that ask, where they are few.

    Of many nodes, the first ones, where a list of all pods takes too long to be used.
    """
    also = [node for result in results if not isinstance(result, ContractResult) for node in result.looks]
    if len(asking) > OWN_LOOKS and not is_too_slow(current_survey(snapshot)):
        return tuple(also[:OWN_LOOKS])
    return tuple({each.uid: each for each in (*(one.node for one in asking), *also)}.values())[:OWN_LOOKS]


def needs_all_pods(snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[RoomResult]) -> bool:
    """Whether all pods have to be listed soon: a room needs it, or many nodes wait.

    This is also so where a node waits whose own list keeps failing: a list of all pods is used instead.
    """
    if snapshot.pool.spec is None or snapshot.pool.deleting:
        return False
    if any(result.needs_all_pods for result in results):
        return True
    waiting = [each.node.uid for each in asking if each.needs_pods]
    problems = (snapshot.pods.look_problems.get(uid) for uid in waiting)
    return (len(asking) > OWN_LOOKS and bool(waiting)) or any(each and each.lasts for each in problems)


def look_again_at(
    results: Iterable[RoomResult],
    reported: WindowsNodePoolStatus,
    *,
    hold_ends: datetime | None,
    now: datetime,
) -> datetime | None:
    """Return the next moment that a rule names. One that has passed was part of this decision.

    ``hold_ends`` is when the first hold of a node ends.
    """
    moments = (*(result.requeue_at for result in results), overdue_at(reported.issues), hold_ends)
    return min((moment for moment in moments if moment and moment > now), default=None)
