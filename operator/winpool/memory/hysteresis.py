"""How long the line of a level has been crossed: a level is raised at once, and lowered after a while.

Time counts only while samples are fresh. A gap that ends within 120 s stops the timers, a longer one sets
them back. What is reached stays until the axis was clear of the line, by a margin, for long enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from winpool.memory.levels import RAISED
from winpool.memory.settings import EVIDENCE_SAMPLES, FLIP_SECONDS, FRESH_SECONDS
from winpool.objects.pressure import Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.levels import Verdict
    from winpool.memory.settings import DetectorSettings


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
