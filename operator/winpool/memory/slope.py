"""The trend of an axis: a slope that single outliers do not turn, and when memory will be exhausted.

The slope is that of Theil and Sen: the median of the slopes of all pairs of points. Nearly a third of the
points may be wrong before it is. https://en.wikipedia.org/wiki/Theil-Sen_estimator

Points have the times at which their samples were measured, on our clock, so that no node chooses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from winpool.memory.settings import (
    MAX_POINTS,
    REPURPOSED_RISE_PER_SECOND,
    SLOPE_MIN_SAMPLES,
    SLOPE_MIN_SECONDS,
    SLOPE_SAMPLES,
    SLOPE_SECONDS,
    TREND_REMAINING,
    TREND_SAMPLES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Point:
    """A fresh reading of an axis, as much of it as the trend needs."""

    at: float
    left: float
    """Bytes that are left: commit that can still be promised, or RAM that is available."""
    used: float
    repurposed_per_second: float | None = None


def with_point(points: tuple[Point, ...], point: Point) -> tuple[Point, ...]:
    """Return the points of the trend with a new one: the last 3 minutes, or the last 5 points if longer."""
    kept = (*points, point)[-MAX_POINTS:]
    first_recent = next(index for index, each in enumerate(kept) if each.at >= point.at - SLOPE_SECONDS)
    return kept[min(first_recent, max(0, len(kept) - SLOPE_SAMPLES)) :]


def slope_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the median slope of pairs (seconds, amount), per second; None where there is no trend yet.

    The seconds are in ascending order, no two of them equal.
    """
    if len(points) < SLOPE_MIN_SAMPLES or points[-1][0] - points[0][0] < SLOPE_MIN_SECONDS:
        return None
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)]
    return median(slopes)


def seconds_left(points: Sequence[Point]) -> float | None:
    """Return after how many seconds nothing is left if the trend continues.

    That is infinity where no more is used than before, and None where there is no trend yet. The slope is
    that of what is used, so that a page file which is extended changes what is left, and not the trend.
    """
    slope = slope_of([(each.at, each.used) for each in points])
    if slope is None:
        return None
    return points[-1].left / slope if slope > 0 else math.inf


def is_repurposed_faster(points: Sequence[Point]) -> bool:
    """Whether the standby list is consumed faster than at the beginning of the trend."""
    if points[-1].repurposed_per_second is None:
        return False
    known = [
        (each.at, each.repurposed_per_second) for each in points if each.repurposed_per_second is not None
    ]
    slope = slope_of(known)
    return slope is not None and slope * (known[-1][0] - known[0][0]) > REPURPOSED_RISE_PER_SECOND


def is_recovering(points: Sequence[Point], missing: Callable[[Point], float]) -> bool:
    """Whether what is ``missing`` has fallen by more than 15 % since one of the last two samples."""
    *before, now = points[-1 - TREND_SAMPLES :]
    return any(missing(now) < TREND_REMAINING * missing(each) for each in before)
