"""Which nodes of a pool may evict at the same time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.builders import NOON
from harness.evicting import (
    a_hot_node,
    a_pod,
    a_view,
    an_axis,
    an_intent,
    answered,
    listed,
    steps,
)
from winpool.features.memory.eviction import EvictionState, earliest
from winpool.model.node_pods import Answer, Answered
from winpool.model.pods import Pod
from winpool.model.pressure import Axis, Hold, Level, NodePressure

SECOND = timedelta(seconds=1)


def some(count: int, first: int = 0) -> list[str]:
    return [f"w{place:02}" for place in range(first, first + count)]


def test_of_several_nodes_one_begins_in_a_pass() -> None:
    found = steps(*map(a_hot_node, some(3)), pods=listed(a_pod("hog")), maxNodes=3)
    assert [found[name].state for name in some(3)] == [
        EvictionState.BEGINNING,
        EvictionState.WAITING,
        EvictionState.WAITING,
    ]
    assert found["w01"].again_at == NOON + 6 * SECOND


@pytest.mark.parametrize(("ago", "state"), [(5, EvictionState.WAITING), (6, EvictionState.BEGINNING)])
def test_between_two_there_are_six_seconds(ago: int, state: EvictionState) -> None:
    busy = a_hot_node("w00", an_intent("a", ago=ago))
    found = steps(
        busy, a_hot_node("w01"), pods=listed(a_pod("a", is_terminating=True), a_pod("hog")), maxNodes=2
    )
    assert found["w01"].state is state


def test_an_intent_from_the_future_does_not_keep_others_waiting() -> None:
    forged = a_hot_node("w00", an_intent("a", ago=-3600))
    found = steps(forged, a_hot_node("w01"), pods=listed(a_pod("hog")), maxNodes=1)
    assert EvictionState.BEGINNING in {each.state for each in found.values()}


def test_there_is_one_place_at_least() -> None:
    found = steps(a_hot_node(), pods=listed(a_pod("hog")), maxNodes="5%")
    assert found["w1"].state is EvictionState.BEGINNING


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        (a_pod("a"), None),
        (a_pod("a", is_terminating=True), None),
        (None, answered(Answer.GONE, ago=30)),
    ],
    ids=["intended", "being deleted", "settling"],
)
def test_a_node_with_an_eviction_that_is_not_finished_takes_the_place(
    pod: Pod | None, answer: Answered | None
) -> None:
    busy = a_hot_node("w00", an_intent("a", ago=50))
    pods = listed(a_pod("hog"), *([pod] if pod else []))
    answers = {"uid-a": answer} if answer else {}
    found = steps(busy, a_hot_node("w01"), pods=pods, answers=answers, maxNodes=1)
    assert (found["w01"].state, found["w01"].look) == (EvictionState.WAITING, None)


def test_so_does_one_of_which_it_is_not_known() -> None:
    busy = a_hot_node("w00", an_intent("a", ago=50))
    other = a_hot_node("w01")
    found = steps(busy, other, pods={other.uid: listed(a_pod("hog"))}, maxNodes=1)
    assert found["w01"].state is EvictionState.WAITING


def test_and_one_whose_annotation_cannot_be_read() -> None:
    found = steps(a_hot_node("w00", text="?"), a_hot_node("w01"), pods=listed(a_pod("hog")), maxNodes=1)
    assert found["w01"].state is EvictionState.WAITING


def test_a_node_that_writes_intents_again_and_again_keeps_all_others_waiting() -> None:
    """Another operator may have begun that eviction a moment ago, so no number of places changes it."""
    other = a_hot_node("w01")
    for ago in (-5.0, 0.0, 5.0):
        forged = a_hot_node("w00", an_intent("nobody", ago=ago))
        found = steps(forged, other, pods={other.uid: listed(a_pod("hog"))}, maxNodes="100%")
        assert found["w01"].state is EvictionState.WAITING
    forged = a_hot_node("w00", an_intent("nobody", ago=7))
    found = steps(forged, other, pods={other.uid: listed(a_pod("hog"))}, maxNodes="100%")
    assert found["w01"].state is EvictionState.BEGINNING


def test_a_stuck_one_takes_no_place() -> None:
    stuck, other = a_hot_node("w00", an_intent("a", ago=200)), a_hot_node("w01")
    pods = {stuck.uid: listed(a_pod("a", is_terminating=True)), other.uid: listed(a_pod("hog"))}
    found = steps(stuck, other, pods=pods, maxNodes=1)
    assert (found["w00"].state, found["w01"].state) == (EvictionState.STUCK, EvictionState.BEGINNING)


def test_a_finished_one_takes_no_place() -> None:
    done = a_hot_node("w00", an_intent("a", ago=200))
    found = steps(
        done, a_hot_node("w01"), pods=listed(a_pod("hog")), answers={"uid-a": answered(Answer.GONE, ago=61)}
    )
    assert sum(each.state is EvictionState.BEGINNING for each in found.values()) == 1


def test_a_node_without_a_victim_gives_its_place_to_the_next() -> None:
    blocked, other = a_hot_node("w00"), a_hot_node("w01")
    pods = {blocked.uid: listed(a_pod("agent", controller_kind="DaemonSet")), other.uid: listed(a_pod("hog"))}
    found = steps(blocked, other, pods=pods, maxNodes=1)
    assert (found["w00"].state, found["w01"].state) == (EvictionState.BLOCKED, EvictionState.BEGINNING)


def test_pods_are_listed_only_on_nodes_that_may_be_next() -> None:
    found = steps(*map(a_hot_node, some(40)), maxNodes="5%")
    assert sum(each.look is not None for each in found.values()) == 2


def test_the_worst_node_comes_first() -> None:
    nodes = [a_hot_node(name) for name in some(3)]

    def of(level: Level, missing: float) -> NodePressure:
        calm = an_axis(Axis.PHYSICAL, hold=Hold.NO_PRESSURE, level=Level.NORMAL)
        axis = an_axis(Axis.COMMIT, hold=None, level=level, missing=missing * 2**30)
        return NodePressure(
            {Axis.COMMIT: axis, Axis.PHYSICAL: calm}, None, is_signalled=True, outside_pods=None
        )

    views = {
        nodes[0].uid: of(Level.SOFT, 3),
        nodes[1].uid: of(Level.HARD, 1),
        nodes[2].uid: of(Level.HARD, 2),
    }
    found = steps(*nodes, views=views, maxNodes=1)
    assert [name for name, each in found.items() if each.look] == ["w02"]


def test_the_next_moment_is_that_of_the_first_node() -> None:
    found = steps(
        a_hot_node("w00", an_intent("a", ago=20)),
        a_hot_node("w01", an_intent("b", ago=40)),
        pods=listed(a_pod("a", is_terminating=True), a_pod("b", is_terminating=True)),
        views=a_view(commit=Hold.SETTLING),
    )
    assert earliest(found.values(), now=NOON) == NOON + 13 * SECOND
    assert earliest([], now=NOON) is None
