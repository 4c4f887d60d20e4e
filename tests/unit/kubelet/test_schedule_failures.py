"""When a node is polled that has failed, and one for which a decision waits."""

from __future__ import annotations

import pytest

from harness.scheduled import a_schedule, answered, names, only
from winpool.features.memory.settings import FRESH_SECONDS
from winpool.kubelet.schedule import LONGEST_DEADLINE, SOON_POLLS_PER_SECOND


@pytest.mark.parametrize(
    ("heat", "gaps", "usual"),
    [(0.0, [30, 60, 120, 240, 300, 300], 60), (1.0, [10, 20, 40, 80, 160, 300], 10)],
    ids=["calm", "hot"],
)
def test_after_one_failure_the_interval_is_half_but_not_below_that_of_hot_nodes_and_then_it_doubles(
    heat: float, gaps: list[float], usual: float
) -> None:
    schedule = a_schedule("w1")
    schedule.set_priority("w1", heat, now=0.5)
    now, found = 11.0, []
    answered(schedule, now, sampled=False)
    for _ in range(6):
        due = schedule.next_due(now=now)
        assert due is not None
        found.append(due - now)
        now = due
        answered(schedule, now, sampled=False)
    assert found == gaps
    due = schedule.next_due(now=now)
    assert due is not None
    answered(schedule, due)
    assert schedule.next_due(now=due) == due + usual


def test_one_lost_poll_leaves_the_last_sample_fresh_until_the_next() -> None:
    schedule = a_schedule("w1")
    assert answered(schedule, 1.0) == ["w1"]
    assert answered(schedule, 61.0, seconds=LONGEST_DEADLINE, sampled=False) == ["w1"]
    due = schedule.next_due(now=71.0)
    assert due is not None
    assert due + LONGEST_DEADLINE - 1.0 <= FRESH_SECONDS


def test_heat_does_not_shorten_a_back_off() -> None:
    schedule = a_schedule("w1")
    for now in (1.0, 31.0):
        assert answered(schedule, now, sampled=False) == ["w1"]
    schedule.set_priority("w1", 1.0, now=32.0)
    assert schedule.next_due(now=32.0) == 91.0


# Nodes that are awaited


def test_polls_that_are_awaited_come_at_once_fifty_a_second_and_then_as_usual() -> None:
    schedule = a_schedule(*names(60))
    assert len(answered(schedule, 1.0)) == 60
    schedule.poll_soon(names(60), now=20.0)
    found = [len(answered(schedule, at)) for at in (20.0, 20.99, 21.5)]
    assert found == [1, SOON_POLLS_PER_SECOND - 1, 60 - SOON_POLLS_PER_SECOND]
    assert (answered(schedule, 79.9), len(answered(schedule, 82.0))) == ([], 60)


def test_no_node_is_polled_more_often_than_a_hot_one_however_often_it_is_awaited() -> None:
    schedule = a_schedule("w1")
    assert answered(schedule, 1.0) == ["w1"]
    for second in range(2, 11):
        schedule.poll_soon(["w1"], now=float(second))
        assert answered(schedule, float(second)) == []
    assert answered(schedule, 11.0) == ["w1"]


def test_a_poll_in_flight_is_not_the_one_that_is_awaited() -> None:
    schedule = a_schedule("w1")
    only(schedule, 1.0)
    schedule.poll_soon(["w1"], now=2.0)
    schedule.done("w1", now=3.0, sampled=True)
    assert (answered(schedule, 10.9), answered(schedule, 11.0), answered(schedule, 21.0)) == ([], ["w1"], [])


def test_a_node_that_fails_keeps_its_back_off_though_it_is_awaited() -> None:
    schedule = a_schedule("w1")
    assert answered(schedule, 1.0, sampled=False) == ["w1"]
    schedule.poll_soon(["w1", "gone"], now=20.0)
    assert (answered(schedule, 30.9), answered(schedule, 31.0)) == ([], ["w1"])
