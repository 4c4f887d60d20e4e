"""What people read of memory pressure: the condition, the count, issues, events, and what a restart keeps."""

from __future__ import annotations

import dataclasses
from typing import Final

import pytest
from hypothesis import given
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot, a_survey, with_nodes, with_status
from harness.memory_worlds import NAMES, OBSERVED, TIMEOUT, knowing, reported_before, watching
from harness.sentences import faults_of, faults_of_texts
from harness.views import CALM, HARD, JUST_STARTED, PAGING, SOFT, STALE, WARNED, a_view, known, told
from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.status import Issue
from winpool.decide import Decision, decide
from winpool.model.pressure import (
    NOTHING_KNOWN,
    Axis,
    Capabilities,
    Capability,
    Guard,
    KnownMemory,
    Level,
    NodePressure,
)
from winpool.model.snapshot import Snapshot
from winpool.status.events import Announcement

MEMORY_EVENTS: Final = (
    EventReason.MEMORY_PRESSURE_DETECTED,
    EventReason.MEMORY_PRESSURE_CLEARED,
    EventReason.UNATTRIBUTED_MEMORY,
)


def healthy(decision: Decision) -> tuple[str, str, str]:
    """Return status, reason and message of MemoryHealthy."""
    found = decision.status.condition("MemoryHealthy")
    assert found
    return found.status, found.reason, found.message


def issues(decision: Decision, reason: IssueReason = IssueReason.MEMORY_PRESSURE) -> list[Issue]:
    return [each for each in decision.status.issues if each.reason == reason]


def events(decision: Decision) -> list[Announcement]:
    return [each for each in decision.pool_events if each.reason in MEMORY_EVENTS]


def then(snapshot: Snapshot, memory: KnownMemory) -> Decision:
    """Report ``snapshot``, and decide on what is known after it."""
    return decide(replace(reported_before(snapshot), memory=memory))


def among_calm(views: dict[str, NodePressure], **problems: str) -> KnownMemory:
    return told({**dict.fromkeys(NAMES, CALM), **views}, problems=problems)


# The condition and the count


def test_a_pool_without_the_block_has_neither_condition_nor_count() -> None:
    decision = decide(replace(a_snapshot(a_pool(), [a_node()]), memory=told({"w1": HARD})))
    assert decision.status.condition("MemoryHealthy") is None
    assert decision.status.pressured_nodes == 0
    assert not issues(decision)


def test_nodes_under_pressure_are_counted() -> None:
    decision = decide(watching({"w1": HARD, "w4": PAGING}))
    assert healthy(decision) == (
        "False",
        "NodesUnderPressure",
        "2 of 6 nodes are under memory pressure. See the issue MemoryPressure.",
    )
    assert decision.status.pressured_nodes == 2
    ready = decision.status.condition("Ready")
    assert ready
    assert (ready.status, ready.reason) == ("True", "NodesUnderPressure")


def test_the_breaker_counts_nodes_without_samples_too() -> None:
    memory = among_calm({"w1": HARD, "w2": STALE, "w3": STALE})
    decision = decide(knowing(memory))
    assert healthy(decision) == (
        "False",
        "SystemicPressure",
        "1 of 6 nodes is under memory pressure, and 2 give no samples. This is more than maxPressuredNodes "
        "(20%) allows. See the issue SystemicPressure.",
    )
    [issue] = issues(decision, IssueReason.SYSTEMIC_PRESSURE)
    assert issue.nodes == ("w1", "w2", "w3")
    assert decision.status.issues[0] == issue


def test_nodes_that_are_only_unknown_are_no_pressure() -> None:
    decision = decide(knowing(told(dict.fromkeys(NAMES, STALE))))
    assert healthy(decision)[:2] == ("Unknown", "SamplesMissing")
    assert not issues(decision, IssueReason.SYSTEMIC_PRESSURE)


def test_a_warning_is_no_pressure() -> None:
    decision = decide(watching({"w1": WARNED}))
    assert healthy(decision)[:2] == ("True", "NoPressure")
    [issue] = issues(decision, IssueReason.MEMORY_WARNING)
    assert (issue.nodes, decision.status.pressured_nodes) == (("w1",), 0)
    assert not events(decision)


