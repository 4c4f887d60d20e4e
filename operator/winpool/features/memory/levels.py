"""The levels of memory pressure: the lines between them, for how long one has been crossed, and the trend.

The levels of pressure, and the lines between them.

===========  ===========================================  =================================================
Level        COMMIT                                       PHYSICAL
===========  ===========================================  =================================================
Warning      80 % used, or exhausted in 15 min            less than 15 % available
ProxyOnly                                                 less than 3 % by the kubelet's estimate alone
Soft         90 % used                                    less than 10 %, and reads, and pages written out
Hard         less than 1 GiB or 3 % left, or above Soft   less than 5 %, and many reads
             and exhausted in 120 s
===========  ===========================================  =================================================

A level includes those below it. A condition with an unknown part is not met (P4).

How long the line of a level has been crossed: a level is raised at once, and lowered after a while.

Time counts only while samples are fresh. A gap that ends within 120 s stops the timers, a longer one sets
them back. What is reached stays until the axis was clear of the line, by a margin, for long enough.

The trend of an axis: a slope that single outliers do not turn, and when memory will be exhausted.

The slope is that of Theil and Sen: the median of the slopes of all pairs of points. Nearly a third of the
points may be wrong before it is. https://en.wikipedia.org/wiki/Theil-Sen_estimator

Points have the times at which their samples were measured, on our clock, so that no node chooses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from types import MappingProxyType
from typing import Final

from winpool.features.memory.settings import (
    COMMIT_CLEAR_BYTES,
    COMMIT_CLEAR_SHARE,
    EVIDENCE_SAMPLES,
    FLIP_SECONDS,
    FRESH_SECONDS,
    HARD_HEADROOM_SHARE,
    MAX_POINTS,
    PHYSICAL_CLEAR_PERCENT,
    PROXY_PERCENT,
    REPURPOSED_RISE_PER_SECOND,
    SLOPE_MIN_SAMPLES,
    SLOPE_MIN_SECONDS,
    SLOPE_SAMPLES,
    SLOPE_SECONDS,
    SOFT_WRITE_OUT_PER_SECOND,
    TREND_REMAINING,
    TREND_SAMPLES,
    WARNING_ETA_SECONDS,
    CommitLines,
    DetectorSettings,
    PhysicalLines,
)
from winpool.model.pressure import Axis, Level, Reading

RAISED: Final = (Level.WARNING, Level.PROXY_ONLY, Level.SOFT, Level.HARD)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one reading says: the levels whose lines it is over, and those of which it is clear.

    A level in both is one that the trend leads to: it is over that. One in neither stays as it is: the
    reading is between the two, or does not show it.
    """

    over: frozenset[Level]
    clear: frozenset[Level]


def lines(axis: Axis, whole: float, settings: DetectorSettings) -> Mapping[Level, float]:
    """Return how many bytes are left at the line of each level, where ``whole`` is all that there is."""
    if axis is Axis.COMMIT:
        commit = settings.commit
        return {
            Level.WARNING: whole * (100 - commit.warning_used_percent) / 100,
            Level.SOFT: whole * (100 - commit.soft_used_percent) / 100,
            Level.HARD: max(commit.hard_headroom_bytes, whole * HARD_HEADROOM_SHARE),
        }
    physical = settings.physical
    return {
        Level.WARNING: whole * physical.warning_available_percent / 100,
        Level.PROXY_ONLY: whole * PROXY_PERCENT / 100,
        Level.SOFT: whole * physical.soft_available_percent / 100,
        Level.HARD: whole * physical.hard_available_percent / 100,
    }


def margin(axis: Axis, whole: float) -> float:
    """Return how far above a line a reading is clear of it, in bytes."""
    if axis is Axis.COMMIT:
        return max(COMMIT_CLEAR_BYTES, whole * COMMIT_CLEAR_SHARE)
    return whole * PHYSICAL_CLEAR_PERCENT / 100


def missing(axis: Axis, *, left: float, whole: float, settings: DetectorSettings) -> float:
    """Return how many bytes must become free for the axis to be clear of Soft and Hard."""
    at = lines(axis, whole, settings)
    return max(0.0, max(at[Level.SOFT], at[Level.HARD]) + margin(axis, whole) - left)


def judged(
    reading: Reading,
    *,
    seconds_left: float | None,
    is_repurposed_faster: bool,
    settings: DetectorSettings,
) -> Verdict:
    """Return what ``reading`` says, with the trend of its axis.

    An estimate is over and clear of ProxyOnly alone: when memory is short, private working sets are trimmed,
    so it can show neither Soft nor the end of it.
    """
    axis, left = reading.axis, reading.left
    at = lines(axis, reading.whole, settings)
    if reading.is_estimate:
        level = Level.PROXY_ONLY if left < at[Level.PROXY_ONLY] else Level.NORMAL
        shown: tuple[Level, ...] = (Level.PROXY_ONLY,)
    elif axis is Axis.COMMIT:
        level = _commit(left, at, seconds_left, settings.commit)
        shown = RAISED
    else:
        level = _physical(reading, at, settings.physical, is_repurposed_faster=is_repurposed_faster)
        shown = RAISED
    gap = margin(axis, reading.whole)
    return Verdict(
        over=frozenset(each for each in shown if each <= level),
        clear=frozenset(each for each in shown if left > at.get(each, 0.0) + gap),
    )


