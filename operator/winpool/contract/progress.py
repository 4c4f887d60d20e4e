"""At which stages the nodes of a pool are on their way to what its spec asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.conditions import Reason
from winpool.rooms import Progress, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.contract.room import NodeContract
    from winpool.ownership.members import Member


def contract_progress(unsettled: Iterable[tuple[Member, NodeContract]]) -> Iterator[Progress]:
    """Yield the stages of the nodes that do not carry what the spec asks for, or have something to show."""
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
            "{nodes} to be written once all pods have been looked at",
        ),
        Progress(
            Stage.HELD,
            held,
            Reason.TAINTS_HELD,
            "a NoExecute taint is held back from {nodes}, since pods there do not tolerate it and would be "
            "deleted, see issues",
        ),
        Progress(
            Stage.TIMED_OUT,
            timed_out,
            Reason.VALIDATION_TIMED_OUT,
            "validation not passed in time by {nodes}, see issues",
        ),
        Progress(
            Stage.VALIDATING,
            validating,
            Reason.VALIDATING_NODES,
            "{nodes} with startup taints until they have passed validation",
        ),
    )
    yield from (each for each in said if each.nodes)
