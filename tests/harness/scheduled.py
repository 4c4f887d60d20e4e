"""A schedule without jitter, and polls of it that end."""

from __future__ import annotations

from collections.abc import Callable

from winpool.kubelet.schedule import HOT_INTERVAL, Intervals, Poll, Schedule

NO_JITTER = 0.5
"""Half of the range: intervals are exact."""


def a_schedule(
    *names: str, jitter: Callable[[], float] = lambda: NO_JITTER, hot: float = HOT_INTERVAL
) -> Schedule:
    schedule = Schedule(jitter=jitter, intervals=Intervals(hot=hot))
    schedule.set_nodes(names, now=0.0)
    return schedule


def names(count: int, start: int = 0) -> list[str]:
    return [f"w{number:04}" for number in range(start, start + count)]


def polled(schedule: Schedule, now: float) -> list[str]:
    return [poll.node for poll in schedule.due(now=now)]


def only(schedule: Schedule, now: float) -> Poll:
    [poll] = schedule.due(now=now)
    return poll


def answered(schedule: Schedule, now: float, *, seconds: float = 0.1, sampled: bool = True) -> list[str]:
    """Poll whatever is due, have it end, and return it."""
    found = polled(schedule, now)
    for name in found:
        schedule.done(name, now=now + seconds, sampled=sampled)
    return found
