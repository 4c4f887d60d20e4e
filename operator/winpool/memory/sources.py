"""Which samples are fresh: those whose own time has advanced.

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

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from winpool.memory.axes import read
from winpool.memory.samples import MemorySample, is_amount
from winpool.memory.settings import FRESH_INTERVALS, FRESH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.settings import DetectorSettings
    from winpool.objects.pressure import Axis, Reading


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
