"""Which nodes are polled when: tiers and limits."""

from __future__ import annotations

import pytest

from harness.scheduled import a_schedule, answered, names, polled
from winpool.kubelet.schedule import (
    BASE_INTERVAL,
    LATE_SECONDS,
    MAX_IN_FLIGHT,
    MAX_KEPT,
    PATIENT_DEADLINE,
    Schedule,
    next_answer,
)

# Tiers


def test_a_node_is_polled_every_60_s_and_a_hot_one_every_10_s() -> None:
    schedule = a_schedule("w1")
    assert answered(schedule, 1.0) == ["w1"]
    assert (answered(schedule, 60.9), answered(schedule, 61.0)) == ([], ["w1"])
    schedule.set_priority("w1", 0.5, now=62.0)
    assert schedule.interval("w1") == 10.0
    assert (answered(schedule, 70.9), answered(schedule, 71.0)) == ([], ["w1"])
    assert (answered(schedule, 80.9), answered(schedule, 81.0)) == ([], ["w1"])
    schedule.set_priority("w1", 0.0, now=82.0)
    assert answered(schedule, 91.0) == ["w1"]
    assert (answered(schedule, 101.0), answered(schedule, 151.0)) == ([], ["w1"])


def test_the_deadline_is_below_the_interval() -> None:
    schedule = a_schedule("w1", "w2")
    schedule.set_priority("w1", 1.0, now=0.0)
    assert {poll.node: poll.deadline for poll in schedule.due(now=1.0)} == {"w1": 8.0, "w2": 10.0}


def test_a_late_node_may_take_half_a_minute_and_its_sample_counts_for_as_long() -> None:
    """One that pages answers late, and what it says then matters most."""
    schedule = a_schedule("w1")
    schedule.set_priority("w1", 1.0, now=0.0)
    assert answered(schedule, 1.0, seconds=LATE_SECONDS + 0.1) == ["w1"]
    assert (schedule.interval("w1"), next_answer(6.0)) == (10.0, PATIENT_DEADLINE)
    (poll,) = schedule.due(now=11.0)
    assert poll.deadline == PATIENT_DEADLINE
    schedule.done("w1", now=12.0, sampled=True)
    assert next_answer(4.0) == 0.0
    assert schedule.due(now=21.0)[0].deadline == 8.0


def test_a_poll_that_had_too_little_time_is_late_too() -> None:
    schedule = a_schedule("w1", hot=2.0)
    schedule.set_priority("w1", 1.0, now=0.0)
    (poll,) = schedule.due(now=1.0)
    assert poll.deadline == 1.6
    schedule.done("w1", now=2.6, sampled=False)
    assert schedule.due(now=3.0)[0].deadline == PATIENT_DEADLINE
    schedule.done("w1", now=3.1, sampled=False)
    assert schedule.due(now=7.0)[0].deadline == 1.6


def test_jitter_moves_a_poll_by_a_twentieth_of_the_interval() -> None:
    for jitter, due in ((0.0, 57.0), (1.0, 63.0)):
        schedule = a_schedule("w1", jitter=lambda jitter=jitter: jitter)  # type: ignore[misc]
        assert answered(schedule, 0.1) == ["w1"]
        assert answered(schedule, due + 0.1 - 0.01) == []
        assert answered(schedule, due + 0.1) == ["w1"]


def test_a_few_new_nodes_are_polled_at_once_and_a_fleet_within_the_first_interval() -> None:
    assert answered(a_schedule("w1", jitter=lambda: 1.0), 0.012) == ["w1"]
    schedule = a_schedule(*names(5000), jitter=lambda: 1.0)
    assert schedule.next_due(now=0.0) == pytest.approx(60.0)


def test_it_says_when_to_look_again() -> None:
    schedule = a_schedule("w1")
    assert schedule.next_due(now=0.0) == pytest.approx(0.006)
    assert polled(schedule, 1.0) == ["w1"]
    assert schedule.next_due(now=1.0) is None
    schedule.done("w1", now=1.5, sampled=True)
    assert schedule.next_due(now=1.5) == 61.0
    assert Schedule(jitter=lambda: 0.0).next_due(now=0.0) is None


# Nodes that come and go


def test_a_node_that_is_gone_is_polled_no_more_and_its_poll_still_counts_until_it_ends() -> None:
    schedule = a_schedule(*names(MAX_IN_FLIGHT + 1))
    first = polled(schedule, 1.0)
    assert len(first) == MAX_IN_FLIGHT
    schedule.set_nodes(names(1, start=MAX_IN_FLIGHT), now=1.0)
    assert polled(schedule, 1.0) == []
    schedule.done(first[0], now=1.1, sampled=True)
    assert polled(schedule, 1.1) == names(1, start=MAX_IN_FLIGHT)


def test_a_node_that_comes_back_while_its_old_poll_is_in_flight_is_not_polled_twice() -> None:
    schedule = a_schedule("w1")
    assert polled(schedule, 1.0) == ["w1"]
    schedule.set_nodes([], now=2.0)
    schedule.set_nodes(["w1"], now=3.0)
    assert polled(schedule, 4.0) == []
    schedule.done("w1", now=5.0, sampled=True)
    assert (polled(schedule, 60.9), polled(schedule, 61.0)) == ([], ["w1"])