def test_a_node_at_soft_is_a_warning_until_it_is_signalled() -> None:
    decision = decide(watching({"w1": a_view(Level.SOFT, signalled=False)}))
    assert not issues(decision)
    assert issues(decision, IssueReason.MEMORY_WARNING)


# What the sources can tell

FOUND: Final = Capabilities(
    nodes=40,
    commit_limit=Capability(have=38, unknown=0),
    pod_commit=Capability(have=3, unknown=37),
    paging=Capability(have=0, unknown=0),
    kubelet_eviction=Capability(have=25, unknown=13),
)
SAID: Final = (
    "Of 40 nodes, these report the commit limit: 38, the commit of pods: 3 (unknown: 37), paging: 0. "
    "Kubelets that evict pods themselves: 25 (unknown: 13)."
)


def test_what_the_sources_can_tell_is_in_the_status_and_what_is_unknown_is_counted_apart() -> None:
    decision = decide(knowing(replace(among_calm({}), capabilities=FOUND)))
    assert decision.status.memory_capabilities == SAID
    assert list(faults_of_texts([SAID])) == []


def test_what_the_sources_can_tell_stays_over_a_restart_until_it_is_known_again() -> None:
    before = knowing(replace(among_calm({}), capabilities=FOUND))
    assert then(before, NOTHING_KNOWN).status.memory_capabilities == SAID
    fewer = replace(FOUND, commit_limit=Capability(have=30, unknown=8))
    said = then(before, replace(among_calm({}), capabilities=fewer)).status.memory_capabilities
    assert said == SAID.replace("38", "30 (unknown: 8)", 1)


def test_a_pool_that_watches_no_memory_says_nothing_of_sources() -> None:
    memory = replace(told({"w1": CALM}), capabilities=FOUND)
    assert decide(knowing(memory)).status.memory_capabilities == SAID
    assert decide(replace(a_snapshot(a_pool(), [a_node()]), memory=memory)).status.memory_capabilities is None
    assert decide(knowing(among_calm({}))).status.memory_capabilities is None


# Issues


def test_each_axis_and_level_is_one_issue_with_the_numbers_of_the_worst_node() -> None:
    worse = a_view(Level.HARD)
    axis = next(iter(worse.axes))
    reading = worse.axes[axis].reading
    assert reading
    worst = replace(
        worse,
        axes={**worse.axes, axis: replace(worse.axes[axis], reading=replace(reading, left=2**28))},
    )
    decision = decide(watching({"w1": HARD, "w2": worst, "w3": PAGING, "w4": SOFT}))
    by_message = {each.message: each.nodes for each in issues(decision)}
    assert by_message == {
        "These nodes can commit hardly any more memory, so allocations are about to fail there: on the worst "
        "of them, 23.8Gi of 24Gi committed (99 %), sampled at 2026-11-23T12:00:00Z.": ("w1", "w2"),
        "These nodes have committed most of the memory that they can commit: 22Gi of 24Gi committed (92 "
        "%), sampled at 2026-11-23T12:00:00Z.": ("w4",),
        "These nodes have hardly any RAM left, and do little but page: 614.4Mi of 16Gi RAM available (4 %), "
        "1200 page reads per second, sampled at 2026-11-23T12:00:00Z.": ("w3",),
    }


@pytest.mark.parametrize("taken_at", [2.0**52, None], ids=["no time", "unknown"])
def test_numbers_whose_time_cannot_be_written_have_none(taken_at: float | None) -> None:
    commit = HARD.axes[Axis.COMMIT]
    assert commit.reading
    reading = replace(commit.reading, taken_at=taken_at)
    view = replace(HARD, axes={**HARD.axes, Axis.COMMIT: replace(commit, reading=reading)})
    [issue] = issues(decide(watching({"w1": view})))
    assert issue.message.endswith(" committed (98 %).")


