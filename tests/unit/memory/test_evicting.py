"""What is done next about the evictions of a node, and what never is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import (
    GIB,
    READ_AT,
    SAMPLED_AT,
    a_hot_node,
    a_pod,
    a_view,
    an_intent,
    answered,
    listed,
    step,
    steps,
)
from winpool.features.memory.eviction import EvictionState, Step
from winpool.features.memory.intents import Unreadable, read
from winpool.features.memory.victims import Exclusion
from winpool.model.node import Eviction, Premise
from winpool.model.node_pods import Answer
from winpool.model.pressure import Axis, EvictedPod, Hold, Level
from winpool.ownership.desired import KEEP

SECOND = timedelta(seconds=1)
HOG = an_intent("hog")


def on_node(found: Step) -> list[str]:
    """Return the UIDs of the intents that are to be on the node."""
    assert found.annotation is not KEEP
    assert not isinstance(found.annotation, EvictionState)
    told = read(found.annotation if isinstance(found.annotation, str) else None)
    assert not isinstance(told, Unreadable)
    return [each.uid for each in told]


# From pressure to the eviction.


def test_before_an_eviction_the_pods_of_the_node_are_listed() -> None:
    found = step(a_hot_node())
    assert found.state is EvictionState.LISTING
    assert found.look is not None
    assert found.look.node.name == "w1"
    assert found.look.with_budgets
    assert found.annotation is None
    assert found.eviction is None


def test_the_intent_is_written_before_anything_is_evicted() -> None:
    found = step(a_hot_node(), pods=listed(a_pod("hog", grace_seconds=45)))
    assert found.state is EvictionState.BEGINNING
    assert found.eviction is None
    assert found.annotation == (
        '{"v":1,"evictions":[{"pod":"shop/hog","uid":"uid-hog","at":"2026-11-01T12:00:00Z",'
        '"until":"2026-11-01T12:02:45Z","why":"Commit, Hard"}]}'
    )


def test_the_pod_is_evicted_once_the_intent_is_on_the_node() -> None:
    node = a_hot_node("w1", HOG)
    found = step(node, pods=listed(a_pod("hog")))
    assert found.state is EvictionState.EVICTING
    assert found.eviction == Eviction(
        "shop",
        "hog",
        "uid-hog",
        "w1",
        "The pod has committed 4Gi, 4Gi more than it requests. "
        "It is the smallest such pod whose eviction frees the 2Gi that the node is short of.",
        node_uid=node.uid,
        share=4.0 * GIB,
        premise=Premise(node, Axis.COMMIT, HOG.at, "100%"),
    )
    assert on_node(found) == ["uid-hog"]


def test_a_pod_that_has_the_name_of_the_intended_one_is_not_evicted() -> None:
    found = step(a_hot_node("w1", HOG), pods=listed(a_pod("hog", uid="another")))
    assert found.eviction is None
    assert found.look is not None  # the list began before the pod can have been gone


@pytest.mark.parametrize("answer", [Answer.ASKED, Answer.ACCEPTED, Answer.REFUSED, Answer.GONE])
def test_a_pod_is_not_evicted_twice(answer: Answer) -> None:
    found = step(a_hot_node("w1", HOG), pods=listed(a_pod("hog")), answers={"uid-hog": answered(answer)})
    assert found.eviction is None


@pytest.mark.parametrize(
    ("asked_ago", "state"),
    [(20.0, EvictionState.WAITING), (61.0, EvictionState.LISTING), (62.0, EvictionState.EVICTING)],
)
def test_after_a_request_without_an_answer_the_pods_are_listed_before_the_next(
    asked_ago: float, state: EvictionState
) -> None:
    found = step(
        a_hot_node("w1", an_intent("hog", ago=50)),
        pods=listed(a_pod("hog"), at=READ_AT - 2),
        answers={"uid-hog": answered(Answer.ASKED, ago=asked_ago)},
    )
    assert found.state is state
    assert (found.eviction is None) is (state is not EvictionState.EVICTING)
    if state is EvictionState.WAITING:
        assert found.again_at == NOON + 40 * SECOND


def test_a_minute_after_its_intent_a_pod_is_evicted_only_after_a_new_one() -> None:
    """Otherwise another operator could evict the next pod while the request for this one is under way."""
    in_time = step(a_hot_node("w1", an_intent("hog", ago=55)), pods=listed(a_pod("hog")))
    assert in_time.eviction is not None
    late = step(a_hot_node("w1", an_intent("hog", ago=56)), pods=listed(a_pod("hog")), maxPodsPerNode=1)
    assert (late.state, late.eviction) == (EvictionState.BEGINNING, None)
    assert late.intent is not None
    assert late.intent.at == NOON
    assert on_node(late) == ["uid-hog"]


# Evidence.


@pytest.mark.parametrize(
    "pods",
    [
        listed(a_pod("hog"), at=SAMPLED_AT - 0.1),
        listed(a_pod("hog"), at=READ_AT + 1),
        listed(a_pod("hog"), blocked=None),
    ],
    ids=["before the sample", "from the future", "without budgets"],
)
@pytest.mark.parametrize("intents", [(), (HOG,)], ids=["to begin", "to evict"])
def test_a_list_that_is_no_evidence_permits_nothing(pods: Any, intents: Any) -> None:
    found = step(a_hot_node("w1", *intents), pods=pods)
    assert found.state is EvictionState.LISTING
    assert found.look is not None
    assert found.eviction is None
    assert on_node(found) == [each.uid for each in intents]


def test_a_list_of_half_a_minute_ago_permits_nothing() -> None:
    view = a_view(sampled_at=READ_AT - 40)
    assert (
        step(a_hot_node(), views=view, pods=listed(a_pod(), at=READ_AT - 30)).state is EvictionState.BEGINNING
    )
    assert (
        step(a_hot_node(), views=view, pods=listed(a_pod(), at=READ_AT - 30.1)).state is EvictionState.LISTING
    )


@pytest.mark.parametrize("hold", list(Hold))
def test_no_pod_is_evicted_while_the_detector_holds_it(hold: Hold) -> None:
    found = step(a_hot_node("w1", HOG), views=a_view(commit=hold), pods=listed(a_pod("hog")))
    assert found.eviction is None
    assert steps(a_hot_node(), views=a_view(commit=hold), pods=listed(a_pod("hog"))) == {}


def test_a_pod_of_unknown_use_is_not_evicted() -> None:
    found = step(a_hot_node(), pods=listed(a_pod("hog")), usage={})
    assert found.state is EvictionState.BLOCKED
    assert found.choice is not None
    assert found.choice.excluded == {Exclusion.UNKNOWN_USAGE: 1}


@pytest.mark.parametrize(
    ("commit", "physical", "state"),
    [
        (None, Hold.NO_PRESSURE, EvictionState.BLOCKED),
        (Hold.NO_PRESSURE, None, EvictionState.BEGINNING),
    ],
    ids=["Commit", "Physical"],
)
def test_what_the_node_has_committed_more_is_compared_with_the_growth_of_pods_on_commit_alone(
    commit: Hold | None, physical: Hold | None, state: EvictionState
) -> None:
    """The pod has grown by 1 GiB, half of it in RAM, and the node by 5."""
    view = a_view(commit=commit, physical=physical)
    assert step(a_hot_node(), views=view, pods=listed(a_pod("hog")), grown=5).state is state


# Where the operator stands aside.


@pytest.mark.parametrize(
    ("changes", "aside"),
    [
        ({"ready": "False"}, EvictionState.NOT_READY),
        ({"ready": "Unknown"}, EvictionState.NOT_READY),
        ({"unschedulable": True}, EvictionState.CORDONED),
        ({"deleting": True}, EvictionState.DELETING),
        ({"kubelet_pressure": "True"}, EvictionState.KUBELET),
    ],
)
@pytest.mark.parametrize("intents", [(), (HOG,)], ids=["to begin", "to evict"])
def test_it_stands_aside(changes: dict[str, Any], aside: EvictionState, intents: Any) -> None:
    found = step(a_hot_node("w1", *intents, **changes), pods=listed(a_pod("hog")))
    assert (found.state, found.eviction) == (aside, None)
    assert on_node(found) == [each.uid for each in intents]


def test_it_stands_aside_where_the_whole_pool_is_in_trouble() -> None:
    nodes = a_hot_node("w1", HOG), a_hot_node("w2")
    found = steps(*nodes, pods=listed(a_pod("hog")), maxPressuredNodes=1)["w1"]
    assert (found.state, found.eviction, found.again_at) == (EvictionState.SYSTEMIC, None, HOG.until)


@pytest.mark.parametrize(("ago", "is_seen"), [(0.0, True), (0.1, False)])
def test_it_stands_aside_until_the_others_were_sampled_after_the_eviction_became_right(
    ago: float, is_seen: bool
) -> None:
    nodes = a_hot_node("w1", HOG), a_hot_node("w2")
    calm = a_view(commit=Hold.NO_PRESSURE, level=Level.NORMAL, sampled_at=SAMPLED_AT - ago)
    views = {"uid-of-w1": a_view(ready_since=SAMPLED_AT), "uid-of-w2": calm}
    found = steps(*nodes, pods=listed(a_pod("hog")), views=views, maxPressuredNodes=1)["w1"]
    if is_seen:
        assert found.eviction is not None
    else:
        assert (found.state, found.eviction) == (EvictionState.UNSEEN, None)
        assert found.again_at == NOON + timedelta(seconds=5), "samples of calm nodes wake no pool"


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_kubelet_that_reports_no_pressure_of_its_own_is_no_reason(status: str) -> None:
    found = step(a_hot_node("w1", HOG, kubelet_pressure=status), pods=listed(a_pod("hog")))
    assert found.eviction is not None


def test_on_the_other_axis_the_kubelet_does_nothing() -> None:
    view = a_view(commit=None, physical=None)
    found = step(a_hot_node("w1", HOG, kubelet_pressure="True"), views=view, pods=listed(a_pod("hog")))
    assert found.eviction is not None
    assert "working set" in found.eviction.why


def test_a_held_node_is_left_alone() -> None:
    node = a_hot_node("w1", HOG)
    found = step(node, pods=listed(a_pod("hog")), held=[node.uid])
    assert (found.state, found.annotation, found.eviction) == (EvictionState.STANDING, KEEP, None)


# What the annotation gives no right to.


@pytest.mark.parametrize("text", ["?", '{"v":2,"evictions":[]}', "?" * 16_385])
def test_with_an_unreadable_annotation_nothing_is_evicted_and_it_stays(text: str) -> None:
    found = step(a_hot_node(text=text), pods=listed(a_pod("hog")))
    assert (found.state, found.annotation, found.eviction) == (EvictionState.UNREADABLE, KEEP, None)


@pytest.mark.parametrize(
    "protected",
    [
        a_pod("hog", controller_kind="DaemonSet"),
        a_pod("hog", is_mirror=True),
        a_pod("hog", is_host_process=True),
        a_pod("hog", priority=2_000_000_000),
        a_pod("hog", controller_kind=""),
        a_pod("hog", namespace="kube-system"),
        a_pod("hog", namespace="locked"),
        a_pod("hog", controller_kind="Node"),
        a_pod("hog", created=NOON - 60 * SECOND),
        a_pod("hog", created=None),
        a_pod("hog", created=NOON + 60 * SECOND),
        a_pod("hog", labels={"tier": "db"}),
    ],
    ids=lambda pod: str(pod)[:80],
)
def test_an_intent_for_a_pod_that_may_not_be_evicted_evicts_nothing(protected: Any) -> None:
    found = step(
        a_hot_node("w1", HOG),
        pods=listed(protected),
        protected=frozenset({"locked"}),
        rules=[{"podSelector": {"matchLabels": {"tier": "db"}}, "behavior": "Never"}],
    )
    assert (found.state, found.eviction) == (EvictionState.BLOCKED, None)


def test_an_intent_does_not_choose_the_pod() -> None:
    """Anyone who may annotate a node could name a pod that it wants to be evicted."""
    pods = listed(a_pod("precious", priority=1000), a_pod("hog"))
    forged = step(a_hot_node("w1", an_intent("precious", ago=30)), pods=pods)
    assert (forged.state, forged.eviction) == (EvictionState.WAITING, None)
    assert forged.again_at == NOON + 90 * SECOND
    later = step(a_hot_node("w1", an_intent("precious", ago=120)), pods=pods)
    assert (later.state, later.eviction) == (EvictionState.BEGINNING, None)
    assert on_node(later) == ["uid-hog"]


def test_an_intent_from_the_future_counts_nowhere() -> None:
    far = [an_intent(name, ago=-3600) for name in ("a", "b", "c")]
    found = step(a_hot_node("w1", *far), pods=listed(a_pod("hog"), a_pod("a")), maxPodsPerNode=1)
    assert found.state is EvictionState.BEGINNING


def test_but_one_whose_eviction_this_process_knows_does() -> None:
    """The clock was set back."""
    node = a_hot_node("w1", an_intent("a", ago=-3600))
    found = step(node, pods=listed(a_pod("hog"), a_pod("a")), answers={"uid-a": answered(Answer.ACCEPTED)})
    assert (found.state, found.eviction) == (EvictionState.EVICTING, None)


# Rules of the pool.


def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        {"namespaces": ["shop"], "podSelector": {"matchLabels": {"tier": "web"}}, "behavior": "Prefer"},
        {"namespaces": ["shop"], "behavior": "Never"},
    ]
    pods = listed(a_pod("db"), a_pod("web", labels={"tier": "web"}), a_pod("elsewhere", namespace="batch"))
    found = step(a_hot_node(), pods=pods, rules=rules)
    assert found.choice is not None
    assert found.choice.victim is not None
    assert found.choice.victim.pod.name == "web"
    assert found.choice.excluded == {Exclusion.RULE: 1}


# What becomes of an eviction.


def test_while_a_pod_is_being_deleted_nothing_else_is_evicted() -> None:
    pods = listed(a_pod("hog", is_terminating=True), a_pod("other"))
    found = step(a_hot_node("w1", HOG), pods=pods)
    assert (found.state, found.eviction, found.look) == (EvictionState.EVICTING, None, None)
    assert found.again_at == NOON + 13 * SECOND
    later = step(a_hot_node("w1", HOG), pods=pods, read_at=READ_AT + 13)
    assert later.look is not None
    assert not later.look.with_budgets
    assert later.look.watched == {"uid-hog"}


def test_an_accepted_eviction_is_one_though_the_list_is_older() -> None:
    found = step(
        a_hot_node("w1", HOG), pods=listed(a_pod("hog")), answers={"uid-hog": answered(Answer.ACCEPTED)}
    )
    assert (found.state, found.eviction) == (EvictionState.EVICTING, None)


def test_after_a_restart_the_pods_are_listed_before_anything_is_concluded() -> None:
    found = step(a_hot_node("w1", HOG), pods=None)
    assert (found.state, found.eviction) == (EvictionState.LISTING, None)
    assert found.look is not None
    assert on_node(found) == ["uid-hog"]


def test_a_list_from_before_the_intent_does_not_show_that_the_pod_is_gone() -> None:
    found = step(a_hot_node("w1", an_intent("hog", ago=0)), pods=listed(a_pod("other"), at=SAMPLED_AT))
    assert found.state is EvictionState.LISTING


def test_a_minute_after_the_pod_is_gone_the_next_may_be_evicted() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=100))
    pods, view = listed(a_pod("other")), replace(a_view(), evicted=(EvictedPod("uid-hog", None, None),))
    before = step(node, pods=pods, views=view, answers={"uid-hog": answered(Answer.GONE, ago=59)})
    assert (before.state, before.again_at) == (EvictionState.SETTLING, NOON + SECOND)
    after = step(node, pods=pods, views=view, answers={"uid-hog": answered(Answer.GONE, ago=60)})
    assert after.state is EvictionState.BEGINNING
    assert on_node(after) == ["uid-hog", "uid-other"]


@pytest.mark.parametrize(
    ("measured", "state"),
    [((), EvictionState.BEGINNING), ((EvictedPod("uid-hog", None, None),), EvictionState.SETTLING)],
    ids=["back", "not back"],
)
def test_once_the_memory_of_the_pod_is_back_the_next_may_be_evicted(
    measured: tuple[EvictedPod, ...], state: EvictionState
) -> None:
    node = a_hot_node("w1", an_intent("hog", ago=100))
    view = replace(a_view(), evicted=measured)
    answers = {"uid-hog": answered(Answer.GONE, ago=7)}
    assert step(node, pods=listed(a_pod("other")), views=view, answers=answers).state is state


@pytest.mark.parametrize("gone", [{"is_finished": True}, None])
def test_a_pod_that_is_gone_settles_also_where_no_one_saw_it_go(gone: dict[str, Any] | None) -> None:
    pods = listed(a_pod("other"), *([] if gone is None else [a_pod("hog", is_terminating=True, **gone)]))
    assert step(a_hot_node("w1", an_intent("hog", ago=40)), pods=pods).state is EvictionState.SETTLING
    assert step(a_hot_node("w1", an_intent("hog", ago=210)), pods=pods).state is EvictionState.BEGINNING


def test_a_pod_that_is_there_at_its_deadline_is_stuck_and_ends_evictions_on_the_node() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=153))
    pods = listed(a_pod("hog", is_terminating=True), a_pod("other"))
    found = step(node, pods=pods)
    assert (found.state, found.eviction) == (EvictionState.STUCK, None)
    assert found.intent is not None
    assert found.intent.uid == "uid-hog"
    assert on_node(found) == ["uid-hog"]
    assert found.again_at == NOON + 58 * SECOND


def test_it_is_stuck_for_as_long_as_it_is_there() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=90_000))
    found = step(node, pods=listed(a_pod("hog", is_terminating=True), a_pod("other")))
    assert found.state is EvictionState.STUCK
    assert on_node(found) == ["uid-hog"]


def test_at_the_deadline_only_a_list_from_after_it_counts() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=151))
    pods = listed(a_pod("hog", is_terminating=True))
    assert step(node, pods=pods).state is EvictionState.LISTING


def test_an_intent_that_no_one_carried_out_is_removed_at_its_deadline() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=153))
    found = step(node, pods=listed(a_pod("hog")), views=a_view(commit=Hold.NO_PRESSURE))
    assert (found.state, found.annotation) == (EvictionState.NONE, None)


def test_a_refused_eviction_costs_nothing_and_the_next_pod_comes() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=10))
    pods = listed(a_pod("hog"), a_pod("other"))
    found = step(node, pods=pods, answers={"uid-hog": answered(Answer.REFUSED)}, maxPodsPerNode=1)
    assert (found.state, found.eviction) == (EvictionState.BEGINNING, None)
    assert on_node(found) == ["uid-other"]


def test_where_budgets_permit_no_pod_the_eviction_is_blocked_and_lists_pause() -> None:
    node = a_hot_node("w1", an_intent("hog", ago=10))
    pods = listed(a_pod("hog"), a_pod("other"), blocked=["uid-other"])
    refused = {"uid-hog": answered(Answer.REFUSED)}
    found = step(node, pods=pods, answers=refused)
    assert (found.state, found.annotation) == (EvictionState.BLOCKED, None)
    assert found.choice is not None
    assert found.choice.excluded == {Exclusion.BUDGET: 2}
    assert found.look is None
    assert found.again_at == NOON + 29 * SECOND
    later = step(node, pods=pods, answers=refused, read_at=READ_AT + 29)
    assert (later.state, later.look is not None) == (EvictionState.BLOCKED, True)


def test_an_intent_for_a_pod_that_a_budget_protects_evicts_nothing() -> None:
    found = step(a_hot_node("w1", HOG), pods=listed(a_pod("hog"), blocked=["uid-hog"]))
    assert (found.state, found.eviction) == (EvictionState.BLOCKED, None)


# Limits of a node.


def test_on_a_node_there_are_not_more_evictions_in_a_period_than_permitted() -> None:
    done = [an_intent(name, ago=ago) for name, ago in (("a", 500), ("b", 300), ("c", 200))]
    gone = {each.uid: answered(Answer.GONE, ago=100) for each in done}
    found = step(a_hot_node("w1", *done), pods=listed(a_pod("hog")), answers=gone)
    assert (found.state, found.look) == (EvictionState.LIMITED, None)
    assert found.again_at == NOON + 102 * SECOND
    later = step(a_hot_node("w1", *done), pods=listed(a_pod("hog")), answers=gone, now=NOON + 102 * SECOND)
    assert later.state is EvictionState.BEGINNING
    assert on_node(later) == ["uid-b", "uid-c", "uid-hog"]


def test_what_counts_no_more_is_cleared_by_one_write() -> None:
    done = [an_intent("a", ago=700), an_intent("b", ago=500)]
    gone = {each.uid: answered(Answer.GONE, ago=100) for each in done}
    calm = a_view(commit=Hold.NO_PRESSURE)
    first = step(a_hot_node("w1", *done), views=calm, answers=gone)
    assert on_node(first) == ["uid-a", "uid-b"]
    assert first.again_at == NOON + 102 * SECOND
    last = step(a_hot_node("w1", *done), views=calm, answers=gone, now=NOON + 102 * SECOND)
    assert last.annotation is None


def test_a_node_that_has_ten_old_ones_has_room_for_the_next() -> None:
    done = [an_intent(f"p{place}", ago=700 + place) for place in range(10)]
    gone = {each.uid: answered(Answer.GONE, ago=100) for each in done}
    found = step(a_hot_node("w1", *done), pods=listed(a_pod("hog")), answers=gone)
    assert found.state is EvictionState.BEGINNING
    assert on_node(found) == ["uid-hog"]


# What may be done.


def test_while_the_pool_is_paused_all_stays_as_it_is() -> None:
    for pods in (listed(a_pod("hog")), None):
        found = step(a_hot_node("w1", HOG), pods=pods, evicts=False, held=["uid-of-w1"])
        assert (found.state, found.annotation, found.eviction) == (EvictionState.STANDING, KEEP, None)
        assert found.look is None


def test_a_pool_that_evicts_no_more_withdraws_what_was_not_carried_out_at_its_deadline() -> None:
    """Until then another operator may evict the pod: one that does not know of the change yet."""
    found = step(a_hot_node("w1", HOG), pods=listed(a_pod("hog")), evicts=False)
    assert (on_node(found), found.eviction) == (["uid-hog"], None)
    assert found.again_at == HOG.until
    late = an_intent(ago=151, grace=30)
    after = listed(a_pod("hog"), at=READ_AT)
    found = step(a_hot_node("w1", late), pods=after, evicts=False)
    assert (found.annotation, found.eviction) == (None, None)
    before = listed(a_pod("hog"), at=READ_AT - 2)
    found = step(a_hot_node("w1", late), pods=before, evicts=False)
    assert (on_node(found), found.state) == (["uid-hog"], EvictionState.LISTING)


def test_and_keeps_what_was_until_it_counts_no_more() -> None:
    done = an_intent("done", ago=300)
    gone = {done.uid: answered(Answer.GONE, ago=200)}
    node = a_hot_node("w1", done, HOG)
    pods = listed(a_pod("hog", is_terminating=True))
    found = step(node, pods=pods, answers=gone, evicts=False)
    assert on_node(found) == ["uid-done", "uid-hog"]
    assert found.state is EvictionState.EVICTING


def test_it_withdraws_nothing_that_may_be_under_way() -> None:
    asked = {"uid-hog": answered(Answer.ASKED)}
    found = step(a_hot_node("w1", HOG), pods=listed(a_pod("hog")), answers=asked, evicts=False)
    assert on_node(found) == ["uid-hog"]


def test_a_pool_that_does_not_evict_lists_no_pods_of_hot_nodes() -> None:
    assert steps(a_hot_node(), evicts=False) == {}
