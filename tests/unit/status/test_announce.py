"""Events: one for each change, none for what goes on, and few for many nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    by_name,
    deleted,
    edited,
    unreadable,
    with_status,
)
from harness.strategies import fleets, haunted_nodes, pools
from harness.writes import acted, relabelled, retainted
from winpool.api.events import EventReason, Regarding
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL, RELEASE_FINALIZER
from winpool.api.spec import Mode
from winpool.api.status import WindowsNodePoolStatus
from winpool.decide import Decision, decide
from winpool.kube.events import NOTE_BYTES
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Attempts, Pool
from winpool.status.events import Announcement, announced, on_transition

LABELS = {"team": "a"}
TAINT = "os=windows:NoSchedule"


class Story:
    """A pool and its nodes through several passes: collects the events that they say.

    A pass that is ``quick`` reports what stands after all its writes; a slow one what stood before.
    """

    def __init__(self, pool: Pool, *nodes: Node, quick: bool = True) -> None:
        self.pool = pool
        self.nodes = by_name(*nodes)
        self.rivals: tuple[Pool, ...] = ()
        self.quick = quick
        self.passes = 0
        self.written = 0

    def look(self) -> Decision:
        """Decide on what stands there now."""
        now = NOON + self.passes * MINUTE
        return decide(
            a_snapshot(self.pool, self.nodes, rivals=self.rivals, now=now, written_generation=self.written)
        )

    def run(self) -> tuple[Decision, list[Announcement]]:
        """One pass: what is decided is done, and reported; return it with the events on the pool."""
        self.passes += 1
        decision = self.look()
        if decision.writes.finalizers is not None:
            self.pool = replace(self.pool, finalizers=decision.writes.finalizers)
        self.nodes = acted(decision, self.nodes)
        if decision.writes.patches:
            self.written = self.pool.generation
        later = self.look()
        # The pass that lets the pool go says so itself, and nothing is left to look at after it.
        quick = self.quick and not decision.writes.releases_pool and not later.writes.releases_pool
        reported = later if quick else decision
        self.pool = with_status(self.pool, reported.status)
        return decision, [*reported.pool_events]

    def quiet(self) -> list[EventReason]:
        """Run until nothing changes; return the reasons of all events on the pool."""
        said: list[EventReason] = []
        while True:
            before = (self.pool, self.nodes)
            said += [event.reason for event in self.run()[1]]
            if (self.pool, self.nodes) == before:
                return said
            assert self.passes < 50, "never quiet"


class Begin(Protocol):
    """Begins a story in the manner that the test is run with."""

    def __call__(self, pool: Pool, *nodes: Node) -> Story:
        """Return a story."""


@pytest.fixture(params=[True, False], ids=["quick", "slow"])
def begin(request: pytest.FixtureRequest) -> Begin:
    def story(pool: Pool, *nodes: Node) -> Story:
        return Story(pool, *nodes, quick=bool(request.param))

    return story


def fleet(number: int = 12) -> list[Node]:
    return [a_node(f"w{n:02d}") for n in range(number)]


def test_a_cold_start_of_many_nodes_is_one_event(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS, taints=[TAINT]), *fleet(40))
    decision, said = story.run()
    assert (len(decision.writes.patches), decision.node_events) == (40, {})
    assert [*(event.reason for event in said), *story.quiet()] == [EventReason.ROLLOUT_COMPLETED]


def test_an_event_is_about_the_pool() -> None:
    (event,) = Story(a_pool(labels=LABELS), *fleet()).run()[1]
    assert (event.regarding, event.name, event.uid) == (Regarding.POOL, "pool", "uid-of-pool")
    assert "12 nodes" in event.note


def test_an_edit_starts_and_completes_a_rollout(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels={"team": "b"}))
    assert story.quiet() == [EventReason.ROLLOUT_STARTED, EventReason.ROLLOUT_COMPLETED]


def of_another_release(number: int = 12) -> list[Node]:
    other = replace(SUPPORTED, kernel="10.0.26100.32995")
    return [a_node(f"w{n:02d}", versions=other) for n in range(number)]


def test_a_rollout_is_complete_when_labels_and_taints_are_on_whatever_windows_the_nodes_run(
    begin: Begin,
) -> None:
    story = begin(a_pool(labels=LABELS), *of_another_release())
    assert EventReason.ROLLOUT_COMPLETED in story.quiet()
    state = story.pool.status.condition("NodesUpToDate")
    assert state is not None
    assert state.reason == "WaitingForActor"
    story.pool = edited(story.pool, a_spec(labels={"team": "b"}))
    assert story.quiet() == [EventReason.ROLLOUT_STARTED, EventReason.ROLLOUT_COMPLETED]


def test_machines_that_are_upgraded_by_a_person_are_no_rollout(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *of_another_release())
    story.quiet()
    story.nodes = {name: replace(node, versions=SUPPORTED) for name, node in story.nodes.items()}
    assert EventReason.ROLLOUT_STARTED not in story.quiet()
    assert reason_of(story) == "UpToDate"


def reason_of(story: Story) -> str:
    ready = story.pool.status.condition("Ready")
    assert ready is not None
    return ready.reason


def test_an_edit_that_changes_no_node_is_no_rollout(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels=LABELS))
    assert story.quiet() == []


def test_nothing_is_said_while_nothing_changes(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    assert story.quiet() == []


def test_a_pause_and_its_end_are_said(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels=LABELS, mode="Paused"))
    assert story.quiet() == [EventReason.POOL_PAUSED]
    story.pool = edited(story.pool, a_spec(labels=LABELS))
    assert story.quiet() == [EventReason.POOL_RESUMED]


def test_a_pool_that_begins_paused_says_that_alone(begin: Begin) -> None:
    assert begin(a_pool(labels=LABELS, mode="Paused"), *fleet()).quiet() == [EventReason.POOL_PAUSED]


def test_a_rejected_spec_is_said_once(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = unreadable(story.pool)
    (event,) = story.run()[1]
    assert event.reason is EventReason.SPEC_REJECTED
    assert "spec.os: must be given" in event.note
    assert story.quiet() == []


def test_a_spec_that_is_refused_for_another_reason_is_the_same_event_and_names_the_reason(
    begin: Begin,
) -> None:
    large = a_spec(more={"reservedMemory": {"systemReserved": "9Gi"}})
    story = begin(a_pool(), replace(a_node(), memory=NodeMemory(16 * 2**30, 14 * 2**30)))
    story.quiet()
    story.pool = edited(story.pool, large)
    [event] = [each for each in story.run()[1] if each.reason is EventReason.SPEC_REJECTED]
    assert event.note.startswith("ReservedMemoryTooLarge: ")
    assert reason_of(story) == event.reason


def test_an_overlap_is_said_once(begin: Begin) -> None:
    rival = a_pool("rival")
    story = begin(a_pool(labels=LABELS), a_node(annotations=a_record(rival.uid)))
    story.rivals = (rival,)
    assert story.quiet() == [EventReason.POOL_OVERLAP]
    assert story.quiet() == []


def test_a_deletion_says_that_the_nodes_are_released(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = deleted(story.pool)
    said = []
    while story.pool.finalizers:
        said += [event.reason for event in story.run()[1]]
    assert said == [EventReason.NODES_RELEASED]


@pytest.mark.parametrize(
    ("attempts", "reported", "note"),
    [
        (Attempts(written_nodes=12, is_from_start=True), 12, "Released 12 nodes."),
        (Attempts(written_nodes=1, is_from_start=True), 12, "Released 1 node."),
        (Attempts(is_from_start=True), 12, "No node was left to release."),
        (Attempts(written_nodes=12), 12, "Released 12 nodes."),
        (Attempts(written_nodes=5), 12, "Released all nodes."),
        (Attempts(), 12, "Released all nodes."),
    ],
    ids=[
        "all seen",
        "one of them",
        "none was there",
        "as many as belonged",
        "a later process",
        "it did none",
    ],
)
def test_released_nodes_are_counted_only_where_no_other_process_can_have_released_some(
    attempts: Attempts, reported: int, note: str
) -> None:
    status = WindowsNodePoolStatus(observed_generation=1, nodes=reported)
    pool = deleted(a_pool(finalizers=(RELEASE_FINALIZER,), status=status))
    (event,) = decide(replace(a_snapshot(pool), attempts=attempts)).pool_events
    assert (event.reason, event.note) == (EventReason.NODES_RELEASED, note)


def test_what_was_reported_during_the_deletion_says_nothing_of_how_many_there_were() -> None:
    pool = deleted(a_pool(finalizers=(RELEASE_FINALIZER,)))
    pool = with_status(pool, WindowsNodePoolStatus(observed_generation=pool.generation, nodes=5))
    (event,) = decide(replace(a_snapshot(pool), attempts=Attempts(written_nodes=5))).pool_events
    assert event.note == "Released all nodes."


def test_a_missing_permission_is_said_once_with_the_rule() -> None:
    pool = a_pool(labels=LABELS)
    decision = decide(a_snapshot(pool, fleet(), missing_permission="Add the rule X."))
    (event,) = [each for each in decision.pool_events if each.reason is EventReason.MISSING_PERMISSION]
    assert "Add the rule X." in event.note
    pool = with_status(pool, decision.status)
    again = decide(a_snapshot(pool, fleet(), missing_permission="Add the rule X.", now=NOON + MINUTE))
    assert again.pool_events == ()
    other = decide(a_snapshot(pool, fleet(), missing_permission="add the rule Y", now=NOON + MINUTE))
    (event,) = other.pool_events
    assert (event.reason, "add the rule Y" in event.note) == (EventReason.MISSING_PERMISSION, True)


def test_labels_and_taints_on_all_nodes_complete_a_rollout_whatever_windows_they_run() -> None:
    old = replace(SUPPORTED, kernel="10.0.1.1")
    story = Story(a_pool(labels=LABELS), *(replace(node, versions=old) for node in fleet()))
    assert story.quiet().count(EventReason.ROLLOUT_COMPLETED) == 1


def test_a_pool_that_had_nothing_on_any_node_releases_nothing(begin: Begin) -> None:
    story = begin(deleted(a_pool(labels=LABELS)), a_node(labels={"agentpool": "blue"}))
    assert EventReason.NODES_RELEASED not in story.quiet()


# Nodes: exceptions only


def test_a_repair_is_said_on_the_node_with_what_was_put_back(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS, taints=[TAINT]), *fleet())
    story.quiet()
    story.nodes["w03"] = retainted(relabelled(story.nodes["w03"], team="x"))
    decision, _ = story.run()
    (event,) = decision.node_events.values()
    assert decision.node_events.keys() == {"w03"}
    assert (event.reason, event.name, event.uid) == (EventReason.DRIFT_REPAIRED, "w03", "uid-of-w03")
    assert "team" in event.note
    assert "os" in event.note
    assert "pool" in event.note


def test_a_rollout_is_started_by_a_changed_spec_and_by_nothing_else(begin: Begin) -> None:
    """A repair that has to wait, and a node that joins, are no news of the spec."""
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.nodes["w03"] = relabelled(story.nodes["w03"], team="x")
    assert EventReason.ROLLOUT_STARTED not in story.quiet()
    story.nodes["new"] = a_node("new")
    assert EventReason.ROLLOUT_STARTED not in story.quiet()


def test_an_unreadable_record_is_said_on_the_node(begin: Begin) -> None:
    story = begin(
        a_pool(labels=LABELS), a_node(annotations={APPLIED_ANNOTATION: "{"}, labels={POOL_LABEL: "pool"})
    )
    (event,) = story.run()[0].node_events.values()
    assert event.reason is EventReason.OWNERSHIP_RECORD_UNREADABLE


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_what_is_not_repaired_is_not_said_to_be(mode: str) -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels=LABELS, mode=mode))
    story.nodes["w03"] = relabelled(story.nodes["w03"], team="x")
    assert story.run()[0].node_events == {}


def test_a_repair_that_is_held_back_is_not_said(begin: Begin) -> None:
    story = begin(a_pool(labels=LABELS), *fleet())
    story.quiet()
    drifted = relabelled(story.nodes["w03"], team="x")
    decision = decide(a_snapshot(story.pool, story.nodes | {"w03": drifted}, held_back=[drifted.uid]))
    assert (decision.writes.patches, decision.node_events) == ((), {})


def alive(pool: Pool) -> Pool:
    return pool


any_pool = pools(modes=st.sampled_from(Mode))
fates = st.sampled_from((alive, deleted, unreadable))


@given(any_pool, fates, fleets(), haunted_nodes("w9"))
def test_every_event_is_in_the_table_and_within_its_limits(
    pool: Pool, fate: Callable[[Pool], Pool], nodes: Nodes, haunted: Node
) -> None:
    story = Story(fate(pool), *nodes.values(), haunted)
    for _ in range(3):
        decision, said = story.run()
        assert all(name == event.name for name, event in decision.node_events.items())
        for event in (*said, *announced(decision.node_events.values())):
            assert event.regarding in event.reason.objects
            assert 0 < len(event.note.encode()) <= NOTE_BYTES
            assert "{" not in event.note


@given(any_pool, fleets())
def test_no_event_without_a_transition(pool: Pool, nodes: Nodes) -> None:
    status = decide(a_snapshot(pool, nodes)).status
    assert list(on_transition(before=status, after=status, wrote=True)) == []
