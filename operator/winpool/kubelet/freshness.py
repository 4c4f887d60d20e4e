"""How old a sample is, without comparing the clock of its source with ours.

A kubelet that cannot read its counters still answers, with the time of the last measurement. Its clock may
also be wrong by hours. So the age of a sample runs from its arrival, by our monotonic clock, and begins only
when its own time has advanced since the sample before. Until then the age is unknown: the first sample after
a start may be hours old.

Prometheus reports by ``timestamp()`` how old a sample is when it answers. So its first sample counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVALS: Final = 2.5
"""A sample is fresh for so many intervals of its source: one poll may fail, and its repetition be late."""

LONGEST_SECONDS: Final = 120.0
"""No sample is fresh for longer, however rarely its source is polled: in two minutes a leak or a burst can
take all memory of a node."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last sample of one source about one node.

    ``own_time`` is the sample's own time in seconds since 1970, by whatever clock its source has, and
    ``arrived`` the monotonic time at which a sample with that time first arrived. ``since`` is the monotonic
    time at which its age was 0, None where that is unknown.
    """

    own_time: float
    arrived: float
    since: float | None

    def age(self, *, now: float) -> float | None:
        """Return the age in seconds at the monotonic time ``now``, None where it is unknown."""
        return None if self.since is None else max(0.0, now - self.since)

    def is_fresh(self, *, now: float, interval: float) -> bool:
        """Whether decisions may use the sample. Its source is polled every ``interval`` seconds."""
        age = self.age(now=now)
        return age is not None and age <= fresh_for(interval)


def fresh_for(interval: float) -> float:
    """Return for how many seconds a sample is fresh whose source is polled every ``interval`` seconds."""
    return min(INTERVALS * interval, LONGEST_SECONDS)


def sighted(
    previous: Sighting | None, *, own_time: float, arrived: float, age: float | None = None
) -> Sighting:
    """Return what is known after a sample has arrived at the monotonic time ``arrived``.

    ``age`` is how old the source itself says that the sample was on arrival, None if it does not. A negative
    age proves nothing: the source has the time from another clock.

    A time that stands still keeps the age that it has. A time that goes back, because the clock of the source
    was set, makes the age unknown until it advances from there, unless the source says the age. So does one
    that has advanced by two minutes less than ours: its source has stopped after it had measured.
    """
    if previous is not None and own_time == previous.own_time:
        return previous
    if age is not None and age >= 0:
        return Sighting(own_time, arrived, arrived - age)
    return Sighting(own_time, arrived, arrived if _has_advanced(previous, own_time, arrived) else None)


def _has_advanced(previous: Sighting | None, own_time: float, arrived: float) -> bool:
    if previous is None or own_time < previous.own_time:
        return False
    return (arrived - previous.arrived) - (own_time - previous.own_time) <= LONGEST_SECONDS
