"""Evictions through ``decide``: from pressure to the intent, the eviction, and the end of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from msgspec import structs
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_spec, edited
from harness.evicting import (
    READ_AT,
    SAMPLED_AT,
    a_pod,
    an_intent,
    answered,
    listed,
    using,
)
from harness.evicting import a_view as a_ready_view
from harness.house import House
from harness.views import CALM, all_of
from winpool.api.events import EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.keys import HOLD_ANNOTATION, MEMORY_ANNOTATION, PRESSURE_TAINT
from winpool.api.status import Issue
from winpool.controllers.pool import evicted_pods
from winpool.controllers.status import Announcer
from winpool.decide import FEATURES, Decision
from winpool.features.feature import Finding
from winpool.features.memory.eviction import LISTED_SECONDS, EvictionState, Step
from winpool.features.memory.findings import eviction_findings
from winpool.features.memory.intents import written
from winpool.features.memory.victims import Basis, Choice, Exclusion
from winpool.kube.client import Transport
from winpool.kube.events import BURST, NOTE_BYTES, EventRecorder
from winpool.model.node import Eviction, Taint
from winpool.model.node_pods import Answer, Answered, KnownEvictions
from winpool.model.pods import Pod
from winpool.model.pressure import Hold, KnownMemory, Level, NodePressure, PodUsage, UsageSinceCalm

UID = "uid-of-w1"
HOG = a_pod("hog", grace_seconds=30)
TAINT = Taint(*PRESSURE_TAINT)
RECORD = written((an_intent("hog", ago=10),)) or ""
LIMITS: dict[str, Any] = {"maxPressuredNodes": "100%"}


def spec_of(mode: str | None) -> dict[str, Any] | None:
    return None if mode is None else {"memoryPressure": {"mode": mode, "eviction": LIMITS}}


def a_house(mode: str | None = "Evict", **changes: Any) -> House:
    """Return a settled pool of one node."""
    house = House(a_pool(more=spec_of(mode)), {"w1": a_node("w1")}, features=FEATURES)
    house.memory = all_of(["w1"], CALM)
    house.settle()
    house.patches.clear()
    return house


def press(
    house: House, view: NodePressure | None = None, *, usage: Mapping[str, PodUsage] | None = None
) -> None:
    """Let the node run out of memory; without ``usage``, only that of HOG is known."""
    found = a_ready_view() if view is None else view
    uses = UsageSinceCalm({HOG.uid: using()} if usage is None else usage)
    house.memory = KnownMemory(told={UID: found}, views={UID: found}, pods={UID: uses}, read_at=READ_AT)


def listing(
    house: House, *pods: Pod, is_hog_blocked: bool = False, unread: Iterable[Pod] = (), **answers: Answered
) -> None:
    """Let the pods of the node be listed; a budget may permit no eviction of HOG.

    Of ``unread`` pods the budgets are too large or too many.
    """
    uids = frozenset(each.uid for each in unread)
    blocked = [HOG.uid, *uids] if is_hog_blocked else uids
    house.evictions = KnownEvictions(
        pods={UID: replace(listed(*pods, blocked=blocked), unread=uids)},
        answers={f"uid-{name}": each for name, each in answers.items()},
        read_at=READ_AT,
    )


def issues(decision: Decision) -> set[str]:
    return {each.reason for each in decision.status.issues}


def evicted(decision: Decision) -> list[str]:
    return [each.uid for each in decision.writes.evictions]


def test_the_pods_are_listed_then_the_intent_is_written_with_the_taint_and_then_the_pod_is_evicted() -> None:
    house = a_house()
    press(house)
    first = house.run()
    [look] = first.pod_list_requests
    assert (look.node.uid, look.with_budgets, evicted(first)) == (UID, True, [])
    house.patches.clear()
    house.nodes["w1"] = replace(house.nodes["w1"], taints=())
    listing(house, HOG)
    second = house.run()
    [patch] = house.patches
    assert TAINT in (patch.taints or ())
    assert "uid-hog" in (patch.annotations[MEMORY_ANNOTATION] or "")
    assert evicted(second) == []
    third = house.run()
    assert evicted(third) == ["uid-hog"]
    assert third.writes.evictions[0].node_uid == UID


def test_that_no_pod_may_be_evicted_is_reported_also_while_a_newer_list_is_made() -> None:
    house = a_house()
    press(house)
    listing(house, HOG, is_hog_blocked=True)
    house.run()
    before = house.pool.status.issues
    assert IssueReason.EVICTION_BLOCKED in {each.reason for each in before}
    house.evictions = replace(house.evictions, read_at=READ_AT + LISTED_SECONDS + 10)
    decision = house.decide()
    assert [each.with_budgets for each in decision.pod_list_requests] == [True]
    assert decision.status.issues == before


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("taints", [(), (TAINT,)])
def test_after_a_restart_an_eviction_settles_anew_and_the_taint_stays_as_it_is(
    taints: tuple[Taint, ...], *, is_listed: bool
) -> None:
    house = a_house()
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD}, taints=taints)
    if is_listed:
        listing(house)
    decision = house.decide()
    assert decision.writes.patches == ()
    assert bool(decision.pod_list_requests) is not is_listed


def test_after_the_period_one_write_clears_the_record() -> None:
    house = a_house()
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, hog=answered(Answer.GONE, ago=100))
    house.evictions = replace(house.evictions, pods={})
    before = house.decide(now=NOON + timedelta(seconds=590))
    assert before.writes.patches == ()
    assert before.look_again == NOON + timedelta(seconds=592)
    house.settle(now=NOON + timedelta(seconds=592))
    [patch] = house.patches
    assert patch.annotations == {MEMORY_ANNOTATION: None}
    assert house.decide(now=NOON + timedelta(seconds=593)).writes.patches == ()


@pytest.mark.parametrize("mode", ["Observe", "Signal", None])
def test_a_pool_that_does_not_evict_withdraws_what_was_not_carried_out(mode: str | None) -> None:
    house = a_house()
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, HOG)
    house.edit(edited(house.pool, a_spec(more=spec_of(mode))))
    house.settle()
    assert house.nodes["w1"].annotations[MEMORY_ANNOTATION] == RECORD
    until = NOON + timedelta(seconds=140)
    assert house.decide().look_again == until
    house.settle(now=until)
    assert house.nodes["w1"].annotations[MEMORY_ANNOTATION] == RECORD, "its pods are listed first"
    house.evictions = KnownEvictions(pods={UID: listed(HOG, at=READ_AT + 140)}, read_at=READ_AT + 140)
    house.settle(now=until)
    assert MEMORY_ANNOTATION not in house.nodes["w1"].annotations


@pytest.mark.parametrize("mode", ["Observe", "Signal", None])
def test_and_keeps_the_record_of_what_was(mode: str | None) -> None:
    """Otherwise an edit and its revert would permit more evictions than the limit."""
    house = a_house()
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, a_pod("hog", is_terminating=True))
    house.edit(edited(house.pool, a_spec(more=spec_of(mode))))
    house.settle()
    assert house.nodes["w1"].annotations[MEMORY_ANNOTATION] == RECORD


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_a_pool_in_which_nothing_is_written_leaves_all_as_it_is(mode: str) -> None:
    house = a_house()
    press(house)
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, HOG)
    house.edit(edited(house.pool, a_spec(mode=mode, more=spec_of("Evict"))))
    decision = house.decide()
    assert (decision.writes.patches, evicted(decision)) == ((), [])


def test_a_held_node_is_left_alone() -> None:
    house = a_house()
    press(house)
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD, HOLD_ANNOTATION: ""})
    listing(house, HOG)
    decision = house.decide()
    assert (decision.writes.patches, evicted(decision), decision.pod_list_requests) == ((), [], ())


def test_the_record_is_removed_with_the_pool() -> None:
    house = a_house()
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    house.delete()
    house.settle()
    assert MEMORY_ANNOTATION not in house.nodes["w1"].annotations


def test_a_systemic_pressure_ends_evictions() -> None:
    house = a_house()
    house.nodes["w2"] = a_node("w2")
    house.settle()
    press(house)
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, HOG)
    assert evicted(house.decide()) == ["uid-hog"]
    both = {**house.memory.told, "uid-of-w2": a_ready_view()}
    house.memory = replace(house.memory, told=both, views=both)
    more = {"memoryPressure": {"mode": "Evict", "eviction": {"maxPressuredNodes": 1}}}
    house.edit(edited(house.pool, a_spec(more=more)))
    decision = house.decide()
    assert evicted(decision) == []
    assert IssueReason.SYSTEMIC_PRESSURE in issues(decision)


def test_after_a_start_no_pod_is_evicted_for_the_first_node_that_is_known() -> None:
    house = a_house()
    for name in ("w2", "w3"):
        house.nodes[name] = a_node(name)
    house.settle()
    press(house)
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, HOG)
    more = {"memoryPressure": {"mode": "Evict", "eviction": {"maxPressuredNodes": 2}}}
    house.edit(edited(house.pool, a_spec(more=more)))
    assert evicted(house.decide()) == [], "of w2 and w3 nothing is known"
    calm = a_ready_view(commit=Hold.NO_PRESSURE, level=Level.NORMAL)
    house.memory = replace(house.memory, views={**house.memory.views, "uid-of-w2": CALM})
    assert evicted(house.decide()) == [], "of w2 nothing is known since the eviction became right"
    house.memory = replace(house.memory, views={**house.memory.views, "uid-of-w2": calm})
    assert evicted(house.decide()) == ["uid-hog"]


@pytest.mark.parametrize(
    ("pods", "text", "answers", "issue"),
    [
        ([HOG], None, {"is_hog_blocked": True}, IssueReason.EVICTION_BLOCKED),
        ([structs.replace(HOG, controller_kind="DaemonSet")], None, {}, IssueReason.EVICTION_BLOCKED),
        ([HOG], RECORD, {"hog": answered(Answer.REFUSED)}, IssueReason.EVICTION_BLOCKED),
        ([HOG], "?", {}, IssueReason.EVICTION_RECORD_UNREADABLE),
    ],
    ids=["budget", "protected", "refused", "unreadable"],
)
def test_what_keeps_a_node_from_being_helped_is_told(
    pods: list[Pod], text: str | None, answers: dict[str, Any], issue: IssueReason
) -> None:
    house = a_house()
    press(house)
    if text is not None:
        house.write("w1", annotations={MEMORY_ANNOTATION: text})
    listing(house, *pods, **answers)
    decision = house.decide()
    assert issue in issues(decision)
    assert evicted(decision) == []


@pytest.mark.parametrize(
    ("pods", "to_do"),
    [
        ([HOG, a_pod("silent")], "add replicas"),
        ([a_pod("silent"), a_pod("agent", controller_kind="DaemonSet")], "Add the source Kubelet"),
        (
            [structs.replace(HOG, controller_kind="DaemonSet")],
            "If a rule in spec.memoryPressure.eviction.rules",
        ),
    ],
    ids=["budget", "unknown usage", "protected"],
)
def test_what_keeps_pods_from_being_evicted_is_told_with_what_to_do(pods: list[Pod], to_do: str) -> None:
    house = a_house()
    press(house)
    listing(house, *pods, is_hog_blocked=HOG in pods)
    [issue] = blocked(house)
    assert to_do in issue.fix


GROWER, STEADY = a_pod("grower"), a_pod("steady")
USAGE = {
    HOG.uid: using(),
    GROWER.uid: using(grown=2.5),
    STEADY.uid: using(9, grown=0),
    "uid-unknown": PodUsage(),
    "uid-new": replace(using(), commit_growth=None, working_set_growth=None),
}


@pytest.mark.parametrize(
    ("pods", "said", "to_do"),
    [
        (
            [HOG, STEADY, a_pod("grower", controller_kind="DaemonSet"), a_pod("unknown")],
            "would be used up as well. Pods: shop/grower.",
            "Lower the memory of the pod or move it",
        ),
        (
            [STEADY, a_pod("grower", controller_kind="")],
            "would be used up as well. Pods: shop/grower.",
            "Lower the memory of the pod or move it",
        ),
        (
            [STEADY, a_pod("unknown")],
            "The operator evicts no pod that has not grown",
            "lower the memory of the largest pods",
        ),
        ([STEADY, a_pod("new")], "as far as kubelets show it", "what grows is Windows itself or a service"),
        (
            [STEADY, a_pod("grower", asks_to_stay=True)],
            "asks not to be disrupted",
            "add a rule with behavior Prefer",
        ),
    ],
    ids=[
        "an agent grows",
        "one without a controller grows",
        "none grows",
        "growth unknown",
        "one that asks grows",
    ],
)
def test_that_no_pod_goes_by_its_growth_is_told_in_one_issue(pods: list[Pod], said: str, to_do: str) -> None:
    house = a_house()
    press(house, a_ready_view(level=Level.SOFT), usage=USAGE)
    listing(house, *pods)
    [issue] = blocked(house)
    assert said in issue.message
    assert to_do in issue.fix


@pytest.mark.parametrize(("grown", "said"), [(3.0, "No other pod is evicted"), (0.0, "that has not grown")])
def test_a_budget_is_told_only_of_pods_that_could_go_otherwise(grown: float, said: str) -> None:
    house = a_house()
    press(house, usage={HOG.uid: using(grown=grown), STEADY.uid: using(grown=0)})
    listing(house, HOG, STEADY, is_hog_blocked=True)
    [issue] = blocked(house)
    assert said in issue.message
    listing(house, HOG, is_hog_blocked=True)
    [issue] = blocked(house)
    assert "PodDisruptionBudgets permit no eviction" in issue.message


def blocked(house: House) -> list[Issue]:
    """Return the issues that say why no pod of the node is evicted."""
    return [each for each in house.decide().status.issues if each.reason == IssueReason.EVICTION_BLOCKED]


def test_budgets_that_are_too_large_or_too_many_are_told_with_their_namespace_and_what_to_do() -> None:
    house = a_house()
    press(house)
    listing(house, HOG, a_pod("agent", controller_kind="DaemonSet"), unread=[HOG])
    [issue] = blocked(house)
    assert issue.nodes == ("w1",)
    assert "too large or too many to be read" in issue.message
    assert issue.message.endswith(" Namespaces: shop.")
    assert "kubectl get pdb -n NAMESPACE" in issue.fix
    listing(house, HOG, is_hog_blocked=True)
    [issue] = blocked(house)
    assert "PodDisruptionBudgets permit no eviction" in issue.message, "which says nothing of how many"


@pytest.mark.parametrize(
    ("other", "to_do"),
    [(HOG, "add replicas"), (a_pod("silent"), "Add the source Kubelet")],
    ids=["budget", "unknown usage"],
)
def test_budgets_of_one_namespace_that_are_not_read_hide_no_reason_of_another(other: Pod, to_do: str) -> None:
    house = a_house()
    press(house)
    theirs = a_pod("theirs", namespace="theirs")
    listing(house, other, theirs, unread=[theirs], is_hog_blocked=True)
    first, second = sorted(blocked(house), key=lambda each: "Namespaces:" in each.message)
    assert to_do in first.fix
    assert second.message.endswith(" Namespaces: theirs.")


def test_a_node_on_which_another_pod_may_be_evicted_has_no_issue_of_budgets() -> None:
    house = a_house()
    press(house)
    theirs = a_pod("theirs", namespace="theirs")
    listing(house, HOG, theirs, unread=[theirs])
    assert blocked(house) == []


def grower_finding(*nodes: tuple[str, str]) -> Finding:
    """Return what is said of these nodes and their pods that grow and have to stay."""
    steps = [
        Step(
            a_node(node),
            EvictionState.BLOCKED,
            None,
            choice=Choice(None, None, Basis.COMMIT, "", {Exclusion.ANOTHER_GROWS: 1}, grower=a_pod(pod)),
        )
        for node, pod in nodes
    ]
    [finding] = eviction_findings(steps, KnownEvictions())
    return finding


def test_of_many_pods_that_grow_and_have_to_stay_those_of_the_first_three_nodes_are_named_in_one_order() -> (
    None
):
    nodes = [("w4", "d"), ("w2", "b"), ("w1", "a"), ("w3", "c")]
    found = grower_finding(*nodes)
    assert found.message.endswith(
        " The first of these pods are shop/a, shop/b, shop/c. "
        "kubectl winpool memory node/NODE shows those of the others."
    )
    assert grower_finding(*reversed(nodes)).message == found.message
    assert grower_finding(*nodes[:3]).message.endswith(" Pods: shop/a, shop/b, shop/d.")
    assert grower_finding(*nodes[:3]).key == found.key, "so the issue goes on, whatever its pods"


def unread_finding(*namespaces: tuple[str, ...]) -> Finding:
    """Return what is said of nodes with pods in these namespaces whose budgets are not read."""
    steps = [
        Step(
            a_node(f"w{number}"),
            EvictionState.BLOCKED,
            None,
            choice=Choice(None, None, Basis.COMMIT, "", {Exclusion.BUDGETS_UNREAD: 1}, frozenset(names)),
        )
        for number, names in enumerate(namespaces)
    ]
    [finding] = eviction_findings(steps, KnownEvictions())
    return finding


def test_of_many_namespaces_the_first_three_are_named_in_one_order() -> None:
    nodes = [("d", "b"), ("c",), ("a", "b")]
    found = unread_finding(*nodes)
    assert found.message.endswith(" The first of these namespaces are a, b, c.")
    assert unread_finding(*reversed(nodes)).message == found.message
    assert unread_finding(*nodes[:2]).message.endswith(" Namespaces: b, c, d.")
    assert unread_finding(*nodes[:2]).key == found.key, "so the issue goes on, whatever its namespaces"
    longest = unread_finding(tuple(f"{letter * 62}{number}" for letter in "ab" for number in range(9)))
    assert len(f"Pool {'x' * 63}: {longest.message}") < NOTE_BYTES, "or its event would be cut"


@pytest.mark.parametrize("name", ["", "Press here: evil.example", "a\nb", "x" * 64, "team.shop"])
def test_a_name_that_no_namespace_can_have_is_not_repeated(name: str) -> None:
    assert unread_finding((name, "shop")).message.endswith(" Namespaces: shop.")
    assert unread_finding((name,)).message.endswith(" steps.")


def test_a_node_of_which_no_pod_may_be_evicted_has_one_event() -> None:
    house = a_house()
    press(house)
    listing(house, HOG, is_hog_blocked=True)
    found = [
        (each.name, each.regarding)
        for _ in range(3)
        for each in house.run().pool_events
        if each.reason == EventReason.EVICTION_BLOCKED
    ]
    assert found == [("w1", Regarding.NODE)]


def test_the_event_of_an_eviction_says_why_this_pod() -> None:
    house = a_house()
    press(house)
    house.write("w1", annotations={MEMORY_ANNOTATION: RECORD})
    listing(house, HOG)
    told = list(evicted_pods("win-2022", house.decide().writes.evictions))
    assert [(each.regarding, each.namespace, each.name) for each in told] == [
        (Regarding.NODE, "", "w1"),
        (Regarding.POD, "shop", "hog"),
    ]
    why = (
        "The pod has committed 4Gi, 4Gi more than it requests. It is the smallest such pod whose eviction "
        "frees the 2Gi that the node is short of."
    )
    assert [each.note for each in told] == [
        f"Pool win-2022: the operator evicted pod shop/hog. {why}",
        f"The operator evicted this pod from node w1 of the pool win-2022. {why}",
    ]


def test_events_about_evicted_pods_take_from_the_budget_of_their_pool_alone() -> None:
    """Two for each pod: however many are evicted, the API server gets no more events of a pool."""
    recorder = EventRecorder(
        cast("Transport", None), reporting_instance="me", now=lambda: NOON, monotonic=lambda: 0.0
    )
    evictions = [
        Eviction("shop", f"pod-{number}", f"uid-{number}", node="w1", why="It leaks.", node_uid=UID)
        for number in range(BURST)
    ]
    for name in ("one", "two"):
        before = recorder.dropped["RateLimited"]
        Announcer(recorder, name).announce(evicted_pods(name, evictions))
        assert recorder.dropped["RateLimited"] - before == BURST
    assert recorder.dropped.keys() == {"RateLimited"}


def test_a_stuck_eviction_is_told_for_as_long_as_it_lasts() -> None:
    house = a_house()
    press(house, a_ready_view(commit=Hold.SETTLING))
    stuck = written((an_intent("hog", ago=200),)) or ""
    house.write("w1", annotations={MEMORY_ANNOTATION: stuck})
    listing(house, a_pod("hog", is_terminating=True))
    assert IssueReason.EVICTION_STUCK in issues(house.decide())
    listing(house, hog=answered(Answer.GONE, ago=61))
    assert IssueReason.EVICTION_STUCK not in issues(house.decide())


def stuck_message(*nodes: tuple[str, str]) -> str:
    """Return what is said of these nodes and the pods in their annotations that do not end."""
    intents = {node: replace(an_intent(pod, ago=200), pod=f"shop/{pod}") for node, pod in nodes}
    steps = [Step(a_node(node), EvictionState.STUCK, None, intent=intent) for node, intent in intents.items()]
    [finding] = eviction_findings(steps, KnownEvictions())
    return finding.message


def test_a_stuck_eviction_names_the_pod() -> None:
    house = a_house()
    press(house, a_ready_view(commit=Hold.SETTLING))
    stuck = written((an_intent("hog", ago=200),)) or ""
    house.write("w1", annotations={MEMORY_ANNOTATION: stuck})
    listing(house, a_pod("hog", is_terminating=True))
    messages = set()
    for seconds in (0, 61, 122):
        found = house.run(now=NOON + timedelta(seconds=seconds)).status.issues
        messages |= {each.message for each in found if each.reason == IssueReason.EVICTION_STUCK}
    [message] = messages
    assert message.endswith(" Pods: shop/hog.")


def test_of_many_stuck_evictions_the_pods_of_the_first_three_nodes_are_named_in_one_order() -> None:
    nodes = [("w4", "d"), ("w2", "b"), ("w1", "a"), ("w3", "c")]
    message = stuck_message(*nodes)
    assert "The first of these pods are shop/a, shop/b, shop/c. " in message
    assert stuck_message(*reversed(nodes)) == message
    assert stuck_message(*nodes[:3]).endswith(" Pods: shop/a, shop/b, shop/d.")
    longest = [(node, "x" * 253) for node, _ in nodes]
    assert len(stuck_message(*longest)) < 1300


@pytest.mark.parametrize("name", ["", "Press here: evil.example", "a\nb"])
def test_a_name_that_no_pod_can_have_is_not_repeated(name: str) -> None:
    intent = replace(an_intent("hog", ago=200), pod=name and f"shop/{name}")
    steps = [Step(a_node("w1"), EvictionState.STUCK, None, intent=intent)]
    [finding] = eviction_findings(steps, KnownEvictions())
    assert finding.message.endswith(" Pods: UID uid-hog.")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.5, False), (9.9, False), pytest.param(10.0, True, id="as long as between two samples"), (25.0, True)],
)
def test_lists_that_are_older_than_the_next_sample_when_they_come_are_told(
    seconds: float, told: bool
) -> None:
    house = a_house()
    press(house)
    pods = listed(a_pod("hog"), at=SAMPLED_AT - 1, seconds=seconds)
    house.evictions = KnownEvictions(pods={UID: pods}, read_at=READ_AT)
    decision = house.decide()
    assert evicted(decision) == []
    assert decision.pod_list_requests != ()
    found = [each for each in decision.status.issues if each.reason == IssueReason.POD_LIST_FAILING]
    assert bool(found) is told
    for each in found:
        assert "no pod there until a list is newer than the last sample" in each.message


def test_a_list_that_fails_after_a_late_one_is_told_as_failing_alone() -> None:
    house = a_house()
    press(house)
    pods = listed(a_pod("hog"), at=SAMPLED_AT - 1, seconds=20.0)
    house.evictions = KnownEvictions(pods={UID: pods}, problems={UID: "down"}, read_at=READ_AT)
    found = house.decide().status.issues
    [failing] = [each for each in found if each.reason == IssueReason.POD_LIST_FAILING]
    assert "cannot list the pods" in failing.message


def test_lists_that_fail_and_a_missing_permission_are_told_while_they_are_tried_again() -> None:
    house = a_house()
    press(house)
    house.evictions = KnownEvictions(
        problems={UID: "list poddisruptionbudgets: 403"}, forbidden="no right to list", read_at=READ_AT
    )
    decision = house.decide()
    assert IssueReason.POD_LIST_FAILING in issues(decision)
    accepted = decision.status.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "MissingPermission")
    assert decision.pod_list_requests != ()
