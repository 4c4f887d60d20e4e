"""What a sample says of the two axes: how much there is, and how much of it is left.

A sample: what one source reports of the memory of one node at one time.

Each value is as old as its sample, and has its source: values of several sources are in several samples.
Unknown is None, and so is every number that no machine can have: NaN, infinity, 2^63 and negative ones. What
a source means by 0 is for its parser to say, which leaves out a zero that means missing.

Which samples are fresh: those whose own time has advanced.

A kubelet that cannot read its counters answers with the old values and their old time, and an exporter that
is gone leaves its last values in Prometheus. So an answer is no evidence, and the age of a sample runs from
the arrival of the first one that had its time.

The first sample of a source cannot show that: it only sets the time from which the next one has to advance.
So does one whose time is before that of the last, since the node's clock was set back; and one after two
minutes of silence whose time has advanced by less than ours, since its source stopped in between.

Prometheus says by ``timestamp()`` how old a sample is, by one clock. So its first sample counts, it arrives
as old as it is, and a clock that is set back does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from winpool.features.memory.settings import (
    FRESH_INTERVALS,
    FRESH_SECONDS,
    DetectorSettings,
    PageFile,
    PageFilePolicy,
)
from winpool.model.pressure import Axis, Reading

LARGEST: Final = float(2**53)
"""Larger amounts and times are unknown. Windows Server 2025 supports 4 PiB of memory (2^52 bytes), and a
float holds every whole number up to here. Garbage is usually far above: 2^63, 2^64-1.
https://learn.microsoft.com/windows/win32/memory/memory-limits-for-windows-releases"""

_VALUES: Final = (
    "commit_total",
    "commit_limit",
    "physical_total",
    "physical_available",
    "proxy_available",
    "hard_reads_per_second",
    "write_out_per_second",
    "repurposed_per_second",
    "pool_nonpaged",
    "pods_commit",
)


@dataclass(frozen=True, slots=True)
class MemorySample:
    """What ``source`` reported of a node. Amounts are in bytes.

    ``source`` is a name from ``DetectorSettings.sources``. ``arrived_at`` is when it arrived, on the
    operator's clock. ``taken_at`` is the time that the sample has itself: the kubelet's ``memory.time``, or
    ``timestamp()`` of the series. It may be on any clock and is compared only with others of its source.
    ``interval_seconds`` is after how long the next one is due: the longer of our interval and that of the
    scrapes that we read.
    ``age`` is how many seconds old the sample was when it arrived, as its source itself says: Prometheus
    does, by one clock. It is None for a kubelet, which says nothing of the kind, and where the source says
    something that cannot be.
    """

    source: str
    arrived_at: float
    taken_at: float | None
    interval_seconds: float
    commit_total: float | None = None
    """Memory that the kernel has promised to all processes and itself."""
    commit_limit: float | None = None
    """What it can promise without extending the page file."""
    physical_total: float | None = None
    """RAM."""
    physical_available: float | None = None
    """RAM that is standby, free or zeroed. Only an exporter knows it."""
    proxy_available: float | None = None
    """The kubelet's ``availableBytes``: RAM without the private working sets. An upper bound of what is
    available, since it counts neither kernel nor shared memory."""
    hard_reads_per_second: float | None = None
    """Read operations that resolve page faults. They include reads of mapped files."""
    write_out_per_second: float | None = None
    """Pages written to the page file."""
    repurposed_per_second: float | None = None
    """Pages of the standby list that are given to someone else."""
    pool_nonpaged: float | None = None
    """Kernel memory that is never paged."""
    pods_commit: float | None = None
    """What all pods have committed together; None where any pod's is unknown."""
    age: float | None = None

    @property
    def measured_at(self) -> float:
        """When it was measured, on the operator's clock: as old as its source says, else on arrival."""
        return self.arrived_at if self.age is None else self.arrived_at - self.age


