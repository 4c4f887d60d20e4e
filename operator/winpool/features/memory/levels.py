"""Reads what samples say of the two axes of a node, and finds the level of each: lines, times and trends.

===========  ===========================================  =================================================
Level        COMMIT                                       PHYSICAL
===========  ===========================================  =================================================
Warning      80 % used, or exhausted in 15 min            less than 15 % available
ProxyOnly                                                 less than 3 % by the kubelet's estimate alone
Soft         90 % used                                    less than 10 %, and reads, and pages written out
Hard         less than 1 GiB or 3 % left, or above Soft   less than 5 %, and many reads
             and ``is_running_out`` in 60 s
===========  ===========================================  =================================================

A plateau is no leak: on COMMIT, Soft is signalled, and only Hard evicts. Nor is a rise that the node has come
back from before, as with garbage collection: what counts is where it goes above its high water of the last
hour.

The numbers that a pool may set are in ``settings.py``. A level includes those below it. A condition with an
unknown part is not met (P4). A level is raised at once, and lowered when the axis was clear of its line, by a
margin, for long enough. Time counts only while samples are fresh: a gap that ends within 120 s stops the
timers, a longer one sets them back.

Fresh are samples whose own time has advanced. A kubelet that cannot read its counters answers with the old
values and their old time, and an exporter that is gone leaves its last values in Prometheus. So an answer is
no evidence, and the age of a sample runs from the arrival of the first one that had its time.

The first sample of a source cannot show that: it only sets the time from which the next one has to advance.
So does one whose time is before that of the last, since the node's clock was set back; and one after two
minutes of silence whose time has advanced by less than ours, since its source stopped in between.

Prometheus says by ``timestamp()`` how old a sample is, by one clock. So its first sample counts, it arrives
as old as it is, and a clock that is set back does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import combinations
from statistics import median
from typing import Final

from msgspec.structs import replace

from winpool.api.memory_pressure import PageFile, PageFileType
from winpool.api.quantity import MIB, bytes_of
from winpool.features.memory.settings import (
    EVIDENCE_APART_SECONDS,
    EVIDENCE_SAMPLES,
    FRESH_INTERVALS,
    FRESH_SECONDS,
    PROXY_PERCENT,
    DetectorSettings,
)
from winpool.model.pressure import (
    NOTHING_LATCHED,
    UNLATCHED,
    Axis,
    AxisPressure,
    HighWater,
    Latch,
    Level,
    MemorySample,
    Reading,
    is_amount,
)


def read(axis: Axis, sample: MemorySample, *, page_file: PageFile, overhead: float) -> Reading | None:
    """Return what ``sample`` says of ``axis``; None where it does not say how much is left.

    ``overhead`` is what the kubelet's ``availableBytes`` does not count.
    """
    return _commit_reading(sample, page_file) if axis is Axis.COMMIT else _physical_reading(sample, overhead)


def ceiling(sample: MemorySample, page_file: PageFile) -> float | None:
    """Return how much the node can commit at most; None where that is unknown.

    The measured limit is that of the page file as it is now. A file of a fixed size is never extended, so the
    measurement is better than the declared size. A file that Windows manages is extended up to its declared
    size, so the larger one counts, and RAM has to be known. Kubelets before 1.31 report no limit: with an
    unknown page file the ceiling is unknown.
    """
    limit = sample.commit_limit or None
    ram = sample.physical_total or None
    possible = None if ram is None or page_file.max_bytes is None else ram + page_file.max_bytes
    match page_file.type:
        case PageFileType.UNKNOWN:
            return limit
        case PageFileType.FIXED:
            return possible if limit is None else limit
        case PageFileType.SYSTEM_MANAGED:
            return None if possible is None else max(possible, limit or 0.0)


def _commit_reading(sample: MemorySample, page_file: PageFile) -> Reading | None:
    whole = ceiling(sample, page_file)
    if whole is None or sample.commit_total is None:
        return None
    return Reading(
        Axis.COMMIT,
        left=max(0.0, whole - sample.commit_total),
        whole=whole,
        at=sample.measured_at,
        taken_at=sample.taken_at,
    )


def _physical_reading(sample: MemorySample, overhead: float) -> Reading | None:
    whole = sample.physical_total or None
    if whole is None:
        return None
    available = sample.physical_available
    is_estimate = available is None
    if available is None and sample.proxy_available is not None:
        available = max(0.0, sample.proxy_available - overhead)
    if available is None or available > whole:
        return None
    return Reading(
        Axis.PHYSICAL,
        left=available,
        whole=whole,
        hard_reads_per_second=sample.hard_reads_per_second,
        write_out_per_second=sample.write_out_per_second,
        repurposed_per_second=sample.repurposed_per_second,
        is_estimate=is_estimate,
        is_paging=is_estimate
        and sample.is_late
        and (sample.commit_total or 0.0) > whole
        and available < whole * PROXY_PERCENT / 100,
        at=sample.measured_at,
        taken_at=sample.taken_at,
    )


class Arrival(Enum):
    """What the own time of a sample says of it."""

    FRESH = "fresh"
    FROZEN = "frozen"
    """It is the last one once more, was measured before it, or arrived with it."""
    FIRST = "first"
    """There is nothing to compare its time with."""
    UNKNOWN = "unknown"
    """It has no time."""


def arrival(known: MemorySample | None, sample: MemorySample) -> Arrival:
    """Return what the time of ``sample`` says, after what is ``known`` of its source."""
    if sample.taken_at is None:
        return Arrival.UNKNOWN
    if known is None or known.taken_at is None:
        return Arrival.FIRST if sample.age is None else Arrival.FRESH
    if sample.taken_at == known.taken_at or sample.arrived_at == known.arrived_at:
        return Arrival.FROZEN
    if sample.age is not None:
        # Of two servers that answer in turn, the one that is behind says nothing new.
        return Arrival.FRESH if sample.measured_at > known.measured_at else Arrival.FROZEN
    if sample.taken_at < known.taken_at:
        return Arrival.FIRST
    silence = sample.arrived_at - known.arrived_at
    lag = silence - (sample.taken_at - known.taken_at)
    return Arrival.FIRST if silence > FRESH_SECONDS and lag > fresh_seconds(sample) else Arrival.FRESH


def fresh_seconds(sample: MemorySample) -> float:
    """Return for how long ``sample`` is fresh: two and a half intervals of its source, and at most 120 s."""
    interval = max(sample.interval_seconds, sample.next_seconds)
    return min(FRESH_INTERVALS * interval, FRESH_SECONDS) if is_amount(interval) else 0.0


def fresh_samples(
    known: Mapping[str, MemorySample], *, now: float, settings: DetectorSettings
) -> tuple[MemorySample, ...]:
    """Return the samples that are fresh ``now``, in the order of preference of their sources."""
    found = (known[source] for source in settings.sources if source in known)
    return tuple(
        each for each in found if not each.is_first and now - each.measured_at <= fresh_seconds(each)
    )


def preferred(
    samples: tuple[MemorySample, ...], axis: Axis, *, overhead: float, settings: DetectorSettings
) -> tuple[MemorySample, Reading] | None:
    """Return which sample speaks for ``axis``, and what it says.

    A measurement comes first, then an estimate, and last a measurement of available RAM without the rate of
    hard page reads, of which Soft and Hard are made: a source more must not show less pressure than kubelets
    alone, as with keep-lists that drop those metrics. Of equals it is that of the source which is read most
    often, as the kubelet of a hot node is, unless newer ones of others show that it no longer is. Of sources
    that are read equally often it is the preferred one.
    """
    found = [
        (sample, reading)
        for sample in samples
        if (reading := read(axis, sample, page_file=settings.page_file, overhead=overhead)) is not None
    ]
    newest = max((sample.measured_at for sample, _ in found), default=0.0)

    def place(each: tuple[MemorySample, Reading]) -> tuple[int, bool, float]:
        sample, reading = each
        is_overdue = newest - sample.measured_at > FRESH_INTERVALS * sample.interval_seconds
        return (_rank(reading), is_overdue, sample.interval_seconds)

    return min(found, key=place, default=None)


def _rank(reading: Reading) -> int:
    if reading.is_estimate:
        return 1
    return 0 if reading.axis is Axis.COMMIT or reading.hard_reads_per_second is not None else 2


WARNING_ETA_SECONDS: Final = 900.0
"""Exhausted in less than a quarter of an hour is a Warning: time for a person to act."""
HARD_HEADROOM_SHARE: Final = 0.03
"""Hard begins at this share of the ceiling where it is more than ``hard_headroom``: on a large machine
1 GiB is gone in a moment."""
SOFT_WRITE_OUT_PER_SECOND: Final = 100.0
"""Reads alone may be those of mapped files. Pages that are also written out show that memory is short."""
DISK_SHARE: Final = {Level.SOFT: 0.25, Level.HARD: 0.5}
"""So much of the most that a disk has read."""
LEAST_READS: Final = 25.0
"""Fewer are a program that starts: a tenth of what the slowest disks read."""
LEAST_WRITE_OUT: Final = 50.0
"""Pages: files are read at any rate, and no page is written out for them."""
REPURPOSED_RISE_PER_SECOND: Final = 100.0
"""So does the standby list, if so many more pages a second are consumed than at the beginning of the trend:
the same line, for memory that need not be written before it is given to someone else."""

COMMIT_CLEAR_BYTES: Final = 512 * MIB
COMMIT_CLEAR_SHARE: Final = 0.02
"""Commit is clear of a line with the larger of the two above it: more than a single process start takes."""
PHYSICAL_CLEAR_PERCENT: Final = 5.0
"""Physical memory is clear of a line so many points of a percent above it: the distance between two lines."""
PROXY_SIGNAL_SECONDS: Final = 60.0
"""The proxy has to say so for twice as long as a measurement until it is signalled."""
FLIP_SECONDS: Final = 60.0
"""The signal changes at most so often, whatever ``clear_after_seconds`` is: each change is a write to the
node, and the scheduler acts on it."""

SLOPE_SECONDS: Final = 180.0
"""The trend is that of the last three minutes, so that a garbage collection within them does not turn it."""
SLOPE_SAMPLES: Final = 5
"""It is of so many samples at least, however far apart they are."""
SLOPE_MIN_SAMPLES: Final = 4
"""With fewer there is no trend: the median of three slopes still follows a single outlier."""
SLOPE_MIN_SECONDS: Final = 20.0
"""Nor is there one over less time: over a few seconds, the noise of a workload is steep. It is less than the
30 s that four samples of a hot node take, so that a poll that comes early costs no sample."""
MAX_POINTS: Final = 32
"""So many points are kept at most, whatever the interval (P7): three minutes have 18 at 10 s."""
MARK_SECONDS: Final = 180.0
"""One mark of the high water is of so long: as long as the trend."""
MARKS: Final = 20
"""An hour of them: the period of most jobs that come back. One float each, for each node (P7)."""
MARKS_OF_THE_RISE: Final = 2
"""The newest marks are of the rise itself."""
KNOWN_SECONDS: Final = 600.0
"""For so long the node has to be known: garbage collectors of large heaps have such periods."""
RECORD_SHARE: Final = 0.02
"""A record is above the high water by more than this share of the whole. Waves of several programs that meet
are a little higher each time."""
RISE_SECONDS: Final = 60.0
RISE_SAMPLES: Final = 3
"""What is exhausted within a minute or two is judged by the last minute: three samples of any source."""
STILL_RISING: Final = 0.5
"""A rise whose last step is less than this share of its slope is about to turn."""

TREND_SAMPLES: Final = 2
TREND_REMAINING: Final = 0.85
"""Nothing is evicted while what is missing has fallen below this share of what it was in one of the last two
samples: it recovers by itself. The figure is ``fast_fall_ratio`` of Meta's oomd.
https://github.com/facebookincubator/oomd/blob/main/docs/core_plugins.md"""


