"""What a pass reads of the detector: how bad it is on a node, since when, and whether an eviction is right.

What is not known now is None, and has no level. Nothing is evicted for it (P4).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from winpool.memory.attribution import Guard, guard_of
from winpool.memory.levels import Axis, Level, missing
from winpool.memory.settings import (
    EVIDENCE_SAMPLES,
    EVIDENCE_SECONDS,
    FRESH_SECONDS,
    HOT_ETA_SECONDS,
    MAX_BLIND_EVICTIONS,
    MAX_INEFFECTIVE,
)
from winpool.memory.slope import is_recovering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.axes import Reading
    from winpool.memory.settings import DetectorSettings
    from winpool.memory.slope import Point
    from winpool.memory.state import AxisState, DetectorState


class Hold(Enum):
    """What keeps the operator from evicting a pod for an axis now. The first that is true."""

    UNKNOWN = "unknown"
    """There is no fresh sample of it."""
    NO_PRESSURE = "no pressure"
    ESTIMATE = "estimate"
    """Only the kubelet's estimate shows pressure."""
    SETTLING = "settling"
    """An eviction is under way, or its memory is not back yet."""
    UNATTRIBUTED = "unattributed"
    """The memory is not that of pods: see ``NodeView.guard``."""
    GRACE = "grace"
    """It has not lasted long enough, or it is no longer over the line."""
    AGE = "age"
    """The two samples that an eviction needs are too old, or are not two."""
    RECOVERING = "recovering"
    """It improves by itself."""