def is_amount(value: float) -> bool:
    """Whether ``value`` is an amount or a rate that a machine can have."""
    return 0 <= value < LARGEST


def is_time(value: float) -> bool:
    """Whether ``value`` can be a number of seconds on a clock."""
    return -LARGEST < value < LARGEST


def cleaned(sample: MemorySample) -> MemorySample:
    """Return ``sample`` without the numbers that cannot be: they are unknown."""
    changes: dict[str, Any] = {}
    for name in _VALUES:
        value = getattr(sample, name)
        if value is not None and not is_amount(value):
            changes[name] = None
    if sample.taken_at is not None and not is_time(sample.taken_at):
        changes["taken_at"] = None
    if sample.age is not None and not is_amount(sample.age):
        # It is negative where the two clocks of a federation differ, and then it proves nothing.
        changes["age"] = None
    return replace(sample, **changes) if changes else sample


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
    match page_file.policy:
        case PageFilePolicy.UNKNOWN:
            return limit
        case PageFilePolicy.FIXED:
            return possible if limit is None else limit
        case PageFilePolicy.SYSTEM_MANAGED:
            return None if possible is None else max(possible, limit or 0.0)


def _commit(sample: MemorySample, page_file: PageFile) -> Reading | None:
    whole = ceiling(sample, page_file)
    if whole is None or sample.commit_total is None:
        return None
    return Reading(Axis.COMMIT, left=max(0.0, whole - sample.commit_total), whole=whole)


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


@dataclass(frozen=True, slots=True)
class SourceState:
    """The last sample of a source: its own time, when it first arrived, and itself if it is fresh.

    ``measured_at`` is when it was measured, on our clock.
    """

    taken_at: float
    arrived_at: float
    measured_at: float
    sample: MemorySample | None = None


def arrival(known: SourceState | None, sample: MemorySample) -> Arrival:
    """Return what the time of ``sample`` says, after what is ``known`` of its source."""
    if sample.taken_at is None:
        return Arrival.UNKNOWN
    if known is not None and (sample.taken_at == known.taken_at or sample.arrived_at == known.arrived_at):
        return Arrival.FROZEN
    if sample.age is not None:
        # Of two servers that answer in turn, the one that is behind says nothing new.
        is_news = known is None or sample.measured_at > known.measured_at
        return Arrival.FRESH if is_news else Arrival.FROZEN
    if known is None or sample.taken_at < known.taken_at:
        return Arrival.FIRST
    silence = sample.arrived_at - known.arrived_at
    lag = silence - (sample.taken_at - known.taken_at)
    return Arrival.FIRST if silence > FRESH_SECONDS and lag > fresh_seconds(sample) else Arrival.FRESH


def fresh_seconds(sample: MemorySample) -> float:
    """Return for how long ``sample`` is fresh: two and a half intervals of its source, and at most 120 s."""
    interval = sample.interval_seconds
    return min(FRESH_INTERVALS * interval, FRESH_SECONDS) if is_amount(interval) else 0.0


def fresh_samples(
    known: Mapping[str, SourceState], *, now: float, settings: DetectorSettings
) -> tuple[MemorySample, ...]:
    """Return the samples that are fresh ``now``, in the order of preference of their sources."""
    found = (known[source].sample for source in settings.sources if source in known)
    return tuple(each for each in found if each is not None and now - each.measured_at <= fresh_seconds(each))


def preferred(
    samples: tuple[MemorySample, ...], axis: Axis, *, overhead: float, settings: DetectorSettings
) -> tuple[MemorySample, Reading] | None:
    """Return which sample speaks for ``axis``, and what it says: the first measurement, else an estimate."""
    estimate: tuple[MemorySample, Reading] | None = None
    for sample in samples:
        reading = read(axis, sample, page_file=settings.page_file, overhead=overhead)
        if reading is not None and not reading.is_estimate:
            return sample, reading
        if reading is not None and estimate is None:
            estimate = (sample, reading)
    return estimate
