"""When heartbeats are due: tried on the clock that the tests hold."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from testbed.winsim.clock import Backoff, jittered, micro_timestamp, timestamp
from testbed.winsim.schedule import ReportSchedule, Timing

seeds = st.integers(0, 2**32)


def test_times_are_written_as_the_api_server_writes_them() -> None:
    moment = datetime(2026, 11, 21, 8, 0, 1, 42, tzinfo=UTC)
    assert timestamp(moment) == "2026-11-21T08:00:01Z"
    assert micro_timestamp(moment) == "2026-11-21T08:00:01.000042Z"


def test_a_lease_is_renewed_at_a_quarter_of_its_duration() -> None:
    assert Timing().lease_renewal == 10
    assert Timing(lease_duration=200).lease_renewal == 50


def test_the_first_report_is_due_at_once() -> None:
    assert ReportSchedule(interval=300, random=Random(1)).due(0.0)


@given(seed=seeds)
def test_after_a_change_the_next_report_comes_within_half_an_interval_of_its_time(seed: int) -> None:
    schedule = ReportSchedule(interval=300, random=Random(seed))
    schedule.sent(1000.0, changed=True)
    assert not schedule.due(1149.0)
    assert schedule.due(1450.0)


@given(seed=seeds)
def test_a_periodic_report_is_followed_after_exactly_one_interval(seed: int) -> None:
    schedule = ReportSchedule(interval=300, random=Random(seed))
    schedule.sent(0.0, changed=True)
    schedule.sent(1000.0, changed=False)
    assert not schedule.due(1299.9)
    assert schedule.due(1300.0)


def test_reports_of_nodes_that_changed_together_drift_apart() -> None:
    due = set()
    for seed in range(20):
        schedule = ReportSchedule(interval=300, random=Random(seed))
        schedule.sent(0.0, changed=True)
        due.add(next(second for second in range(600) if schedule.due(second)))
    assert len(due) > 10


@given(seed=seeds)
def test_jitter_only_stretches(seed: int) -> None:
    assert 10 <= jittered(10, factor=0.04, random=Random(seed)) <= 10.4


@given(seed=seeds)
def test_backoff_doubles_up_to_its_limit(seed: int) -> None:
    backoff = Backoff(random=Random(seed))
    waits = [backoff.next() for _ in range(12)]
    steps = [min(0.1 * 2**number, 7.0) for number in range(12)]
    assert all(step / 2 <= wait <= step for wait, step in zip(waits, steps, strict=True))
