"""From samples to an eviction: freshness, grace, the trend, and how a level is left again."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from harness.memory import (
    BOTH,
    EXPORTER_ONLY,
    GIB,
    KUBELET,
    KUBELET_ONLY,
    PAGING,
    PROMETHEUS,
    Watched,
    a_sample,
    available,
    committed,
)
from winpool.features.memory.detector import step
from winpool.model.pressure import NO_SAMPLES, Axis, Hold, Level, MemorySample

SOFT = committed(22.5)
SHORT = available(1.2, **PAGING)
"""Soft on PHYSICAL."""
HARD = committed(23.5)
CALM = committed(12)


def test_the_first_sample_shows_nothing_since_its_time_has_not_advanced() -> None:
    node = Watched()
    assert node.start(**HARD).level is None
    assert node.hold() is Hold.UNKNOWN
    assert node.poll(**HARD).level is Level.HARD


def test_hard_evicts_after_two_fresh_samples() -> None:
    node = Watched()
    node.start(**HARD)
    node.poll(**HARD)
    assert node.hold() is Hold.GRACE
    node.poll(**HARD)
    assert node.hold() is None
    [axis] = node.view().evictable
    assert axis.axis is Axis.COMMIT
    assert axis.missing == pytest.approx(2.4 * GIB)


def test_one_sample_in_between_that_is_not_hard_begins_the_count_again() -> None:
    node = Watched(replace(KUBELET_ONLY, soft_grace_seconds=1000))
    node.polls(2, **HARD)
    node.poll(**committed(22.9))
    node.poll(**HARD)
    assert node.hold() is Hold.GRACE
    node.poll(**HARD)
    assert node.hold() is None


@pytest.mark.parametrize("apart", [0.0, 4.9, 5.0])
def test_two_samples_are_evidence_of_hard_only_where_they_are_five_seconds_apart(apart: float) -> None:
    """Two sources of the same moment have measured the same."""
    node = Watched(BOTH)
    for _ in range(3):
        node.poll(**CALM)
        node.poll(source=PROMETHEUS, after=0, interval=1, **CALM)
    node.poll(**HARD)
    view = node.poll(source=PROMETHEUS, after=apart, interval=1, **HARD)
    assert view.level is Level.HARD
    assert (view.axes[Axis.COMMIT].source, view.axes[Axis.COMMIT].sampled_at) == (PROMETHEUS, node.now)
    assert (node.hold(), view.is_signalled) == ((None, True) if apart >= 5 else (Hold.GRACE, None))


@pytest.mark.parametrize(("gap", "hold"), [(25, None), (26, Hold.GRACE), (45, Hold.GRACE)])
def test_after_a_gap_the_earlier_sample_no_longer_counts(gap: float, hold: Hold | None) -> None:
    """It was not fresh any more when the later one came."""
    node = Watched()
    node.polls(2, **HARD)
    node.poll(after=gap, **HARD)
    assert node.hold() is hold
    assert node.view().is_signalled is (True if hold is None else None)
    node.poll(**HARD)
    assert node.hold() is None


def test_soft_evicts_for_ram_after_its_grace() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.start(**SHORT)
    assert node.polls(9, **SHORT).level is Level.SOFT
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is None


def test_a_plateau_above_soft_is_signalled_and_evicts_no_one() -> None:
    node = Watched()
    view = node.polls(400, **SOFT)
    assert (view.level, view.is_signalled, node.hold()) == (Level.SOFT, True, Hold.STEADY)


def test_the_grace_begins_again_when_the_line_is_no_longer_crossed() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(9, **SHORT)
    node.poll(**available(1.7, **PAGING))
    assert node.physical() is Level.SOFT
    node.polls(9, **SHORT)
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is None


def test_paging_evicts_for_physical() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(11, **available(1.2, **PAGING))
    assert [(each.axis, each.level) for each in node.view().evictable] == [(Axis.PHYSICAL, Level.SOFT)]


@pytest.mark.parametrize(("used", "hold"), [(23.1, Hold.RECOVERING), (23.2, None)])
def test_nothing_is_evicted_while_it_recovers_by_itself(used: float, hold: Hold | None) -> None:
    """At 23.5 GiB, 2.4 are missing; 15 % of that are 0.36 GiB. It is recovering for two samples."""
    node = Watched()
    node.polls(4, **HARD)
    node.poll(**committed(used))
    assert node.hold() is hold
    node.poll(**committed(used))
    assert node.hold() is hold
    node.poll(**committed(used))
    assert node.hold() is None


def test_a_sample_that_is_frozen_grows_old() -> None:
    node = Watched()
    node.polls(3, **HARD)
    frozen = node.now
    node.polls(2, taken_at=frozen, **HARD)
    assert node.axis(Axis.COMMIT).sampled_at == frozen
    assert node.commit() is Level.HARD
    node.poll(taken_at=frozen, **HARD)
    assert node.commit() is None
    assert node.axis(Axis.COMMIT).held is Level.HARD


@pytest.mark.parametrize(
    ("interval", "age", "is_fresh"),
    [
        (10, 25, True),
        (10, 26, False),
        (40, 100, True),
        (60, 120, True),
        (60, 121, False),
        (math.nan, 1, False),
    ],
)
def test_a_sample_is_fresh_for_two_and_a_half_intervals_and_two_minutes_at_most(
    interval: float, age: float, is_fresh: bool
) -> None:
    node = Watched(interval=interval)
    node.poll(after=10, **HARD)
    node.poll(after=10, **HARD)
    node.now += age
    assert node.commit() is (Level.HARD if is_fresh else None)


def test_two_samples_of_a_node_that_is_polled_each_minute_are_too_far_apart() -> None:
    node = Watched(interval=60)
    node.polls(4, **HARD)
    assert node.commit() is Level.HARD
    assert node.hold() is Hold.AGE


def test_the_evidence_ends_55_seconds_after_the_earlier_sample() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS, interval=30)
    node.polls(3, **HARD)
    node.now += 25
    assert node.hold() is None
    node.now += 1
    assert node.hold() is Hold.AGE


def test_after_a_sample_without_a_time_two_more_are_needed() -> None:
    node = Watched()
    node.polls(3, **HARD)
    node.state = step(node.state, replace(a_sample(node.now + 1, **HARD), taken_at=None), KUBELET_ONLY)
    assert node.commit() is Level.HARD
    assert node.hold() is Hold.GRACE
    node.poll(**HARD)
    assert node.hold() is Hold.GRACE
    node.poll(**HARD)
    assert node.hold() is None


def test_samples_that_arrive_together_are_one() -> None:
    node = Watched()
    node.polls(2, **HARD)
    for number in range(1, 5):
        node.poll(after=0, taken_at=node.now + number, **HARD)
    assert node.hold() is Hold.GRACE
    node.poll(**HARD)
    assert node.hold() is None


def test_the_same_holds_after_the_grace_of_soft() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(12, **SHORT)
    assert node.physical_hold() is None
    node.poll()
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is None


def test_a_clock_that_is_set_back_begins_again() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(12, **SHORT)
    assert node.physical_hold() is None
    node.poll(taken_at=5.0, **SHORT)
    assert node.physical() is None
    for own in range(6, 15):
        node.poll(taken_at=float(own), **SHORT)
        assert node.physical() is Level.SOFT
        assert node.physical_hold() is Hold.GRACE
    node.poll(taken_at=15.0, **SHORT)
    assert node.physical_hold() is None


def test_a_gap_stops_the_grace_and_a_long_one_begins_it_again() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(6, **SHORT)
    node.poll(after=100, **SHORT)
    node.polls(4, **SHORT)
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is None
    node.poll(after=121, **SHORT)
    assert node.physical() is Level.SOFT
    assert node.physical_hold() is Hold.GRACE
    node.polls(8, **SHORT)
    assert node.physical_hold() is Hold.GRACE
    node.poll(**SHORT)
    assert node.physical_hold() is None


@pytest.mark.parametrize(("advance", "level"), [(1, None), (270, None), (275, Level.HARD), (400, Level.HARD)])
def test_after_a_silence_a_sample_is_fresh_if_its_time_has_advanced_as_much_as_ours(
    advance: float, level: Level | None
) -> None:
    """Otherwise its source has stopped in between, and it may be as old as that."""
    node = Watched()
    node.polls(3, **HARD)
    own = node.now + advance
    node.poll(after=300, taken_at=own, **HARD)
    assert node.commit() is level
    node.poll(taken_at=own + 10, **HARD)
    assert node.commit() is Level.HARD


def test_a_restart_begins_the_grace_with_the_first_fresh_sample() -> None:
    before = Watched(EXPORTER_ONLY, PROMETHEUS)
    before.polls(30, **SHORT)
    assert before.physical_hold() is None
    after = Watched(EXPORTER_ONLY, PROMETHEUS, now=before.now)
    after.polls(10, **SHORT)
    assert after.physical_hold() is Hold.GRACE
    after.poll(**SHORT)
    assert after.physical_hold() is None


def test_after_a_restart_a_signal_stays_as_it_is_until_a_whole_hold_has_passed() -> None:
    node = Watched()
    node.start(**CALM)
    assert node.polls(30, **CALM).is_signalled is None
    assert node.poll(**CALM).is_signalled is False


def test_samples_that_say_nothing_end_no_signal() -> None:
    node = Watched()
    node.polls(2, **CALM)
    assert node.polls(60).is_signalled is None


def test_soft_is_signalled_after_half_a_minute() -> None:
    node = Watched()
    node.start(**SOFT)
    assert node.polls(3, **SOFT).is_signalled is None
    assert node.poll(**SOFT).is_signalled is True


def test_hard_is_signalled_with_the_second_sample() -> None:
    node = Watched()
    node.start(**HARD)
    assert node.poll(**HARD).is_signalled is None
    assert node.poll(**HARD).is_signalled is True


@pytest.mark.parametrize(
    ("used", "left"),
    [(21.4, Level.SOFT), (21.0, Level.WARNING), (18.9, Level.WARNING), (18.0, Level.NORMAL)],
)
def test_a_level_is_left_by_a_margin_and_after_five_minutes(used: float, left: Level) -> None:
    """Clear of Soft is less than 21.1 GiB, of Warning less than 18.7."""
    node = Watched()
    node.polls(8, **SOFT)
    node.poll(**committed(used))
    for _ in range(29):
        assert node.poll(**committed(used)).level is Level.SOFT
    assert node.poll(**committed(used)).level is left
    assert node.view().is_signalled is (left is Level.SOFT)


def test_the_five_minutes_begin_again_with_a_sample_that_is_not_clear() -> None:
    node = Watched()
    node.polls(8, **SOFT)
    node.polls(30, **CALM)
    node.poll(**committed(21.4))
    assert node.polls(30, **CALM).level is Level.SOFT
    assert node.poll(**CALM).level is Level.NORMAL


def test_a_signal_that_has_ended_does_not_begin_again_within_a_minute() -> None:
    node = Watched(replace(KUBELET_ONLY, clear_after_seconds=60))
    node.polls(8, **SOFT)
    assert node.polls(7, **CALM).is_signalled is False
    assert node.polls(5, **HARD).is_signalled is False
    assert node.view().level is Level.HARD
    assert node.poll(**HARD).is_signalled is True


def test_a_signal_that_comes_back_within_an_hour_lasts_twice_as_long_and_then_twice_again() -> None:
    node = Watched()
    lasted = []
    for _ in range(4):
        node.polls(8, **SOFT)
        assert node.view().is_signalled is True
        polls = 0
        while node.poll(**CALM).is_signalled:
            polls += 1
        lasted.append(polls * node.interval)
    assert lasted == [300, 600, 1200, 1200]
    node.polls(360, **CALM)
    node.polls(8, **SOFT)
    assert node.polls(31, **CALM).is_signalled is False


def test_physical_is_left_five_points_above_its_line() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(5, **available(1.2, **PAGING))
    node.polls(60, **available(2.3))
    assert node.physical() is Level.SOFT
    node.polls(31, **available(2.5))
    assert node.physical() is Level.WARNING


def test_a_hold_is_a_minute_at_least() -> None:
    node = Watched(replace(KUBELET_ONLY, clear_after_seconds=0))
    node.polls(8, **SOFT)
    assert node.polls(6, **CALM).level is Level.SOFT
    assert node.poll(**CALM).level is Level.NORMAL


@pytest.mark.parametrize(
    "sample",
    [
        a_sample(5000, source="Unknown", **HARD),
        a_sample(math.nan, **HARD),
        a_sample(1000, **HARD),
        a_sample(5000, taken_at=math.nan, **HARD),
        a_sample(5000, taken_at=1030, **HARD),
    ],
    ids=["a-source-of-no-one", "no-arrival", "from-the-past", "no-time", "frozen"],
)
def test_a_sample_that_says_nothing_changes_no_axis(sample: MemorySample) -> None:
    node = Watched()
    node.polls(3, **CALM)
    state = step(node.state, sample, KUBELET_ONLY)
    assert {axis: each.reading for axis, each in state.axes.items()} == {
        axis: each.reading for axis, each in node.state.axes.items()
    }
    assert state.axes[Axis.COMMIT].sampled_at == node.now


def test_a_source_that_is_no_longer_read_is_forgotten() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(3, **CALM)
    node.settings = KUBELET_ONLY
    node.polls(3, source=KUBELET, **CALM)
    assert set(node.state.sources) == {KUBELET}
    assert node.commit() is Level.NORMAL


def test_what_is_not_sampled_is_unknown() -> None:
    node = Watched(state=NO_SAMPLES)
    view = node.view()
    assert (view.level, view.worst, view.is_signalled, view.guard) == (None, None, None, None)
    assert not view.is_hot