def lines(axis: Axis, whole: float, settings: DetectorSettings) -> Mapping[Level, float]:
    """Return how many bytes are left at the line of each level, where ``whole`` is all that there is."""
    if axis is Axis.COMMIT:
        commit = settings.commit
        return {
            Level.WARNING: whole * (100 - commit.warning_used_percent) / 100,
            Level.SOFT: whole * (100 - commit.soft_used_percent) / 100,
            Level.HARD: max(bytes_of(commit.hard_headroom), whole * HARD_HEADROOM_SHARE),
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


def missing(reading: Reading, whole: float, settings: DetectorSettings) -> float:
    """Return how many bytes must become free for the axis to be clear of Soft and Hard."""
    at = lines(reading.axis, whole, settings)
    return max(0.0, max(at[Level.SOFT], at[Level.HARD]) + margin(reading.axis, whole) - reading.left)


def level_of(
    points: Sequence[Reading],
    at: Mapping[Level, float],
    *,
    seconds: float | None,
    high_water: HighWater | None,
    settings: DetectorSettings,
) -> Level:
    """Return the highest level whose line the last of ``points`` is over.

    ``at`` are the ``lines`` of its axis; after so many ``seconds`` nothing is left if the trend continues.
    ``high_water`` is what has been before.

    An estimate is over ProxyOnly at most: when memory is short, private working sets are trimmed, so it can
    show neither Soft nor the end of it.
    """
    reading = points[-1]
    left = reading.left
    if reading.is_estimate:
        return Level.PROXY_ONLY if left < at[Level.PROXY_ONLY] else Level.NORMAL
    if reading.axis is Axis.COMMIT:
        is_new = high_water is not None and is_record(high_water, reading)
        is_ending = is_new and is_running_out(points, settings.commit.hard_eta_seconds)
        return _commit(left, at, seconds, is_ending=is_ending)
    if left < at[Level.HARD] and _reads_much(reading, Level.HARD, high_water, settings):
        return Level.HARD
    if left < at[Level.SOFT] and _reads_much(reading, Level.SOFT, high_water, settings):
        pages = _is_above(reading.write_out_per_second, SOFT_WRITE_OUT_PER_SECOND)
        if pages or is_repurposed_faster(points):
            return Level.SOFT
    return Level.WARNING if left < at[Level.WARNING] else Level.NORMAL


def _reads_much(
    reading: Reading, level: Level, high_water: HighWater | None, settings: DetectorSettings
) -> bool:
    """Whether so much is read for page faults, for the disk of the node, that its programs wait for it.

    Where the pool gives no line, that is also so on a disk that cannot read as much: near the most that it
    has read in the last hour, while pages are written out.
    """
    physical, reads = settings.physical, reading.hard_reads_per_second
    line = physical.hard_reads_per_second if level is Level.HARD else physical.soft_reads_per_second
    if _is_above(reads, line):
        return True
    if not settings.learns_reads or high_water is None:
        return False
    learnt = max(LEAST_READS, DISK_SHARE[level] * max(high_water.marks))
    return _is_above(reads, learnt) and _is_above(reading.write_out_per_second, LEAST_WRITE_OUT)


def _commit(left: float, at: Mapping[Level, float], seconds_left: float | None, *, is_ending: bool) -> Level:
    is_over_soft = left < at[Level.SOFT]
    if left < at[Level.HARD] or (is_over_soft and is_ending):
        return Level.HARD
    if is_over_soft:
        return Level.SOFT
    is_soon = seconds_left is not None and seconds_left < WARNING_ETA_SECONDS
    return Level.WARNING if is_soon or left < at[Level.WARNING] else Level.NORMAL


def _is_above(rate: float | None, line: float) -> bool:
    return rate is not None and rate > line


def hold_seconds(settings: DetectorSettings) -> float:
    """Return for how long an axis has to be clear of a line before the level is lowered."""
    return max(settings.clear_after_seconds, FLIP_SECONDS)


def seconds_counted(before: AxisPressure, at: float) -> float | None:
    """Return how long the last reading of an axis was fresh until ``at``; None where timers begin again."""
    if before.sampled_at is None or at - before.sampled_at > FRESH_SECONDS:
        return None
    passed = at - before.sampled_at
    return passed if passed <= before.fresh_seconds else 0.0


def latched(
    before: AxisPressure,
    points: Sequence[Reading],
    *,
    is_same_source: bool,
    seconds: float | None,
    high_water: HighWater | None,
    settings: DetectorSettings,
) -> Mapping[Level, Latch]:
    """Return the lines of an axis after the last of ``points``; the arguments are those of ``level_of``.

    A level can be over its line by the trend and clear of it by what is left: it is over. One that is neither
    stays as it is: the reading is between the two, or does not show it.
    """
    reading = points[-1]
    at = lines(reading.axis, reading.whole, settings)
    level = level_of(points, at, seconds=seconds, high_water=high_water, settings=settings)
    if level is Level.NORMAL and before.latches is NOTHING_LATCHED:
        return NOTHING_LATCHED
    counted = seconds_counted(before, reading.at)
    # A late kubelet says that the node still pages as it did when an exporter could measure it, which is no
    # longer fresh.
    still_pages = (
        reading.is_paging
        and before.sampled_at is not None
        and reading.at - before.sampled_at <= before.fresh_seconds + FRESH_SECONDS
    )
    follows = (
        (is_same_source or still_pages)
        and before.sampled_at is not None
        and counted == reading.at - before.sampled_at
    )
    gap = margin(reading.axis, reading.whole)
    found: dict[Level, Latch] = {}
    for each, latch in before.latches.items():
        is_shown = each is Level.PROXY_ONLY if reading.is_estimate else True
        if (is_shown and each <= level) or (still_pages and latch.over_samples):
            found[each] = Latch(
                since=reading.at if latch.since is None else latch.since,
                over_seconds=_longer(latch.over_seconds, counted),
                over_samples=latch.over_samples + 1 if follows else 1,
            )
        elif latch.since is None:
            found[each] = UNLATCHED
        elif is_shown and reading.left > at.get(each, 0.0) + gap:
            clear = _longer(latch.clear_seconds, counted)
            is_over = clear >= hold_seconds(settings)
            found[each] = UNLATCHED if is_over else Latch(since=latch.since, clear_seconds=clear)
        else:
            found[each] = Latch(since=latch.since)
    return found if any(latch is not UNLATCHED for latch in found.values()) else NOTHING_LATCHED


def _longer(seconds: float | None, counted: float | None) -> float:
    return 0.0 if seconds is None or counted is None else seconds + counted


def interrupted(axis: AxisPressure) -> AxisPressure:
    """Return ``axis`` after a sample that is missing or unknown: no samples follow each other over a line."""
    if axis.latches is NOTHING_LATCHED and axis.ready_since is None:
        return axis
    latches = {
        level: replace(latch, over_samples=0) if latch.over_samples else latch
        for level, latch in axis.latches.items()
    }
    return replace(axis, latches=latches, ready_since=None)


def held_in(latches: Mapping[Level, Latch]) -> Level:
    """Return the highest level that was reached and not cleared."""
    if latches is NOTHING_LATCHED:
        return Level.NORMAL
    return max((level for level, latch in latches.items() if latch.since is not None), default=Level.NORMAL)


def has_lasted(
    axis: Axis, latches: Mapping[Level, Latch], points: Sequence[Reading], settings: DetectorSettings
) -> bool:
    """Whether the last samples were over Hard, or all of the grace over Soft: long enough for an eviction.

    On COMMIT only Hard counts. Nothing is harmed before it is exhausted, and much that is committed may stay.
    On PHYSICAL an estimate counts like Soft where it ``is_seen_to_page``.
    """
    if agree(latches[Level.HARD], EVIDENCE_APART_SECONDS):
        return True
    if axis is Axis.COMMIT:
        return False
    grace = settings.soft_grace_seconds
    return agree(latches[Level.SOFT], grace) or (
        is_seen_to_page(points) and agree(latches[Level.PROXY_ONLY], max(grace, PROXY_SIGNAL_SECONDS))
    )


def is_seen_to_page(points: Sequence[Reading]) -> bool:
    """Whether the last samples are estimates of kubelets that answer late, as on a node that pages."""
    return len(points) >= EVIDENCE_SAMPLES and all(each.is_paging for each in points[-EVIDENCE_SAMPLES:])


def agree(latch: Latch, seconds: float) -> bool:
    """Whether every sample has been over the line for so long, and two followed each other."""
    return has_been_over(latch, seconds) and latch.over_samples >= EVIDENCE_SAMPLES


def has_been_over(latch: Latch, seconds: float) -> bool:
    """Whether every sample has been over the line for so long."""
    return latch.over_seconds is not None and latch.over_seconds >= seconds


def with_point(points: tuple[Reading, ...], point: Reading) -> tuple[Reading, ...]:
    """Return the points of the trend with a new one: the last 3 minutes, or the last 5 points if longer.

    It replaces one of the same moment, which another source has measured: between the two there is no slope.
    """
    kept = (*(each for each in points if each.at < point.at), point)[-MAX_POINTS:]
    first_recent = next(index for index, each in enumerate(kept) if each.at >= point.at - SLOPE_SECONDS)
    return kept[min(first_recent, max(0, len(kept) - SLOPE_SAMPLES)) :]


def slope_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the median slope of pairs (seconds, amount), per second; None where there is no trend yet.

    The slope is that of Theil and Sen, the median of the slopes of all pairs: nearly a third of the points
    may be wrong before it is. https://en.wikipedia.org/wiki/Theil-Sen_estimator

    The seconds are in ascending order, no two of them equal. They are of our clock, so no node chooses them.
    """
    if len(points) < SLOPE_MIN_SAMPLES or points[-1][0] - points[0][0] < SLOPE_MIN_SECONDS:
        return None
    return _median_slope(points)


def _median_slope(points: Sequence[tuple[float, float]]) -> float:
    return median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2))


def seconds_left(points: Sequence[Reading]) -> float | None:
    """Return after how many seconds nothing is left if the trend continues.

    That is infinity where no more is used than before, and None where there is no trend yet. The slope is
    that of what is used, so that a page file which is extended changes what is left, and not the trend.
    """
    slope = slope_of([(each.at, each.used) for each in points])
    if slope is None:
        return None
    return points[-1].left / slope if slope > 0 else math.inf


def marked(before: HighWater | None, reading: Reading) -> HighWater:
    """Return the high water with a reading: of what is used, on COMMIT, and of page reads, on PHYSICAL.

    It begins again after an hour of silence.
    """
    amount = reading.used if reading.axis is Axis.COMMIT else reading.hard_reads_per_second or 0.0
    number = 0 if before is None else int((reading.at - before.began) // MARK_SECONDS)
    if before is None or number - before.newest >= MARKS:
        return HighWater(reading.at, 0, (amount,))
    passed = max(0, number - before.newest)
    marks = (*before.marks, *(0.0,) * passed)[-MARKS:]
    return HighWater(before.began, before.newest + passed, (*marks[:-1], max(marks[-1], amount)))


def is_record(high_water: HighWater, reading: Reading) -> bool:
    """Whether clearly more is used than before the last few minutes; False where too little is known (P4)."""
    before = high_water.marks[:-MARKS_OF_THE_RISE]
    is_known = reading.at - high_water.began >= KNOWN_SECONDS
    return is_known and bool(before) and reading.used > max(before) + RECORD_SHARE * reading.whole


def is_running_out(points: Sequence[Reading], seconds: float) -> bool:
    """Whether nothing is left in so many ``seconds`` by the rise of the last minute, which still lasts."""
    last = points[-1]
    recent = [(each.at, each.used) for each in points if last.at - each.at <= RISE_SECONDS]
    if len(recent) < RISE_SAMPLES:
        return False
    slope, step = _median_slope(recent), _median_slope(recent[-2:])
    return slope > 0 and step >= STILL_RISING * slope and last.left < seconds * slope


def is_repurposed_faster(points: Sequence[Reading]) -> bool:
    """Whether the standby list is consumed faster than at the beginning of the trend."""
    if points[-1].repurposed_per_second is None:
        return False
    known = [
        (each.at, each.repurposed_per_second) for each in points if each.repurposed_per_second is not None
    ]
    slope = slope_of(known)
    return slope is not None and slope * (known[-1][0] - known[0][0]) > REPURPOSED_RISE_PER_SECOND


def is_recovering(points: Sequence[Reading], lacking: Callable[[Reading], float]) -> bool:
    """Whether what is ``lacking`` has fallen by more than 15 % since one of the last two samples."""
    *before, now = points[-1 - TREND_SAMPLES :]
    return any(lacking(now) < TREND_REMAINING * lacking(each) for each in before)
