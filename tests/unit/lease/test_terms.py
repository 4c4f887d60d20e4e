"""The rules of the Lease: who may lead, from when, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from winpool.api.text import written_micro
from winpool.kube.lease_rules import (
    LEASE_SECONDS,
    LONGEST_LEASE_SECONDS,
    RETRY_SECONDS,
    TERM_SECONDS,
    LeaseRecord,
    Move,
    Observation,
    claim,
    next_move,
    observe,
    read_record,
    release,
    renewal,
    skew_of,
    term_end,
)

NOON = datetime(2026, 11, 20, 12, 0, 0, 250_000, tzinfo=UTC)
MINE, THEIRS = "a_1", "b_2"

# What JSON can hold, in every field of a Lease.
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    "holderIdentity",
    "leaseDurationSeconds",
    "acquireTime",
    "renewTime",
    "leaseTransitions",
    "strategy",
)
SPECS = st.dictionaries(st.sampled_from(FIELDS), ANYTHING)


def held(holder: str = THEIRS, *, at: datetime = NOON, **more: Any) -> LeaseRecord:
    return read_record({**claim(None, identity=holder, now=at), **more}, uid="u1")


def test_the_times_leave_room_for_a_request_that_is_under_way() -> None:
    assert RETRY_SECONDS < TERM_SECONDS < LEASE_SECONDS <= LONGEST_LEASE_SECONDS


@given(SPECS, st.text())
def test_no_lease_is_a_crash_and_none_makes_anyone_wait_less_or_for_ever(
    spec: dict[str, Any], uid: str
) -> None:
    record = read_record(spec, uid=uid)
    sighting = observe(None, record, at=100.0)
    assert sighting.free_at == 100.0 if record.is_released else 115.0 <= sighting.free_at <= 160.0
    assert record.shown.isprintable()
    for write in (claim(record, identity=MINE, now=NOON), renewal(record, identity=MINE, now=NOON)):
        assert read_record({**spec, **write}, uid=uid).mark != record.mark, "a write must be seen"
    assert read_record({**spec, **release(record, now=NOON)}, uid=uid).is_released
    skew_of(None, sighting, now=NOON)


@pytest.mark.parametrize(
    ("duration", "seconds"), [(1, 15), (15, 15), (40, 40), (60, 60), (61, 60), (10**400, 60), (-1, 15),
                              (None, 15), ("15", 15), (1e9, 15)]
)  # fmt: skip
def test_the_duration_is_that_of_the_lease_within_bounds(duration: object, seconds: float) -> None:
    assert held(leaseDurationSeconds=duration).seconds == seconds


def test_an_absent_lease_is_taken_at_once() -> None:
    assert next_move(observe(None, None, at=7), identity=MINE, now=7) is Move.ACQUIRE


def test_one_of_another_is_taken_when_it_has_not_changed_for_its_duration() -> None:
    seen = observe(None, held(), at=100)
    assert (next_move(seen, identity=MINE, now=101), seen.free_at) == (Move.WAIT, 115)
    assert next_move(seen, identity=MINE, now=114.9) is Move.WAIT
    assert next_move(seen, identity=MINE, now=115) is Move.ACQUIRE


def test_a_renewal_begins_the_wait_anew_and_the_same_record_does_not() -> None:
    first = observe(None, held(), at=100)
    assert observe(first, held(), at=110) is first
    renewed = held(renewTime=written_micro(NOON + timedelta(seconds=2)))
    assert observe(first, renewed, at=110).free_at == 125


@pytest.mark.parametrize("years", [-30, 30])
def test_the_times_in_the_lease_decide_nothing(years: int) -> None:
    seen = observe(None, held(at=NOON + timedelta(days=365 * years)), at=100)
    assert (seen.free_at, next_move(seen, identity=MINE, now=114)) == (115, Move.WAIT)


def test_a_released_one_is_taken_at_once() -> None:
    record = held()
    freed = read_record({**claim(None, identity=THEIRS, now=NOON), **release(record, now=NOON)}, uid="u1")
    seen = observe(observe(None, record, at=100), freed, at=101)
    assert next_move(seen, identity=MINE, now=101) is Move.ACQUIRE


def test_one_that_someone_emptied_or_deleted_is_left_until_its_holder_knows() -> None:
    before = observe(None, held(), at=100)
    emptied = observe(before, held(holderIdentity=""), at=103)
    assert next_move(emptied, identity=MINE, now=117.9) is Move.WAIT
    gone = observe(before, None, at=103)
    assert (next_move(gone, identity=MINE, now=103), gone.free_at) == (Move.WAIT, 115)
    assert observe(gone, None, at=110) is gone
    assert next_move(gone, identity=MINE, now=115) is Move.ACQUIRE


def test_one_that_was_created_anew_under_the_same_name_is_a_change() -> None:
    before = observe(None, held(), at=100)
    assert observe(before, replace(held(), mark=("u2", *held().mark[1:])), at=110).free_at == 125


def test_the_term_counts_from_before_the_request_was_sent() -> None:
    assert term_end(sent=100) == 110


def test_a_renewal_is_a_change_whatever_the_wall_clock_does() -> None:
    record = held()
    for jump in (timedelta(0), timedelta(hours=-1), timedelta(days=-4000), timedelta(days=4000)):
        spec = {**claim(None, identity=THEIRS, now=NOON), **renewal(record, identity=THEIRS, now=NOON + jump)}
        assert read_record(spec, uid="u1").mark != record.mark


def test_transitions_count_the_holders_and_begin_again_before_the_api_server_refuses_them() -> None:
    assert claim(None, identity=MINE, now=NOON)["leaseTransitions"] == 0
    assert claim(held(leaseTransitions=4), identity=MINE, now=NOON)["leaseTransitions"] == 5
    for full in (2**31 - 2, 2**31 - 1, 2**70, -3, "many"):
        assert claim(held(leaseTransitions=full), identity=MINE, now=NOON)["leaseTransitions"] in (0, 1)


def test_the_skew_is_known_from_a_renewal_that_happened_meanwhile() -> None:
    first = observe(None, held(), at=100)
    assert skew_of(None, first, now=NOON) is None, "it may be from long ago"
    assert skew_of(first, first, now=NOON) is None
    later = observe(first, held(at=NOON + timedelta(seconds=2)), at=102)
    assert skew_of(first, later, now=NOON + timedelta(seconds=9)) == 7
    unreadable = observe(later, held(renewTime="noon"), at=104)
    assert skew_of(later, unreadable, now=NOON) is None
    gone = Observation(record=None, free_at=106)
    assert skew_of(unreadable, gone, now=NOON) is None
