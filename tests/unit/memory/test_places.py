"""The places that ``maxNodes`` gives: whose they are, and that each is given back.

The authors of pods choose their grace periods, and who can annotate a node can write intents. Neither may
keep the nodes of a pool from evictions for long, or have more nodes evict than there are places.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import (
    READ_AT,
    a_hot_node,
    a_pod,
    a_view,
    an_axis,
    an_intent,
    answered,
    listed,
    step,
    steps,
)
from winpool.api.memory_pressure import EvictionLimits
from winpool.features.memory.eviction import EvictionState, NodeEvictions, Pass, Step
from winpool.features.memory.intents import Intent, Unreadable, read, written
from winpool.features.memory.overview import Breaker
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods
from winpool.model.pressure import Axis, AxisPressure, Hold, KnownMemory, Level, NodePressure

SECOND: Final = timedelta(seconds=1)
DAY: Final = 86_400
BOUND: Final = 600 + 120 + 60
"""Ten minutes of grace, two for what Windows needs, and one in which the memory comes back."""


def evictions(found: dict[str, Step]) -> list[str]:
    return [name for name, each in found.items() if each.eviction is not None]


# What a pod may do: take its time.


def test_a_pod_that_takes_a_day_to_end_holds_the_place_of_its_node_for_twelve_minutes() -> None:
    slow = a_pod("slow", grace_seconds=DAY)
    begun = step(a_hot_node(), pods=listed(slow))
    assert isinstance(begun.annotation, str)
    busy, other = a_hot_node("w1", text=begun.annotation), a_hot_node("w2")
    ending = structs.replace(slow, is_terminating=True)
    for after, state in ((719, EvictionState.WAITING), (722, EvictionState.BEGINNING)):
        at = READ_AT + after
        pods = {busy.uid: listed(ending, at=at - 1), other.uid: listed(a_pod("hog"), at=at - 1)}
        found = steps(busy, other, pods=pods, maxNodes=1, now=NOON + after * SECOND, read_at=at)
        assert found["w2"].state is state
    assert found["w1"].state is EvictionState.STUCK, "no other pod is evicted there"


def test_a_pod_is_chosen_whatever_its_grace_period() -> None:
    """If a long one spared its pod, each author would write it."""
    pods = listed(a_pod("a-slow", grace_seconds=DAY), a_pod("b-quick"))
    found = step(a_hot_node(), pods=pods)
    assert found.intent is not None
    assert found.intent.pod == "shop/a-slow"


moments = st.one_of(st.integers(-50, 4), st.integers(-2000, 2000)).map(lambda late: NOON + late * SECOND)
graces = st.one_of(st.integers(0, 900), st.sampled_from([DAY, 2**62]))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return what an operator may have written, or anyone who knows the form."""
    found = []
    for uid in draw(st.lists(st.sampled_from(["uid-a", "uid-b", "uid-c", "uid-hog"]), unique=True)):
        at = draw(moments)
        until = at + draw(st.one_of(graces.filter(lambda grace: grace <= DAY), st.just(0))) * SECOND
        found.append(Intent(f"shop/{uid.removeprefix('uid-')}", uid, at, until))
    return written(tuple(found)) or '{"v":1,"evictions":[]}'


@st.composite
def lists(draw: st.DrawFn) -> NodePods | None:
    at = draw(st.sampled_from([-3000, -100, -31, -2]))
    pods = tuple(
        a_pod(
            name, is_terminating=draw(st.booleans()), is_finished=draw(st.sampled_from([False] * 4 + [True]))
        )
        for name in draw(st.lists(st.sampled_from(["a", "b", "c", "hog"]), unique=True))
    )
    return draw(st.sampled_from([None, listed(*pods, at=READ_AT + at)]))


answers = st.dictionaries(
    st.sampled_from(["uid-a", "uid-b", "uid-c", "uid-hog"]),
    st.builds(answered, st.sampled_from(Answer), ago=st.sampled_from([0.5, 30.0, 61.0, 3000.0])),
)


@given(text=texts(), pods=lists(), known=answers, late=st.integers(0, 10_000))
def test_each_place_is_given_back_within_thirteen_minutes(
    text: str, pods: NodePods | None, known: dict[str, Answered], late: int
) -> None:
    """Whatever is on the node, whatever its pods do, and though no one lists them again."""
    node = a_hot_node(text=text)
    told = read(text)
    assert not isinstance(told, Unreadable)
    latest = max((each.at for each in told), default=NOON)
    now = max(latest + BOUND * SECOND, NOON) + late * SECOND
    kept = KnownEvictions(
        pods={} if pods is None else {node.uid: pods},
        answers=known,
        read_at=READ_AT + (now - NOON).total_seconds(),
    )
    world = Pass(KnownMemory(), kept, EvictionLimits(), evicts=True, breaker=Breaker([node], {}, 1), now=now)
    assert not NodeEvictions(node, world).is_unfinished


