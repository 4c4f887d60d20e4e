"""What the conditions of a pool are computed from, and what one of them says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.v1alpha1 import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.report.finding import Finding
    from winpool.report.os_support import Group
    from winpool.report.tally import Tally
    from winpool.snapshot import Pool

IDLE_MODES: Final = {Mode.PAUSED: Reason.PAUSED, Mode.DRY_RUN: Reason.DRY_RUN}
"""The modes in which nothing is written, and what Ready says of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a spec cannot be acted on, with the fix; the message is empty where it can."""

    message: str = ""
    reason: Reason = Reason.SPEC_REJECTED

    def __bool__(self) -> bool:
        """Whether the spec is refused."""
        return bool(self.message)


ACCEPTABLE: Final = Refusal()


@dataclass(frozen=True, slots=True)
class View:
    """What the conditions of a pool are computed from.

    ``missing_permission`` says which rule is missing, ``pods_problem`` why the pods could not be looked at;
    both are empty where all is well. ``is_overdue`` says that nodes have waited too long for such a look.
    ``groups`` are the pool's nodes as the support matrix judges them, ``judged`` is what it has against them.
    """

    pool: Pool
    tally: Tally
    refusal: Refusal
    missing_permission: str
    pods_problem: str
    is_overdue: bool
    groups: Sequence[Group]
    judged: Sequence[Finding]

    @property
    def accepted(self) -> bool:
        """Whether the operator may act on this spec."""
        return not self.refusal and not self.missing_permission

    @property
    def is_stuck(self) -> bool:
        """Whether all that is left to be written are nodes that the API server does not let us write."""
        tally = self.tally
        return bool(tally.outstanding) and tally.outstanding == tally.refused and not tally.waiting

    @property
    def is_blind(self) -> bool:
        """Whether there are nodes that cannot be gone on with, since pods cannot be looked at."""
        return bool(self.pods_problem and self.tally.asking)

    @property
    def can_be_written(self) -> frozenset[str]:
        """The nodes to be written that wait for nothing but their turn."""
        return frozenset(self.tally.writable).difference(self.tally.refused)

    @property
    def is_at_work(self) -> bool:
        """Whether the operator will go on by itself: it writes, or waits for what will come."""
        tally = self.tally
        may_write = self.accepted and self.mode is Mode.ACTIVE
        if not may_write or self.is_stuck:
            return False
        if self.is_blind and self.is_overdue:
            return bool(self.can_be_written)
        if tally.outstanding or tally.waiting:
            return True
        return bool(tally.validating) and not (tally.held or tally.timed_out)

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
