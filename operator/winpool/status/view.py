"""Holds what the conditions of a pool are computed from, and makes one: status, reason and message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from winpool.api.conditions import STATES, ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.spec import Mode
from winpool.features.contract.feature import Refusal
from winpool.features.feature import Finding, Stage
from winpool.features.memory.overview import Overview
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.pool import Pool
from winpool.status.assessment import Tally, count_nodes
from winpool.status.os_support import Group
from winpool.status.pods import Blind
from winpool.status.rollout import RolloutProgress

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


@dataclass(frozen=True, slots=True)
class View:
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

    def of_all(self, number: int) -> str:
        """Begin a sentence about so many of the pool's nodes."""
        return of_all(number, self.tally.nodes)


def of_all(number: int, nodes: int) -> str:
    """Begin a sentence about so many of the ``nodes``."""
    return f"{number} of {count_nodes(nodes)} {'is' if number == 1 else 'are'}"


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
