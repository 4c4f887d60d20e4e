"""The levels of pressure, and the lines between them.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.memory.settings import (
    COMMIT_CLEAR_BYTES,
    COMMIT_CLEAR_SHARE,
    HARD_HEADROOM_SHARE,
    PHYSICAL_CLEAR_PERCENT,
    PROXY_PERCENT,
    SOFT_WRITE_OUT_PER_SECOND,
    WARNING_ETA_SECONDS,
)
from winpool.objects.pressure import Axis, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.settings import CommitLines, DetectorSettings, PhysicalLines
    from winpool.objects.pressure import Reading


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
