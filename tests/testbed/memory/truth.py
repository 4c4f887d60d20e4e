"""What really happened on a machine, whatever its figures say: for tests, never for an operator.

It comes from the model's hidden state, and knows no threshold of any detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

THRASHING_STALL: Final = 0.1
"""A machine that waits for pages for more of its time than this thrashes. Linux measures such a part as
pressure stall information; Windows exports none."""

THRASHING_SECONDS: Final = 10
"""A shorter wait is no harm that would be worth an eviction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """Harm since the start of the machine."""

    allocations_denied: int
    """One for each pod, and for Windows itself, in each second in which it got less than it asked for."""
    seconds_denied: int
    """In which at least one allocation was denied."""
    seconds_thrashing: int
    """In stretches of at least 10 s in which the machine lost more than a tenth of its time to paging."""
    seconds_lost: float
    """Time lost to paging: a second in which half of the time is lost counts 0.5."""
    stall: float
    """The part of the last second that was lost, 0 to 1."""


class TruthKeeper:
    """Adds up what happens, second by second."""

    def __init__(self) -> None:
        self._denied = 0
        self._seconds_denied = 0
        self._thrashing = 0
        self._lost = 0.0
        self._stall = 0.0
        self._stretch = 0

    def second(self, *, denied: int, stall: float) -> None:
        """Take note of one second.

        Args:
            denied: how many got less than they asked for.
            stall: the part of the second that was lost to paging.

        """
        self._denied += denied
        self._seconds_denied += denied > 0
        self._stall = stall
        self._lost += stall
        if stall <= THRASHING_STALL:
            self._stretch = 0
            return
        self._stretch += 1
        if self._stretch == THRASHING_SECONDS:
            self._thrashing += THRASHING_SECONDS
        elif self._stretch > THRASHING_SECONDS:
            self._thrashing += 1

    def truth(self) -> GroundTruth:
        """Return the sum so far."""
        return GroundTruth(
            allocations_denied=self._denied,
            seconds_denied=self._seconds_denied,
            seconds_thrashing=self._thrashing,
            seconds_lost=self._lost,
            stall=self._stall,
        )
