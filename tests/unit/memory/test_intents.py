"""What stands in ``winpool.dev/memory``: its text, and how many evictions it permits."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from winpool.features.memory.intents import (
    MAX_BYTES,
    MAX_INTENTS,
    NO_INTENTS,
    Intent,
    Intents,
    Unreadable,
    begun,
    cleared,
    deadline,
    evictions_left,
    next_change,
    read,
    without,
    written,
)

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def an_intent(uid: str = "uid-1", *, ago: float = 0.0, **more: Any) -> Intent:
    at = NOW - timedelta(seconds=ago)
    defaults: dict[str, Any] = {
        "pod": f"shop/pod-of-{uid}",
        "at": at,
        "until": deadline(now=at, grace_seconds=30),
        "why": "Commit, Hard",
    }
    return Intent(uid=uid, **(defaults | more))


def some(*intents: Intent) -> Intents:
    found = NO_INTENTS
    for each in intents:
        found = begun(found, each)
    return found


def the_text(**changes: Any) -> str:
    entry = {"pod": "shop/a", "uid": "u", "at": "2026-09-01T12:00:00Z", "until": "2026-09-01T12:02:30Z"}
    return json.dumps({"v": 1, "evictions": [entry | changes]})


uids = st.text("abcdef0123456789-", min_size=1, max_size=64)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=253)
seconds = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1)).map(  # noqa: DTZ001 - UTC is added
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)


any_text = st.text(max_size=80)


@st.composite
def intents(draw: st.DrawFn, why: st.SearchStrategy[str] = any_text) -> Intents:
    found = NO_INTENTS
    for uid in draw(st.lists(uids, max_size=MAX_INTENTS, unique=True)):
        at = draw(seconds)
        until = deadline(now=at, grace_seconds=draw(st.floats(0, 1e12)))
        found = begun(found, Intent(f"{draw(names)[:63]}/{draw(names)}", uid, at, until, draw(why)))
    return found


def test_the_text_of_one_eviction() -> None:
    assert written(some(an_intent())) == (
        '{"v":1,"evictions":[{"pod":"shop/pod-of-uid-1","uid":"uid-1","at":"2026-09-01T12:00:00Z",'
        '"until":"2026-09-01T12:02:30Z","why":"Commit, Hard"}]}'
    )


def test_without_an_eviction_there_is_no_annotation() -> None:
    assert written(NO_INTENTS) is None
    assert read(None) == NO_INTENTS


@given(intents(why=st.text("abc ,:", max_size=8)))
def test_what_is_written_is_read_again(known: Intents) -> None:
    again = read(written(known))
    assert not isinstance(again, Unreadable)
    told = [(each.uid, each.at, each.until) for each in known]
    assert [(each.uid, each.at, each.until) for each in again] == told
    if len(known) == 1:
        assert again == known


@given(intents())
def test_the_text_is_never_too_long_and_loses_no_eviction(known: Intents) -> None:
    text = written(known) or ""
    assert len(text.encode()) <= MAX_BYTES
    again = read(text or None)
    assert not isinstance(again, Unreadable)
    assert {each.uid for each in again} == {each.uid for each in known}


@given(intents())
def test_the_text_of_what_was_read_is_the_same(known: Intents) -> None:
    """Otherwise a node would be written again and again."""
    text = written(known)
    again = read(text)
    assert not isinstance(again, Unreadable)
    assert written(again) == text


def test_of_ten_evictions_the_latest_keeps_its_name() -> None:
    long = "n" * 253
    known = some(*(an_intent(f"{place:0>36}", ago=100 - place, pod=f"shop/{long}") for place in range(10)))
    again = read(written(known))
    assert not isinstance(again, Unreadable)
    assert again[-1].pod == f"shop/{long}"
    assert again[0].pod == ""


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(read(text), tuple | Unreadable)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "pod"]), inner),
        max_leaves=8,
    )
)
def test_any_json_in_the_place_of_an_eviction_is_unreadable(value: Any) -> None:
    assert isinstance(read(json.dumps({"v": 1, "evictions": [value]})), Unreadable)


@every(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"v":2,"evictions":[]}',
        '{"v":1,"evictions":[],"more":1}',
        "?" * (MAX_BYTES + 1),
        "é" * (MAX_BYTES // 2 + 1),
        "\ud800",
        "[" * 2000,
        the_text(uid=""),
        the_text(uid="u" * 65),
        the_text(uid="a b"),
        the_text(pod="shop"),
        the_text(pod="/a"),
        the_text(pod="a" * 400),
        the_text(at="yesterday"),
        the_text(at="2026-09-01T12:00:00"),
        the_text(at="2026-09-01T14:00:00+02:00"),
        the_text(at="2026-09-01T12:00:00.5Z"),
        the_text(at="2026-09-01T12:05:00Z"),
        the_text(until="2026-09-01T11:59:59Z"),
        the_text(until="never"),
        the_text(more="x"),
        the_text(why="w" * 65),
        json.dumps({"v": 1, "evictions": [json.loads(the_text())["evictions"][0]] * 2}),
        json.dumps(
            {"v": 1, "evictions": [json.loads(the_text(uid=f"u{n}"))["evictions"][0] for n in range(11)]}
        ),
    ],
)
def test_what_no_operator_writes_is_unreadable(text: str) -> None:
    assert isinstance(read(text), Unreadable)


def test_the_form_that_the_others_damage_is_readable() -> None:
    assert not isinstance(read(the_text()), Unreadable)


def test_the_deadline_is_the_grace_period_and_two_minutes() -> None:
    assert deadline(now=NOW, grace_seconds=30) == NOW + timedelta(seconds=150)


@pytest.mark.parametrize("grace", [601, 86_400, 2**63, math.inf])
def test_of_a_long_grace_period_ten_minutes_count(grace: float) -> None:
    """Its author may write any number, and until the deadline the node has one of few places."""
    assert deadline(now=NOW, grace_seconds=grace) == NOW + timedelta(seconds=600 + 120)


@pytest.mark.parametrize("grace", [0, -1, -(2**63), math.nan])
def test_a_grace_period_that_is_none_is_zero(grace: float) -> None:
    assert deadline(now=NOW, grace_seconds=grace) == NOW + timedelta(seconds=120)


@pytest.mark.parametrize("until", ["2026-09-01T12:12:01Z", "2026-09-02T12:02:00Z", "9999-12-31T23:59:59Z"])
def test_a_deadline_that_is_too_far_off_counts_as_the_latest_there_is(until: str) -> None:
    found = read(the_text(until=until))
    assert not isinstance(found, Unreadable)
    assert [each.until for each in found] == [NOW + timedelta(seconds=720)]


def test_also_one_that_is_at_the_end_of_all_times() -> None:
    found = read(the_text(at="9999-12-31T23:59:58Z", until="9999-12-31T23:59:59Z"))
    assert not isinstance(found, Unreadable)
    assert cleared(found, now=NOW, period_seconds=600, unfinished=()) == NO_INTENTS


def test_evictions_count_for_a_period() -> None:
    known = some(an_intent("a", ago=100), an_intent("b", ago=599), an_intent("c", ago=602))
    assert evictions_left(known, now=NOW, period_seconds=600, most=3) == 1
    assert next_change(known, now=NOW, period_seconds=600) == NOW + timedelta(seconds=3)


def test_a_time_to_come_counts_nowhere() -> None:
    known = some(*(an_intent(uid, ago=-3600) for uid in "abc"))
    assert evictions_left(known, now=NOW, period_seconds=600, most=3) == 3
    assert next_change(known, now=NOW, period_seconds=600) is None


def test_the_clock_of_another_operator_may_be_a_little_ahead() -> None:
    known = some(*(an_intent(uid, ago=-4) for uid in "abc"))
    assert evictions_left(known, now=NOW, period_seconds=600, most=3) == 0


def test_there_is_room_for_no_more_than_the_annotation_has() -> None:
    known = some(*(an_intent(f"u{place}", ago=9999) for place in range(MAX_INTENTS)))
    assert evictions_left(known, now=NOW, period_seconds=600, most=10) == 0
    with pytest.raises(ValueError, match="at most 10 intents"):
        begun(known, an_intent("one-more"))


def test_the_same_pod_has_one_intent() -> None:
    known = some(an_intent("a", ago=300), an_intent("b", ago=200), an_intent("a", ago=10))
    assert [each.uid for each in known] == ["b", "a"]


def test_what_counts_or_is_not_finished_is_not_cleared() -> None:
    known = some(
        an_intent("recent", ago=10),
        an_intent("old", ago=700),
        an_intent("old-and-there", ago=700),
        an_intent("to-come", ago=-3600),
        an_intent("invented", ago=-90_000),
    )
    left = cleared(known, now=NOW, period_seconds=600, unfinished={"old-and-there"})
    assert {each.uid for each in left} == {"recent", "old-and-there", "to-come"}


def test_a_refused_one_is_removed_and_leaves_the_others() -> None:
    known = some(an_intent("a", ago=20), an_intent("b", ago=10))
    assert [each.uid for each in without(known, {"b"})] == ["a"]


@given(intents(), st.sets(uids), seconds, st.integers(60, 86400))
def test_clearing_loses_nothing_that_still_matters(
    known: Intents, unfinished: set[str], now: datetime, period: int
) -> None:
    left = cleared(known, now=now, period_seconds=period, unfinished=unfinished)
    kept = {each.uid for each in left}
    assert {each.uid for each in known if each.uid in unfinished} <= kept
    before = evictions_left(known, now=now, period_seconds=period, most=10)
    assert evictions_left(left, now=now, period_seconds=period, most=10) >= before
    recent = {each.uid for each in known if 0 <= (now - each.at).total_seconds() <= period}
    assert recent <= kept


@given(
    most=st.integers(1, 10),
    period=st.integers(60, 3600),
    pauses=st.lists(st.floats(0, 2000), min_size=1, max_size=60),
    crashes=st.sets(st.integers(0, 60)),
)
def test_there_are_never_more_than_the_limit_in_any_period(
    most: int, period: int, pauses: list[float], crashes: set[int]
) -> None:
    """However the clock runs on, and though all that a new operator knows is the annotation."""
    text: str | None = None
    now, made = NOW, list[datetime]()
    for place, pause in enumerate(pauses):
        now += timedelta(seconds=pause)
        known = read(text)
        assert not isinstance(known, Unreadable)
        known = cleared(known, now=now, period_seconds=period, unfinished=())
        if evictions_left(known, now=now, period_seconds=period, most=most) == 0:
            continue
        uid = f"u{place}"
        known = begun(known, an_intent(uid, at=now, until=deadline(now=now, grace_seconds=30)))
        text = written(known)
        if place in crashes:  # between the two writes: nothing was evicted, and nobody knows it
            continue
        made.append(now)
    for last in made:
        assert sum(0 <= (last - each).total_seconds() < period for each in made) <= most


@given(intents(), intents(), st.data())
def test_no_intent_is_lost_by_adding_others(known: Intents, more: Intents, data: st.DataObject) -> None:
    for each in data.draw(st.permutations(more)):
        if each.uid not in {other.uid for other in known} and len(known) == MAX_INTENTS:
            continue
        before = {other.uid for other in known}
        known = begun(known, each)
        assert {other.uid for other in known} == before | {each.uid}


@given(intents(), seconds, st.timedeltas(timedelta(0), timedelta(days=3650)))
def test_shifting_all_times_changes_nothing(known: Intents, now: datetime, by: timedelta) -> None:
    by -= timedelta(microseconds=by.microseconds)
    shifted = tuple(Intent(each.pod, each.uid, each.at + by, each.until + by, each.why) for each in known)
    assert evictions_left(shifted, now=now + by, period_seconds=600, most=5) == evictions_left(
        known, now=now, period_seconds=600, most=5
    )
