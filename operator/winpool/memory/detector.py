"""The detector of a node: what one sample, or the end of a pod, changes about what is known.

It steps when a sample arrives, never in a pass. A pass reads ``view.view_of``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from winpool.memory import evictions
from winpool.memory.attribution import attributing, grown
from winpool.memory.evictions import NO_EVICTIONS, Eviction
from winpool.memory.hysteresis import all_latched, has_lasted, hold_seconds, interrupted, tick
from winpool.memory.levels import judged
from winpool.memory.samples import cleaned, is_time
from winpool.memory.settings import CALM_SECONDS, PROXY_LEARNING
from winpool.memory.signals import signalled
from winpool.memory.slope import Point, is_repurposed_faster, seconds_left, with_point
from winpool.memory.sources import Arrival, SourceState, arrival, fresh_samples, fresh_seconds, preferred
from winpool.memory.state import AxisState
from winpool.objects.pressure import Axis, Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.memory.samples import MemorySample
    from winpool.memory.settings import DetectorSettings
    from winpool.memory.state import DetectorState
    from winpool.objects.pressure import Reading


def step(state: DetectorState, sample: MemorySample, settings: DetectorSettings) -> DetectorState:
    """Return what is known of a node after ``sample``.

    It never raises, whatever numbers the sample has. A sample of a source that the settings do not name, or
    one that arrived before the last, changes nothing.
    """
    sample = cleaned(sample)
    if sample.source not in settings.sources or not is_time(sample.arrived_at):
        return state
    if state.seen_at is not None and sample.arrived_at < state.seen_at:
        return state
    state = replace(state, seen_at=sample.arrived_at)
    match arrival(state.sources.get(sample.source), sample):
        case Arrival.FRESH:
            return _advanced(state, sample, settings)
        case Arrival.FIRST:
            return _of_source(
                _remembering(state, sample, settings, is_fresh=False), sample.source, _restarted
            )
        case Arrival.UNKNOWN:
            return _of_source(state, sample.source, _interrupted)
        case Arrival.FROZEN:
            return state


def eviction_begun(state: DetectorState, *, uid: str, share: float | None) -> DetectorState:
    """Return what is known once a pod is being evicted that was measured to have ``share`` bytes."""
    reading = state.axes[Axis.COMMIT].reading
    begun = Eviction(uid, share, None if reading is None else reading.used)
    return replace(state, evictions=evictions.begun(state.evictions, begun))


def eviction_gone(state: DetectorState, *, uid: str, at: float) -> DetectorState:
    """Return what is known once the pod is gone."""
    return replace(state, evictions=evictions.gone(state.evictions, uid=uid, at=at))


def eviction_refused(state: DetectorState, *, uid: str) -> DetectorState:
    """Return what is known once the eviction was refused, for example by a PodDisruptionBudget."""
    return replace(state, evictions=evictions.refused(state.evictions, uid=uid))


def _advanced(state: DetectorState, sample: MemorySample, settings: DetectorSettings) -> DetectorState:
    now = sample.arrived_at
    state = _remembering(state, sample, settings, is_fresh=True)
    fresh = fresh_samples(state.sources, now=now, settings=settings)
    axes = {
        axis: _axis_after(axis, state.axes[axis], sample, fresh, overhead=state.overhead, settings=settings)
        for axis in Axis
    }
    overhead = state.overhead
    if axes[Axis.PHYSICAL].held is Level.NORMAL:
        overhead = _learnt(overhead, sample, fresh)
    growth = state.growth
    if attributing(fresh) is sample:
        growth = grown(growth, sample, settings.page_file)
    state = replace(state, axes=axes, overhead=overhead, growth=growth)
    has_moved = any(_is_moved_by(each, sample) for each in axes.values())
    return _followed_up(state, sample, settings) if has_moved else state


def _is_moved_by(axis: AxisState, sample: MemorySample) -> bool:
    return axis.source == sample.source and axis.at == sample.measured_at


def _followed_up(state: DetectorState, sample: MemorySample, settings: DetectorSettings) -> DetectorState:
    """Return ``state`` with what follows from an axis that moved: the signal, the effect of evictions."""
    now = sample.arrived_at
    signal = signalled(
        state.signal,
        state.axes.values(),
        at=now,
        hold=hold_seconds(settings),
        grace=settings.soft_grace_seconds,
    )
    commit = state.axes[Axis.COMMIT]
    made = state.evictions
    if _is_moved_by(commit, sample) and commit.reading is not None:
        made = evictions.settled(made, at=sample.measured_at, commit_now=commit.reading.used)
    elif commit.at is None or now - commit.at > commit.fresh_seconds:
        made = evictions.settled(made, at=now, commit_now=None)
    if not made.running and signal.calm_seconds >= CALM_SECONDS:
        made = NO_EVICTIONS
    return replace(state, signal=signal, evictions=made)


def _axis_after(
    axis: Axis,
    before: AxisState,
    sample: MemorySample,
    fresh: tuple[MemorySample, ...],
    *,
    overhead: float,
    settings: DetectorSettings,
) -> AxisState:
    """Return the axis after a fresh sample, which speaks for it only if no preferred source does.

    Where another source has spoken for it, one that was measured before that says nothing new.
    """
    found = preferred(fresh, axis, overhead=overhead, settings=settings)
    if found is not None and found[0] is sample:
        is_news = before.at is None or sample.measured_at >= before.at
        return _moved(before, found[1], sample, settings) if is_news else before
    return _interrupted(before) if before.source == sample.source else before


def _moved(
    before: AxisState, reading: Reading, sample: MemorySample, settings: DetectorSettings
) -> AxisState:
    now = sample.measured_at
    is_same = before.source == sample.source
    passed = tick(before=before.at, at=now, fresh_seconds=before.fresh_seconds, is_same_source=is_same)
    continues = is_same and passed.counted is not None
    point = Point(now, reading.left, reading.used, reading.repurposed_per_second)
    points = with_point(before.points if continues else (), point)
    left = seconds_left(points) if reading.axis is Axis.COMMIT else None
    verdict = judged(
        reading,
        seconds_left=left,
        is_repurposed_faster=is_repurposed_faster(points),
        settings=settings,
    )
    latches = all_latched(
        before.latches,
        verdict,
        passed,
        hold=hold_seconds(settings),
    )
    ready_since = None
    if has_lasted(latches, settings):
        ready_since = now if before.ready_since is None else before.ready_since
    return AxisState(sample.source, now, fresh_seconds(sample), reading, points, left, latches, ready_since)


def _remembering(
    state: DetectorState, sample: MemorySample, settings: DetectorSettings, *, is_fresh: bool
) -> DetectorState:
    """Return ``state`` with the last sample of its source, and without sources that are no longer read."""
    if sample.taken_at is None:
        return state
    known = {name: each for name, each in state.sources.items() if name in settings.sources}
    last = SourceState(sample.taken_at, sample.arrived_at, sample.measured_at, sample if is_fresh else None)
    return replace(state, sources={**known, sample.source: last})


def _of_source(state: DetectorState, source: str, change: Callable[[AxisState], AxisState]) -> DetectorState:
    axes = {axis: change(each) if each.source == source else each for axis, each in state.axes.items()}
    return replace(state, axes=axes)


def _interrupted(axis: AxisState) -> AxisState:
    latches = {level: interrupted(latch) for level, latch in axis.latches.items()}
    return replace(axis, latches=latches, ready_since=None)


def _restarted(axis: AxisState) -> AxisState:
    return replace(_interrupted(axis), at=None, points=(), seconds_left=None)


def _learnt(overhead: float, sample: MemorySample, fresh: tuple[MemorySample, ...]) -> float:
    """Return what the proxy does not count, with what a measurement shows of it.

    Nothing is learnt while memory is short: private working sets are trimmed then.
    """
    proxy = next((each.proxy_available for each in fresh if each.proxy_available is not None), None)
    if sample.physical_available is None or proxy is None:
        return overhead
    shown = max(0.0, proxy - sample.physical_available)
    return overhead + PROXY_LEARNING * (shown - overhead)
