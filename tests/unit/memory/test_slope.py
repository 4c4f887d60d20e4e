"""The trend: what turns it, what does not, and when memory is exhausted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory import BOTH, GIB, PROMETHEUS, Watched, available, committed
from winpool.features.memory.levels import seconds_left, slope_of, with_point
from winpool.model.pressure import Axis, Level, Reading


def points_of(*used: float, whole: float = 1000, seconds: float = 10) -> tuple[Reading, ...]:
    return tuple(
        Reading(Axis.COMMIT, left=whole - each, whole=whole, at=seconds * number)
        for number, each in enumerate(used)
    )


@pytest.mark.parametrize(
    ("used", "slope"),
    [
        ((0, 10, 20), None),
        ((0, 10, 20, 30), 1.0),
        ((5, 5, 5, 5), 0.0),
        ((0, 10, 20, 30, 40, 50, 60, 900), 1.0),
        ((0, 10, 20, 0, 40, 50, 60), 1.0),
    ],
    ids=["three-are-too-few", "steady", "flat", "an-outlier-at-the-end", "an-outlier-in-the-middle"],
)
def test_a_single_outlier_does_not_turn_the_slope(used: tuple[float, ...], slope: float | None) -> None:
    found = slope_of([(each.at, each.used) for each in points_of(*used)])
    assert found == (None if slope is None else pytest.approx(slope, abs=0.2))


@pytest.mark.parametrize(
    ("used", "left"),
    [((0, 10, 20, 30), 970), ((5, 5, 5, 5), math.inf), ((9, 8, 7, 6), math.inf), ((1, 2), None)],
)
def test_memory_is_exhausted_when_the_trend_reaches_the_ceiling(
    used: tuple[float, ...], left: float | None
) -> None:
    assert seconds_left(points_of(*used)) == left


@pytest.mark.parametrize(("seconds", "kept"), [(10, 19), (60, 5), (1, 32), (45, 5), (40, 5), (30, 7)])
def test_the_trend_is_of_three_minutes_or_five_samples(seconds: float, kept: int) -> None:
    points: tuple[Reading, ...] = ()
    for number in range(60):
        points = with_point(points, Reading(Axis.COMMIT, left=0, whole=0, at=seconds * number))
    assert len(points) == kept
    assert points[-1].at == seconds * 59


@pytest.mark.parametrize(("seconds", "has_one"), [(2, False), (6, False), (20 / 3, True), (10, True)])
def test_there_is_no_trend_over_less_than_20_seconds(seconds: float, has_one: bool) -> None:
    steep = points_of(0, 100, 200, 300, seconds=seconds)
    assert (seconds_left(steep) is not None) == has_one


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=19), st.integers(0, 1000))
def test_more_in_the_last_point_never_makes_the_trend_flatter(used: list[int], more: int) -> None:
    before = slope_of([(each.at, each.used) for each in points_of(*used)])
    after = slope_of([(each.at, each.used) for each in points_of(*used[:-1], used[-1] + more)])
    assert before is not None
    assert after is not None
    assert after >= before


def test_a_leak_is_a_warning_a_quarter_of_an_hour_before_the_end() -> None:
    node = Watched()
    for number in range(6):
        node.poll(**committed(12 + 0.1 * number))
    assert node.commit() is Level.NORMAL
    for number in range(6, 12):
        node.poll(**committed(12 + 0.2 * number))
    axis = node.axis(Axis.COMMIT)
    assert axis.level is Level.WARNING
    assert axis.seconds_left is not None
    assert axis.seconds_left < 900


def rising(node: Watched, *, to: float, per_poll: float, since: float) -> None:
    """Poll a node that rises from ``since`` GiB to ``to``."""
    for number in range(round((to - since) / per_poll) + 1):
        node.poll(**committed(since + per_poll * number))


def test_above_soft_a_rise_that_ends_within_a_minute_is_hard() -> None:
    """At 22.8 GiB 1.2 are left, for 40 s at 0.03 GiB a second; Hard by what is left begins at 23."""
    node = Watched()
    node.polls(70, **committed(12))
    rising(node, since=12, to=22.8, per_poll=0.3)
    assert node.commit() is Level.HARD


def test_a_slower_rise_is_soft() -> None:
    """At 0.015 GiB a second, 1.2 GiB last for 80 s."""
    node = Watched()
    node.polls(70, **committed(12))
    rising(node, since=12, to=22.8, per_poll=0.15)
    assert node.commit() is Level.SOFT


def test_a_rise_that_the_node_came_back_from_before_is_soft() -> None:
    """As of a garbage collector: what counts is where it goes above its high water."""
    node = Watched()
    for _ in range(3):
        rising(node, since=12, to=22.8, per_poll=0.3)
    assert node.commit() is Level.SOFT


def test_a_rise_is_soft_while_the_node_is_known_for_less_than_ten_minutes() -> None:
    node = Watched()
    node.polls(20, **committed(12))
    rising(node, since=12, to=22.8, per_poll=0.3)
    assert node.commit() is Level.SOFT


@pytest.mark.parametrize(("last", "level"), [(21.65, Level.SOFT), (22.0, Level.HARD)])
def test_a_rise_whose_last_step_is_less_than_half_of_it_is_soft(last: float, level: Level) -> None:
    node = Watched()
    node.polls(70, **committed(12))
    rising(node, since=12.4, to=21.4, per_poll=0.6)
    node.poll(**committed(last))
    assert node.commit() is level


def test_the_high_water_of_an_hour_ago_is_forgotten() -> None:
    node = Watched()
    node.polls(3, **committed(22.8))
    node.polls(370, **committed(12))
    rising(node, since=12, to=22.8, per_poll=0.3)
    assert node.commit() is Level.HARD


def test_below_soft_they_are_a_warning() -> None:
    """A burst of 1.2 GiB in ten seconds may be all that a process needs."""
    node = Watched()
    for number in range(8):
        node.poll(**committed(12 + 1.2 * number))
    assert node.axis(Axis.COMMIT).seconds_left == pytest.approx((24 - 12 - 1.2 * 7) / 0.12, rel=0.01)
    assert node.commit() is Level.WARNING


def test_a_page_file_that_is_extended_is_no_trend() -> None:
    node = Watched()
    for number in range(8):
        node.poll(**committed(10, commit_limit=(20 + number) * GIB))
    assert node.axis(Axis.COMMIT).seconds_left == math.inf


def test_the_trend_of_commit_continues_when_another_source_speaks() -> None:
    """What is committed is one number, by any source."""
    node = Watched(BOTH)
    for number in range(6):
        node.poll(**committed(10 + number / 8))
    for number in (8, 11):
        node.poll(source=PROMETHEUS, after=30, interval=30, **committed(10 + number / 8))
    axis = node.axis(Axis.COMMIT)
    assert axis.source == PROMETHEUS
    assert axis.seconds_left == pytest.approx((24 - 10 - 11 / 8) / 0.0125)
    assert [each.used / GIB for each in node.state.axes[Axis.COMMIT].points] == [
        *(10 + number / 8 for number in (1, 2, 3, 4, 5, 11)),
    ]


def test_the_trend_of_commit_begins_again_after_two_minutes_without_a_source() -> None:
    node = Watched(BOTH)
    node.polls(6, **committed(10))
    node.polls(2, source=PROMETHEUS, after=61, interval=30, **committed(11))
    assert node.axis(Axis.COMMIT).seconds_left is None
    assert len(node.state.axes[Axis.COMMIT].points) == 1


def test_two_sources_that_measure_at_the_same_moment_are_one_point_of_the_trend() -> None:
    node = Watched(BOTH)
    for number in range(6):
        node.poll(**committed(10 + number / 8))
        node.poll(source=PROMETHEUS, after=0, interval=5, **committed(10 + number / 8))
    assert {each.at for each in node.state.axes[Axis.COMMIT].points} == {1020, 1030, 1040, 1050, 1060}
    assert len(node.state.axes[Axis.COMMIT].points) == 5
    assert node.axis(Axis.COMMIT).seconds_left == pytest.approx((24 - 10 - 5 / 8) / 0.0125)


def test_of_available_ram_another_source_has_a_trend_of_its_own() -> None:
    """Where one measures it, another may estimate it."""
    node = Watched(BOTH)
    node.polls(6, **available(8, hard_reads_per_second=0))
    node.polls(2, source=PROMETHEUS, after=30, interval=30, **available(8, hard_reads_per_second=0))
    axis = node.state.axes[Axis.PHYSICAL]
    assert (axis.source, len(axis.points)) == (PROMETHEUS, 1)