@dataclass(frozen=True, slots=True)
class AxisView:
    """One axis of a node.

    ``level`` is None where it is unknown; ``held`` is then the last one, of which what is on the node stays.
    ``since`` is when the level was reached, None at Normal. ``sampled_at`` is when the last sample of it
    arrived, from ``source``. ``missing`` are the bytes that must become free for the axis to be clear of
    Soft and Hard. ``hold`` is None where an eviction is right.
    """

    axis: Axis
    level: Level | None
    held: Level
    since: float | None
    sampled_at: float | None
    source: str
    reading: Reading | None
    seconds_left: float | None
    missing: float
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    ``guard`` is why evictions cannot be expected to help, at Soft and above. ``is_signalled`` says whether
    condition and taint are to be on the node, None where they stay as they are. ``outside_pods`` are the
    bytes that are committed outside pods, as far as that is known.
    """

    axes: Mapping[Axis, AxisView]
    guard: Guard | None
    is_signalled: bool | None
    outside_pods: float | None

    @property
    def level(self) -> Level | None:
        """The level of the worst axis; None where none is known, or one that was worse no longer is."""
        known = max((each.level for each in self.axes.values() if each.level is not None), default=None)
        lost = max((each.held for each in self.axes.values() if each.level is None), default=Level.NORMAL)
        return None if known is None or lost > known else known

    @property
    def worst(self) -> AxisView | None:
        """The axis with that level; COMMIT where both have it, since allocations fail there."""
        level = self.level
        if level is None:
            return None
        return next(self.axes[axis] for axis in Axis if self.axes[axis].level is level)

    @property
    def evictable(self) -> tuple[AxisView, ...]:
        """The axes for which an eviction is right now, the worst first."""
        ready = [self.axes[axis] for axis in Axis if self.axes[axis].hold is None]
        return tuple(sorted(ready, key=lambda each: -each.held))

    @property
    def is_hot(self) -> bool:
        """Whether the node is to be polled often: at Warning or above, or exhausted in half an hour."""
        return any(
            each.held >= Level.WARNING
            or (
                each.level is not None
                and each.seconds_left is not None
                and each.seconds_left < HOT_ETA_SECONDS
            )
            for each in self.axes.values()
        )


def view_of(state: DetectorState, *, now: float, settings: DetectorSettings) -> NodeView:
    """Return what is known of a node ``now``, on the clock of the samples."""
    levels = {axis: _level(state.axes[axis], now) for axis in Axis}
    is_under_pressure = any(level is not None and level >= Level.SOFT for level in levels.values())
    guard = _guard(state, now) if is_under_pressure else None
    axes = {axis: _axis_view(axis, levels[axis], state, guard, now=now, settings=settings) for axis in Axis}
    splits = state.growth.splits
    return NodeView(
        axes=axes,
        guard=guard,
        is_signalled=state.signal.is_on,
        outside_pods=splits[-1].outside if splits and now - splits[-1].at <= FRESH_SECONDS else None,
    )


def _level(axis: AxisState, now: float) -> Level | None:
    """Return the level of an axis that is known ``now``.

    An estimate shows neither that Soft and Hard, once measured, are over, nor how bad it is meanwhile.
    """
    if axis.at is None or axis.reading is None or now - axis.at > axis.fresh_seconds:
        return None
    if not axis.reading.is_estimate:
        return axis.held
    if axis.held >= Level.SOFT:
        return None
    return axis.held if axis.held is Level.PROXY_ONLY else Level.NORMAL


def _guard(state: DetectorState, now: float) -> Guard | None:
    found = guard_of(state.growth, now=now)
    if found is not None:
        return found
    if state.evictions.ineffective >= MAX_INEFFECTIVE:
        return Guard.INEFFECTIVE
    growth = state.growth
    is_known = growth.is_of_pods and now - growth.splits[-1].at <= FRESH_SECONDS
    return Guard.BLIND if not is_known and state.evictions.settled >= MAX_BLIND_EVICTIONS else None


def _axis_view(
    axis: Axis,
    level: Level | None,
    state: DetectorState,
    guard: Guard | None,
    *,
    now: float,
    settings: DetectorSettings,
) -> AxisView:
    found = state.axes[axis]
    reading = found.reading
    return AxisView(
        axis=axis,
        level=level,
        held=found.held,
        since=None if level is None or level is Level.NORMAL else found.latches[level].since,
        sampled_at=found.at,
        source=found.source,
        reading=reading,
        seconds_left=found.seconds_left,
        missing=0.0
        if reading is None
        else missing(axis, left=reading.left, whole=reading.whole, settings=settings),
        hold=_hold(axis, level, state, guard, now=now, settings=settings),
    )


def _hold(
    axis: Axis,
    level: Level | None,
    state: DetectorState,
    guard: Guard | None,
    *,
    now: float,
    settings: DetectorSettings,
) -> Hold | None:
    found = state.axes[axis]
    reading = found.reading
    if level is None or reading is None:
        return Hold.UNKNOWN

    def lacking(point: Point) -> float:
        return missing(axis, left=point.left, whole=reading.whole, settings=settings)

    reasons = {
        Hold.NO_PRESSURE: level < Level.PROXY_ONLY,
        Hold.ESTIMATE: level is Level.PROXY_ONLY,
        Hold.SETTLING: bool(state.evictions.running),
        Hold.UNATTRIBUTED: guard is not None,
        Hold.GRACE: not _has_lasted(found, settings),
        Hold.AGE: len(found.points) < EVIDENCE_SAMPLES
        or now - found.points[-EVIDENCE_SAMPLES].at > EVIDENCE_SECONDS,
        Hold.RECOVERING: is_recovering(found.points, lacking),
    }
    return next((hold for hold, is_true in reasons.items() if is_true), None)


def _has_lasted(axis: AxisState, settings: DetectorSettings) -> bool:
    """Whether the last samples were over Hard, or all of the grace over Soft."""
    hard, soft = axis.latches[Level.HARD], axis.latches[Level.SOFT]
    if hard.over_samples >= EVIDENCE_SAMPLES:
        return True
    has_grace = soft.over_seconds is not None and soft.over_seconds >= settings.soft_grace_seconds
    return has_grace and soft.over_samples >= EVIDENCE_SAMPLES
