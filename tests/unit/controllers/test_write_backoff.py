"""When a node may be written again, after whatever came of the last write. All by a clock of our own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import Nodes, a_node, by_name
from harness.clock import Seconds
from winpool.controllers.backoff import (
    CONFLICTS_BEFORE_TELLING,
    FAILURES_BEFORE_TELLING,
    LONGEST_AFTER_FAILURE_SECONDS,
    LOOK_SECONDS,
    Advice,
    WriteBackoff,
)
from winpool.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from winpool.model.node import Node, NodePatch

CONFLICT = Conflict("patch nodes w1: 409", status=409)
REFUSAL = Forbidden("patch nodes w1: 403 denied by a webhook", status=403)


@pytest.fixture
def backoff(clock: Seconds) -> WriteBackoff:
    return WriteBackoff(monotonic=clock)


W1 = a_node("w1")
NODES = by_name(W1, a_node("w2"))


KINDS_OF_PAUSES = 5
"""After repeats, repairs, refusals, failures and conflicts."""


def a_patch(node: Node, goal: object = None) -> NodePatch:
    """A write to a node; nothing but the node and the goal counts here."""
    return NodePatch(node=node, labels={}, annotations={}, taints=None, goal=goal)


def held_back(backoff: WriteBackoff, nodes: Nodes = NODES, *, goal: object = None) -> set[str]:
    """The UIDs of the nodes that must not be written for that goal now, where ``nodes`` are known."""
    attempts = backoff.attempts(nodes)
    all_nodes = (*NODES.values(), *nodes.values())
    return {node.uid for node in all_nodes if attempts.holds_back(a_patch(node, goal))}


def newer(node: Node) -> Nodes:
    """The nodes after somebody wrote one of them."""
    return {**NODES, node.name: replace(node, resource_version=f"{int(node.resource_version) + 1}")}


def test_at_first_nobody_waits(backoff: WriteBackoff) -> None:
    assert held_back(backoff) == frozenset()
    assert backoff.seconds_to_next() is None


@pytest.mark.parametrize("error", [CONFLICT, NotFound("patch nodes w1: 404", status=404)])
def test_who_was_overtaken_waits_until_the_newer_state_is_known_and_not_longer(
    backoff: WriteBackoff, error: ApiError
) -> None:
    assert backoff.note_stopped(a_patch(W1), error) is Advice.WAIT
    assert held_back(backoff) == {W1.uid}
    assert held_back(backoff, newer(W1)) == frozenset()
    assert backoff.seconds_to_next() is None
    assert backoff.attempts(NODES).refused == {}


def test_a_node_that_is_gone_or_replaced_is_waited_for_no_longer(backoff: WriteBackoff) -> None:
    for nodes in ({}, {"w1": replace(W1, uid="another")}):
        backoff.note_stopped(a_patch(W1), CONFLICT)
        assert held_back(backoff, nodes) == frozenset()
        assert backoff.seconds_to_next() is None


def test_while_the_newer_state_is_not_known_tries_come_later_and_later_and_it_is_looked_for(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    begun = clock.now
    for tries, pause in enumerate((2, 4, 8), start=1):
        advice = backoff.note_stopped(a_patch(W1), CONFLICT)
        assert advice is (Advice.LIST if tries > 1 else Advice.WAIT), "the watch should have brought it"
        since_the_first = clock.now - begun
        assert backoff.seconds_to_next() == pytest.approx(max(LOOK_SECONDS, since_the_first))
        clock.now += pause - 0.1
        assert held_back(backoff) == {W1.uid}
        assert backoff.seconds_to_next() == pytest.approx(0.1)
        clock.now += 0.2
        assert held_back(backoff) == frozenset()


def test_looking_for_the_newer_state_takes_few_looks(backoff: WriteBackoff, clock: Seconds) -> None:
    for _ in range(9):
        backoff.note_stopped(a_patch(W1), CONFLICT)
    looks = 0
    while held_back(backoff):
        wait = backoff.seconds_to_next()
        assert wait is not None
        clock.now += wait
        looks += 1
    assert looks < 20


def test_conflicts_on_ever_new_states_do_not_add_up(backoff: WriteBackoff) -> None:
    """A node that others write all the time: each try is as good as the one before."""
    node = W1
    for _ in range(5):
        assert backoff.note_stopped(a_patch(node), CONFLICT) is Advice.WAIT
        node = newer(node)["w1"]
        assert held_back(backoff, {"w1": node}) == frozenset()


def test_a_node_that_waits_for_its_newer_state_does_not_make_others_ask_for_lists(
    backoff: WriteBackoff,
) -> None:
    backoff.note_stopped(a_patch(W1), CONFLICT)
    assert backoff.note_stopped(a_patch(W1), CONFLICT) is Advice.LIST
    assert backoff.note_stopped(a_patch(NODES["w2"]), CONFLICT) is Advice.WAIT


def test_what_is_still_the_same_state_after_a_list_is_no_conflict_but_a_refusal(
    backoff: WriteBackoff,
) -> None:
    for _ in range(CONFLICTS_BEFORE_TELLING - 1):
        backoff.note_stopped(a_patch(W1), CONFLICT)
        assert backoff.attempts(NODES).refused == {}
    assert backoff.note_stopped(a_patch(W1), CONFLICT) is Advice.TELL
    assert backoff.attempts(NODES).refused == {W1.uid: CONFLICT.message}
    assert backoff.note_stopped(a_patch(W1), CONFLICT) is Advice.WAIT, "it was said"
    backoff.note_stopped(a_patch(newer(W1)["w1"]), CONFLICT)
    assert backoff.attempts(NODES).refused == {}, "a new state, and an ordinary conflict"


def test_a_write_that_was_carried_out_ends_all_waiting(backoff: WriteBackoff) -> None:
    for error in (CONFLICT, REFUSAL, Unavailable("500", status=500)):
        backoff.note_stopped(a_patch(W1), error)
    backoff.note_written(a_patch(W1))
    assert held_back(backoff) == frozenset()
    assert (backoff.attempts(NODES).refused, backoff.failing) == ({}, frozenset())


def test_the_first_repair_is_at_once_and_the_next_waits(backoff: WriteBackoff) -> None:
    """Whether it was we who wrote first, or the operator before a restart."""
    backoff.note_written(a_patch(W1), repaired=("label team",))
    assert held_back(backoff) == {W1.uid}


def test_a_second_write_for_the_same_spec_is_a_repair_whatever_was_undone(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    """Such as the ownership record itself, without which no drift can be seen."""
    backoff.note_written(a_patch(W1))
    assert held_back(backoff) == frozenset()
    for pause in (2, 4, 8):
        backoff.note_written(a_patch(W1))
        assert backoff.seconds_to_next() == pytest.approx(pause)
        clock.now += pause


def test_a_refusal_is_news_once_and_is_tried_again_later_and_later(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    for error in (Invalid("patch nodes w1: 422", status=422), REFUSAL):
        backoff.note_written(a_patch(W1))
        pauses = []
        for tries in range(12):
            assert backoff.note_stopped(a_patch(W1), error) is (Advice.WAIT if tries else Advice.TELL)
            assert backoff.attempts(NODES).refused == {W1.uid: error.message}
            assert backoff.failing == {W1.uid}
            pause = backoff.seconds_to_next()
            assert pause is not None
            pauses.append(pause)
            clock.now += pause + 0.01
            assert held_back(backoff) == frozenset()
        assert pauses[:3] == pytest.approx([2, 4, 8])
        assert max(pauses) == pytest.approx(300)


def test_a_failure_is_told_when_it_lasts_and_does_not_wait_as_long(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    """A moment of etcd is nobody's policy."""
    failure = Unavailable("patch nodes w1: 500", status=500)
    for tries in range(1, 12):
        advice = backoff.note_stopped(a_patch(W1), failure)
        assert advice is (Advice.TELL if tries == FAILURES_BEFORE_TELLING else Advice.WAIT)
        assert (W1.uid in backoff.attempts(NODES).refused) is (tries >= FAILURES_BEFORE_TELLING)
        assert backoff.failing == {W1.uid}
        pause = backoff.seconds_to_next()
        assert pause is not None
        assert pause <= LONGEST_AFTER_FAILURE_SECONDS
        clock.now += pause


