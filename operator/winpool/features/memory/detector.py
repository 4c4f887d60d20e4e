"""When time alone changes what is known of a node: samples grow old, and nothing else happens.

Whether the memory of a node belongs to pods: kernel, services and shims leak as well.

Evicting pods returns no memory that is not theirs. Such a node has to be recycled: drained, and rebooted or
replaced. Where no pod's commit is known, the non-paged pool of the kernel is what is certainly outside pods.

A guard is raised as soon as its line is crossed, and lowered when the node is clear of the line by a margin.
Otherwise memory that varies about the line would change the guard, and with it what is written, with each
sample.

Whether pressure is signalled on the node: by the condition, and by the taint that keeps pods away.

It is signalled after a while, and until no line of Soft, Hard or ProxyOnly is held. At the beginning it is
unknown: a condition or taint of an earlier process may be on the node, and is neither added nor removed until
the samples of one whole hold have shown what is right (P4).

What the evictions on a node have achieved: whether memory came back, and how often it did not.

One that is under way, or whose memory has not had the time to come back, keeps the next one from being
decided by numbers that are about to change.

What the detector remembers of one node, all of it in memory and none of it for longer than it is fresh.

It begins empty. After a restart every timer begins with the first fresh sample
(docs/adr/0022-the-clock-that-restarts.md).

The detector of a node: what one sample, or the end of a pod, changes about what is known.

It steps when a sample arrives, never in a pass. A pass reads ``view.view_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from winpool.features.memory.levels import (
    NOTHING_LATCHED,
    Latch,
    Point,
    all_latched,
    has_lasted,
    hold_seconds,
    interrupted,
    is_repurposed_faster,
    judged,
    seconds_left,
    tick,
    with_point,
)
from winpool.features.memory.samples import (
    Arrival,
    MemorySample,
    SourceState,
    arrival,
    ceiling,
    cleaned,
    fresh_samples,
    fresh_seconds,
    is_time,
    preferred,
)
from winpool.features.memory.settings import (
    CALM_SECONDS,
    EFFECTIVE_SHARE,
    EVIDENCE_SAMPLES,
    EVIDENCE_SECONDS,
    FLIP_SECONDS,
    FRESH_SECONDS,
    GROWTH_FLOOR,
    GROWTH_FLOOR_CLEAR,
    GROWTH_SECONDS,
    GROWTH_SPACING_SECONDS,
    OUTSIDE_GROWTH_CLEAR,
    OUTSIDE_GROWTH_SHARE,
    OUTSIDE_SHARE,
    OUTSIDE_SHARE_CLEAR,
    PROXY_LEARNING,
    PROXY_OVERHEAD_BYTES,
    PROXY_SIGNAL_SECONDS,
    SETTLE_SAMPLES,
    SETTLE_SECONDS,
    SOFT_SIGNAL_SECONDS,
    DetectorSettings,
    PageFile,
)
from winpool.model.pressure import Axis, Guard, Level, Reading


@dataclass(frozen=True, slots=True)
class Split:
    """How much was committed at one time, and how much of it outside pods, in bytes."""

    at: float
    total: float
    outside: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The splits of the last ten minutes, all of one source.

    ``is_of_pods``: they come from the commit of pods. Otherwise ``outside`` is the non-paged pool alone.
    ``whole`` is the ceiling at the last one, None where it is unknown. ``raised`` are the guards whose lines
    were crossed, and of which the node is not clear.
    """

    source: str = ""
    is_of_pods: bool = False
    whole: float | None = None
    splits: tuple[Split, ...] = ()
    raised: frozenset[Guard] = frozenset()


def attributing(samples: tuple[MemorySample, ...]) -> MemorySample | None:
    """Return which sample says most of where memory is; None where none says it."""
    for name in ("pods_commit", "pool_nonpaged"):
        for sample in samples:
            if sample.commit_total is not None and getattr(sample, name) is not None:
                return sample
    return None


