"""What a pass reads of the detector: how bad it is on a node, since when, and whether an eviction is right.

What is not known now is None, and has no level. Nothing is evicted for it (P4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.attribution import guard_of
from winpool.memory.hysteresis import has_lasted
from winpool.memory.levels import missing
from winpool.memory.settings import (
    EVIDENCE_SAMPLES,
    EVIDENCE_SECONDS,
    FRESH_SECONDS,
    MAX_BLIND_EVICTIONS,
    MAX_INEFFECTIVE,
)
from winpool.memory.slope import is_recovering
from winpool.objects.pressure import Axis, AxisView, Guard, Hold, Level, NodeView

if TYPE_CHECKING:
    from winpool.memory.settings import DetectorSettings
    from winpool.memory.slope import Point
    from winpool.memory.state import AxisState, DetectorState


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
        ready_since=found.ready_since if has_lasted(found.latches, settings) else None,
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
    if level < Level.PROXY_ONLY:
        return Hold.NO_PRESSURE

    def lacking(point: Point) -> float:
        return missing(axis, left=point.left, whole=reading.whole, settings=settings)

    reasons = {
        Hold.ESTIMATE: level is Level.PROXY_ONLY,
        Hold.SETTLING: bool(state.evictions.running),
        Hold.UNATTRIBUTED: guard is not None,
        Hold.GRACE: found.ready_since is None or not has_lasted(found.latches, settings),
        Hold.AGE: len(found.points) < EVIDENCE_SAMPLES
        or now - found.points[-EVIDENCE_SAMPLES].at > EVIDENCE_SECONDS,
        Hold.RECOVERING: is_recovering(found.points, lacking),
    }
    return next((hold for hold, is_true in reasons.items() if is_true), None)
