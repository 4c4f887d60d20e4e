"""What holds for any samples: evictions need evidence, and more pressure is never better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from hypothesis import assume, given
from hypothesis import strategies as st

from harness.memory import (
    BOTH,
    CEILING,
    GIB,
    KUBELET,
    KUBELET_ONLY,
    MIB,
    PROMETHEUS,
    RAM,
)
from winpool.memory.detector import eviction_begun, eviction_gone, step
from winpool.memory.levels import Axis, Level
from winpool.memory.samples import MemorySample
from winpool.memory.settings import DetectorSettings, PageFile, PageFilePolicy
from winpool.memory.state import NOTHING_KNOWN, DetectorState
from winpool.memory.view import NodeView, view_of

EVIDENCE_SECONDS: Final = 45
HOLD_SECONDS: Final = 300
FLIP_SECONDS: Final = 60
MARGIN: Final = 512 * MIB
"""Two percent of the ceiling are less."""
LINES: Final = {Level.WARNING: 0.2 * CEILING, Level.SOFT: 0.1 * CEILING, Level.HARD: 1 * GIB}

GARBAGE: Final = (math.nan, math.inf, -math.inf, 2**63, 2**64 - 1, -1, 10**400, None)

amounts = st.integers(0, 25 * 8).map(lambda eighths: eighths * GIB / 8)
high_amounts = st.integers(21 * 8, 24 * 8).map(lambda eighths: eighths * GIB / 8)
low_amounts = st.integers(0, 12).map(lambda eighths: eighths * GIB / 8)
rates = st.sampled_from([0, 50, 200, 400, 2000, 5000])
gaps = st.sampled_from([1, 5, 10, 10, 10, 10, 20, 30, 60, 130])
own_gaps = st.sampled_from([10, 10, 10, 10, 10, 0, -5, 1])
measuring = st.sampled_from([KUBELET_ONLY, BOTH, replace(BOTH, soft_grace_seconds=20)])
"""Those in which the ceiling is the measured limit."""
settings = st.one_of(
    measuring,
    st.sampled_from(
        [
            replace(BOTH, page_file=PageFile(PageFilePolicy.FIXED, 8 * GIB)),
            replace(BOTH, page_file=PageFile(PageFilePolicy.SYSTEM_MANAGED, 12 * GIB), soft_grace_seconds=20),
            replace(BOTH, clear_after_seconds=0),
        ]
    ),
)


@dataclass(frozen=True)
class Step:
    """A sample before its times are known."""

    gap: int
    own_gap: int
    source: str
    values: dict[str, float | None]
    interval: float = 10


def values(commit: st.SearchStrategy[float], left: st.SearchStrategy[float]) -> st.SearchStrategy[Step]:
    return st.builds(
        lambda gap, own_gap, source, total, available, reads, written, pods: Step(
            gap,
            own_gap,
            source,
            {
                "commit_total": total,
                "commit_limit": CEILING,
                "physical_total": RAM,
                "physical_available": available if source == PROMETHEUS else None,
                "proxy_available": available + GIB,
                "hard_reads_per_second": reads,
                "write_out_per_second": written,
                "pods_commit": pods,
            },
        ),
        gaps,
        own_gaps,
        st.sampled_from([KUBELET, KUBELET, PROMETHEUS]),
        commit,
        left,
        rates,
        rates,
        st.one_of(st.none(), amounts),
    )


any_step = values(amounts, amounts.map(lambda each: each / 2))
hard_step = values(high_amounts, low_amounts)
harmed = st.builds(
    lambda step, name, value: replace(step, values=step.values | {name: value}),
    hard_step,
    st.sampled_from(["commit_total", "commit_limit", "physical_total", "physical_available"]),
    st.sampled_from(GARBAGE),
)
histories = st.one_of(
    st.lists(hard_step, min_size=3, max_size=15),
    st.lists(st.one_of(hard_step, hard_step, hard_step, any_step, harmed), min_size=3, max_size=40),
)


def samples_of(steps: Sequence[Step], *, start: float = 1000.0) -> list[MemorySample]:
    """Return the samples with times: each source has its own clock."""
    now, own = start, {KUBELET: 5e6, PROMETHEUS: 7e8}
    found = []
    for each in steps:
        now += each.gap
        own[each.source] += each.own_gap
        found.append(MemorySample(each.source, now, own[each.source], each.interval, **each.values))
    return found


def after(samples: Sequence[MemorySample], settings: DetectorSettings) -> DetectorState:
    state = NOTHING_KNOWN
    for sample in samples:
        state = step(state, sample, settings)
    return state


def seen(samples: Sequence[MemorySample], settings: DetectorSettings, *, later: float = 0) -> NodeView:
    return view_of(after(samples, settings), now=samples[-1].arrived_at + later, settings=settings)


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


def says(sample: MemorySample, axis: Axis) -> bool:
    """Whether a sample has what the axis needs."""
    names = {
        Axis.COMMIT: ("commit_total", "commit_limit"),
        Axis.PHYSICAL: ("physical_total", "physical_available"),
    }
    found = [getattr(sample, name) for name in names[axis]]
    return all(each is not None and each == each and 0 <= each < 2**60 for each in found)


@given(histories, measuring, st.sampled_from([0, 1, 20, 26, 50, 121]))
def test_no_eviction_without_two_fresh_samples(
    steps: list[Step], settings: DetectorSettings, later: int
) -> None:
    samples = samples_of(steps)
    now = samples[-1].arrived_at + later
    for each in seen(samples, settings, later=later).evictable:
        evidence = [
            sample
            for sample in advanced(samples)
            if sample.source == each.source
            and says(sample, each.axis)
            and now - sample.arrived_at <= EVIDENCE_SECONDS
        ]
        assert len(evidence) >= 2
        assert now - evidence[-1].arrived_at <= 25


def test_two_fresh_samples_are_enough() -> None:
    """The property above says something: an eviction does follow from two samples, and not from one."""
    steps = [Step(10, 10, KUBELET, {"commit_total": 23.5 * GIB, "commit_limit": CEILING})] * 3
    samples = samples_of(steps)
    assert [each.axis for each in seen(samples, KUBELET_ONLY).evictable] == [Axis.COMMIT]
    assert seen(samples[:2], KUBELET_ONLY).evictable == ()


@given(histories, settings, st.data())
def test_more_commit_in_the_last_sample_never_lowers_a_level(
    steps: list[Step], settings: DetectorSettings, data: st.DataObject
) -> None:
    *before, last = samples_of(steps)
    assume(last.commit_total is not None and last.commit_total < CEILING)
    assert last.commit_total is not None
    more = data.draw(amounts)
    worse = replace(last, commit_total=last.commit_total + more)
    was, now = seen([*before, last], settings), seen([*before, worse], settings)
    for axis in Axis:
        assert now.axes[axis].held >= was.axes[axis].held


@given(histories, settings, st.data())
def test_less_memory_and_more_paging_in_the_last_sample_never_lower_a_level(
    steps: list[Step], settings: DetectorSettings, data: st.DataObject
) -> None:
    *before, last = samples_of(steps)
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


@given(st.lists(any_step, min_size=3, max_size=30), settings, amounts)
def test_more_commit_in_all_samples_never_lowers_a_level(
    steps: list[Step], settings: DetectorSettings, more: float
) -> None:
    samples = samples_of(steps)
    worse = [replace(each, commit_total=(each.commit_total or 0) + more) for each in samples]
    assert max_commit(worse) >= max_commit(samples)
    was, now = seen(samples, settings), seen(worse, settings)
    assert now.axes[Axis.COMMIT].held >= was.axes[Axis.COMMIT].held


def max_commit(samples: Sequence[MemorySample]) -> float:
    return max(each.commit_total or 0 for each in samples)


@given(histories, settings, st.integers(-(2**30), 2**30), st.integers(-(2**20), 2**20))
def test_shifting_all_times_by_a_constant_changes_nothing(
    steps: list[Step], settings: DetectorSettings, ours: int, theirs: int
) -> None:
    samples = samples_of(steps)
    shifted = [
        replace(each, arrived_at=each.arrived_at + ours, taken_at=(each.taken_at or 0) + theirs)
        for each in samples
    ]

    def told(view: NodeView, shift: float) -> object:
        return (
            view.level,
            view.guard,
            view.is_signalled,
            view.outside_pods,
            [
                replace(
                    each,
                    since=None if each.since is None else each.since - shift,
                    sampled_at=None if each.sampled_at is None else each.sampled_at - shift,
                )
                for each in view.axes.values()
            ],
        )

    assert told(seen(shifted, settings), ours) == told(seen(samples, settings), 0)


NOTHING: Final = {
    "commit_total": None,
    "commit_limit": None,
    "physical_total": None,
    "physical_available": None,
    "proxy_available": None,
}


@given(histories, settings, st.sampled_from(GARBAGE))
def test_what_is_unknown_never_evicts(
    steps: list[Step], settings: DetectorSettings, garbage: float | None
) -> None:
    """After an unknown sample of each source, the samples before it are no evidence any more."""
    samples = samples_of(
        [*steps, *(Step(1, 1, source, dict.fromkeys(NOTHING, garbage)) for source in settings.sources)]
    )
    assert seen(samples, settings).evictable == ()


@given(histories, settings, st.sampled_from([each for each in GARBAGE if each != -1]))
def test_without_its_own_time_a_sample_is_no_evidence(
    steps: list[Step], settings: DetectorSettings, garbage: float | None
) -> None:
    samples = [replace(each, taken_at=garbage) for each in samples_of(steps)]
    assert after(samples, settings) == replace(NOTHING_KNOWN, seen_at=after(samples, settings).seen_at)


@given(histories, settings)
def test_silence_leads_to_unknown_and_removes_no_signal(
    steps: list[Step], settings: DetectorSettings
) -> None:
    samples = samples_of(steps)
    silent = seen(samples, settings, later=121)
    assert silent.level is None
    assert silent.evictable == ()
    assert silent.is_signalled == seen(samples, settings).is_signalled


@given(st.lists(st.one_of(any_step, hard_step), min_size=10, max_size=80))
def test_a_level_is_lowered_only_after_the_whole_hold_clear_of_its_line(steps: list[Step]) -> None:
    steps = [replace(each, own_gap=10, source=KUBELET) for each in steps]
    state, held, clear_since = NOTHING_KNOWN, Level.NORMAL, dict.fromkeys(LINES, 0.0)
    for sample in samples_of(steps):
        state = step(state, sample, KUBELET_ONLY)
        axis = state.axes[Axis.COMMIT]
        if axis.at != sample.arrived_at or axis.reading is None:
            continue
        for level, line in LINES.items():
            if axis.reading.left <= line + MARGIN:
                clear_since[level] = sample.arrived_at
        if axis.held < held:
            assert sample.arrived_at - clear_since[held] >= HOLD_SECONDS
        held = axis.held


@given(histories, settings)
def test_the_signal_never_flips_faster_than_once_a_minute(
    steps: list[Step], settings: DetectorSettings
) -> None:
    state, flips = NOTHING_KNOWN, list[float]()
    for sample in samples_of(steps):
        before = state.signal.is_on
        state = step(state, sample, settings)
        if state.signal.is_on is not before:
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


@given(st.lists(st.one_of(any_sample, any_step), max_size=30), settings, st.integers(0, 10**4))
def test_no_number_makes_it_raise(
    given_samples: list[MemorySample | Step], settings: DetectorSettings, now: int
) -> None:
    state = NOTHING_KNOWN
    for number, each in enumerate(given_samples):
        sample = samples_of([each])[0] if isinstance(each, Step) else each
        state = step(state, sample, settings)
        state = eviction_begun(state, uid=str(number), share=GIB)
        state = eviction_gone(state, uid=str(number), at=now)
        view = view_of(state, now=now, settings=settings)
        assert view.level is None or view.worst is not None
        assert view.is_hot in {True, False}


@given(st.lists(hard_step, min_size=100, max_size=120))
def test_what_is_remembered_of_a_node_is_bounded(steps: list[Step]) -> None:
    state = after(samples_of([replace(each, own_gap=10) for each in steps]), BOTH)
    assert all(len(axis.points) <= 32 for axis in state.axes.values())
    assert len(state.growth.splits) <= 7
    assert set(state.sources) <= {KUBELET, PROMETHEUS}
