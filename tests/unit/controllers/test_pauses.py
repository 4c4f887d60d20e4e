"""Pauses between two tries: they grow, the API server may ask for more, and few enough are remembered."""

from __future__ import annotations

import pytest

from harness.clock import Seconds
from winpool.kube.backoff import KEPT, LONGEST_PAUSE_SECONDS, QUIET_SECONDS, KeyedBackoff


def some_pauses(longest: float = 30.0) -> tuple[KeyedBackoff[str], Seconds]:
    seconds = Seconds()
    return KeyedBackoff(monotonic=seconds, cap=longest), seconds


def test_pauses_grow_up_to_the_longest() -> None:
    pauses, seconds = some_pauses()
    waits = []
    for _ in range(7):
        pauses.note("a")
        waits.append(pauses.seconds_to_next(["a"]))
        seconds.now += waits[-1] or 0.0
        assert not pauses.is_waiting("a")
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_one_waits_until_its_pause_is_over_and_no_other_does() -> None:
    pauses, seconds = some_pauses()
    pauses.note("a")
    assert (pauses.is_waiting("a"), pauses.is_waiting("b")) == (True, False)
    seconds.now += 1.9
    assert pauses.is_waiting("a")
    seconds.now += 0.1
    assert not pauses.is_waiting("a")


@pytest.mark.parametrize(
    ("asked", "waits"), [(0.0, 2.0), (10.0, 10.0), (60.0, 60.0), (86_400.0, LONGEST_PAUSE_SECONDS)]
)
def test_the_api_server_may_ask_for_more_within_bounds(asked: float, waits: float) -> None:
    pauses, _ = some_pauses()
    pauses.note("a", at_least=asked)
    assert pauses.seconds_to_next(["a"]) == waits


def test_ten_quiet_minutes_end_it() -> None:
    pauses, seconds = some_pauses()
    assert [pauses.note("a") for _ in range(3)] == [1, 2, 3]
    seconds.now += QUIET_SECONDS
    assert pauses.note("a") == 1


def test_one_that_is_forgotten_begins_anew() -> None:
    pauses, _ = some_pauses()
    pauses.note("a")
    pauses.forget("a")
    pauses.forget("never noted")
    assert (pauses.is_waiting("a"), pauses.seconds_to_next(["a"]), pauses.note("a")) == (False, None, 1)


def test_the_next_is_the_first_of_those_that_are_wanted() -> None:
    pauses, seconds = some_pauses()
    pauses.note("soon")
    pauses.note("later", at_least=20.0)
    assert pauses.seconds_to_next(["later", "soon", "never noted"]) == 2.0
    assert pauses.seconds_to_next(["later"]) == 20.0
    assert pauses.seconds_to_next(["never noted"]) is None
    seconds.now += 5.0
    assert pauses.seconds_to_next(["soon", "later"]) == 0.0, "it is owed a try"


def test_so_many_are_remembered_and_no_more() -> None:
    pauses, _ = some_pauses()
    for number in range(3 * KEPT):
        pauses.note(f"pod-{number}")
    waiting = [number for number in range(3 * KEPT) if pauses.is_waiting(f"pod-{number}")]
    assert waiting == [*range(2 * KEPT, 3 * KEPT)]
