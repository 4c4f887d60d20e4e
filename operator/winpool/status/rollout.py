"""Says how far the operator is with the nodes that it upgrades itself, and what keeps it from the next.

It is made from the steps of the pass. The moments are those that time alone brings: deadlines of nodes,
and gates that a clock opens; never the next list of pods, which would make a write of every look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.status import SlotState
from winpool.api.text import grouped
from winpool.api.upgrade import Strategy, Trigger, Upgrade, UpgradeState
from winpool.features.upgrade.claims import BEFORE_HAND_OVER, DRAINING, ENDED_BADLY, IN_WORK, Claim
from winpool.features.upgrade.gates.world import veto_of
from winpool.features.upgrade.heirs import lost_nodes
from winpool.features.upgrade.records import (
    MOST_UNHEALTHY,
    NodeStep,
    RolloutResult,
    UpgradeOverview,
    is_late,
)
from winpool.model.node import is_held
from winpool.status.assessment import counted_nodes, enumerate_names

_ORDER: Final = {state: place for place, state in enumerate(UpgradeState)}


class Stall(NamedTuple):
    """Something that needs a person, as the condition Stalled says it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """How far the operator is with the nodes of a pool, by their names.

    ``is_ours``: it upgrades nodes itself; without, it only ends what it has begun. ``states`` has the nodes
    in work, in the order of their states. ``moving`` are those of them that need no person, and
    ``next_nodes`` those that are due and may follow. ``stalls`` are what needs a person, and ``unhealthy``
    the nodes that are not Ready after their upgrade. ``why_no_more`` is why no further node begins. At
    ``next_at`` time alone changes something. ``draining``, ``blocked`` and ``failed`` count nodes.
    """

    is_ours: bool = False
    states: Mapping[str, UpgradeState] = field(default_factory=dict)
    moving: tuple[str, ...] = ()
    next_nodes: tuple[str, ...] = ()
    stalls: tuple[Stall, ...] = ()
    unhealthy: tuple[str, ...] = ()
    why_no_more: str = ""
    next_at: datetime | None = None
    draining: int = 0
    blocked: int = 0
    failed: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether the operator goes on without a person, at least with one node."""
        return bool(self.moving or self.next_nodes)

    @property
    def said(self) -> str:
        """Say which nodes are in work and in which state, in a sentence; empty where none is."""
        alike = grouped((state, name) for name, state in self.states.items())
        parts = [f"{enumerate_names(names)} ({state})" for state, names in alike.items()]
        return f"The operator upgrades {', '.join(parts)}." if parts else ""


NO_ROLLOUT: Final = RolloutProgress()


def rollout_progress(
    overview: UpgradeOverview | None, block: Upgrade | None, *, now: datetime
) -> RolloutProgress:
    """Return how far the operator is; ``overview`` and ``block`` are None without ``spec.upgrade``."""
    if overview is None or block is None or overview.rollout is None:
        return NO_ROLLOUT
    rolled = overview.rollout
    in_work = {name: each.state for name, each in rolled.steps.items() if each.state in IN_WORK}
    in_work |= {name: each.state for name, each in rolled.missing.items()}
    ordered = sorted(in_work.items(), key=lambda each: (_ORDER[each[1] or UpgradeState.CLAIMED], each[0]))
    counts = [each.state for each in rolled.steps.values()]
    moving = tuple(name for name, _ in ordered if _moves(rolled.steps.get(name), now=now))
    # Where no slot is free, others follow only once one of the nodes in work is done.
    may_follow = moving or not rolled.said
    return RolloutProgress(
        is_ours=block.is_ours,
        states={name: state for name, state in ordered if state is not None},
        moving=moving,
        next_nodes=tuple(_next(overview, rolled, block, now=now)) if may_follow else (),
        stalls=tuple(_stalls(rolled, block, now=now)),
        unhealthy=rolled.unhealthy,
        why_no_more=rolled.said,
        next_at=min((each for each in _moments(overview, rolled) if each > now), default=None),
        draining=sum(each in DRAINING and each is not UpgradeState.CLAIMED for each in counts),
        blocked=counts.count(UpgradeState.DRAIN_BLOCKED),
        failed=sum(each in ENDED_BADLY for each in counts),
    )


def _moves(step: NodeStep | None, *, now: datetime) -> bool:
    """Whether a node in work goes on without a person; one without a step awaits another machine."""
    if step is None:
        return True
    is_stuck = step.state is UpgradeState.DRAIN_BLOCKED or is_late(step, now=now)
    is_vetoed = step.state in BEFORE_HAND_OVER and bool(veto_of(step.node))
    return not is_stuck and not is_vetoed and not is_held(step.node, now=now)


def _next(
    overview: UpgradeOverview, rolled: RolloutResult, block: Upgrade, *, now: datetime
) -> Iterator[str]:
    """Yield the nodes that are due and may be claimed once there is a slot for them."""
    if not block.is_ours or len(rolled.unhealthy) >= MOST_UNHEALTHY:
        return
    passed_over = {each.node for each in overview.slots if each.state == SlotState.UNUSED}
    asks = block.strategy is Strategy.ON_REQUEST
    for each in overview.open_nodes:
        name, step = each.node.name, rolled.steps.get(each.node.name)
        is_asked = not asks or any(due.trigger is Trigger.REQUEST for due in each.due)
        if is_asked and name not in passed_over and (step is None or _begins_again(step, now=now)):
            yield name


def _begins_again(step: NodeStep, *, now: datetime) -> bool:
    claim = step.claim
    if claim is None or claim.state not in ENDED_BADLY:
        return False
    return claim.is_retried or (claim.retry_at is not None and claim.retry_at <= now)


def _stalls(rolled: RolloutResult, block: Upgrade, *, now: datetime) -> Iterator[Stall]:
    """Yield what needs a person: nodes past their own deadline, and the brakes."""
    failed = sorted(name for name, each in rolled.steps.items() if each.state in ENDED_BADLY)
    failed += lost_nodes(rolled.slots, now=now)
    if failed:
        said = f"The upgrade of {counted_nodes(failed)} failed. {_see(IssueReason.UPGRADE_FAILED)}"
        yield Stall(Reason.UPGRADE_FAILED, said + _brake("maxFailedNodes", block.max_failed_nodes, failed))
    blocked = sorted(name for name, each in rolled.steps.items() if each.state is UpgradeState.DRAIN_BLOCKED)
    if blocked:
        said = f"{counted_nodes(blocked)} could not be drained in time. {_see(IssueReason.DRAIN_BLOCKED)}"
        yield Stall(Reason.DRAIN_BLOCKED, said + _brake("maxBlockedNodes", block.max_blocked_nodes, blocked))
    if len(rolled.unhealthy) >= MOST_UNHEALTHY:
        yield Stall(
            Reason.NODES_UNHEALTHY,
            f"{counted_nodes(rolled.unhealthy)} are not Ready after their upgrade, so no other begins.",
        )
    late = sorted(name for name, each in rolled.steps.items() if is_late(each, now=now))
    if late:
        said = f"What follows the upgrade of {counted_nodes(late)} takes longer than settleTimeoutSeconds."
        yield Stall(Reason.SETTLE_TIMED_OUT, f"{said} {_see(IssueReason.SETTLE_TIMED_OUT)}")


def _see(reason: IssueReason) -> str:
    return f"See the issue {reason}."


def _brake(name: str, allowed: int, nodes: list[str]) -> str:
    return f" spec.upgrade.{name} is {allowed}, so no other begins." if len(nodes) > allowed else ""


def _moments(overview: UpgradeOverview, rolled: RolloutResult) -> Iterator[datetime]:
    """Yield the moments that a rollout names."""
    found: list[datetime | None] = []
    for step in rolled.steps.values():
        found.append(step.late_at)
        if step.claim is not None:
            found += _of_claim(step.claim)
    if overview.due:
        found += [each.changes_at for each in overview.closed]
        found += [gate.changes_at for each in overview.due for gate in each.closed]
    yield from (each for each in found if each is not None)


def _of_claim(claim: Claim) -> tuple[datetime | None, ...]:
    return claim.deadline, None if claim.is_retried else claim.retry_at


def failed_nodes(overview: UpgradeOverview) -> int:
    """Return of how many nodes the upgrade has failed, as the history counts them."""
    steps = overview.rollout.steps.values() if overview.rollout else ()
    return sum(each.state in ENDED_BADLY for each in steps)