def grown(growth: Growth, sample: MemorySample, page_file: PageFile) -> Growth:
    """Return ``growth`` with what ``sample`` says, or unchanged where it does not say it.

    With another source, or another kind of evidence, it begins again. What pods have says more than the
    non-paged pool, which does not replace it for as long as it counts: a pod that has just begun has no
    numbers for a moment.
    """
    is_of_pods = sample.pods_commit is not None
    counts = bool(growth.splits) and sample.measured_at - growth.splits[-1].at <= GROWTH_SECONDS
    if sample.commit_total is None or (growth.is_of_pods and counts and not is_of_pods):
        return growth
    if sample.pods_commit is not None:
        outside = max(0.0, sample.commit_total - sample.pods_commit)
    elif sample.pool_nonpaged is not None:
        outside = sample.pool_nonpaged
    else:
        return growth
    split = Split(sample.measured_at, sample.commit_total, outside)
    is_same = growth.source == sample.source and growth.is_of_pods == is_of_pods
    splits = growth.splits if is_same else ()
    if len(splits) > 1 and splits[-1].at - splits[-2].at < GROWTH_SPACING_SECONDS:
        splits = splits[:-1]
    recent = tuple(each for each in splits if split.at - each.at <= GROWTH_SECONDS)
    found = Growth(sample.source, is_of_pods, ceiling(sample, page_file), (*recent, split))
    return replace(found, raised=_raised(found, growth.raised if is_same and counts else frozenset()))


def guard_of(growth: Growth, *, now: float) -> Guard | None:
    """Return why the memory is not that of pods; None where it is, or where that is unknown.

    What was seen counts for ten minutes, also if the source is silent since.
    """
    if not growth.splits or now - growth.splits[-1].at > GROWTH_SECONDS:
        return None
    return next(
        (guard for guard in (Guard.OUTSIDE_SHARE, Guard.OUTSIDE_GROWTH) if guard in growth.raised), None
    )


def _raised(growth: Growth, before: frozenset[Guard]) -> frozenset[Guard]:
    """Return which guards the splits raise; one that was raised ``before`` is lowered where it is clear."""
    first, last = growth.splits[0], growth.splits[-1]
    raised = set[Guard]()
    share = OUTSIDE_SHARE_CLEAR if Guard.OUTSIDE_SHARE in before else OUTSIDE_SHARE
    if growth.whole is not None and last.outside > share * growth.whole:
        raised.add(Guard.OUTSIDE_SHARE)
    was_growing = Guard.OUTSIDE_GROWTH in before
    floor = GROWTH_FLOOR_CLEAR if was_growing else GROWTH_FLOOR
    share = OUTSIDE_GROWTH_CLEAR if was_growing else OUTSIDE_GROWTH_SHARE
    increase = last.total - first.total
    if increase > floor * last.total and last.outside - first.outside > share * increase:
        raised.add(Guard.OUTSIDE_GROWTH)
    return frozenset(raised)


SIGNALLED: Final = (Level.PROXY_ONLY, Level.SOFT, Level.HARD)


@dataclass(frozen=True, slots=True)
class Signal:
    """``is_on`` is None while it is unknown. ``since`` is when it changed.

    ``calm_since`` is since when no line was held, None while one is. ``at`` is the time of the last sample.
    """

    is_on: bool | None = None
    since: float | None = None
    calm_since: float | None = None
    at: float | None = None

    @property
    def calm_seconds(self) -> float:
        """For how long no line was held."""
        return 0.0 if self.calm_since is None or self.at is None else self.at - self.calm_since


