"""Detects memory pressure on a node: it steps when a sample arrives, and says what is known at a moment.

``levels`` has the lines, and says which level a reading has. The detector begins empty: after a restart
every timer begins with the first fresh sample (docs/adr/0022-the-clock-that-restarts.md). A pass never steps
it, and reads ``known_at``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from winpool.api.memory_pressure import PageFile
from winpool.features.memory import levels
from winpool.features.memory.intents import MAX_INTENTS
from winpool.features.memory.levels import Arrival
from winpool.features.memory.settings import (
    EVIDENCE_APART_SECONDS,
    EVIDENCE_SAMPLES,
    EVIDENCE_SECONDS,
    FRESH_SECONDS,
    LATE_SECONDS,
    SETTLE_SECONDS,
    DetectorSettings,
)
from winpool.model.pressure import (
    NO_GROWTH,
    Axis,
    AxisPressure,
    EvictedPod,
    Growth,
    Guard,
    Hold,
    Latch,
    Level,
    MemorySample,
    NodePressure,
    Reading,
    is_time,
)

SIGNALLED: Final = (Level.PROXY_ONLY, Level.SOFT, Level.HARD)
SOFT_SIGNAL_SECONDS: Final = 30.0
"""Soft is signalled after so long, three samples of a hot node: a taint for one outlier would be noise."""
LEARNING: Final = 0.1
"""So much is believed of a new difference between proxy and measurement, which are of different times, and of
how long a kubelet has taken to answer."""
LATE_TIMES: Final = 4.0
"""So many times what it usually takes is late."""
STILL_LATE: Final = 0.5
"""One that was late is so until it takes less than this share of that: otherwise one that takes about as long
would change with each answer what is written."""

GROWTH_SECONDS: Final = 600.0
"""Growth is that of the last ten minutes."""
GROWTH_SPACING_SECONDS: Final = 120.0
"""The points of it are so far apart at least: six for each node of a large cluster, not sixty (P7). So the
oldest is at least eight minutes old."""
GROWTH_FLOOR: Final = 0.01
"""A smaller share of what is committed is no growth: what is half of a noise says nothing."""
GROWTH_FLOOR_CLEAR: Final = 0.005
"""Growth that was one has ended below this share."""
OUTSIDE_GROWTH_SHARE: Final = 0.5
"""Where more of the growth is outside pods, evicting pods does not end it."""
OUTSIDE_GROWTH_CLEAR: Final = 0.4
"""Most of the growth was outside pods, and is again that of pods below this share of it. The distance is more
than samples vary: each change of a guard is a write to the node and one to the pool."""
OUTSIDE_SHARE: Final = 0.35
"""Windows and its agents commit 2 to 4 GiB. More than this share of the ceiling outside pods is a leak."""
OUTSIDE_SHARE_CLEAR: Final = 0.30
"""Below this share it is one no longer. A process that starts or ends is less than the distance."""

SETTLE_SAMPLES: Final = 2
"""After ``SETTLE_SECONDS`` and so many samples, the memory of a pod that is gone counts as returned."""
EFFECTIVE_SHARE: Final = 0.5
"""An eviction was effective if commit fell by this share of what the pod had."""
MAX_INEFFECTIVE: Final = 1
"""After so many ineffective evictions the memory is not where the numbers say: each effect opens the next."""
MAX_BLIND_EVICTIONS: Final = 1
"""So many evictions whose effect cannot be measured, since it is not known what the node has committed."""
CALM_SECONDS: Final = 3600.0
"""Evictions are forgotten after so long without pressure. If they helped for less, the cause is there. So are
signals that came back."""
MAX_RETURNS: Final = 2
"""A signal that came back so often lasts for four times ``clearAfterSeconds``, 20 minutes by default."""


def step(before: NodePressure, sample: MemorySample, settings: DetectorSettings) -> NodePressure:
    """Return the memory of a node after ``sample``; ``known_at`` says what is known then.

    It never raises, whatever numbers the sample has. A sample of a source that the settings do not name, or
    one that arrived before the last, changes nothing.
    """
    now = sample.arrived_at
    if sample.source not in settings.sources or not is_time(now):
        return before
    if before.seen_at is not None and now < before.seen_at:
        return before
    match levels.arrival(before.sources.get(sample.source), sample):
        case Arrival.FRESH:
            return _advanced(before, sample, settings)
        case Arrival.FIRST:
            return replace(
                before,
                sources=_with_last(before, replace(sample, is_first=True), settings),
                axes=_of_source(before.axes, sample.source, _restarted),
                seen_at=now,
            )
        case Arrival.UNKNOWN:
            axes = _of_source(before.axes, sample.source, levels.interrupted)
            return replace(before, axes=axes, seen_at=now)
        case Arrival.FROZEN:
            return replace(before, seen_at=now)


def step_at(
    before: NodePressure,
    sample: MemorySample,
    settings: DetectorSettings,
    *,
    was_hot: bool,
    cold_interval: float,
) -> NodePressure:
    """Return what ``step`` does, for a source that is read every ``cold_interval`` seconds on calm nodes.

    A sample after which a hot node is no longer that has to be fresh until the next one comes.
    """
    after = step(before, sample, settings)
    is_short = was_hot and cold_interval > sample.interval_seconds
    if is_short and not known_at(after, now=sample.arrived_at, settings=settings).is_hot:
        return step(before, replace(sample, next_seconds=cold_interval), settings)
    return after


def _with_last(
    before: NodePressure, sample: MemorySample, settings: DetectorSettings
) -> dict[str, MemorySample]:
    """Return the last samples of the sources that are still read, with ``sample``."""
    known = {name: each for name, each in before.sources.items() if name in settings.sources}
    return {**known, sample.source: sample}


def _of_source(
    axes: Mapping[Axis, AxisPressure], source: str, change: Callable[[AxisPressure], AxisPressure]
) -> Mapping[Axis, AxisPressure]:
    return {axis: change(each) if each.source == source else each for axis, each in axes.items()}


def _restarted(axis: AxisPressure) -> AxisPressure:
    return replace(levels.interrupted(axis), sampled_at=None, looked_at=None, points=(), seconds_left=None)


def _advanced(before: NodePressure, sample: MemorySample, settings: DetectorSettings) -> NodePressure:
    """Return the memory of a node after a fresh sample."""
    now = sample.arrived_at
    sample = _timed(before, sample)
    sources = _with_last(before, sample, settings)
    fresh = levels.fresh_samples(sources, now=now, settings=settings)
    axes = {
        axis: _axis_after(before.axes[axis], sample, fresh, before=before, settings=settings) for axis in Axis
    }
    overhead, growth = before.overhead, before.growth
    if axes[Axis.PHYSICAL].held is Level.NORMAL:
        overhead = _learnt(overhead, sample, fresh)
    usual = _usual(before, sample, axes[Axis.PHYSICAL].held, settings)
    if _attributing(fresh) is sample:
        growth = _grown(growth, sample, settings.page_file)
    after = replace(
        before,
        axes=axes,
        sources=sources,
        overhead=overhead,
        usual_seconds=usual,
        growth=growth,
        seen_at=now,
    )
    moved = [
        axis
        for axis, each in axes.items()
        if each.source == sample.source and each.sampled_at == sample.measured_at
    ]
    return _followed_up(after, sample, settings, is_commit=Axis.COMMIT in moved) if moved else after


def _axis_after(
    axis: AxisPressure,
    sample: MemorySample,
    fresh: tuple[MemorySample, ...],
    *,
    before: NodePressure,
    settings: DetectorSettings,
) -> AxisPressure:
    """Return the axis after a fresh sample, which speaks for it only if no preferred source does.

    Where another source has spoken for it, one that was measured before that says nothing new.
    """
    found = levels.preferred(fresh, axis.axis, overhead=before.overhead, settings=settings)
    if found is not None and found[0] is sample:
        is_news = axis.sampled_at is None or sample.measured_at >= axis.sampled_at
        return _moved(axis, found[1], sample, settings) if is_news else axis
    if axis.source == sample.source:
        return levels.interrupted(axis)
    if axis.held is Level.NORMAL and _is_calm(axis, sample, before=before, settings=settings):
        return replace(axis, looked_at=_later(axis.looked_at, sample))
    return axis


def _later(looked_at: float | None, sample: MemorySample) -> float:
    after = sample.measured_after
    return after if looked_at is None else max(looked_at, after)


def _is_calm(
    axis: AxisPressure, sample: MemorySample, *, before: NodePressure, settings: DetectorSettings
) -> bool:
    """Whether a sample that does not speak for ``axis`` shows that it is over no line.

    Evictions on other nodes of the pool wait for that, and kubelets are asked sooner than exporters are. An
    estimate does not count what kernel and shared memory take. So no more is left than was measured last,
    without what the node has committed since.
    """
    reading = levels.read(axis.axis, sample, page_file=settings.page_file, overhead=before.overhead)
    if reading is None:
        return False
    left = reading.left
    if reading.is_estimate:
        last = before.sources.get(axis.source)
        if axis.reading is None or last is None or last.commit_total is None or sample.commit_total is None:
            return False
        left = min(left, axis.reading.left) - max(0.0, sample.commit_total - last.commit_total)
    return left >= levels.lines(reading.axis, reading.whole, settings)[Level.WARNING]


def _moved(
    before: AxisPressure, reading: Reading, sample: MemorySample, settings: DetectorSettings
) -> AxisPressure:
    # What is committed is one number, by any source; what is available is measured, or estimated.
    is_same = before.source == sample.source or reading.axis is Axis.COMMIT
    continues = is_same and before.sampled_at is not None and reading.at - before.sampled_at <= FRESH_SECONDS
    points = levels.with_point(before.points if continues else (), reading)
    left = levels.seconds_left(points) if reading.axis is Axis.COMMIT else None
    high_water = before.high_water if reading.is_estimate else levels.marked(before.high_water, reading)
    latches = levels.latched(
        before,
        points,
        is_same_source=is_same,
        seconds=left,
        high_water=high_water,
        settings=settings,
    )
    ready_since = None
    if levels.has_lasted(before.axis, latches, points, settings):
        ready_since = reading.at if before.ready_since is None else before.ready_since
    return replace(
        before,
        held=levels.held_in(latches),
        ready_since=ready_since,
        sampled_at=reading.at,
        looked_at=_later(before.looked_at, sample),
        source=sample.source,
        reading=reading,
        seconds_left=left,
        fresh_seconds=levels.fresh_seconds(sample),
        points=points,
        latches=latches,
        high_water=high_water,
    )


def _learnt(overhead: float, sample: MemorySample, fresh: tuple[MemorySample, ...]) -> float:
    """Return what the proxy does not count, with what a measurement shows of it.

    Nothing is learnt while memory is short: private working sets are trimmed then.
    """
    proxy = next((each.proxy_available for each in fresh if each.proxy_available is not None), None)
    if sample.physical_available is None or proxy is None:
        return overhead
    shown = max(0.0, proxy - sample.physical_available)
    return overhead + LEARNING * (shown - overhead)


def _timed(before: NodePressure, sample: MemorySample) -> MemorySample:
    """Return ``sample`` with whether its kubelet has answered late."""
    took, usual = sample.answer_seconds, before.usual_seconds
    if took is None or usual is None:
        return sample
    last = before.sources.get(sample.source)
    share = STILL_LATE if last is not None and last.is_late else 1.0
    return replace(sample, is_late=took >= share * max(LATE_SECONDS, LATE_TIMES * usual))


def _usual(
    before: NodePressure, sample: MemorySample, held: Level, settings: DetectorSettings
) -> float | None:
    """Return what the kubelet usually takes to answer, with what it took this time.

    One that is late where nothing shows that RAM is short has another reason, such as the network or the CPU.
    So that is usual, until many answers in time have shown otherwise.
    """
    took, usual = sample.answer_seconds, before.usual_seconds
    if sample.is_late and took is not None and usual is not None:
        reading = levels.read(Axis.PHYSICAL, sample, page_file=settings.page_file, overhead=before.overhead)
        is_explained = held >= Level.SOFT or (reading is not None and reading.is_paging)
        return usual if is_explained else max(usual, took)
    if took is None or took >= LATE_SECONDS or held is not Level.NORMAL:
        return usual  # a node that pages already must not teach its kubelet to be slow
    return took if usual is None else usual + LEARNING * (took - usual)


def _followed_up(
    after: NodePressure, sample: MemorySample, settings: DetectorSettings, *, is_commit: bool
) -> NodePressure:
    """Return ``after`` with what follows from an axis that moved: the signal, the effect of evictions."""
    now, commit = sample.arrived_at, after.axes[Axis.COMMIT]
    after = _signalled(after, at=now, settings=settings)
    if is_commit and commit.reading is not None:
        is_over = all(_has_ended(each, settings, at=now) for each in after.axes.values())
        after = _settled(after, at=sample.measured_at, commit_now=commit.reading.used, is_over=is_over)
    elif commit.sampled_at is None or now - commit.sampled_at > commit.fresh_seconds:
        after = _settled(after, at=now, commit_now=None, is_over=False)
    is_calm = after.calm_since is not None and now - after.calm_since >= CALM_SECONDS
    if is_calm and not after.evicted and (after.unmeasured or after.ineffective):
        after = replace(after, unmeasured=0, ineffective=0)
    return after


def _has_ended(axis: AxisPressure, settings: DetectorSettings, *, at: float) -> bool:
    """Whether an axis is over no line that is signalled, or was and is known to be clear of it again.

    An estimate does not show that what was measured has ended.
    """
    if axis.held < Level.PROXY_ONLY:
        return True
    reading = axis.reading
    if reading is None or at - reading.at > axis.fresh_seconds:
        return False
    if reading.is_estimate and axis.held is not Level.PROXY_ONLY:
        return False
    return levels.missing(reading, reading.whole, settings) <= 0


# Whether pressure is signalled: by the condition, and by the taint that keeps pods away.


def _signalled(memory: NodePressure, *, at: float, settings: DetectorSettings) -> NodePressure:
    """Return ``memory`` with what is signalled after a fresh sample.

    It is signalled after a while, and until no line of Soft, Hard or ProxyOnly is held. At the beginning it
    is unknown: a condition or taint of an earlier process may be on the node, and is neither added nor
    removed until the samples of one whole hold have shown what is right (P4).
    """
    latches = [(level, axis.latches[level]) for axis in memory.axes.values() for level in SIGNALLED]
    calm_since: float | None = None
    if all(latch.since is None for _, latch in latches):
        is_gap = memory.signal_at is None or at - memory.signal_at > FRESH_SECONDS
        calm_since = at if memory.calm_since is None or is_gap else memory.calm_since
    is_on, since = memory.is_signalled, memory.signal_since
    if any(_is_confirmed(level, latch, settings.soft_grace_seconds) for level, latch in latches):
        is_on = True
    elif calm_since is not None and at - calm_since >= _calm_seconds(memory, settings):
        is_on = False
    returns = memory.returns
    if is_on != memory.is_signalled and (since is None or at - since >= levels.FLIP_SECONDS):
        if is_on:
            has_returned = since is not None and at - since < CALM_SECONDS
            returns = min(returns + 1, MAX_RETURNS) if has_returned else 0
        # What was unknown until now has not ended, so what follows does not come back.
        since = None if memory.is_signalled is None and not is_on else at
    else:
        is_on = memory.is_signalled
    return replace(
        memory,
        is_signalled=is_on,
        signal_since=since,
        calm_since=calm_since,
        signal_at=at,
        returns=returns,
    )


def _calm_seconds(memory: NodePressure, settings: DetectorSettings) -> float:
    """Return for how long no line may have been held before nothing is signalled.

    A line is held for ``hold_seconds`` itself. That is enough, unless the signal comes back: then it lasts
    twice as long, and the next time again, so that a heap that is collected every ten minutes does not change
    it every five.
    """
    hold = levels.hold_seconds(settings)
    return ((1 << memory.returns) - 1) * hold if memory.is_signalled else hold


def _is_confirmed(level: Level, latch: Latch, grace: float) -> bool:
    match level:
        case Level.HARD:
            return levels.agree(latch, EVIDENCE_APART_SECONDS)
        case Level.SOFT:
            # No pod is evicted from a node that is not signalled: new ones would take its place.
            return levels.has_been_over(latch, SOFT_SIGNAL_SECONDS) or levels.agree(latch, grace)
        case _:
            return levels.has_been_over(latch, levels.PROXY_SIGNAL_SECONDS)


# What evictions have achieved. One that is under way, or whose memory has not had the time to come back,
# keeps the next one from being decided by numbers that are about to change.


def eviction_begun(memory: NodePressure, *, uid: str, share: float | None) -> NodePressure:
    """Return what is known once a pod is being evicted that was measured to have ``share`` bytes."""
    if any(each.uid == uid for each in memory.evicted):
        return memory
    return replace(memory, evicted=(*memory.evicted, EvictedPod(uid, share, memory.committed)))


def eviction_gone(memory: NodePressure, *, uid: str, at: float) -> NodePressure:
    """Return what is known once the pod is gone. The first report of it counts.

    Where an earlier process began the eviction, that is the first that is known of it. Of those no more than
    a node can have are kept (P7): the UIDs are in an annotation, and each one holds the next eviction.
    """
    if len(memory.evicted) < MAX_INTENTS:
        memory = eviction_begun(memory, uid=uid, share=None)
    evicted = (
        replace(each, gone_at=at) if each.uid == uid and each.gone_at is None else each
        for each in memory.evicted
    )
    return replace(memory, evicted=tuple(evicted))


def eviction_refused(memory: NodePressure, *, uid: str) -> NodePressure:
    """Return what is known once the eviction was refused, for example by a PodDisruptionBudget."""
    return replace(memory, evicted=tuple(each for each in memory.evicted if each.uid != uid))


def _settled(memory: NodePressure, *, at: float, commit_now: float | None, is_over: bool) -> NodePressure:
    """Return ``memory`` after a fresh sample, with the evictions counted that have settled and did not help.

    ``at`` is when it was measured, ``commit_now`` what it says is committed, None where that is unknown.
    ``is_over`` says that the pressure has ended: then the memory was where the numbers said. Nothing follows
    from an eviction of which this process did not see the beginning, since it is not known what the pod had.
    """
    if not memory.evicted:
        return memory
    running: list[EvictedPod] = []
    done: list[EvictedPod] = []
    for pod in memory.evicted:
        seen = _measured(pod, at=at, commit_now=commit_now)
        (done if _is_settled(seen, at) else running).append(seen)
    counted = [each for each in done if each.share is not None and not is_over]
    return replace(
        memory,
        evicted=tuple(running),
        unmeasured=memory.unmeasured + sum(not _is_known(each) for each in counted),
        ineffective=memory.ineffective + sum(_is_known(each) and not _is_effective(each) for each in counted),
    )


def _measured(pod: EvictedPod, *, at: float, commit_now: float | None) -> EvictedPod:
    """Return what a fresh sample shows of an eviction."""
    is_gone = pod.gone_at is not None and at >= pod.gone_at
    samples = min(pod.samples + is_gone, SETTLE_SAMPLES)
    if commit_now is None:
        return replace(pod, samples=samples)
    highest = max(pod.highest or 0.0, commit_now)
    return replace(pod, samples=samples, highest=highest, fell=max(pod.fell, highest - commit_now))


def _is_settled(pod: EvictedPod, at: float) -> bool:
    """Whether its memory is back, or has had the time to come back."""
    if pod.gone_at is None or not pod.samples:
        return False
    if _is_known(pod) and _is_effective(pod):
        return True
    return at - pod.gone_at >= SETTLE_SECONDS and pod.samples >= SETTLE_SAMPLES


def _is_known(pod: EvictedPod) -> bool:
    return pod.share is not None and pod.highest is not None


def _is_effective(pod: EvictedPod) -> bool:
    """Whether half of what the pod had came back at any time."""
    return pod.fell >= EFFECTIVE_SHARE * (pod.share or 0.0)


# Whether the memory belongs to pods: kernel, services and shims leak as well. Evicting pods returns no memory
# that is not theirs, so such a node has to be recycled: drained, and rebooted or replaced. Where no pod's
# commit is known, the non-paged pool of the kernel is what is certainly outside pods.


def _attributing(samples: tuple[MemorySample, ...]) -> MemorySample | None:
    """Return which sample says most of where memory is; None where none says it."""
    known = [each for each in samples if each.commit_total is not None]
    of_pods = (each for each in known if each.pods_commit is not None)
    return next(of_pods, next((each for each in known if each.pool_nonpaged is not None), None))


def _grown(growth: Growth, sample: MemorySample, page_file: PageFile) -> Growth:
    """Return ``growth`` with what ``sample`` says, or unchanged where it does not say it.

    With another source, or another kind of evidence, it begins again. What pods have says more than the
    non-paged pool, which does not replace it for as long as it counts: a pod that has just begun has no
    numbers for a moment.
    """
    at, total, is_of_pods = sample.measured_at, sample.commit_total, sample.pods_commit is not None
    counts = at - growth.last_at <= GROWTH_SECONDS
    if total is None or (growth.is_of_pods and counts and not is_of_pods):
        return growth
    outside = sample.pool_nonpaged if sample.pods_commit is None else max(0.0, total - sample.pods_commit)
    if outside is None:
        return growth
    is_same = growth.source == sample.source and growth.is_of_pods == is_of_pods
    splits = growth.splits if is_same else ()
    if len(splits) > 1 and splits[-1][0] - splits[-2][0] < GROWTH_SPACING_SECONDS:
        splits = splits[:-1]
    splits = (*(each for each in splits if at - each[0] <= GROWTH_SECONDS), (at, total, outside))
    whole = levels.ceiling(sample, page_file)
    raised = _raised(splits, whole, growth.raised if is_same and counts else frozenset())
    return Growth(sample.source, is_of_pods, splits, raised)


def _raised(
    splits: tuple[tuple[float, float, float], ...], whole: float | None, before: frozenset[Guard]
) -> frozenset[Guard]:
    """Return which guards the splits raise; one that was raised ``before`` is lowered where it is clear.

    Otherwise memory that varies about the line would change the guard, and with it what is written, with each
    sample.
    """
    (_, first_total, first_outside), (_, total, outside) = splits[0], splits[-1]
    raised = set[Guard]()
    share = OUTSIDE_SHARE_CLEAR if Guard.OUTSIDE_SHARE in before else OUTSIDE_SHARE
    if whole is not None and outside > share * whole:
        raised.add(Guard.OUTSIDE_SHARE)
    was_growing = Guard.OUTSIDE_GROWTH in before
    floor = GROWTH_FLOOR_CLEAR if was_growing else GROWTH_FLOOR
    share = OUTSIDE_GROWTH_CLEAR if was_growing else OUTSIDE_GROWTH_SHARE
    increase = total - first_total
    if increase > floor * total and outside - first_outside > share * increase:
        raised.add(Guard.OUTSIDE_GROWTH)
    return frozenset(raised)


# What is known at a moment.


def known_at(memory: NodePressure, *, now: float, settings: DetectorSettings) -> NodePressure:
    """Return ``memory`` with what is known of it ``now``, on the clock of the samples."""
    known = {axis: _level(memory.axes[axis], now) for axis in Axis}
    is_under_pressure = any(
        level is not None and (level >= Level.SOFT or levels.is_seen_to_page(memory.axes[axis].points))
        for axis, level in known.items()
    )
    guard = _guard(memory, now) if is_under_pressure else None
    axes = {
        axis: _axis_at(memory.axes[axis], known[axis], memory, guard, now=now, settings=settings)
        for axis in Axis
    }
    growth = memory.growth
    outside = growth.splits[-1][2] if growth.splits and now - growth.last_at <= FRESH_SECONDS else None
    if (guard, outside) == (memory.guard, memory.outside_pods) and all(
        each is memory.axes[axis] for axis, each in axes.items()
    ):
        return memory
    return replace(memory, axes=axes, guard=guard, outside_pods=outside)


def _level(axis: AxisPressure, now: float) -> Level | None:
    """Return the level of an axis that is known ``now``.

    An estimate shows neither that Soft and Hard, once measured, are over, nor how bad it is meanwhile. Where
    its kubelet is late from then on, the node still pages as it did.
    """
    if axis.sampled_at is None or axis.reading is None or now - axis.sampled_at > axis.fresh_seconds:
        return None
    if not axis.reading.is_estimate:
        return axis.held
    if axis.reading.is_paging:
        over = (level for level, latch in axis.latches.items() if latch.over_samples)
        return max(over, default=Level.PROXY_ONLY)
    if axis.held >= Level.SOFT:
        return None
    return axis.held if axis.held is Level.PROXY_ONLY else Level.NORMAL


def _guard(memory: NodePressure, now: float) -> Guard | None:
    """Return why evictions cannot be expected to help.

    What was seen outside pods counts for ten minutes, also if the source is silent since.
    """
    growth = memory.growth
    if now - growth.last_at <= GROWTH_SECONDS:
        for guard in (Guard.OUTSIDE_SHARE, Guard.OUTSIDE_GROWTH):
            if guard in growth.raised:
                return guard
    if memory.ineffective >= MAX_INEFFECTIVE:
        return Guard.INEFFECTIVE
    return Guard.BLIND if memory.unmeasured >= MAX_BLIND_EVICTIONS else None


def _axis_at(
    axis: AxisPressure,
    level: Level | None,
    memory: NodePressure,
    guard: Guard | None,
    *,
    now: float,
    settings: DetectorSettings,
) -> AxisPressure:
    """Return ``axis`` with what is known of it ``now``: itself where that has not changed."""
    reading = axis.reading
    since = None if level is None or level is Level.NORMAL else axis.latches[level].since
    has_lasted = levels.has_lasted(axis.axis, axis.latches, axis.points, settings)
    ready_since = axis.ready_since if has_lasted else None
    lacking = 0.0 if reading is None else levels.missing(reading, reading.whole, settings)
    is_ready = ready_since is not None
    hold = _hold(axis, level, memory, guard, is_ready=is_ready, now=now, settings=settings)
    found = replace(axis, level=level, since=since, ready_since=ready_since, missing=lacking, hold=hold)
    return axis if found == axis else found


def _hold(
    axis: AxisPressure,
    level: Level | None,
    memory: NodePressure,
    guard: Guard | None,
    *,
    is_ready: bool,
    now: float,
    settings: DetectorSettings,
) -> Hold | None:
    """Return what keeps the operator from evicting a pod for ``axis``, which ``is_ready`` by its history."""
    points, reading = axis.points, axis.reading
    if level is None or reading is None:
        return Hold.UNKNOWN
    if level < Level.PROXY_ONLY:
        return Hold.NO_PRESSURE
    lacking = partial(levels.missing, whole=reading.whole, settings=settings)
    reasons = {
        Hold.ESTIMATE: level is Level.PROXY_ONLY and not levels.is_seen_to_page(points),
        Hold.SETTLING: bool(memory.evicted),
        Hold.UNATTRIBUTED: guard is not None,
        Hold.STEADY: axis.axis is Axis.COMMIT and level < Level.HARD,
        Hold.GRACE: not is_ready,
        Hold.AGE: len(points) < EVIDENCE_SAMPLES or now - points[-EVIDENCE_SAMPLES].at > EVIDENCE_SECONDS,
        Hold.RECOVERING: levels.is_recovering(points, lacking),
    }
    return next((hold for hold, is_true in reasons.items() if is_true), None)


def changes_after(memory: NodePressure, *, now: float) -> float | None:
    """Return the next time after which ``known_at`` may say something else, without a sample; None for never.

    Until then, and at that very time, it is what it is ``now``.
    """
    return min((moment for moment in _moments(memory) if moment >= now), default=None)


def _moments(memory: NodePressure) -> Iterator[float]:
    """Return when each thing is too old for what it is evidence of.

    On a node that is under no pressure, nothing is evicted and nothing keeps from it.
    """
    for axis in memory.axes.values():
        if axis.sampled_at is not None:
            yield axis.sampled_at + axis.fresh_seconds
        if axis.held >= Level.PROXY_ONLY and len(axis.points) >= EVIDENCE_SAMPLES:
            yield axis.points[-EVIDENCE_SAMPLES].at + EVIDENCE_SECONDS
    if memory.growth is not NO_GROWTH:
        yield memory.growth.last_at + FRESH_SECONDS
        yield memory.growth.last_at + GROWTH_SECONDS