@pytest.mark.parametrize("guard", Guard)
def test_memory_that_is_not_that_of_pods_has_an_issue_that_says_to_recycle_the_node(guard: Guard) -> None:
    decision = decide(watching({"w1": a_view(Level.HARD, guard=guard)}))
    [issue] = issues(decision, IssueReason.UNATTRIBUTED_MEMORY)
    assert issue.nodes == ("w1",)
    assert issue.fix.startswith("Recycle each of these nodes")
    assert issues(decision)


def test_nodes_without_samples_have_one_issue_for_each_cause() -> None:
    memory = told(
        {**dict.fromkeys(NAMES, CALM), "w1": STALE, "w2": STALE, "w3": STALE},
        problems={"w1": TIMEOUT, "w2": TIMEOUT},
    )
    decision = decide(knowing(memory))
    found = {each.nodes: each.message for each in issues(decision, IssueReason.MEMORY_UNKNOWN)}
    assert found == {
        ("w1", "w2"): f"The operator does not know the memory of these nodes. {TIMEOUT}",
        (
            "w3",
        ): "The operator does not know the memory of these nodes. Their last samples are too old, though "
        "no poll has failed since. Usually more kubelets answer slowly than the operator can poll in time. "
        "Check the load of these nodes.",
    }


def test_a_source_that_fails_is_told_also_while_another_one_gives_samples() -> None:
    decision = decide(watching({"w2": HARD}, problems=dict.fromkeys(("w1", "w2"), TIMEOUT)))
    [issue] = issues(decision, IssueReason.MEMORY_SOURCE_FAILING)
    assert issue.nodes == ("w1", "w2")
    assert issue.message == f"A source gives no samples of the memory of these nodes. {TIMEOUT}"
    assert not issues(decision, IssueReason.MEMORY_UNKNOWN)
    assert healthy(decide(watching(problems={"w1": TIMEOUT})))[:2] == ("True", "NoPressure")


@given(found=known(NAMES))
def test_whatever_is_known_is_told_in_sentences(found: KnownMemory) -> None:
    decision = decide(knowing(found))
    assert list(faults_of(decision.status)) == []
    assert list(faults_of_texts(each.note for each in decision.pool_events)) == []


# What a start of the operator keeps


def test_after_a_start_what_was_said_of_nodes_that_are_not_judged_yet_stays() -> None:
    before = reported_before(watching({"w1": HARD, "w2": PAGING, "w3": WARNED}))
    for memory in (NOTHING_KNOWN, told(dict.fromkeys(NAMES, JUST_STARTED))):
        decision = decide(replace(before, memory=memory))
        assert decision.status == before.pool.status
        assert not events(decision)


def test_after_a_start_a_healthy_pool_stays_healthy() -> None:
    before = reported_before(watching())
    assert decide(replace(before, memory=NOTHING_KNOWN)).status == before.pool.status


def test_after_a_start_what_was_unknown_stays_so() -> None:
    before = reported_before(knowing(told({}, problems=dict.fromkeys(NAMES, TIMEOUT))))
    decision = decide(replace(before, memory=NOTHING_KNOWN))
    assert healthy(decision)[:2] == ("Unknown", "SamplesMissing")
    [issue] = issues(decision, IssueReason.MEMORY_UNKNOWN)
    assert TIMEOUT in issue.message


def test_a_node_that_has_been_judged_is_said_to_be_as_it_is_while_others_are_not() -> None:
    decision = then(
        watching({"w1": HARD, "w2": HARD}), told({**dict.fromkeys(NAMES, JUST_STARTED), "w1": CALM})
    )
    [issue] = issues(decision)
    assert (issue.nodes, issue.node_count, decision.status.pressured_nodes) == (("w2",), 1, 1)


def test_nodes_that_join_change_nothing_of_a_healthy_pool() -> None:
    before = reported_before(watching())
    newcomer = a_node("joins")
    joined = decide(with_nodes(before, *before.nodes, newcomer))
    assert healthy(joined)[:2] == ("True", "NoPressure")


def test_a_pool_that_begins_to_watch_waits_for_samples() -> None:
    assert healthy(decide(knowing(NOTHING_KNOWN))) == (
        "Unknown",
        "SamplesMissing",
        "The operator waits for samples of most nodes.",
    )