def _commit(left: float, at: Mapping[Level, float], seconds_left: float | None, commit: CommitLines) -> Level:
    is_over_soft = left < at[Level.SOFT]
    if left < at[Level.HARD] or (is_over_soft and _is_before(seconds_left, commit.hard_eta_seconds)):
        return Level.HARD
    if is_over_soft:
        return Level.SOFT
    is_warning = left < at[Level.WARNING] or _is_before(seconds_left, WARNING_ETA_SECONDS)
    return Level.WARNING if is_warning else Level.NORMAL


def _physical(
    reading: Reading, at: Mapping[Level, float], physical: PhysicalLines, *, is_repurposed_faster: bool
) -> Level:
    left = reading.left
    reads = reading.hard_reads_per_second
    if left < at[Level.HARD] and _is_above(reads, physical.hard_reads_per_second):
        return Level.HARD
    pages = is_repurposed_faster or _is_above(reading.write_out_per_second, SOFT_WRITE_OUT_PER_SECOND)
    if left < at[Level.SOFT] and _is_above(reads, physical.soft_reads_per_second) and pages:
        return Level.SOFT
    return Level.WARNING if left < at[Level.WARNING] else Level.NORMAL


def _is_before(seconds: float | None, limit: float) -> bool:
    return seconds is not None and seconds < limit


def _is_above(rate: float | None, line: float) -> bool:
    return rate is not None and rate > line


@dataclass(frozen=True, slots=True)
class Latch:
    """The history of one line.

    ``since`` is when the level was reached, None while it is not. ``over_seconds`` is for how long every
    sample has been over the line, None where the last was not; ``over_samples`` is how many were, one after
    the other. ``clear_seconds`` is for how long every sample has been clear of it.
    """

    since: float | None = None
    over_seconds: float | None = None
    over_samples: int = 0
    clear_seconds: float | None = None


UNLATCHED: Final = Latch()
NOTHING_LATCHED: Final[Mapping[Level, Latch]] = MappingProxyType(dict.fromkeys(RAISED, UNLATCHED))
"""The lines of an axis that is over none of them: one object for all healthy nodes."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The time between two readings of an axis.

    ``counted`` are the seconds of it in which the earlier one was fresh; None where the timers begin again.
    ``is_next``: the later follows the earlier directly, from the same source.
    """

    at: float
    counted: float | None
    is_next: bool


def tick(*, before: float | None, at: float, fresh_seconds: float, is_same_source: bool) -> Tick:
    """Return the time from ``before``, whose reading was fresh for ``fresh_seconds``, until ``at``."""
    if before is None or at - before > FRESH_SECONDS:
        return Tick(at, None, is_next=False)
    is_covered = at - before <= fresh_seconds
    return Tick(at, at - before if is_covered else 0.0, is_next=is_same_source and is_covered)


def hold_seconds(settings: DetectorSettings) -> float:
    """Return for how long an axis has to be clear of a line before the level is lowered."""
    return max(settings.clear_after_seconds, FLIP_SECONDS)


def latched(latch: Latch, passed: Tick, *, is_over: bool, is_clear: bool, hold: float) -> Latch:
    """Return ``latch`` after a reading that is over its line, clear of it, or neither."""
    if is_over:
        return Latch(
            since=passed.at if latch.since is None else latch.since,
            over_seconds=_longer(latch.over_seconds, passed),
            over_samples=latch.over_samples + 1 if passed.is_next else 1,
        )
    if latch.since is None:
        return UNLATCHED
    if not is_clear:
        return Latch(since=latch.since)
    seconds = _longer(latch.clear_seconds, passed)
    return UNLATCHED if seconds >= hold else Latch(since=latch.since, clear_seconds=seconds)


def all_latched(
    latches: Mapping[Level, Latch], verdict: Verdict, passed: Tick, *, hold: float
) -> Mapping[Level, Latch]:
    """Return the lines of an axis after a reading."""
    moved = {
        level: latched(
            latch, passed, is_over=level in verdict.over, is_clear=level in verdict.clear, hold=hold
        )
        for level, latch in latches.items()
    }
    return moved if any(latch is not UNLATCHED for latch in moved.values()) else NOTHING_LATCHED


def interrupted(latch: Latch) -> Latch:
    """Return ``latch`` after a sample that is missing or unknown: no samples follow each other over it."""
    return replace(latch, over_samples=0) if latch.over_samples else latch


def has_lasted(latches: Mapping[Level, Latch], settings: DetectorSettings) -> bool:
    """Whether the last samples were over Hard, or all of the grace over Soft: long enough for an eviction."""
    hard, soft = latches[Level.HARD], latches[Level.SOFT]
    if hard.over_samples >= EVIDENCE_SAMPLES:
        return True
    has_grace = soft.over_seconds is not None and soft.over_seconds >= settings.soft_grace_seconds
    return has_grace and soft.over_samples >= EVIDENCE_SAMPLES


def _longer(seconds: float | None, passed: Tick) -> float:
    return 0.0 if seconds is None or passed.counted is None else seconds + passed.counted


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
