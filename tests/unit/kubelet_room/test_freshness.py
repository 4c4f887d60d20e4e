"""How old a sample is: by its arrival, and only if its own time advances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet.freshness import LONGEST_SECONDS, Sighting, fresh_for, sighted

OWN = 1_790_000_000.0


def after(*samples: tuple[float, float]) -> Sighting:
    """Return what is known after samples of a kubelet: own time, and when they arrived."""
    seen: Sighting | None = None
    for own_time, arrived in samples:
        seen = sighted(seen, own_time=own_time, arrived=arrived)
    assert seen is not None
    return seen


def test_the_first_sample_may_be_hours_old_and_the_second_one_is_not() -> None:
    assert after((OWN, 100)).age(now=100) is None
    assert not after((OWN, 100)).is_fresh(now=100, interval=60)
    second = after((OWN, 100), (OWN + 60, 160))
    assert second.age(now=165) == 5
    assert second.is_fresh(now=165, interval=60)


def test_a_time_that_stands_still_keeps_ageing() -> None:
    frozen = after((OWN, 100), (OWN + 60, 160), (OWN + 60, 220), (OWN + 60, 280))
    assert frozen.age(now=280) == 120


def test_a_clock_that_was_set_back_makes_the_age_unknown_until_it_advances_from_there() -> None:
    back = after((OWN, 100), (OWN + 60, 160), (OWN - 3600, 220))
    assert back.age(now=220) is None
    assert sighted(back, own_time=OWN - 3540, arrived=280).age(now=281) == 1


def test_a_source_that_has_stopped_while_no_sample_came_is_not_fresh() -> None:
    """Its node could not be reached for an hour, and its counters stopped in the first minute of it."""
    seen = after((OWN, 100), (OWN + 60, 160), (OWN + 120, 3760))
    assert seen.age(now=3760) is None
    assert sighted(seen, own_time=OWN + 180, arrived=3820).age(now=3821) == 1


def test_a_source_that_has_gone_on_while_no_sample_came_is_fresh() -> None:
    assert after((OWN, 100), (OWN + 60, 160), (OWN + 3660, 3760)).age(now=3761) == 1
    frozen = after((OWN, 100), (OWN, 160), (OWN, 3700), (OWN + 3660, 3760))
    assert frozen.age(now=3761) == 1


def test_a_clock_that_is_wrong_by_years_does_not_matter() -> None:
    for wrong in (-1e9, 1e9):
        assert after((OWN + wrong, 100), (OWN + wrong + 60, 160)).age(now=170) == 10


def test_prometheus_reports_the_age_so_the_first_sample_counts() -> None:
    seen = sighted(None, own_time=OWN, arrived=100, age=12)
    assert seen.age(now=103) == 15
    assert sighted(seen, own_time=OWN, arrived=115, age=27) == seen


def test_a_sample_from_the_future_of_prometheus_counts_once_it_advances() -> None:
    first = sighted(None, own_time=OWN, arrived=100, age=-5)
    assert first.age(now=100) is None
    assert sighted(first, own_time=OWN, arrived=115, age=10).age(now=115) is None
    assert sighted(first, own_time=OWN + 15, arrived=115, age=-5).age(now=116) == 1


def test_of_two_prometheus_that_answer_in_turn_each_is_believed() -> None:
    ahead = sighted(None, own_time=OWN, arrived=100, age=1)
    assert sighted(ahead, own_time=OWN - 8, arrived=101, age=10).age(now=101) == 10


@pytest.mark.parametrize(("interval", "seconds"), [(10, 25), (15, 37.5), (48, 120), (60, 120), (300, 120)])
def test_a_sample_is_fresh_for_two_and_a_half_intervals_and_never_beyond_two_minutes(
    interval: float, seconds: float
) -> None:
    assert fresh_for(interval) == seconds
    seen = after((OWN, 0), (OWN + 100, 100))
    assert seen.is_fresh(now=100 + seconds, interval=interval)
    assert not seen.is_fresh(now=100 + seconds + 0.01, interval=interval)


TIMES = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 100)), min_size=1, max_size=20)


@given(steps=TIMES, shift=st.integers(-(10**9), 10**9), later=st.integers(0, 500))
def test_shifting_either_clock_changes_nothing(steps: list[tuple[int, int]], shift: int, later: int) -> None:
    def age(own_shift: int, our_shift: int) -> float | None:
        own, now, samples = OWN, 0.0, []
        for step, waited in steps:
            own, now = own + step, now + waited
            samples.append((own + own_shift, now + our_shift))
        return after(*samples).age(now=now + our_shift + later)

    assert age(0, 0) == age(shift, 0) == age(0, shift)


@given(steps=TIMES)
def test_what_is_fresh_has_advanced_within_the_last_two_minutes(steps: list[tuple[int, int]]) -> None:
    own, now, seen, advanced = OWN, 0.0, None, float("-inf")
    for step, waited in steps:
        own, now = own + step, now + waited
        if seen is not None and step > 0:
            advanced = now
        seen = sighted(seen, own_time=own, arrived=now)
        if seen.is_fresh(now=now, interval=60):
            assert now - advanced <= LONGEST_SECONDS