def signalled(signal: Signal, axes: Iterable[AxisState], *, at: float, hold: float, grace: float) -> Signal:
    """Return ``signal`` after a fresh sample; ``hold`` is for how long an unknown one has to be calm.

    ``grace`` is how long Soft lasts before a pod is evicted: the node is signalled by then.
    """
    latches = [(level, axis.latches[level]) for axis in axes for level in SIGNALLED]
    calm_since: float | None = None
    if all(latch.since is None for _, latch in latches):
        is_gap = signal.at is None or at - signal.at > FRESH_SECONDS
        calm_since = at if signal.calm_since is None or is_gap else signal.calm_since
    moved = Signal(signal.is_on, signal.since, calm_since, at)
    is_on = signal.is_on
    if any(_is_confirmed(level, latch, grace) for level, latch in latches):
        is_on = True
    elif calm_since is not None and (signal.is_on or moved.calm_seconds >= hold):
        is_on = False
    if is_on == signal.is_on or (signal.since is not None and at - signal.since < FLIP_SECONDS):
        return moved
    return Signal(is_on, at, calm_since, at)


def _is_confirmed(level: Level, latch: Latch, grace: float) -> bool:
    if latch.over_seconds is None:
        return False
    match level:
        case Level.HARD:
            return latch.over_samples >= EVIDENCE_SAMPLES
        case Level.SOFT:
            # No pod is evicted from a node that is not signalled: new ones would take its place.
            is_evicting = latch.over_seconds >= grace and latch.over_samples >= EVIDENCE_SAMPLES
            return latch.over_seconds >= SOFT_SIGNAL_SECONDS or is_evicting
        case _:
            return latch.over_seconds >= PROXY_SIGNAL_SECONDS


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction that has not settled.

    ``share`` is what the pod was measured to have, and ``commit_before`` what the node had committed, in
    bytes; None where unknown. ``gone_at`` is when its UID was gone, None while it is there; ``samples`` is
    how many fresh ones were measured after that. One that is never gone, Stuck, keeps the next from
    beginning.
    """

    uid: str
    share: float | None
    commit_before: float | None
    gone_at: float | None = None
    samples: int = 0

    def is_settled(self, now: float) -> bool:
        """Whether what it has returned can be seen ``now``."""
        if self.gone_at is None:
            return False
        return now - self.gone_at >= SETTLE_SECONDS and self.samples >= SETTLE_SAMPLES

    def is_ineffective(self, commit_now: float | None) -> bool:
        """Whether it is known that less than half of what the pod had came back."""
        if self.share is None or self.commit_before is None or commit_now is None:
            return False
        return self.commit_before - commit_now < EFFECTIVE_SHARE * self.share


@dataclass(frozen=True, slots=True)
class Evictions:
    """The evictions of a node since it was last calm: those that have not settled, and how many have."""

    running: tuple[Eviction, ...] = ()
    settled: int = 0
    ineffective: int = 0


NO_EVICTIONS: Final = Evictions()


def evictions_begun(evictions: Evictions, eviction: Eviction) -> Evictions:
    """Return ``evictions`` with one that begins; one that is known already is not counted twice."""
    if any(each.uid == eviction.uid for each in evictions.running):
        return evictions
    return replace(evictions, running=(*evictions.running, eviction))


def gone(evictions: Evictions, *, uid: str, at: float) -> Evictions:
    """Return ``evictions`` once the pod is gone. The first report of it counts."""
    return replace(
        evictions,
        running=tuple(
            replace(each, gone_at=at) if each.uid == uid and each.gone_at is None else each
            for each in evictions.running
        ),
    )


def refused(evictions: Evictions, *, uid: str) -> Evictions:
    """Return ``evictions`` without one that has not happened."""
    return replace(evictions, running=tuple(each for each in evictions.running if each.uid != uid))


def settled(evictions: Evictions, *, at: float, commit_now: float | None) -> Evictions:
    """Return ``evictions`` after a fresh sample, with those that have settled counted.

    ``at`` is when it was measured, ``commit_now`` what it says is committed, None where that is unknown.
    """
    if not evictions.running:
        return evictions
    running = tuple(
        each
        if each.gone_at is None or at < each.gone_at
        else replace(each, samples=min(each.samples + 1, SETTLE_SAMPLES))
        for each in evictions.running
    )
    done = [each for each in running if each.is_settled(at)]
    return Evictions(
        running=tuple(each for each in running if not each.is_settled(at)),
        settled=evictions.settled + len(done),
        ineffective=evictions.ineffective + sum(each.is_ineffective(commit_now) for each in done),
    )


@dataclass(frozen=True, slots=True)
class AxisState:
    """What is known of one axis.

    ``reading`` is the last one, of ``source``, at the time ``at``, and fresh for ``fresh_seconds``. ``at`` is
    None before the first one, and after the clock of a node was set back. ``points`` are the trend of that
    source, ``seconds_left`` is where it leads on COMMIT. ``ready_since``: each reading from then on has shown
    that it has lasted long enough for an eviction; None where the last has not.
    """

    source: str = ""
    at: float | None = None
    fresh_seconds: float = 0.0
    reading: Reading | None = None
    points: tuple[Point, ...] = ()
    seconds_left: float | None = None
    latches: Mapping[Level, Latch] = field(default_factory=lambda: NOTHING_LATCHED)
    ready_since: float | None = None

    @property
    def held(self) -> Level:
        """The highest level that was reached and not cleared, known or not."""
        return max(
            (level for level, latch in self.latches.items() if latch.since is not None), default=Level.NORMAL
        )


@dataclass(frozen=True, slots=True)
class DetectorState:
    """What is known of one node. ``seen_at`` is when the last sample of any source arrived.

    ``overhead`` is what the kubelet's ``availableBytes`` does not count: the operator's own value, or what an
    exporter has shown on this node.
    """

    sources: Mapping[str, SourceState] = field(default_factory=dict)
    axes: Mapping[Axis, AxisState] = field(default_factory=lambda: {axis: AxisState() for axis in Axis})
    overhead: float = PROXY_OVERHEAD_BYTES
    growth: Growth = field(default_factory=Growth)
    evictions: Evictions = NO_EVICTIONS
    signal: Signal = field(default_factory=Signal)
    seen_at: float | None = None


NO_STATE: Final = DetectorState()


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
    return replace(state, evictions=evictions_begun(state.evictions, begun))


def eviction_gone(state: DetectorState, *, uid: str, at: float) -> DetectorState:
    """Return what is known once the pod is gone."""
    return replace(state, evictions=gone(state.evictions, uid=uid, at=at))


def eviction_refused(state: DetectorState, *, uid: str) -> DetectorState:
    """Return what is known once the eviction was refused, for example by a PodDisruptionBudget."""
    return replace(state, evictions=refused(state.evictions, uid=uid))


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
        made = settled(made, at=sample.measured_at, commit_now=commit.reading.used)
    elif commit.at is None or now - commit.at > commit.fresh_seconds:
        made = settled(made, at=now, commit_now=None)
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


def changes_after(state: DetectorState, *, now: float) -> float | None:
    """Return the next time after which ``view_of`` may be another one, without a sample; None for never.

    Until then, and at that very time, it is the one of ``now``.
    """
    return min((moment for moment in _moments(state) if moment >= now), default=None)


def _moments(state: DetectorState) -> Iterator[float]:
    """Return when each thing is too old for what it is evidence of.

    On a node that is under no pressure, nothing is evicted and nothing keeps from it.
    """
    for axis in state.axes.values():
        if axis.at is not None:
            yield axis.at + axis.fresh_seconds
        if axis.held >= Level.SOFT and len(axis.points) >= EVIDENCE_SAMPLES:
            yield axis.points[-EVIDENCE_SAMPLES].at + EVIDENCE_SECONDS
    if state.growth.splits:
        last = state.growth.splits[-1].at
        yield last + FRESH_SECONDS
        yield last + GROWTH_SECONDS