def test_heat_of_a_node_that_is_not_known_is_ignored() -> None:
    schedule = a_schedule("w1")
    schedule.set_priority("w2", 1.0, now=0.0)
    assert schedule.interval("w2") == BASE_INTERVAL
    assert polled(schedule, 1.0) == ["w1"]


# Limits


def test_64_polls_are_in_flight_and_no_more() -> None:
    schedule = a_schedule(*names(200))
    assert len(polled(schedule, 10.0)) == 64
    assert polled(schedule, 11.0) == []
    assert schedule.next_due(now=11.0) is None
    schedule.done("w0000", now=11.0, sampled=True)
    assert len(polled(schedule, 11.0)) == 1


def test_nodes_that_were_late_share_16_places() -> None:
    schedule = a_schedule(*names(100))
    late = answered(schedule, 10.0, seconds=LATE_SECONDS + 0.1)
    assert len(late) == 64
    answered(schedule, 20.0)
    both = polled(schedule, 90.0)
    assert len([name for name in both if name in late]) == 16
    assert len([name for name in both if name not in late]) == 36
    schedule.done(next(name for name in both if name in late), now=90.1, sampled=True)
    assert len(polled(schedule, 90.1)) == 1


def test_a_late_node_that_answers_soon_is_late_no_more() -> None:
    schedule = a_schedule(*names(17))
    answered(schedule, 10.0, seconds=LATE_SECONDS + 0.1)
    assert len(answered(schedule, 70.0)) == 16
    assert len(answered(schedule, 70.0)) == 1
    assert len(answered(schedule, 130.0)) == 17


def hot_schedule(count: int) -> Schedule:
    """Return a schedule of hot nodes, the last one the hottest."""
    schedule = a_schedule(*names(count))
    for number, name in enumerate(names(count)):
        schedule.set_priority(name, (number + 1) / count, now=0.0)
    return schedule


def test_of_hot_nodes_50_are_polled_in_any_second_the_worst_first() -> None:
    schedule = hot_schedule(120)
    assert sorted(answered(schedule, 10.0)) == names(50, start=70)
    assert schedule.next_due(now=10.0) == 11.0
    assert answered(schedule, 10.99) == []
    assert sorted(answered(schedule, 11.0)) == names(50, start=20)
    assert sorted(answered(schedule, 12.0)) == names(20)


@pytest.mark.parametrize(("count", "interval"), [(1, 10), (500, 10), (1000, 20), (2999, 59.98), (4000, 60)])
def test_with_more_hot_nodes_their_interval_grows_up_to_that_of_the_others(
    count: int, interval: float
) -> None:
    assert hot_schedule(count).interval("w0000") == pytest.approx(interval)


def test_nodes_that_are_not_hot_do_not_wait_for_the_limit_of_the_hot_ones() -> None:
    schedule = hot_schedule(100)
    answered(schedule, 10.0)
    schedule.set_nodes([*names(100), "cold"], now=10.0)
    assert answered(schedule, 10.1) == ["cold"]


def test_late_hot_nodes_count_for_the_limit_of_the_hot_ones() -> None:
    schedule = hot_schedule(60)
    for now in (10.0, 11.0):
        answered(schedule, now, seconds=LATE_SECONDS + 0.1)
    starts = []
    for step in range(200):
        now = 20.0 + step / 100
        starts += [now for _ in answered(schedule, now, seconds=0.0)]
    assert len(starts) == 60
    assert all(sum(start <= other < start + 1 for other in starts) <= 50 for start in starts)


def test_the_hottest_is_before_the_others_but_for_one_that_has_waited_ten_seconds_longer() -> None:
    schedule = a_schedule(*names(64), "x-cold", "y-hot")
    assert polled(schedule, 0.5) == names(64)
    schedule.set_priority("y-hot", 1.0, now=0.5)
    schedule.done("w0000", now=0.6, sampled=True)
    assert polled(schedule, 0.6) == ["y-hot"]
    schedule.done("y-hot", now=0.7, sampled=True)
    assert polled(schedule, 10.7) == ["x-cold"], "due since 0.4 s; the other one since 10.6 s"


def test_connections_are_kept_while_there_are_places_hot_nodes_first() -> None:
    schedule = a_schedule(*names(MAX_KEPT), "x-hot")

    def kept(now: float) -> dict[str, bool]:
        found: dict[str, bool] = {}
        while polls := schedule.due(now=now):
            for poll in polls:
                found[poll.node] = poll.keep
                schedule.done(poll.node, now=now + 0.1, sampled=True)
        return found

    assert kept(2.0) == dict.fromkeys(names(MAX_KEPT), True) | {"x-hot": False}
    schedule.set_priority("x-hot", 1.0, now=3.0)
    assert kept(12.0) == {"x-hot": False}, "all places are taken"
    assert list(kept(62.0).values()).count(False) == 2, "one node gives its place away"
    assert kept(72.0) == {"x-hot": True}