# What who can annotate nodes may do: write intents.


def test_intents_on_more_nodes_than_there_are_places_are_not_all_carried_out() -> None:
    nodes = [a_hot_node(f"w{ago}", an_intent("hog", ago=ago)) for ago in (2, 9, 5)]
    found = steps(*nodes, pods=listed(a_pod("hog")), maxNodes=1)
    assert evictions(found) == ["w9"]
    assert {found["w2"].state, found["w5"].state} == {EvictionState.WAITING}
    assert len(evictions(steps(*nodes, pods=listed(a_pod("hog")), maxNodes=2))) == 2


def test_an_intent_is_not_carried_out_while_other_nodes_have_all_places() -> None:
    busy, forged = a_hot_node("w1", an_intent("a", ago=20)), a_hot_node("w2", an_intent("hog", ago=40))
    pods = {busy.uid: listed(a_pod("a", is_terminating=True)), forged.uid: listed(a_pod("hog"))}
    assert evictions(steps(busy, forged, pods=pods, maxNodes=1)) == []
    assert evictions(steps(busy, forged, pods=pods, maxNodes=2)) == ["w2"]


def test_an_intent_beyond_the_limit_of_the_node_is_not_carried_out() -> None:
    done = [an_intent(name, ago=ago) for name, ago in (("a", 400), ("b", 300))]
    gone = {each.uid: answered(Answer.GONE, ago=100) for each in done}
    node = a_hot_node("w1", *done, an_intent("hog", ago=5))
    for most, state in ((2, EvictionState.LIMITED), (3, EvictionState.EVICTING)):
        found = step(node, pods=listed(a_pod("hog")), answers=gone, maxPodsPerNode=most)
        assert (found.state, found.eviction is None) == (state, most == 2)


@pytest.mark.parametrize("ahead", [6, 3600])
def test_an_intent_for_a_pod_that_was_asked_for_and_is_of_a_time_to_come_is_written_again(ahead: int) -> None:
    """It counts for no limit, so it permits nothing; the clock may have been set back."""
    asked = {"uid-hog": answered(Answer.ASKED, ago=70)}
    node = a_hot_node("w1", an_intent("hog", ago=-ahead))
    found = step(node, pods=listed(a_pod("hog")), answers=asked)
    assert (found.state, found.eviction) == (EvictionState.BEGINNING, None)
    assert found.intent is not None
    assert found.intent.at == NOON


@pytest.mark.parametrize("answer", list(Answer))
def test_a_time_at_the_end_of_all_times_is_no_time(answer: Answer) -> None:
    times = '"at":"9999-12-31T23:58:00Z","until":"9999-12-31T23:59:59Z"'
    text = f'{{"v":1,"evictions":[{{"pod":"","uid":"uid-a",{times}}}]}}'
    node = a_hot_node(text=text)
    asked = {"uid-a": answered(answer, ago=70)}
    for pods in (
        listed(a_pod("a"), a_pod("hog")),
        listed(a_pod("hog")),
        listed(a_pod("a", is_finished=True)),
    ):
        found = steps(node, pods=pods, answers=asked)["w1"]
        assert found.state in (EvictionState.BEGINNING, EvictionState.BLOCKED)


@given(
    forged=st.lists(
        st.tuples(st.none() | st.integers(-60, 4), st.lists(st.integers(-700, -150), max_size=3)),
        min_size=3,
        max_size=3,
    ),
    max_nodes=st.integers(1, 3),
    per_node=st.integers(1, 3),
)
def test_no_intents_on_nodes_have_more_nodes_or_pods_evicted_than_the_limits_permit(
    forged: list[tuple[int | None, list[int]]], max_nodes: int, per_node: int
) -> None:
    nodes, counted = [], {}
    for place, (hog, done) in enumerate(forged):
        told = [an_intent(f"done{number}", ago=-late) for number, late in enumerate(done)]
        told += [] if hog is None else [an_intent("hog", ago=-hog)]
        nodes.append(a_hot_node(f"w{place}", *sorted(told, key=lambda each: each.at)))
        counted[f"w{place}"] = sum(late >= -600 for late in done)
    gone = {f"uid-done{number}": answered(Answer.GONE, ago=100) for number in range(3)}
    found = steps(
        *nodes, pods=listed(a_pod("hog")), answers=gone, maxNodes=max_nodes, maxPodsPerNode=per_node
    )
    evicting = evictions(found)
    assert len(evicting) <= max_nodes
    assert all(counted[name] < per_node for name in evicting)


# What is known of a pod, and of which node.


