"""What holds for any samples: evictions need evidence, and more pressure is never better."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import Final

import pytest
from hypothesis import Phase as HypothesisPhase
from hypothesis import assume, find, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.memory import BOTH, CEILING, GIB, KUBELET, KUBELET_ONLY, MIB, PROMETHEUS, RAM
from harness.memory_histories import (
    GARBAGE,
    MEASURED,
    History,
    Step,
    after,
    histories,
    measuring,
    samples_of,
    seen,
    settings,
)
from winpool.features.memory.detector import eviction_begun, eviction_gone, known_at, step
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import (
    NO_SAMPLES,
    PROXY_OVERHEAD_BYTES,
    Axis,
    Level,
    MemorySample,
    NodePressure,
    is_amount,
)

EVIDENCE_SECONDS: Final = 55
EVIDENCE_APART_SECONDS: Final = 5
LATE_SECONDS: Final = 5
HOLD_SECONDS: Final = 300
FLIP_SECONDS: Final = 60
MARGIN: Final = 512 * MIB
"""Two percent of the ceiling are less."""
LINES: Final = {Level.WARNING: 0.2 * CEILING, Level.SOFT: 0.1 * CEILING, Level.HARD: 1 * GIB}

amounts = st.integers(0, 25 * 8).map(lambda eighths: eighths * GIB / 8)
rates = st.sampled_from([0, 50, 200, 400, 2000, 5000])


def evicts_for(axis: Axis) -> Callable[[History], bool]:
    return lambda history: any(each.axis is axis for each in seen(history.samples, BOTH).evictable)


def evicts_for_an_estimate(history: History) -> bool:
    ready = seen(history.samples, KUBELET_ONLY).evictable
    return any(each.reading is not None and each.reading.is_estimate for each in ready)


def lowers_a_level(history: History) -> bool:
    state, held = NO_SAMPLES, Level.NORMAL
    for sample in history.samples:
        state = step(state, sample, KUBELET_ONLY)
        before, held = held, state.axes[Axis.COMMIT].held
        if held < before:
            return True
    return False


def ends_a_signal(history: History) -> bool:
    state, was_on = NO_SAMPLES, False
    for sample in history.samples:
        state = step(state, sample, KUBELET_ONLY)
        was_on = was_on or state.is_signalled is True
    return was_on and state.is_signalled is False


@pytest.mark.parametrize(
    "happens",
    [
        evicts_for(Axis.COMMIT),
        evicts_for(Axis.PHYSICAL),
        evicts_for_an_estimate,
        lowers_a_level,
        ends_a_signal,
    ],
    ids=["evicts-for-commit", "evicts-for-physical", "for-an-estimate", "lowers-a-level", "ends-a-signal"],
)
def test_the_histories_reach_what_the_properties_are_about(happens: Callable[[History], bool]) -> None:
    """A property of evictions says nothing over histories without one."""
    quick = hypothesis_settings(max_examples=200, phases=[HypothesisPhase.generate])
    assert happens(find(histories, happens, settings=quick))


def advanced(samples: Sequence[MemorySample]) -> list[MemorySample]:
    """Return the samples whose own time is after all that their source has shown before."""
    last: dict[str, float] = {}
    found = []
    for each in samples:
        assert each.taken_at is not None
        if each.source in last and each.taken_at > last[each.source]:
            found.append(each)
        last[each.source] = each.taken_at
    return found


def shows_pressure(sample: MemorySample, axis: Axis) -> bool:
    """Whether a sample is over the line of Soft, or beyond it."""
    if axis is Axis.COMMIT:
        used = sample.commit_total
        return sample.commit_limit == CEILING and used is not None and 0.9 * CEILING < used < 2**53
    free = sample.physical_available
    if free is None:
        return is_late_beside_an_estimate(sample)
    return sample.physical_total == RAM and 0 <= free < 0.1 * RAM


def is_late_beside_an_estimate(sample: MemorySample) -> bool:
    """Whether a kubelet was late, more is committed than there is RAM, and of that less than 3 % is left."""
    free, used = sample.proxy_available, sample.commit_total
    return (
        (sample.answer_seconds or 0) >= LATE_SECONDS
        and sample.physical_total == RAM
        and used is not None
        and RAM < used < 2**53
        and free is not None
        and 0 <= free < 0.03 * RAM + PROXY_OVERHEAD_BYTES
    )


@given(histories, measuring, st.sampled_from([0, 1, 20, 26, 50, 121]))
def test_no_eviction_without_two_fresh_samples(
    history: History, settings: DetectorSettings, later: int
) -> None:
    """The last two of the source whose own time has advanced, both over the line of Soft.

    Those that are over it without one in between that is not go back for five seconds at least.
    """
    samples = history.samples
    state = NO_SAMPLES
    for count, latest in enumerate(samples, start=1):
        state = step(state, latest, settings)
        now = latest.arrived_at + later
        for each in known_at(state, now=now, settings=settings).evictable:
            shown = [sample for sample in advanced(samples[:count]) if sample.source == each.source]
            evidence = shown[-2:]
            assert len(evidence) == 2
            assert all(shows_pressure(sample, each.axis) for sample in evidence)
            over = list(takewhile(partial(shows_pressure, axis=each.axis), reversed(shown)))
            assert over[0].arrived_at - over[-1].arrived_at >= EVIDENCE_APART_SECONDS
            assert all(now - sample.arrived_at <= EVIDENCE_SECONDS for sample in evidence)
            assert now - evidence[-1].arrived_at <= 2.5 * evidence[-1].interval_seconds


@given(histories, measuring)
def test_a_raised_guard_permits_no_eviction(history: History, settings: DetectorSettings) -> None:
    state = NO_SAMPLES
    for sample in history.samples:
        state = step(state, sample, settings)
        view = known_at(state, now=sample.arrived_at, settings=settings)
        assert not (state.growth.raised and view.evictable)
        assert view.guard is None or not view.evictable


@given(histories, settings, st.data())
def test_more_commit_in_the_last_sample_never_lowers_a_level(
    history: History, settings: DetectorSettings, data: st.DataObject
) -> None:
    *before, last = history.samples
    assume(last.commit_total is not None and last.commit_total < CEILING)
    assert last.commit_total is not None
    more = data.draw(amounts)
    worse = replace(last, commit_total=last.commit_total + more)
    was, now = seen([*before, last], settings), seen([*before, worse], settings)
    for axis in Axis:
        assert now.axes[axis].held >= was.axes[axis].held


@given(histories, settings, st.data())
def test_less_memory_and_more_paging_in_the_last_sample_never_lower_a_level(
    history: History, settings: DetectorSettings, data: st.DataObject
) -> None:
    *before, last = history.samples
    assume(last.physical_available is not None and 0 <= last.physical_available <= RAM)
    assert last.physical_available is not None
    worse = replace(
        last,
        physical_available=last.physical_available * data.draw(st.sampled_from([0, 0.25, 0.5, 1])),
        hard_reads_per_second=(last.hard_reads_per_second or 0) + data.draw(rates),
        write_out_per_second=(last.write_out_per_second or 0) + data.draw(rates),
    )
    was, now = seen([*before, last], settings), seen([*before, worse], settings)
    assert now.axes[Axis.PHYSICAL].held >= was.axes[Axis.PHYSICAL].held


@given(histories, settings, amounts)
def test_more_commit_in_all_samples_never_lowers_a_level(
    history: History, settings: DetectorSettings, more: float
) -> None:
    """Garbage stays as it is: no amount is more."""
    samples = history.samples
    worse = [
        replace(each, commit_total=(each.commit_total or 0) + more)
        if is_amount(each.commit_total or 0)
        else each
        for each in samples
    ]
    was, now = seen(samples, settings), seen(worse, settings)
    assert now.axes[Axis.COMMIT].held >= was.axes[Axis.COMMIT].held


@given(histories, settings, st.integers(-(2**30), 2**30), st.integers(-(2**20), 2**20))
def test_shifting_all_times_by_a_constant_changes_nothing(
    history: History, settings: DetectorSettings, ours: int, theirs: int
) -> None:
    samples = history.samples
    shifted = [
        replace(each, arrived_at=each.arrived_at + ours, taken_at=(each.taken_at or 0) + theirs)
        for each in samples
    ]

    def told(view: NodePressure, shift: float) -> object:
        return (
            view.level,
            view.guard,
            view.is_signalled,
            view.outside_pods,
            [
                replace(
                    each,
                    since=None if each.since is None else each.since - shift,
                    ready_since=None if each.ready_since is None else each.ready_since - shift,
                    sampled_at=None if each.sampled_at is None else each.sampled_at - shift,
                    looked_at=None if each.looked_at is None else each.looked_at - shift,
                    reading=None if each.reading is None else replace(each.reading, at=0, taken_at=None),
                    points=tuple(replace(point, at=point.at - shift, taken_at=None) for point in each.points),
                    high_water=None
                    if each.high_water is None
                    else replace(each.high_water, began=each.high_water.began - shift),
                    latches={
                        level: replace(latch, since=None if latch.since is None else latch.since - shift)
                        for level, latch in each.latches.items()
                    },
                )
                for each in view.axes.values()
            ],
        )

    assert told(seen(shifted, settings), ours) == told(seen(samples, settings), 0)


@given(histories, settings, st.sampled_from(GARBAGE))
def test_what_is_unknown_never_evicts(
    history: History, settings: DetectorSettings, garbage: float | None
) -> None:
    """After an unknown sample of each source, the samples before it are no evidence any more."""
    samples = samples_of(
        [
            *history.steps,
            *(Step(1, 1, source, dict.fromkeys(MEASURED, garbage)) for source in settings.sources),
        ]
    )
    assert seen(samples, settings).evictable == ()


@given(histories, settings, st.sampled_from([each for each in GARBAGE if each != -1]))
def test_without_its_own_time_a_sample_is_no_evidence(
    history: History, settings: DetectorSettings, garbage: float | None
) -> None:
    samples = [replace(each, taken_at=garbage) for each in history.samples]
    assert after(samples, settings) == replace(NO_SAMPLES, seen_at=after(samples, settings).seen_at)


@given(histories, settings)
def test_silence_leads_to_unknown_and_removes_no_signal(history: History, settings: DetectorSettings) -> None:
    samples = history.samples
    silent = seen(samples, settings, later=121)
    assert silent.level is None
    assert silent.evictable == ()
    assert silent.is_signalled == seen(samples, settings).is_signalled


@given(histories)
def test_a_level_is_lowered_only_after_the_whole_hold_clear_of_its_line(history: History) -> None:
    state, held, clear_since = NO_SAMPLES, Level.NORMAL, dict.fromkeys(LINES, 0.0)
    for sample in history.samples:
        state = step(state, sample, KUBELET_ONLY)
        axis = state.axes[Axis.COMMIT]
        if axis.sampled_at != sample.arrived_at or axis.reading is None:
            continue
        for level, line in LINES.items():
            if axis.reading.left <= line + MARGIN:
                clear_since[level] = sample.arrived_at
        if axis.held < held:
            assert sample.arrived_at - clear_since[held] >= HOLD_SECONDS
        held = axis.held


@given(histories, settings)
def test_the_signal_never_flips_faster_than_once_a_minute(
    history: History, settings: DetectorSettings
) -> None:
    state, flips = NO_SAMPLES, list[float]()
    for sample in history.samples:
        before = state.is_signalled
        state = step(state, sample, settings)
        if state.is_signalled is not before:
            flips.append(sample.arrived_at)
    assert all(later - earlier >= FLIP_SECONDS for earlier, later in pairwise(flips))


anything = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(GARBAGE),
    amounts,
)
any_sample = st.builds(
    MemorySample,
    source=st.sampled_from([KUBELET, PROMETHEUS, ""]),
    arrived_at=st.one_of(st.floats(), st.integers(0, 10**4)),
    taken_at=st.one_of(anything, st.integers(0, 10**4)),
    interval_seconds=anything.filter(lambda each: each is not None),
    commit_total=anything,
    commit_limit=anything,
    physical_total=anything,
    physical_available=anything,
    proxy_available=anything,
    hard_reads_per_second=anything,
    write_out_per_second=anything,
    repurposed_per_second=anything,
    pool_nonpaged=anything,
    pods_commit=anything,
)


@given(st.lists(any_sample, max_size=20), histories, settings, st.integers(0, 10**4))
def test_no_number_makes_it_raise(
    strange: list[MemorySample], history: History, settings: DetectorSettings, now: int
) -> None:
    state = NO_SAMPLES
    for number, sample in enumerate([*strange, *history.samples, *strange]):
        state = step(state, sample, settings)
        state = eviction_begun(state, uid=str(number), share=GIB)
        state = eviction_gone(state, uid=str(number), at=now)
        view = known_at(state, now=now, settings=settings)
        assert view.level is None or view.worst is not None
        assert view.is_hot in {True, False}


@given(st.lists(histories, min_size=4, max_size=4), st.sampled_from([1, 10, 60]))
def test_what_is_remembered_of_a_node_is_bounded(parts: list[History], gap: int) -> None:
    steps = [
        dataclasses.replace(each, gap=gap, own_gap=2 * gap, interval=gap)
        for part in parts
        for each in part.steps
    ]
    state = after(samples_of(steps), BOTH)
    assert all(len(axis.points) <= 32 for axis in state.axes.values())
    assert len(state.growth.splits) <= 7
    assert set(state.sources) <= {KUBELET, PROMETHEUS}
