"""The tables of conditions and events: complete, and within the limits of the places they appear in."""

from __future__ import annotations

import re
from enum import StrEnum

from gen.condition_table import CONDITIONS, rows_of
from harness.every import every
from winpool.api.conditions import STATES, ConditionType, Reason, referred_by, see_condition
from winpool.api.events import EventReason, EventType, Regarding
from winpool.api.issues import NORMAL, IssueReason
from winpool.api.model import docstrings

CAMEL_CASE = re.compile("[A-Z][A-Za-z]*")


def test_every_type_and_every_reason_has_a_meaning() -> None:
    assert list(CONDITIONS) == list(ConditionType)
    assert {reason for type_ in ConditionType for _, reason, _ in rows_of(type_)} == set(Reason)


@every("type_", ConditionType)
def test_a_condition_can_be_true_and_false_and_says_each_thing_once(type_: ConditionType) -> None:
    assert CONDITIONS[type_].keys() - {"Unknown"} == {"True", "False"}
    reasons = [reason for _, reason, _ in rows_of(type_)]
    assert len(reasons) == len(set(reasons))
    assert all(CAMEL_CASE.fullmatch(reason) for reason in reasons)


def test_the_reasons_of_ready_are_the_states_in_their_order() -> None:
    assert [(reason, status) for status, reason, _ in rows_of(ConditionType.READY)] == [*STATES.items()]


@every("type_", ConditionType)
def test_a_reference_to_a_condition_is_found_at_the_end_of_a_message_only(type_: ConditionType) -> None:
    see = see_condition(type_)
    assert referred_by(see) is type_
    assert referred_by(f"Nodes wait; {see[0].lower()}{see[1:]}") is type_
    for message in (
        "",
        f"{see} Then wait.",
        f"{see}\n",
        see[:-1],
        see.replace(type_, f"{type_}Not"),
        see.lower(),
    ):
        assert referred_by(message) is None


def test_reasons_fit_into_the_column() -> None:
    """80 columns for kubectl get leave 19 to the column STATE."""
    assert max(map(len, STATES)) <= 19


@every("reasons", [ConditionType, IssueReason, EventReason], ids=lambda reasons: reasons.__name__)
def test_every_member_has_a_meaning(reasons: type[StrEnum]) -> None:
    meanings = docstrings(reasons)
    assert list(meanings) == list(reasons.__members__)
    assert all(meaning.endswith(".") for meaning in meanings.values())


def test_an_event_of_the_reason_of_an_issue_has_its_type() -> None:
    shared = [each for each in EventReason if each.value in [*IssueReason]]
    assert {each.value for each in shared if each.type is EventType.NORMAL} == {
        each for each in NORMAL if each in [*EventReason]
    }
    assert len(shared) > len(NORMAL)


@every("reason", EventReason)
def test_events_are_within_the_limits_of_the_api_server(reason: EventReason) -> None:
    for text in (reason, reason.action):
        assert CAMEL_CASE.fullmatch(text)
        assert len(text) <= 128


@every("reason", EventReason)
def test_an_event_of_nodes_may_stand_on_their_pool_and_one_of_a_pool_nowhere_else(
    reason: EventReason,
) -> None:
    assert reason.objects[0] is reason.regarding
    assert Regarding.POOL in reason.objects
