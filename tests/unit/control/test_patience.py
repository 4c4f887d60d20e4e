"""When a node may be written again, after whatever came of the last write. All by a clock of our own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from harness.builders import Nodes, a_node, by_name
from winpool.cluster.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from winpool.control.overtaken import LOOK_SECONDS
from winpool.control.patience import LONGEST_AFTER_FAILURE_SECONDS, Patience
from winpool.snapshot import Node

CONFLICT = Conflict("patch nodes w1: 409", status=409)
REFUSAL = Forbidden("patch nodes w1: 403 denied by a webhook", status=403)


@dataclass
class Clock:
    """Monotonic time that passes when told."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> Patience:
    return Patience(monotonic=clock)


W1 = a_node("w1")
NODES = by_name(W1, a_node("w2"))


def newer(node: Node) -> Nodes:
    """The nodes after somebody wrote one of them."""
    return {**NODES, node.name: replace(node, resource_version=f"{int(node.resource_version) + 1}")}


def test_at_first_nobody_waits(patience: Patience) -> None:
    assert patience.held_back(NODES) == frozenset()
    assert patience.seconds_to_next() is None
    assert not patience.lost_news


@pytest.mark.parametrize("error", [CONFLICT, NotFound("patch nodes w1: 404", status=404)])
def test_who_was_overtaken_waits_until_the_newer_state_is_known_and_not_longer(
    patience: Patience, error: ApiError
) -> None:
    assert patience.note_stopped(W1, error) is False, "no news for people"
    assert patience.held_back(NODES) == {W1.uid}
    assert patience.held_back(newer(W1)) == frozenset()
    assert patience.seconds_to_next() is None
    assert patience.refused == {}


def test_a_node_that_is_gone_or_replaced_is_waited_for_no_longer(patience: Patience) -> None:
    for nodes in ({}, {"w1": replace(W1, uid="another")}):
        patience.note_stopped(W1, CONFLICT)
        assert patience.held_back(nodes) == frozenset()
        assert patience.seconds_to_next() is None


def test_while_the_newer_state_is_not_known_tries_come_later_and_later_and_it_is_looked_for(
    patience: Patience, clock: Clock
) -> None:
    for tries, pause in enumerate((2, 4, 8), start=1):
        patience.note_stopped(W1, CONFLICT)
        assert patience.lost_news is (tries > 1), "the watch should have brought it by then"
        assert patience.seconds_to_next() == pytest.approx(LOOK_SECONDS)
        clock.now += pause - 0.1
        assert patience.held_back(NODES) == {W1.uid}
        assert patience.seconds_to_next() == pytest.approx(0.1)
        clock.now += 0.2
        assert patience.held_back(NODES) == frozenset()


def test_looking_for_the_newer_state_takes_few_looks(patience: Patience, clock: Clock) -> None:
    for _ in range(9):
        patience.note_stopped(W1, CONFLICT)
    looks = 0
    while patience.held_back(NODES):
        wait = patience.seconds_to_next()
        assert wait is not None
        clock.now += wait
        looks += 1
    assert looks < 20


def test_conflicts_on_ever_new_states_do_not_add_up(patience: Patience) -> None:
    """A node that others write all the time: each try is as good as the one before."""
    node = W1
    for _ in range(5):
        patience.note_stopped(node, CONFLICT)
        node = newer(node)["w1"]
        assert patience.held_back({"w1": node}) == frozenset()
    assert not patience.lost_news


def test_a_write_that_was_carried_out_ends_all_waiting_but_that_between_repairs(patience: Patience) -> None:
    for error in (CONFLICT, REFUSAL, Unavailable("500", status=500)):
        patience.note_stopped(W1, error)
    patience.note_written(W1)
    assert patience.held_back(NODES) == frozenset()
    assert (patience.refused, patience.lost_news) == ({}, False)
    patience.note_repaired(W1)
    patience.note_written(W1)
    assert patience.held_back(NODES) == {W1.uid}


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        (Invalid("patch nodes w1: 422", status=422), 300),
        (REFUSAL, 300),
        (Unavailable("patch nodes w1: 500", status=500), LONGEST_AFTER_FAILURE_SECONDS),
    ],
)
def test_a_refusal_is_news_once_and_is_tried_again_later_and_later(
    patience: Patience, clock: Clock, error: ApiError, longest: float
) -> None:
    pauses = []
    for tries in range(12):
        assert patience.note_stopped(W1, error) is (tries == 0)
        assert patience.refused == {W1.uid: error.message}
        pause = patience.seconds_to_next()
        assert pause is not None
        pauses.append(pause)
        clock.now += pause + 0.01
        assert patience.held_back(NODES) == frozenset()
    assert pauses[:3] == pytest.approx([2, 4, 8])
    assert max(pauses) == pytest.approx(longest)


def test_refusals_of_nodes_that_are_long_gone_are_forgotten(patience: Patience, clock: Clock) -> None:
    """Machines come and go for years, each under a UID of its own (P7)."""
    patience.note_stopped(W1, REFUSAL)
    clock.now += 3600
    patience.held_back(NODES)
    patience.note_stopped(NODES["w2"], REFUSAL)
    assert patience.refused.keys() == {NODES["w2"].uid}
