"""From which difference between the clocks of two operators on people are told."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from harness.clock import Seconds
from winpool.kube.leader_election import SKEW_LOG_SECONDS, Skew
from winpool.kube.lease_rules import claim, observe, read_record, renewal

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def note(skew: Skew, *, seconds: float) -> None:
    """Show a renewal that the other makes at noon by its clock, when ours is ahead by ``seconds``."""
    first = read_record(claim(None, identity="b_2", now=NOON - timedelta(seconds=2)))
    later = read_record({**claim(None, identity="b_2", now=NOON), **renewal(first, identity="b_2", now=NOON)})
    before = observe(None, first, at=100.0)
    skew.note(before, observe(before, later, at=102.0), now=NOON + timedelta(seconds=seconds))


@pytest.mark.parametrize("seconds", [0.0, 4.9, -4.9])
def test_clocks_that_are_less_than_five_seconds_apart_are_not_worth_a_line(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    skew = Skew(clock=Seconds())
    note(skew, seconds=seconds)
    assert skew.seconds == pytest.approx(seconds)
    assert caplog.messages == []


@pytest.mark.parametrize(("seconds", "said"), [(5.1, "ahead of"), (-5.1, "behind")])
def test_from_five_seconds_on_a_warning_says_whose_clock_is_ahead_once(
    seconds: float, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Seconds()
    skew = Skew(clock=clock)
    for _ in range(3):
        clock.now += SKEW_LOG_SECONDS
        note(skew, seconds=seconds)
    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert f"5 s {said} that of b_2; synchronize the clocks of their hosts" in line.getMessage()


def test_it_is_told_again_after_the_clocks_were_together(caplog: pytest.LogCaptureFixture) -> None:
    clock = Seconds()
    skew = Skew(clock=clock)
    for seconds in (6.0, 0.0, 6.0):
        clock.now += SKEW_LOG_SECONDS
        note(skew, seconds=seconds)
    assert len(caplog.messages) == 2


def test_clocks_around_the_limit_make_a_line_in_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """So do times that someone writes into the Lease: each renewal may say another one."""
    clock = Seconds()
    skew = Skew(clock=clock)
    for seconds in 300 * (6.0, 0.0, -6.0, 4.0):
        note(skew, seconds=seconds)
        clock.now += 1.0
    assert len(caplog.messages) == 2
    assert skew.seconds == pytest.approx(4.0), "the metric has each"