def test_nodes_that_are_long_gone_are_forgotten(backoff: WriteBackoff, clock: Seconds) -> None:
    """Machines come and go for years, each under a UID of its own (P7)."""
    for number in range(50):
        gone = a_node(f"gone-{number}")
        backoff.note_written(a_patch(gone))
        backoff.note_stopped(a_patch(gone), REFUSAL)
    clock.now += 3600
    held_back(backoff)
    assert (backoff.attempts(NODES).refused, backoff.failing) == ({}, frozenset())


# Somebody who keeps undoing


def test_the_third_repair_within_ten_minutes_is_a_conflict_and_ten_quiet_minutes_end_it(
    backoff: WriteBackoff, clock: Seconds
) -> None:
    for times in range(1, 4):
        backoff.note_written(a_patch(W1), repaired=(f"label number-{times}",))
        assert backoff.attempts(NODES).contested == ({W1.uid: ("label number-3",)} if times == 3 else {})
        clock.now += 5
    clock.now += 594
    assert backoff.attempts(NODES).contested
    assert held_back(backoff) == frozenset()  # as each pass asks first
    wait = backoff.seconds_to_next()
    assert wait is not None
    clock.now += wait
    assert backoff.attempts(NODES).contested == {}


def test_writes_that_repair_nothing_are_no_conflict_however_many(backoff: WriteBackoff) -> None:
    for _ in range(5):
        backoff.note_written(a_patch(W1))
    backoff.note_written(a_patch(W1), repaired=("label team",))
    assert backoff.attempts(NODES).contested == {}


def test_a_fleet_that_was_stripped_is_gone_through_once_and_not_once_for_each_node() -> None:
    """That was seconds of a standing loop at 5,000 nodes. Counted by the clock: each walk asks it once."""
    asked: list[float] = []

    def clock() -> float:
        asked.append(0.0)
        return 0.0

    backoff = WriteBackoff(monotonic=clock)
    nodes = by_name(*(a_node(f"w{number}") for number in range(100)))
    for node in nodes.values():
        for _ in range(3):
            backoff.note_written(a_patch(node), repaired=("taint os:NoSchedule",))
    asked.clear()
    assert len(backoff.attempts(nodes).contested) == 100
    assert len(asked) <= KINDS_OF_PAUSES
