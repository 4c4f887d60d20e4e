"""Conditions over time: what moves a transition time, which generation is claimed, what stays the same."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import (
    MINUTE,
    NOON,
    Nodes,
    a_node,
    a_pool,
    a_snapshot,
    by_name,
    deleted,
    unreadable,
    with_status,
)
from harness.conditions import is_listed
from harness.strategies import fleets, haunted_nodes, pools
from harness.writes import acted
from winpool.api.conditions import ConditionType
from winpool.api.spec import Mode
from winpool.api.status import WindowsNodePoolStatus
from winpool.decide import decide
from winpool.model.snapshot import Snapshot

LABELS = {"team": "a"}


def three() -> Nodes:
    return by_name(*(a_node(f"w{number}") for number in range(3)))


def times(status: WindowsNodePoolStatus) -> dict[str, timedelta]:
    return {condition.type: condition.last_transition_time - NOON for condition in status.conditions}


def test_a_transition_time_moves_only_when_the_status_does() -> None:
    pool = a_pool(labels=LABELS)
    first = decide(a_snapshot(pool, three()))
    assert set(times(first.status).values()) == {timedelta()}
    nodes = acted(first, three())
    second = decide(a_snapshot(with_status(pool, first.status), nodes, now=NOON + MINUTE))
    moved = {kind for kind, time in times(second.status).items() if time == MINUTE}
    assert moved == {"NodesUpToDate", "Reconciling"}
    # Ready went from RolloutInProgress to UpToDate: another reason, the same status.
    ready = second.status.condition("Ready")
    assert ready is not None
    assert (ready.reason, ready.last_transition_time) == ("UpToDate", NOON)


@pytest.mark.parametrize("generation", [1, 7])
def test_every_generation_reported_is_the_one_looked_at(generation: int) -> None:
    for pool in (a_pool(generation=generation), a_pool(generation=generation, refusal="spec: must be given")):
        status = decide(a_snapshot(pool, three())).status
        assert status.observed_generation == generation
        assert {condition.observed_generation for condition in status.conditions} == {generation}


any_mode = st.sampled_from(Mode)
any_pool = st.builds(
    lambda pool, fate, previous: with_status(
        {"lives": pool, "deleted": deleted(pool), "unreadable": unreadable(pool)}[fate], previous
    ),
    pools(modes=any_mode),
    st.sampled_from(("lives", "lives", "deleted", "unreadable")),
    st.just(WindowsNodePoolStatus()),
)
worlds = st.builds(
    lambda pool, rival, fleet, haunted, permission, vanished: a_snapshot(
        pool,
        {**fleet, haunted.name: haunted},
        rivals=[rival],
        missing_permission=permission,
        vanished=vanished,
    ),
    any_pool,
    pools("rival", modes=any_mode),
    fleets(),
    haunted_nodes("w9"),
    st.sampled_from(("", "", "patch nodes")),
    st.sampled_from(((), ("other",))),
)


@given(worlds)
def test_only_what_the_table_lists_is_reported(snapshot: Snapshot) -> None:
    found = decide(snapshot).status.conditions
    only_with_their_block = (ConditionType.UPGRADE_ALLOWED, ConditionType.MEMORY_HEALTHY)
    always = [each for each in ConditionType if each not in only_with_their_block]
    assert [condition.type for condition in found] == always
    for condition in found:
        assert is_listed(condition.type, condition.status, condition.reason), condition
        assert 0 < len(condition.message) <= 4096
        assert "\n" not in condition.message


@given(worlds)
def test_a_status_that_is_reported_again_is_the_same(snapshot: Snapshot) -> None:
    """Or every pass would write, and every write would wake a pass."""
    first = decide(snapshot).status
    later = a_snapshot(
        with_status(snapshot.pool, first),
        snapshot.nodes,
        rivals=snapshot.others.rivals,
        vanished=snapshot.others.vanished,
        missing_permission=snapshot.missing_permission,
        now=NOON + MINUTE,
    )
    assert decide(later).status == first
    assert decide(later).pool_events == ()
