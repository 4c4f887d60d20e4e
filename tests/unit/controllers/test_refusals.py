"""Nodes that refuse their release: tried later and later, told once. All by a clock of our own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, by_name
from harness.clock import Seconds
from winpool.controllers.backoff import (
    CONFLICTS_BEFORE_TELLING,
    FAILURES_BEFORE_TELLING,
    LONGEST_AFTER_FAILURE_SECONDS,
    Advice,
)
from winpool.controllers.sweep import Refusals
from winpool.kube.errors import ApiError, Conflict, Forbidden, Invalid, Unavailable
from winpool.model.node import Node, NodePatch

CONFLICT = Conflict("patch nodes w1: 409", status=409)
INVALID = Invalid("patch nodes w1: 422", status=422)
BY_POLICY = Forbidden("patch nodes w1: 403 denied by a policy", status=403)
INTERNAL = Unavailable("patch nodes w1: 500 failed calling webhook", status=500)

W1, W2 = a_node("w1"), a_node("w2")
NODES = by_name(W1, W2)


def a_release(node: Node) -> NodePatch:
    return NodePatch(node=node, labels={"winpool.dev/pool": None}, annotations={}, taints=None)


RELEASES = [a_release(W1), a_release(W2)]


@pytest.fixture
def refusals(clock: Seconds) -> Refusals:
    return Refusals(monotonic=clock)


def due(refusals: Refusals) -> list[str]:
    return [patch.node.name for patch in refusals.due(RELEASES, known=NODES)]


def refuse_until_told(refusals: Refusals, error: ApiError, *, tries: int = 10) -> int:
    """Refuse the release of w1 until people are to hear of it; return how many tries that took."""
    for number in range(1, tries + 1):
        if refusals.note_stopped(a_release(W1), error) is Advice.TELL:
            return number
    raise AssertionError(f"not told within {tries} tries")


def test_at_first_all_are_due_in_their_order(refusals: Refusals) -> None:
    assert due(refusals) == ["w1", "w2"]
    assert refusals.seconds_to_next() is None


@pytest.mark.parametrize(
    ("error", "longest"),
    [(INVALID, 300), (BY_POLICY, 300), (INTERNAL, LONGEST_AFTER_FAILURE_SECONDS)],
    ids=str,
)
def test_a_node_that_refuses_is_tried_later_and_later_and_keeps_no_other_waiting(
    refusals: Refusals, clock: Seconds, error: ApiError, longest: float
) -> None:
    pauses = []
    for _ in range(12):
        refusals.note_stopped(a_release(W1), error)
        assert due(refusals) == ["w2"]
        pause = refusals.seconds_to_next()
        assert pause is not None
        pauses.append(pause)
        clock.now += pause + 0.01
        assert due(refusals) == ["w2", "w1"], "whose write failed lately goes last"
    assert pauses == pytest.approx([min(2.0**number, longest) for number in range(1, 9)] + [longest] * 4)


def test_conflicts_on_one_and_the_same_state_come_later_and_later(refusals: Refusals, clock: Seconds) -> None:
    for pause in (2, 4, 8, 16):
        refusals.note_stopped(a_release(W1), CONFLICT)
        clock.now += pause - 0.01
        assert due(refusals) == ["w2"]
        clock.now += 0.02
        assert due(refusals) == ["w1", "w2"]


def test_after_a_conflict_the_newer_state_is_tried_at_once(refusals: Refusals) -> None:
    refusals.note_stopped(a_release(W1), CONFLICT)
    newer = replace(W1, resource_version="2")
    assert refusals.due([a_release(newer)], known=by_name(newer)) == [a_release(newer)]
    assert refusals.seconds_to_next() is None


def test_a_second_conflict_on_the_same_state_calls_for_a_list(refusals: Refusals) -> None:
    assert refusals.note_stopped(a_release(W1), CONFLICT) is Advice.WAIT
    assert refusals.note_stopped(a_release(W1), CONFLICT) is Advice.LIST


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (INVALID, 1),
        (BY_POLICY, 1),
        (INTERNAL, FAILURES_BEFORE_TELLING),
        (CONFLICT, CONFLICTS_BEFORE_TELLING),
    ],
    ids=str,
)
def test_a_refusal_is_told_once_when_it_is_sure_to_be_one(
    refusals: Refusals, clock: Seconds, error: ApiError, tries: int
) -> None:
    assert refuse_until_told(refusals, error) == tries
    for _ in range(20):
        assert refusals.note_stopped(a_release(W1), error) is Advice.WAIT
        clock.now += refusals.seconds_to_next() or 0
        due(refusals)


def test_another_reason_is_told_as_well_and_neither_of_them_again(refusals: Refusals) -> None:
    """As with two policies that take turns; what a webhook makes of its words is no other reason."""
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.TELL
    assert refusals.note_stopped(a_release(W1), BY_POLICY) is Advice.TELL
    for number in range(5):
        for status, kind in ((422, Invalid), (403, Forbidden)):
            error = kind(f"patch nodes w1: {status} try {number}", status=status, reason=f"Try{number}")
            assert refusals.note_stopped(a_release(W1), error) is Advice.WAIT


def test_each_node_is_told_of(refusals: Refusals) -> None:
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.TELL
    assert refusals.note_stopped(a_release(W2), INVALID) is Advice.TELL


def test_a_release_ends_the_pauses_and_the_next_refusal_is_news(refusals: Refusals) -> None:
    for error in (INVALID, INTERNAL, CONFLICT):
        refusals.note_stopped(a_release(W1), error)
    refusals.note_released(a_release(W1))
    assert due(refusals) == ["w1", "w2"]
    assert refusals.seconds_to_next() is None
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.TELL


def test_a_node_that_is_not_seen_for_a_while_is_news_again(refusals: Refusals) -> None:
    """Who is gone is forgotten: machines come and go for years, each under a UID of its own (P7)."""
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.TELL
    assert refusals.due(RELEASES, known=NODES) == [a_release(W2)]
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.WAIT
    assert refusals.due([], known=by_name(W2)) == []
    assert refusals.note_stopped(a_release(W1), INVALID) is Advice.TELL


def test_nothing_waits_for_a_node_that_is_gone_once_it_has_been_quiet(
    refusals: Refusals, clock: Seconds
) -> None:
    for error in (INVALID, INTERNAL, CONFLICT):
        refusals.note_stopped(a_release(W1), error)
    clock.now += 3600
    refusals.due([], known={})
    assert refusals.seconds_to_next() is None
