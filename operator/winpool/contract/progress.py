"""The stages of the nodes of a pool that do not have all that its spec asks for yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.conditions import Reason
from winpool.rooms import Progress, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.contract.room import NodeContract
    from winpool.ownership.members import Member


def contract_progress(unsettled: Iterable[tuple[Member, NodeContract]]) -> Iterator[Progress]:
    """Yield the stages of the nodes that lack what the spec asks for, or are still being validated."""
    held: list[str] = []
    waiting: list[str] = []
    timed_out: list[str] = []
    validating: list[str] = []
    for member, each in unsettled:
        name = member.node.name
        if each.held.intolerant:
            held.append(name)
        if each.held.waiting:
            waiting.append(name)
        if each.startup.timed_out:
            timed_out.append(name)
        elif each.startup.waits_for:
            validating.append(name)
    said = (
        Progress(
            Stage.WAITING,
            waiting,
            Reason.ROLLOUT_IN_PROGRESS,
            "The operator writes to {nodes} once it has listed the pods.",
        ),
        Progress(
            Stage.HELD,
            held,
            Reason.TAINTS_HELD,
            "The operator does not add a NoExecute taint to {nodes}, because it would delete pods there. See "
            "the issue IntolerantPods.",
        ),
        Progress(
            Stage.TIMED_OUT,
            timed_out,
            Reason.VALIDATION_TIMED_OUT,
            "Validation timed out on {nodes}. See the issue ValidationTimedOut.",
        ),
        Progress(
            Stage.VALIDATING,
            validating,
            Reason.VALIDATING_NODES,
            "Startup taints stay on {nodes} until validation passes.",
        ),
    )
    yield from (each for each in said if each.nodes)