def test_what_another_node_lacks_is_not_gone() -> None:
    """Who can annotate a node can name on it a pod of another node."""
    node = a_hot_node("w1", an_intent("hog", ago=70))
    pods = listed(a_pod("hog", is_terminating=True), a_pod("other"))
    elsewhere = replace(answered(Answer.GONE, ago=65), node_uid="uid-of-w2")
    assert step(node, pods=pods, answers={"uid-hog": elsewhere}).state is EvictionState.EVICTING
    old = listed(a_pod("hog", is_terminating=True), at=READ_AT - 66)
    assert step(node, pods=old, answers={"uid-hog": elsewhere}).state is EvictionState.EVICTING


def test_a_pod_that_a_younger_list_has_is_not_gone() -> None:
    """The API server was restored from a backup: there the pod has the same UID."""
    node = a_hot_node("w1", an_intent("hog", ago=70))
    gone = {"uid-hog": answered(Answer.GONE, ago=65)}
    back = step(node, pods=listed(a_pod("hog", is_terminating=True), a_pod("other")), answers=gone)
    assert back.state is EvictionState.EVICTING
    older = step(node, pods=listed(a_pod("hog", is_terminating=True), at=READ_AT - 66), answers=gone)
    assert older.state is not EvictionState.EVICTING


def test_an_eviction_whose_record_someone_removes_is_watched_to_its_end() -> None:
    """The detector waits for the end. If nobody saw it, nothing would be evicted on the node any more."""
    node, settling = a_hot_node(), a_view(commit=Hold.SETTLING)
    accepted = {"uid-hog": replace(answered(Answer.ACCEPTED, ago=20), node_uid=node.uid)}
    for pods in (None, listed(a_pod("hog", is_terminating=True), at=READ_AT - 16)):
        found = step(node, pods=pods, views=settling, answers=accepted)
        assert (found.state, found.annotation) == (EvictionState.EVICTING, None)
        assert found.look is not None
        assert found.look.watched == {"uid-hog"}
    stuck = step(
        node,
        pods=listed(a_pod("hog", is_terminating=True), at=READ_AT + 800),
        views=settling,
        answers=accepted,
        now=NOON + 801 * SECOND,
        read_at=READ_AT + 801,
    )
    assert stuck.state is EvictionState.STUCK
    gone = {"uid-hog": replace(answered(Answer.GONE), node_uid=node.uid)}
    assert steps(node, pods=listed(), views=settling, answers=gone) == {}


def test_an_eviction_whose_record_someone_removes_keeps_the_next_one_waiting() -> None:
    node = a_hot_node()
    pods = listed(a_pod("hog", is_terminating=True), a_pod("other"))
    accepted = {"uid-hog": replace(answered(Answer.ACCEPTED, ago=20), node_uid=node.uid)}
    assert step(node, pods=pods, answers=accepted).state is EvictionState.EVICTING
    both = steps(node, a_hot_node("w2"), pods=pods, answers=accepted, maxNodes=1)
    assert both["w2"].state is EvictionState.WAITING


# What a kubelet may do: report any memory of its node.


@st.composite
def axes(draw: st.DrawFn, axis: Axis) -> AxisPressure:
    """Return what any sample may have shown of an axis; where an eviction is right, as often as not."""
    times = st.sampled_from([None, READ_AT - 3000, READ_AT - 4, READ_AT])
    return an_axis(
        axis,
        hold=draw(st.one_of(st.none(), st.sampled_from(Hold))),
        level=draw(st.one_of(st.none(), st.sampled_from(Level))),
        ready_since=draw(times),
        sampled_at=draw(times),
        missing=draw(st.sampled_from([0.0, 1.0, 2.0**34, 2.0**62])),
    )


told = st.builds(
    lambda commit, physical: replace(a_view(), axes={Axis.COMMIT: commit, Axis.PHYSICAL: physical}),
    axes(Axis.COMMIT),
    axes(Axis.PHYSICAL),
)


@given(view=told, most=st.sampled_from([1, 2, "100%"]), text=texts())
def test_whatever_a_node_reports_no_pod_of_another_node_is_evicted(
    view: NodePressure, most: int | str, text: str
) -> None:
    lying, calm = a_hot_node("w1", text=text), a_hot_node("w2")
    views = {lying.uid: view, calm.uid: a_view(commit=Hold.NO_PRESSURE, level=Level.NORMAL)}
    pods = {each.uid: listed(a_pod("hog")) for each in (lying, calm)}
    found = steps(lying, calm, views=views, pods=pods, maxNodes=most)
    assert "w2" not in found
    assert evictions(found) in ([], ["w1"])


def test_what_it_reports_can_have_its_own_pods_evicted() -> None:
    """Otherwise the above would hold where nothing is evicted at all."""
    lying, calm = a_hot_node("w1", an_intent("hog")), a_hot_node("w2")
    views = {lying.uid: a_view(), calm.uid: a_view(commit=Hold.NO_PRESSURE, level=Level.NORMAL)}
    assert evictions(steps(lying, calm, views=views, pods=listed(a_pod("hog")))) == ["w1"]
