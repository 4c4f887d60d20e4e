"""Which requests a rule acts on: by what they are, and by count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.faults import PROGRESS, READS, WRITES, Match, Record, answer, on
from testbed.faults.counting import Count
from testbed.faults.rule import Rule

PATCH = Record(
    number=1,
    time=datetime(2026, 11, 1, tzinfo=UTC),
    verb="patch",
    resource="nodes",
    group="",
    namespace="",
    name="w1",
    path="/api/v1/nodes/w1?fieldManager=winpool",
    user_agent="winpool/0.1.0",
    body=b'{"metadata":{}}',
)


def at_once(function: Callable[[], None]) -> None:
    function()


def a_rule(match: Match, count: Count) -> Rule:
    return Rule(match, answer(409), count=count, run_on_loop=at_once)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        (on(), True),
        (on("patch"), True),
        (on(WRITES), True),
        (on(READS), False),
        (on(["get", "patch"], ["pods", "nodes"]), True),
        (on("patch", "nodes/status"), False),
        (on(resource="nodes", name="w1", namespace=""), True),
        (on(name="w2"), False),
        (on(namespace="default"), False),
        (on(path=r"fieldManager=winpool$"), True),
        (on(path=r"^fieldManager"), False),
        (on(user_agent=r"^winpool/"), True),
        (on(user_agent="kopf"), False),
        (on(where=lambda record: b"metadata" in record.body), True),
        (on("patch", where=lambda record: b"spec" in record.body), False),
        (PROGRESS, True),
    ],
)
def test_all_that_is_given_has_to_hold(match: Match, *, matches: bool) -> None:
    assert match(PATCH) is matches


def test_a_lease_is_no_progress() -> None:
    assert not PROGRESS(replace(PATCH, verb="update", resource="leases"))
    assert not PROGRESS(replace(PATCH, verb="get"))


@pytest.mark.parametrize("verb", ["patches", "PATCH", "read"])
def test_a_verb_that_no_request_has_is_refused(verb: str) -> None:
    with pytest.raises(ValueError, match=f"no request has the verb .*{verb}"):
        on(verb)


@pytest.mark.parametrize(
    ("count", "selected"),
    [
        (Count(), [1, 2, 3, 4, 5, 6]),
        (Count(nth=3), [3]),
        (Count(every=3), [3, 6]),
        (Count(first=2), [1, 2]),
    ],
)
def test_what_matches_is_counted_and_nothing_else(count: Count, selected: list[int]) -> None:
    rule = a_rule(on("patch"), count)
    acted = []
    for number in range(1, 7):
        assert not rule.selects(replace(PATCH, verb="get"))
        if rule.selects(PATCH):
            acted.append(number)
    assert acted == selected
    assert rule.hits == len(selected)


@given(number=st.integers(1, 50), nth=st.integers(1, 50))
def test_first_is_every_number_up_to_it_and_nth_the_last_of_them(number: int, nth: int) -> None:
    assert Count(first=nth).selects(number) is (number <= nth)
    assert Count(nth=nth).selects(number) is (Count(first=nth).selects(number) and number == nth)


@pytest.mark.parametrize(
    "given", [{"nth": 0}, {"every": -1}, {"nth": 1, "first": 1}, {"nth": 1, "every": 1, "first": 1}]
)
def test_counts_that_make_no_sense_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at most one of nth, every and first"):
        Count.of(**{"nth": None, "every": None, "first": None, **given})


def test_a_removed_rule_selects_nothing_and_holds_nothing() -> None:
    with a_rule(on(), Count()) as rule:
        held = rule.released
        rule.release()
        assert held.is_set()
        later = rule.released
        assert not later.is_set()
    assert later.is_set()
    assert rule.released.is_set()
    assert not rule.selects(PATCH)


def test_a_record_reads_as_one_line() -> None:
    assert str(PATCH) == "1 patch nodes w1: no answer"
    lost = replace(PATCH, server_status=200, actions=("cut after",))
    assert str(lost) == "1 patch nodes w1: no answer (cut after)"
    assert lost.applied
    assert not replace(lost, server_status=409).applied
    assert not replace(lost, verb="get").applied
