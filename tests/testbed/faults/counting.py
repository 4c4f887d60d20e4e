"""Which of the requests, or lines, that match are acted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """All, unless one of these is given; counted from 1."""

    nth: int | None = None
    """Only this one."""
    every: int | None = None
    """This one, the one after as many again, and so on."""
    first: int | None = None
    """So many, and none after them."""

    @classmethod
    def of(cls, *, nth: int | None, every: int | None, first: int | None) -> Self:
        """Check and return.

        Raises:
            ValueError: more than one is given, or one below 1.

        """
        given = [number for number in (nth, every, first) if number is not None]
        if len(given) > 1 or any(number < 1 for number in given):
            raise ValueError("give at most one of nth, every and first, and not less than 1")
        return cls(nth=nth, every=every, first=first)

    def selects(self, number: int) -> bool:
        """Tell whether the one of this number is acted on."""
        if self.nth is not None:
            return number == self.nth
        if self.every is not None:
            return number % self.every == 0
        return self.first is None or number <= self.first
