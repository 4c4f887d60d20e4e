"""What the conditions of a pool are computed from, what one of them says, and which of several is worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.states import STATES
from winpool.api.v1alpha1 import Mode
from winpool.rooms import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.contract.acceptance import Refusal
    from winpool.objects.pool import Pool
    from winpool.report.blind import Blind
    from winpool.report.memory import PoolMemory
    from winpool.report.os_support import Group
    from winpool.report.tally import Tally
    from winpool.rooms import Finding
    from winpool.upgrade.records import UpgradeOverview

IDLE_MODES: Final = {Mode.PAUSED: Reason.PAUSED, Mode.DRY_RUN: Reason.DRY_RUN}
"""The modes in which nothing is written, and what Ready says of them."""

STATE_OF: Final = {
    Reason.RELEASING_NODES: Reason.DELETING,
    Reason.WAITING_FOR_ACTOR: Reason.UPGRADE_DUE,
}
"""The STATE that a reason of NodesUpToDate stands for, where it has another name."""

_RANKS: Final = {each.reason: rank for rank, each in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class View:
    """What the conditions of a pool are computed from.

    ``missing_permission`` says which rule is missing, empty where none is; ``blind`` which nodes cannot be
    gone on with, since their pods cannot be looked at, and ``is_overdue`` that they have been so too long.
    ``groups`` are the pool's nodes as the support matrix judges them, ``judged`` is what it has against them.
    ``found`` are the reasons of all issues, also of those that the status has no room for. ``memory`` is what
    is known of memory pressure, None where memory is not watched; ``upgrades`` what is known of upgrades,
    None without ``spec.upgrade``.
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
    memory: PoolMemory | None
    upgrades: UpgradeOverview | None

    @property
    def accepted(self) -> bool:
        """Whether the operator may act on this spec."""
        return not self.refusal and not self.missing_permission

    @property
    def is_owning_none(self) -> bool:
        """Whether other pools own nodes that the pool selects, and the pool neither owns nor awaits any."""
        return self.tally.nodes == 0 and self.tally.foreign > 0 and self.tally.undecided == 0

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
    def can_be_written(self) -> frozenset[str]:
        """The nodes to be written that wait for nothing but their turn."""
        return frozenset(self.tally.writable).difference(self.tally.refused)

    @property
    def goes_on_with(self) -> frozenset[str]:
        """The nodes that are gone on with although others are blind."""
        return self.can_be_written | frozenset(self.tally.asking).difference(self.blind.nodes)

    @property
    def is_at_work(self) -> bool:
        """Whether the operator will go on by itself: it writes, or waits for what will come."""
        tally = self.tally
        may_write = self.accepted and self.mode is Mode.ACTIVE
        if not may_write or self.is_stuck:
            return False
        if self.blind and self.is_overdue:
            return bool(self.goes_on_with)
        if tally.outstanding or tally.awaiting_conditions or tally.at(Stage.WAITING):
            return True
        return bool(tally.at(Stage.VALIDATING)) and not (tally.at(Stage.HELD) or tally.at(Stage.TIMED_OUT))

    @property
    def mode(self) -> Mode:
        """The mode of the spec; a spec that cannot be read is not acted on, as if paused."""
        return self.pool.spec.mode if self.pool.spec else Mode.PAUSED


@dataclass(frozen=True, slots=True)
class Told:
    """Status, reason and message of a condition."""

    status: str
    reason: Reason
    message: str


def worst(said: Iterable[Told]) -> Told:
    """Return what comes first in the order of STATE; of those that are equally bad the first."""
    return min(said, key=lambda each: _RANKS[STATE_OF.get(each.reason, each.reason)])
