"""Holds what the conditions of a pool are computed from, and makes one: status, reason and message.

A part of it is how far the operator is with the nodes that it upgrades itself, and what keeps it from the
next. That is made from the steps of the pass. Its moments are those that time alone brings: deadlines of
nodes, and gates that a clock opens; never the next list of pods, which would make a write of every look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from winpool.api.conditions import STATES, ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.spec import Mode
from winpool.api.status import SlotState
from winpool.api.text import enumerate_names, grouped
from winpool.api.upgrade import Strategy, Trigger, Upgrade, UpgradeState
from winpool.features.contract.feature import Refusal
from winpool.features.feature import Finding, Stage
from winpool.features.memory.overview import Overview
from winpool.features.upgrade.claims import BEFORE_HAND_OVER, DRAINING, ENDED_BADLY, IN_WORK, veto_of
from winpool.features.upgrade.records import MOST_UNHEALTHY, NodeStep, RolloutResult, UpgradeOverview, is_late
from winpool.features.upgrade.slots import lost_nodes
from winpool.model.node import is_held
from winpool.model.pool import Pool
from winpool.status.assessment import Tally, count_nodes, counted_nodes
from winpool.status.os_support import Group
from winpool.status.pods import Blind

STATE_OF: Final = {
    Reason.RELEASING_NODES: Reason.DELETING,
    Reason.WAITING_FOR_ACTOR: Reason.UPGRADE_DUE,
}
"""The STATE that a reason of NodesUpToDate stands for, where it has another name."""

_RANKS: Final = {reason: rank for rank, reason in enumerate(STATES)}

SEE_ACCEPTED: Final = see_condition(ConditionType.ACCEPTED)


class ConditionValue(NamedTuple):
    """Status, reason and message of a condition."""

    status: str
    reason: Reason
    message: str


def true(reason: Reason, message: str) -> ConditionValue:
    """Return the value of a condition that is True."""
    return ConditionValue("True", reason, message)


def false(reason: Reason, message: str) -> ConditionValue:
    """Return the value of a condition that is False."""
    return ConditionValue("False", reason, message)


def unknown(reason: Reason, message: str) -> ConditionValue:
    """Return the value of a condition of which it is not known whether it is true."""
    return ConditionValue("Unknown", reason, message)


def worst(values: Iterable[ConditionValue]) -> ConditionValue:
    """Return what comes first in the order of STATE; of those that are equally bad the first."""
    return min(values, key=lambda each: _RANKS[STATE_OF.get(each.reason, each.reason)])


class View(msgspec.Struct, frozen=True):
    """What the conditions of a pool are computed from.

    ``missing_permission`` says which rule is missing, empty where none is; ``blind`` which nodes the operator
    cannot continue with, since it cannot list their pods, and ``is_overdue`` that this lasts too long.
    ``groups`` are the pool's nodes as the support matrix judges them, ``judged`` is what it has against them.
    ``found`` are the reasons of all issues, also of those that the status has no room for. ``memory`` is what
    is known of memory pressure, None where memory is not watched, and ``pressured`` how many nodes are under
    pressure or were before the last start; ``upgrades`` is what is known of upgrades, None without
    ``spec.upgrade``, and ``rollout`` how far the operator is that upgrades nodes itself.
    """

    pool: Pool
    tally: Tally
    refusal: Refusal
    missing_permission: str
    blind: Blind
    is_overdue: bool
    groups: Sequence[Group]
    judged: Sequence[Finding]
    found: frozenset[str]
    memory: Overview | None
    pressured: int
    upgrades: UpgradeOverview | None
    rollout: RolloutProgress

    @property
    def mode(self) -> Mode:
        """The mode of the spec; a spec that cannot be read is not acted on, as if paused."""
        return self.pool.spec.mode if self.pool.spec else Mode.PAUSED

    @property
    def accepted(self) -> bool:
        """Whether the operator may act on this spec."""
        return not self.refusal and not self.missing_permission

    @property
    def refused(self) -> tuple[str, ...]:
        """The nodes that the API server does not let the operator write.

        None where the spec is not accepted: nobody knows then what is to be written. What the API server has
        said stands in a mode that writes nothing, too.
        """
        return self.tally.refused if self.pool.deleting or self.accepted else ()

    @property
    def is_stuck(self) -> bool:
        """Whether all that is left to be written are nodes that the API server does not let us write."""
        tally = self.tally
        return bool(tally.outstanding) and tally.outstanding == tally.refused and not tally.at(Stage.WAITING)

    @property
    def goes_on_with(self) -> frozenset[str]:
        """The nodes that the operator continues with although it cannot list the pods of others."""
        can_be_written = frozenset(self.tally.writable).difference(self.tally.refused)
        return can_be_written | frozenset(self.tally.asking).difference(self.blind.nodes)

    @property
    def is_at_work(self) -> bool:
        """Whether the operator will go on by itself: it writes, or waits for what will come."""
        tally = self.tally
        if self.upgrades_nodes:
            return True
        if not self.accepted or self.mode is not Mode.ACTIVE or self.is_stuck:
            return False
        if self.blind and self.is_overdue:
            return bool(self.goes_on_with)
        if tally.outstanding or tally.awaiting_conditions or tally.at(Stage.WAITING):
            return True
        return bool(tally.at(Stage.VALIDATING)) and not (tally.at(Stage.HELD) or tally.at(Stage.TIMED_OUT))

    @property
    def upgrades_nodes(self) -> bool:
        """Whether the operator upgrades nodes itself, and needs no person for at least one of them."""
        return self.accepted and self.mode is Mode.ACTIVE and self.rollout.goes_on


def none_of_ours(tally: Tally) -> ConditionValue:
    """Say why the pool has no nodes: the worst that is true."""
    if tally.foreign:
        return true(
            Reason.POOL_OVERLAP,
            f"nodeSelector selects {count_nodes(tally.foreign)} of other pools, and the pool owns none. "
            "Change the selectors of the pools so that they exclude each other.",
        )
    if tally.unknown:
        return owner_unknown(tally)
    return true(Reason.NO_NODES_SELECTED, "No Windows node has the labels that nodeSelector asks for.")


def owner_unknown(tally: Tally) -> ConditionValue:
    """Say that the owner of nodes that the pool selects is not known."""
    return unknown(
        Reason.OWNER_UNKNOWN,
        f"nodeSelector selects {count_nodes(tally.unknown)} with the ownership record of a pool that the "
        f"operator does not know. See the issue {IssueReason.OWNER_UNKNOWN}.",
    )


_ORDER: Final = {state: place for place, state in enumerate(UpgradeState)}


class RolloutProgress(msgspec.Struct, frozen=True):
    """How far the operator is with the nodes of a pool, by their names.

    ``is_ours``: it upgrades nodes itself; without, it only ends what it has begun. ``states`` has the nodes
    in work, in the order of their states. ``moving`` are those of them that need no person, and
    ``next_nodes`` those that are due and may follow. ``stalls`` are what needs a person, as Stalled says it,
    and ``unhealthy`` the nodes that are not Ready after their upgrade. ``why_no_more`` is why no further node
    begins. At ``next_at`` time alone changes something. ``draining``, ``blocked`` and ``failed`` count nodes.
    """

    is_ours: bool = False
    states: Mapping[str, UpgradeState] = msgspec.field(default_factory=dict)
    moving: tuple[str, ...] = ()
    next_nodes: tuple[str, ...] = ()
    stalls: tuple[ConditionValue, ...] = ()
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


def _stalls(rolled: RolloutResult, block: Upgrade, *, now: datetime) -> Iterator[ConditionValue]:
    """Yield what needs a person: nodes past their own deadline, and the brakes."""
    failed = sorted(name for name, each in rolled.steps.items() if each.state in ENDED_BADLY)
    failed += lost_nodes(rolled.slots, now=now)
    if failed:
        said = f"The upgrade of {counted_nodes(failed)} failed. {_see(IssueReason.UPGRADE_FAILED)}"
        yield true(Reason.UPGRADE_FAILED, said + _brake("maxFailedNodes", block.max_failed_nodes, failed))
    blocked = sorted(name for name, each in rolled.steps.items() if each.state is UpgradeState.DRAIN_BLOCKED)
    if blocked:
        said = f"{counted_nodes(blocked)} could not be drained in time. {_see(IssueReason.DRAIN_BLOCKED)}"
        yield true(Reason.DRAIN_BLOCKED, said + _brake("maxBlockedNodes", block.max_blocked_nodes, blocked))
    if len(rolled.unhealthy) >= MOST_UNHEALTHY:
        yield true(
            Reason.NODES_UNHEALTHY,
            f"{counted_nodes(rolled.unhealthy)} are not Ready after their upgrade, so no other begins.",
        )
    late = sorted(name for name, each in rolled.steps.items() if is_late(each, now=now))
    if late:
        said = f"What follows the upgrade of {counted_nodes(late)} takes longer than settleTimeoutSeconds."
        yield true(Reason.SETTLE_TIMED_OUT, f"{said} {_see(IssueReason.SETTLE_TIMED_OUT)}")


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
            found += (step.claim.deadline, None if step.claim.is_retried else step.claim.retry_at)
    if overview.due:
        found += [each.changes_at for each in overview.closed]
        found += [gate.changes_at for each in overview.due for gate in each.closed]
    yield from (each for each in found if each is not None)


def failed_nodes(overview: UpgradeOverview) -> int:
    """Return of how many nodes the upgrade has failed, as the history counts them."""
    steps = overview.rollout.steps.values() if overview.rollout else ()
    return sum(each.state in ENDED_BADLY for each in steps)
