"""Reads what memory samples say of the two axes of a node, and sorts out those that are not fresh.

Fresh are those whose own time has advanced. A kubelet that cannot read its counters answers with the old
values and their old time, and an exporter that is gone leaves its last values in Prometheus. So an answer is
no evidence, and the age of a sample runs from the arrival of the first one that had its time.

The first sample of a source cannot show that: it only sets the time from which the next one has to advance.
So does one whose time is before that of the last, since the node's clock was set back; and one after two
minutes of silence whose time has advanced by less than ours, since its source stopped in between.

Prometheus says by ``timestamp()`` how old a sample is, by one clock. So its first sample counts, it arrives
as old as it is, and a clock that is set back does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from winpool.api.memory_pressure import PageFile, PageFileType
from winpool.features.memory.settings import (
    FRESH_INTERVALS,
    FRESH_SECONDS,
    PROXY_PERCENT,
    DetectorSettings,
)
from winpool.model.pressure import Axis, MemorySample, Reading, is_amount


def read(axis: Axis, sample: MemorySample, *, page_file: PageFile, overhead: float) -> Reading | None:
    """Return what ``sample`` says of ``axis``; None where it does not say how much is left.

    ``overhead`` is what the kubelet's ``availableBytes`` does not count.
    """
    return _commit(sample, page_file) if axis is Axis.COMMIT else _physical(sample, overhead)


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


def _commit(sample: MemorySample, page_file: PageFile) -> Reading | None:
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


def _physical(sample: MemorySample, overhead: float) -> Reading | None:
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
