"""Repairs: at once, then after 2, 4, 8 … 300 seconds; ten quiet minutes end it. All by a clock of our own."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Seconds
from winpool.controllers.backoff import NodeBackoff
from winpool.kube.backoff import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, QUIET_SECONDS

PAUSES = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


@pytest.fixture
def pacer(clock: Seconds) -> NodeBackoff:
    return NodeBackoff(monotonic=clock)


def test_the_numbers_are_those_of_the_design() -> None:
    assert (FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, QUIET_SECONDS) == (2, 300, 600)


def test_the_first_repair_waits_for_nothing(pacer: NodeBackoff) -> None:
    assert pacer.held_back() == frozenset()
    assert pacer.seconds_to_next() is None


def test_each_further_repair_waits_twice_as_long_up_to_the_longest(
    pacer: NodeBackoff, clock: Seconds
) -> None:
    """Each repair comes the moment it may."""
    for pause in PAUSES:
        pacer.note("w1")
        assert pacer.seconds_to_next() == pytest.approx(pause)
        clock.now += pause - 0.01
        assert pacer.held_back() == {"w1"}
        assert pacer.seconds_to_next() == pytest.approx(0.01)
        clock.now += 0.02
        assert pacer.held_back() == frozenset()
        assert pacer.seconds_to_next() is None


def test_a_wait_that_ends_before_anybody_asks_how_long_it_is_is_no_wait_without_end(
    pacer: NodeBackoff, clock: Seconds
) -> None:
    """Between the two questions a status is written, and on a busy machine that takes its time."""
    pacer.note("w1")
    clock.now += FIRST_PAUSE_SECONDS - 0.01
    assert pacer.held_back() == {"w1"}
    clock.now += 0.02
    assert pacer.seconds_to_next() == 0
    assert pacer.held_back() == frozenset()
    assert pacer.seconds_to_next() is None


def test_a_write_that_stopped_in_a_pass_that_goes_on_for_longer_than_the_pause_is_owed_a_look(
    pacer: NodeBackoff, clock: Seconds
) -> None:
    assert pacer.held_back() == frozenset()
    pacer.note("w1")
    clock.now += FIRST_PAUSE_SECONDS + 10
    assert pacer.seconds_to_next() == 0
    pacer.forget("w1")
    assert pacer.seconds_to_next() is None


def test_ten_quiet_minutes_end_it(pacer: NodeBackoff, clock: Seconds) -> None:
    for pause in PAUSES:
        pacer.note("w1")
        clock.now += pause
    clock.now += QUIET_SECONDS
    pacer.note("w1")
    assert pacer.seconds_to_next() == pytest.approx(FIRST_PAUSE_SECONDS)


def test_less_than_ten_quiet_minutes_end_nothing(pacer: NodeBackoff, clock: Seconds) -> None:
    for _ in range(3):
        pacer.note("w1")
        clock.now += QUIET_SECONDS - 1
    pacer.note("w1")
    assert pacer.seconds_to_next() == pytest.approx(16)


def test_each_node_has_a_patience_of_its_own(pacer: NodeBackoff, clock: Seconds) -> None:
    pacer.note("w1")
    clock.now += 3
    pacer.note("w1")
    pacer.note("w2")
    assert pacer.held_back() == {"w1", "w2"}
    assert pacer.seconds_to_next() == pytest.approx(2)
    clock.now += 2.5
    assert pacer.held_back() == {"w1"}
    assert pacer.seconds_to_next() == pytest.approx(1.5)


def test_asking_changes_nothing(pacer: NodeBackoff, clock: Seconds) -> None:
    pacer.note("w1")
    clock.now += 1
    assert [pacer.held_back() for _ in range(3)] == [{"w1"}] * 3
    assert [pacer.seconds_to_next() for _ in range(3)] == [pytest.approx(1)] * 3


class Uid(str):
    """A text that can be watched: texts as such cannot."""

    __slots__ = ("__weakref__",)


@pytest.mark.slow
def test_who_has_been_quiet_is_forgotten(pacer: NodeBackoff, clock: Seconds) -> None:
    """Machines come and go for years, each under a UID of its own (P7)."""
    uid = Uid("w1")
    watched = weakref.ref(uid)
    pacer.note(uid)
    del uid
    clock.now += QUIET_SECONDS + 1
    assert pacer.held_back() == frozenset()
    gc.collect()
    assert watched() is None


def test_a_war_of_years_does_not_overflow(pacer: NodeBackoff, clock: Seconds) -> None:
    for _ in range(5000):
        pacer.note("w1")
        clock.now += LONGEST_PAUSE_SECONDS
    pacer.note("w1")
    assert pacer.seconds_to_next() == pytest.approx(LONGEST_PAUSE_SECONDS)


@given(st.lists(st.tuples(st.sampled_from(("w1", "w2")), st.floats(0, 1000)), max_size=30))
def test_no_node_waits_longer_than_the_longest_pause(story: list[tuple[str, float]]) -> None:
    clock = Seconds()
    pacer = NodeBackoff(monotonic=clock)
    for uid, quiet in story:
        pacer.note(uid)
        assert uid in pacer.held_back()
        wait = pacer.seconds_to_next()
        assert wait is not None
        assert 0 < wait <= LONGEST_PAUSE_SECONDS
        clock.now += quiet
    clock.now += LONGEST_PAUSE_SECONDS
    assert pacer.held_back() == frozenset()
