"""When a pool is looked at again by itself: never busily, whatever moments the rules name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.controllers.pool import LEAST_SECONDS, NOTHING_LEFT, UNFINISHED, NextLook

waits = st.none() | st.floats(-1e6, 1e6)


@pytest.mark.parametrize("seconds", [-1e6, -1.0, 0.0, 1e-9, 0.5, LEAST_SECONDS])
@pytest.mark.parametrize("has_progressed", [True, False])
def test_a_moment_that_has_passed_or_is_near_is_a_second_away(seconds: float, has_progressed: bool) -> None:
    assert NextLook(time=seconds).seconds(has_progressed=has_progressed) == LEAST_SECONDS


def test_what_is_left_is_done_at_once_only_after_a_step_forward() -> None:
    assert UNFINISHED.seconds(has_progressed=True) == 0
    assert UNFINISHED.seconds(has_progressed=False) == LEAST_SECONDS


def test_what_has_a_pace_of_its_own_is_looked_for_at_that_pace() -> None:
    assert NextLook(paced=0.2, time=40).seconds(has_progressed=False) == 0.2


def test_nothing_left_waits_for_a_change() -> None:
    assert NOTHING_LEFT.seconds(has_progressed=True) is None


@given(is_unfinished=st.booleans(), time=waits)
def test_without_a_step_forward_time_alone_never_hurries(is_unfinished: bool, time: float | None) -> None:
    found = NextLook(is_unfinished=is_unfinished, time=time).seconds(has_progressed=False)
    assert found is None or found >= LEAST_SECONDS
