"""Lines in the log about what anyone who may patch the Lease can change as fast as they want.

A line for every change would let them fill the log of each operator, and hide all other lines (P7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

HOLDER_SECONDS: Final = 10.0
"""Between two lines about who holds the Lease. Holders that end without a release follow each other after a
whole lease, 15 s, so no line of a healthy cluster waits. Someone who patches the Lease without a pause causes
six lines a minute."""

SKEW_SECONDS: Final = 600.0
"""Between two lines about the difference of clocks. Clocks drift by milliseconds in this time, and a person
needs longer to synchronize them. The metric has each difference at once."""


class Paced:
    """Says which facts to log: a new one, and at most one in ``seconds`` of ``clock``.

    A fact that comes too early is logged when it is given again after that time, if it is still new then.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._given: str | None = None
        self._told: str | None = None
        self._told_at = float("-inf")
        self._skipped = 0

    def suffix(self, fact: str) -> str | None:
        """Return what to append to the line about ``fact``: how many were not logged. None for no line."""
        now = self._clock()
        is_change, self._given = fact != self._given, fact
        if fact == self._told or now - self._told_at < self._seconds:
            self._skipped += is_change
            return None
        skipped = self._skipped - (not is_change)  # this fact was skipped itself, when it was new
        self._told, self._told_at, self._skipped = fact, now, 0
        return f" ({skipped} changes before were not logged)" if skipped > 0 else ""

    def over(self) -> None:
        """Note that the last fact is no longer true: the same one is new when it comes again."""
        self._given = self._told = None