# Events


def test_few_nodes_have_an_event_each_and_it_is_not_repeated() -> None:
    snapshot = reported_before(watching())
    found = events(decide(replace(snapshot, memory=among_calm({"w1": HARD, "w2": HARD}))))
    assert [(each.reason, each.name) for each in found] == [
        (EventReason.MEMORY_PRESSURE_DETECTED, "w1"),
        (EventReason.MEMORY_PRESSURE_DETECTED, "w2"),
    ]
    assert not events(then(watching({"w1": HARD, "w2": HARD}), among_calm({"w1": HARD, "w2": HARD})))


def test_another_level_of_the_same_node_is_no_event() -> None:
    assert not events(then(watching({"w1": SOFT}), among_calm({"w1": HARD})))


def test_many_nodes_have_one_event_of_their_pool() -> None:
    many = dict.fromkeys(NAMES[:5], HARD)
    [detected] = events(then(watching(), among_calm(many)))
    assert (detected.reason, detected.name) == (EventReason.MEMORY_PRESSURE_DETECTED, "pool")
    assert "5 nodes (w0, w1, w2 and 2 more)" in detected.note
    [cleared] = events(then(watching(many), among_calm({})))
    assert (cleared.reason, cleared.name) == (EventReason.MEMORY_PRESSURE_CLEARED, "pool")
    assert cleared.note == "5 nodes were under memory pressure, and no node is any more."


def test_a_node_that_is_no_longer_under_pressure_has_an_event() -> None:
    found = events(then(watching({"w1": HARD, "w2": HARD}), among_calm({"w2": HARD})))
    assert [(each.reason, each.name) for each in found] == [(EventReason.MEMORY_PRESSURE_CLEARED, "w1")]


@pytest.mark.parametrize("view", [STALE, JUST_STARTED, SOFT], ids=["stale", "undecided", "soft"])
def test_a_node_that_is_not_known_to_be_calm_has_not_been_cleared(view: NodePressure) -> None:
    assert not events(then(watching({"w1": HARD}), among_calm({"w1": view})))


def test_memory_that_is_not_that_of_pods_has_an_event() -> None:
    guarded = a_view(Level.HARD, guard=Guard.OUTSIDE_SHARE)
    found = events(then(watching({"w1": HARD}), among_calm({"w1": guarded})))
    assert [(each.reason, each.name) for each in found] == [(EventReason.UNATTRIBUTED_MEMORY, "w1")]


# Pods that do not tolerate the taint


@pytest.mark.parametrize(("mode", "asks"), [("Observe", False), ("Signal", True), ("Evict", True)])
def test_node_agents_that_do_not_tolerate_the_taint_are_named_where_it_may_be_set(
    mode: str, asks: bool
) -> None:
    pool, nodes = a_pool(more={"memoryPressure": {"mode": mode}}), [a_node("w1")]
    survey = a_survey(pool, nodes)
    assert survey
    met = {
        taint: dataclasses.replace(
            found,
            daemon_sets=("kube-system/cni",),
            daemon_set_nodes=frozenset({"w1"}),
            daemon_set_count=1,
        )
        for taint, found in survey.intolerant.items()
    }
    found = issues(
        decide(a_snapshot(pool, nodes, survey=dataclasses.replace(survey, intolerant=met))),
        IssueReason.INTOLERANT_NODE_AGENTS,
    )
    assert [each.message for each in found] == asks * [
        "The DaemonSets kube-system/cni do not tolerate the taint winpool.dev/memory-pressure:NoSchedule: on"
        " a node with it none of their pods starts, and those that run do not come back once they end."
    ]


def test_a_status_of_a_pool_that_observes_names_no_taint() -> None:
    template = decide(replace(a_snapshot(a_pool(more=OBSERVED), [a_node()]))).status.node_template
    assert template
    assert template.taints == ()


def test_the_count_is_in_the_status_that_is_written() -> None:
    snapshot = watching({"w1": HARD})
    pool = with_status(snapshot.pool, decide(snapshot).status)
    assert pool.status.to_object()["pressuredNodes"] == 1
