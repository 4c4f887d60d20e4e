"""Events: one for each change, none for what goes on, and few for many nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import (
    MINUTE,
    NOON,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    deleted,
    edited,
    unreadable,
    with_status,
)
from harness.strategies import fleets, haunted_nodes, pools
from harness.writes import acted, relabelled, retainted
from winpool.api.events import EVENTS, MAX_NOTE, EventReason, Regarding
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.api.v1alpha1 import Mode
from winpool.decide import Decision, decide
from winpool.report.announce import on_transition
from winpool.snapshot import Node, Pool

LABELS = {"team": "a"}
TAINT = "os=windows:NoSchedule"


class Story:
    """A pool and its nodes through several passes: collects the events that they say."""

    def __init__(self, pool: Pool, *nodes: Node) -> None:
        self.pool = pool
        self.nodes: Nodes = {node.name: node for node in nodes}
        self.rivals: tuple[Pool, ...] = ()
        self.passes = 0

    def run(self) -> Decision:
        """One pass: what is decided is done, and reported."""
        self.passes += 1
        now = NOON + self.passes * MINUTE
        decision = decide(a_snapshot(self.pool, self.nodes, rivals=self.rivals, now=now))
        if decision.finalizers is not None:
            self.pool = replace(self.pool, finalizers=decision.finalizers)
        self.nodes = acted(decision, self.nodes)
        self.pool = with_status(self.pool, decision.status)
        return decision

    def quiet(self) -> list[EventReason]:
        """Run until nothing changes; return the reasons of all events on the pool."""
        said: list[EventReason] = []
        while True:
            before = (self.pool, self.nodes)
            decision = self.run()
            said += [event.reason for event in decision.pool_events]
            if (self.pool, self.nodes) == before:
                return said
            assert self.passes < 50, "never quiet"


def fleet(number: int = 12) -> list[Node]:
    return [a_node(f"w{n:02d}") for n in range(number)]


def test_a_cold_start_of_many_nodes_is_one_event() -> None:
    story = Story(a_pool(labels=LABELS, taints=[TAINT]), *fleet(40))
    first = story.run()
    assert first.node_events == {}
    assert [*first.pool_events] == []
    assert story.quiet() == [EventReason.ROLLOUT_COMPLETED]


def test_an_event_is_about_the_pool() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.run()
    (event,) = story.run().pool_events
    assert (event.name, event.uid) == ("pool", "uid-of-pool")
    assert "12 nodes" in event.note


def test_an_edit_starts_and_completes_a_rollout() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels={"team": "b"}))
    assert story.quiet() == [EventReason.ROLLOUT_STARTED, EventReason.ROLLOUT_COMPLETED]


def test_nothing_is_said_while_nothing_changes() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    assert story.quiet() == []


def test_a_pause_and_its_end_are_said() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels=LABELS, mode="Paused"))
    assert story.quiet() == [EventReason.POOL_PAUSED]
    story.pool = edited(story.pool, a_spec(labels=LABELS))
    assert story.quiet() == [EventReason.POOL_RESUMED]


def test_a_pool_that_begins_paused_says_that_alone() -> None:
    assert Story(a_pool(labels=LABELS, mode="Paused"), *fleet()).quiet() == [EventReason.POOL_PAUSED]


def test_a_rejected_spec_is_said_once() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = unreadable(story.pool)
    (event,) = story.run().pool_events
    assert event.reason is EventReason.SPEC_REJECTED
    assert "spec.os: must be given" in event.note
    assert story.quiet() == []


def test_an_overlap_is_said_once() -> None:
    rival = a_pool("rival")
    story = Story(a_pool(labels=LABELS), a_node(annotations=a_record(rival.uid)))
    story.rivals = (rival,)
    assert story.quiet() == [EventReason.POOL_OVERLAP]
    assert story.quiet() == []


def test_a_deletion_says_that_the_nodes_are_released() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = deleted(story.pool)
    said = []
    while story.pool.finalizers:
        said += [event.reason for event in story.run().pool_events]
    assert said == [EventReason.NODES_RELEASED]


def test_a_pool_that_had_nothing_on_any_node_releases_nothing() -> None:
    story = Story(deleted(a_pool(labels=LABELS)), a_node(labels={"agentpool": "blue"}))
    assert EventReason.NODES_RELEASED not in story.quiet()


# Nodes: exceptions only


def test_a_repair_is_said_on_the_node_with_what_was_put_back() -> None:
    story = Story(a_pool(labels=LABELS, taints=[TAINT]), *fleet())
    story.quiet()
    story.nodes["w03"] = retainted(relabelled(story.nodes["w03"], team="x"))
    decision = story.run()
    (event,) = decision.node_events.values()
    assert decision.node_events.keys() == {"w03"}
    assert (event.reason, event.name, event.uid) == (EventReason.DRIFT_REPAIRED, "w03", "uid-of-w03")
    assert "team" in event.note
    assert "os" in event.note
    assert "pool" in event.note


def test_a_rollout_is_started_by_a_changed_spec_and_by_nothing_else() -> None:
    """A repair that has to wait, and a node that joins, are no news of the spec."""
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.nodes["w03"] = relabelled(story.nodes["w03"], team="x")
    assert EventReason.ROLLOUT_STARTED not in story.quiet()
    story.nodes["new"] = a_node("new")
    assert EventReason.ROLLOUT_STARTED not in story.quiet()


def test_an_unreadable_record_is_said_on_the_node() -> None:
    story = Story(
        a_pool(labels=LABELS), a_node(annotations={APPLIED_ANNOTATION: "{"}, labels={POOL_LABEL: "pool"})
    )
    (event,) = story.run().node_events.values()
    assert event.reason is EventReason.OWNERSHIP_RECORD_UNREADABLE


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_what_is_not_repaired_is_not_said_to_be(mode: str) -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    story.pool = edited(story.pool, a_spec(labels=LABELS, mode=mode))
    story.nodes["w03"] = relabelled(story.nodes["w03"], team="x")
    assert story.run().node_events == {}


def test_a_repair_that_is_held_back_is_not_said() -> None:
    story = Story(a_pool(labels=LABELS), *fleet())
    story.quiet()
    drifted = relabelled(story.nodes["w03"], team="x")
    decision = decide(a_snapshot(story.pool, story.nodes | {"w03": drifted}, held_back=[drifted.uid]))
    assert (decision.patches, decision.node_events) == ((), {})


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
        decision = story.run()
        for event in decision.pool_events:
            assert EVENTS[event.reason].regarding is Regarding.POOL
            assert 0 < len(event.note) <= MAX_NOTE
        for name, event in decision.node_events.items():
            assert EVENTS[event.reason].regarding is Regarding.NODE
            assert event.name == name
            assert 0 < len(event.note) <= MAX_NOTE


@given(any_pool, fleets())
def test_no_event_without_a_transition(pool: Pool, nodes: Nodes) -> None:
    status = decide(a_snapshot(pool, nodes)).status
    assert list(on_transition(before=status, after=status, wrote=True)) == []
