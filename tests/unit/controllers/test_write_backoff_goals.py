"""Which writes to a node are a quarrel, and which are just another thing to do there."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import a_node, by_name
from harness.clock import Seconds
from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.controllers.backoff import FREE_CHANGES, Advice, WriteBackoff
from winpool.kube.backoff import QUIET_SECONDS
from winpool.kube.errors import ApiError, Conflict, Invalid, Unavailable
from winpool.model.node import Node, NodePatch
from winpool.model.pool import Attempts

W1, W2 = a_node("w1"), a_node("w2")
NODES = by_name(W1, W2)
A, B, C = "a", "b", "c"
REFUSAL = Invalid("patch nodes w1: 422", status=422)
FAILURE = Unavailable("patch nodes w1: 500", status=500)
CONFLICT = Conflict("patch nodes w1: 409", status=409)


@pytest.fixture
def backoff(clock: Seconds) -> WriteBackoff:
    return WriteBackoff(monotonic=clock)


def a_patch(goal: object, node: Node = W1) -> NodePatch:
    return NodePatch(node=node, labels={}, annotations={}, taints=None, goal=goal)


def waits(backoff: WriteBackoff, goal: object, node: Node = W1) -> bool:
    """Whether a write for that goal has to wait now."""
    return holds_back(backoff, a_patch(goal, node))


def holds_back(backoff: WriteBackoff, patch: NodePatch) -> bool:
    """Whether that write has to wait now."""
    return backoff.attempts(NODES).holds_back(patch)


def write(backoff: WriteBackoff, *goals: object) -> None:
    """Write w1 for each goal, one after another and at once."""
    for goal in goals:
        assert not waits(backoff, goal), f"{goal} has to wait"
        backoff.note_written(a_patch(goal))


def flap(backoff: WriteBackoff, times: int) -> None:
    """Change the goal of w1, which is A, so often, and write each at once."""
    write(backoff, *(B if number % 2 == 0 else A for number in range(times)))


# Repeats


def test_nine_transitions_of_a_node_go_at_once(backoff: WriteBackoff) -> None:
    write(backoff, *({"upgrade-state": str(number)} for number in range(9)))
    assert backoff.seconds_to_next() is None
    assert backoff.attempts(NODES) == Attempts(written={W1.uid: {"upgrade-state": "8"}}, written_nodes=1)


def test_what_was_wanted_before_and_is_wanted_again_is_no_quarrel(backoff: WriteBackoff) -> None:
    write(backoff, A, B, A, B)
    assert backoff.seconds_to_next() is None


def test_what_somebody_undoes_is_put_back_at_once_and_then_later_and_later(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    write(backoff, A, A)
    for pause in (2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        assert backoff.seconds_to_next() == pytest.approx(pause)
        clock.now += pause - 0.01
        assert waits(backoff, A)
        clock.now += 0.02
        write(backoff, A)


def test_who_undoes_one_of_nine_transitions_is_paced_and_the_next_transition_is_not(
    backoff: WriteBackoff,
) -> None:
    write(backoff, *range(5))
    write(backoff, 4)
    assert waits(backoff, 4)
    write(backoff, *range(5, 9))
    assert waits(backoff, 4), "its pause is not over"
    write(backoff, 8)
    assert waits(backoff, 8)


def test_a_war_that_follows_a_node_to_the_next_goal_does_not_begin_anew(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    for pause in (2, 4, 8):
        write(backoff, A)
        clock.now += pause
    write(backoff, B, B)
    assert waits(backoff, B)
    clock.now += 7.9
    assert waits(backoff, B), "it was undone for the third time"
    clock.now += 0.2
    assert not waits(backoff, B)


def test_a_repair_on_the_way_to_another_goal_holds_back_that_goal_alone(backoff: WriteBackoff) -> None:
    write(backoff, A)
    backoff.note_written(a_patch(B), repaired=("label team",))
    assert waits(backoff, B)
    write(backoff, C)


def test_goals_are_compared_and_not_the_objects_that_name_them(backoff: WriteBackoff) -> None:
    """They may be of a kind that no set takes."""
    write(backoff, {"labels": {"os": "1"}}, {"labels": {"os": "1"}})
    assert waits(backoff, {"labels": {"os": "1"}})
    assert not waits(backoff, {"labels": {"os": "2"}})


def test_each_node_has_goals_of_its_own(backoff: WriteBackoff) -> None:
    write(backoff, A, A)
    assert not waits(backoff, A, W2)
    backoff.note_written(a_patch(A, W2))
    assert not waits(backoff, A, W2)


# Refusals, failures, conflicts


@pytest.mark.parametrize("error", [REFUSAL, FAILURE], ids=str)
def test_a_goal_that_the_api_server_does_not_take_holds_back_no_other(
    backoff: WriteBackoff, clock: Seconds, error: ApiError
) -> None:
    backoff.note_stopped(a_patch(A), error)
    assert waits(backoff, A)
    backoff.note_stopped(a_patch(B), error)
    assert waits(backoff, A)
    assert waits(backoff, B)
    assert not waits(backoff, C)
    assert backoff.seconds_to_next() == pytest.approx(2)
    clock.now += 2.1
    assert not waits(backoff, A), "each has a pause of its own"
    assert waits(backoff, B)
    assert backoff.seconds_to_next() == pytest.approx(1.9)


def test_pauses_of_two_kinds_hold_back_a_goal_each(backoff: WriteBackoff) -> None:
    write(backoff, A, A)
    backoff.note_stopped(a_patch(B), REFUSAL)
    backoff.note_stopped(a_patch(C), FAILURE)
    assert [waits(backoff, goal) for goal in (A, B, C, "another")] == [True, True, True, False]


def test_a_refusal_is_not_told_any_more_once_another_goal_was_written(backoff: WriteBackoff) -> None:
    assert backoff.note_stopped(a_patch(A), REFUSAL) is Advice.TELL
    assert backoff.attempts(NODES).refused == {W1.uid: REFUSAL.message}
    write(backoff, B)
    assert backoff.attempts(NODES).refused == {}
    assert backoff.failing == frozenset()
    assert backoff.note_stopped(a_patch(A), REFUSAL) is Advice.TELL, "and is news again"


def test_a_conflict_holds_back_every_goal_until_the_newer_state_is_known(backoff: WriteBackoff) -> None:
    backoff.note_stopped(a_patch(A), CONFLICT)
    assert waits(backoff, A)
    assert waits(backoff, B)


# Desired that flap


def test_the_free_changes_are_enough_for_an_upgrade_and_then_some() -> None:
    assert FREE_CHANGES >= 2 * 13


def test_goals_that_flap_are_paced_once_the_free_changes_are_used_up(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    write(backoff, A)
    flap(backoff, FREE_CHANGES)
    assert backoff.seconds_to_next() is None
    write(backoff, C)
    for pause in (2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        assert all(waits(backoff, goal) for goal in (A, B, C, "another")), "whatever the goal"
        assert backoff.seconds_to_next() == pytest.approx(pause)
        clock.now += pause + 0.01
        write(backoff, f"after {pause}")


def test_refusals_of_goals_that_flap_are_bounded_as_well(backoff: WriteBackoff) -> None:
    """They cost the API server as much as writes."""
    for number in range(FREE_CHANGES + 1):
        assert not waits(backoff, number)
        backoff.note_stopped(a_patch(number), REFUSAL)
    assert not waits(backoff, "another")
    backoff.note_stopped(a_patch("another"), REFUSAL)
    assert waits(backoff, "yet another")


def test_the_free_changes_come_back_after_ten_minutes_without_one(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    write(backoff, A)
    for _ in range(3):
        flap(backoff, FREE_CHANGES)
        clock.now += QUIET_SECONDS
    flap(backoff, FREE_CHANGES)
    clock.now += QUIET_SECONDS - 1
    write(backoff, C)
    assert waits(backoff, "another"), "those were not quite ten minutes"


def test_changes_that_are_further_apart_than_the_longest_pause_are_never_held_up(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    for number in range(3 * FREE_CHANGES):
        write(backoff, number)
        clock.now += 301


def test_a_neighbour_of_a_node_whose_goals_flap_is_not_held_up(backoff: WriteBackoff) -> None:
    write(backoff, A)
    flap(backoff, FREE_CHANGES + 1)
    assert waits(backoff, C)
    assert not waits(backoff, C, W2)


# What a pass is told, and what is forgotten


def test_who_has_tried_nothing_holds_back_nothing_and_has_written_nothing() -> None:
    nothing = Attempts()
    assert not nothing.holds_back(a_patch(None))
    assert not nothing.holds_back_some(W1.uid)
    assert not nothing.has_written(W1.uid, None)


def test_the_goal_of_the_last_write_is_known_and_what_was_only_tried_is_not(backoff: WriteBackoff) -> None:
    write(backoff, A, B)
    backoff.note_stopped(a_patch(C), REFUSAL)
    attempts = backoff.attempts(NODES, written_generation=7)
    assert [attempts.has_written(W1.uid, goal) for goal in (A, B, C)] == [False, True, False]
    assert not attempts.has_written(W2.uid, B)
    assert attempts.holds_back_some(W1.uid)
    assert not attempts.holds_back_some(W2.uid)
    assert attempts.written_generation == 7


def test_what_a_pass_was_told_does_not_change_under_it(backoff: WriteBackoff) -> None:
    write(backoff, A)
    backoff.note_stopped(a_patch(B), REFUSAL)
    told = backoff.attempts(NODES)
    before = repr(told)
    backoff.note_stopped(a_patch(C), REFUSAL)
    backoff.note_stopped(a_patch(C, W2), CONFLICT)
    write(backoff, "another")
    assert repr(told) == before


def test_the_goals_of_nodes_that_are_gone_are_forgotten(backoff: WriteBackoff, clock: Seconds) -> None:
    """Machines come and go for years, each under a UID of its own (P7)."""
    for number in range(50):
        gone = a_node(f"gone-{number}")
        for goal in range(FREE_CHANGES + 2):
            backoff.note_written(a_patch(goal, gone))
    write(backoff, A)
    attempts = backoff.attempts(NODES)
    assert attempts.written == {W1.uid: A}
    clock.now += QUIET_SECONDS
    assert backoff.attempts(NODES) == Attempts(written={W1.uid: A}, written_nodes=51), "a count forgets none"
    assert backoff.seconds_to_next() is None


# Permissions to upgrade a node


PERMITTED: Final = a_node(labels={UPGRADE_STATE_LABEL: "Required"})


def a_permission(value: str, node: Node = PERMITTED, **more: Any) -> NodePatch:
    nothing: dict[str, Any] = {"annotations": {APPLIED_ANNOTATION: "{}"}, "taints": None}
    return NodePatch(**nothing | {"node": node, "labels": {UPGRADE_STATE_LABEL: value}, "goal": value} | more)


GATED: Final = replace(PERMITTED, labels={UPGRADE_STATE_LABEL: "Gated"})


def test_a_permission_that_comes_and_goes_is_given_after_pauses_in_the_end_and_taken_back_at_once(
    backoff: WriteBackoff,
) -> None:
    gives, takes = a_permission("Required", GATED), a_permission("Gated")
    for _ in range(FREE_CHANGES):
        for patch in (gives, takes):
            assert not holds_back(backoff, patch)
            backoff.note_written(patch)
    backoff.note_written(gives)
    backoff.note_written(takes)
    backoff.note_written(gives)
    assert not holds_back(backoff, takes)
    backoff.note_written(takes)
    assert holds_back(backoff, gives)


def test_what_cannot_be_taken_back_is_tried_again_after_a_pause(backoff: WriteBackoff) -> None:
    backoff.note_stopped(a_permission("Gated"), Unavailable("500", status=500))
    assert holds_back(backoff, a_permission("Gated"))


def test_nothing_is_taken_back_on_a_state_that_someone_else_has_changed(backoff: WriteBackoff) -> None:
    backoff.note_stopped(a_permission("Gated"), Conflict("409", status=409))
    assert holds_back(backoff, a_permission("Gated"))


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {UPGRADE_STATE_LABEL: "UpToDate"}},
        {"labels": {UPGRADE_STATE_LABEL: "Gated", "team": "a"}},
        {"annotations": {"example.com/x": "1"}},
        {"taints": ()},
        {"unschedulable": True},
        {"node": a_node(labels={UPGRADE_STATE_LABEL: "UpToDate"})},
        {"node": a_node()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_more_than_a_permission_is_paced(backoff: WriteBackoff, change: dict[str, Any]) -> None:
    for number in range(FREE_CHANGES + 2):
        backoff.note_written(a_permission("Gated", **change, goal=number))
    assert waits(backoff, "another")
