"""Two contenders in alternating order, and what is made of their rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final, Literal

Side = Literal["operator", "loader"]
SIDES: Final[tuple[Side, Side]] = ("operator", "loader")


def order(rounds: int) -> list[tuple[Side, Side]]:
    """Return who goes first in each round: operator, loader, loader, operator, and so on.

    A machine that slows down or speeds up during the run then harms both alike.
    """
    first, second = SIDES
    return [(first, second) if number % 2 == 0 else (second, first) for number in range(rounds)]


def middle(values: Sequence[float]) -> float:
    """Return the median; not a number where there is no value."""
    return float(median(values)) if values else math.nan


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return our rate by theirs, round by round: both were measured within the same minute."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def farthest(values: Sequence[int], *, wanted: int) -> int:
    """Return the count of all rounds that is farthest from the wanted one: one bad round is one too many."""
    return max(values, key=lambda value: abs(value - wanted))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed (nearest rank)."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
