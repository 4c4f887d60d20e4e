"""Which state each node of a pool is counted under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from harness.builders import NOON
from unit.cli.pools import TAINT, TEAM, a_member, a_pool, members
from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL
from winpool.cli.status import NodeGroup, NodeState, PoolView, node_groups

if TYPE_CHECKING:
    from winpool.model.node import Node

POOL = a_pool(
    spec={
        "os": {"version": "2022", "targetRevision": 3000},
        "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
    }
)
MISMATCH = "winpool.dev/reserved-memory-mismatch:NoSchedule"
PRESSURE = "winpool.dev/memory-pressure:NoSchedule"


def groups_of(
    pool: Mapping[str, Any], nodes: Sequence[Node], *, counted: int, up_to_date: int
) -> tuple[NodeGroup, ...]:
    status = {**pool.get("status", {}), "nodes": counted, "upToDateNodes": up_to_date}
    return node_groups(PoolView({**pool, "status": status}), nodes, now=NOON)


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, NodeState.UP_TO_DATE),
        ({"ready": "Unknown"}, NodeState.NOT_READY),
        ({"unschedulable": True}, NodeState.CORDONED),
        ({"taints": []}, NodeState.KEYS_MISSING),
        ({"taints": ["os=linux:NoSchedule"]}, NodeState.KEYS_MISSING),
        ({"labels": {POOL_LABEL: "win-2022", "team": "billing"}}, NodeState.KEYS_MISSING),
        ({"taints": [TAINT, "example.com/starting:NoSchedule"]}, NodeState.VALIDATING),
        ({"release": "2019", "revision": 9000}, NodeState.UPGRADE_DUE),
        ({"revision": 2999}, NodeState.UPGRADE_DUE),
        ({"revision": 3000}, NodeState.UP_TO_DATE),
        ({"release": None}, NodeState.BUILD_UNKNOWN),
        ({"revision": None}, NodeState.BUILD_UNKNOWN),
        ({"revision": "x"}, NodeState.BUILD_UNKNOWN),
        ({"taints": [TAINT, MISMATCH]}, NodeState.MEMORY_MISMATCH),
        ({"labels": {POOL_LABEL: "win-2022", **TEAM, "agentpool": "blue"}}, NodeState.TO_BE_RELEASED),
        ({"taints": [TAINT, PRESSURE]}, NodeState.MEMORY_PRESSURE),
        ({"taints": [PRESSURE]}, NodeState.MEMORY_PRESSURE),
        ({"taints": [TAINT, PRESSURE], "unschedulable": True}, NodeState.CORDONED),
        ({"taints": [TAINT, PRESSURE], "annotations": {HOLD_ANNOTATION: ""}}, NodeState.MEMORY_PRESSURE),
        ({"annotations": {HOLD_ANNOTATION: ""}}, NodeState.HELD),
        ({"annotations": {HOLD_ANNOTATION: "2099-01-01T00:00:00Z"}}, NodeState.HELD),
        ({"annotations": {HOLD_ANNOTATION: "sre"}, "taints": []}, NodeState.HELD),
        ({"annotations": {HOLD_ANNOTATION: "2020-01-01T00:00:00Z"}}, NodeState.UP_TO_DATE),
    ],
)
def test_a_node_is_counted_under_the_worst_that_it_shows(more: dict[str, Any], state: NodeState) -> None:
    node = a_member("w1", **more)
    assert groups_of(POOL, [node], counted=1, up_to_date=40) == (NodeGroup(state, 1, ("w1",)),)


def test_a_release_that_shares_a_build_with_another_is_up_to_date() -> None:
    """Windows Server 1809 and 2019 have one build, and nodes are labelled as the longer supported one."""
    pool = a_pool(spec={"os": {"version": "1809"}})
    (group,) = groups_of(pool, [a_member("w1", release="2019")], counted=1, up_to_date=40)
    assert group.state is NodeState.UP_TO_DATE


def test_a_revision_that_nobody_knows_is_up_to_date_where_none_is_asked_for() -> None:
    (group,) = groups_of(a_pool(), [a_member("w1", revision=None)], counted=1, up_to_date=1)
    assert group.state is NodeState.UP_TO_DATE


def test_no_more_nodes_are_up_to_date_than_the_pool_says() -> None:
    """A node on which a label could not be removed looks as it should."""
    assert groups_of(POOL, members(3), counted=3, up_to_date=2) == (
        NodeGroup(NodeState.UP_TO_DATE, 2),
        NodeGroup(NodeState.NOT_AS_ASKED, 1),
    )
    assert groups_of(POOL, members(2), counted=2, up_to_date=0) == (
        NodeGroup(NodeState.NOT_AS_ASKED, 2, ("w01", "w02")),
    )


def test_the_good_come_first_then_the_worst() -> None:
    nodes = [a_member("b", unschedulable=True), *members(2), a_member("a", ready="False")]
    assert [group.state for group in groups_of(POOL, nodes, counted=4, up_to_date=40)] == [
        NodeState.UP_TO_DATE,
        NodeState.NOT_READY,
        NodeState.CORDONED,
    ]


def test_nodes_that_do_not_carry_the_label_are_counted_without_names() -> None:
    groups = groups_of(POOL, members(3), counted=12, up_to_date=40)
    assert groups[-1] == NodeGroup(NodeState.NOT_WRITTEN, 9)
    assert groups_of(POOL, [], counted=12, up_to_date=40) == (NodeGroup(NodeState.NOT_WRITTEN, 12),)
    assert groups_of(POOL, [], counted=0, up_to_date=40) == ()


def test_all_nodes_of_a_pool_that_is_being_deleted_are_to_be_released() -> None:
    pool = a_pool(metadata={"deletionTimestamp": "2026-11-01T11:00:00Z"})
    (group,) = groups_of(pool, members(3), counted=3, up_to_date=40)
    assert (group.state, group.count) == (NodeState.TO_BE_RELEASED, 3)


def test_of_a_spec_that_cannot_be_read_what_every_node_shows_is_told() -> None:
    pool = a_pool(spec={"nodeSelector": 7})
    nodes = [a_member("w1", ready="False"), a_member("w2", taints=[])]
    assert [group.state for group in groups_of(pool, nodes, counted=2, up_to_date=40)] == [
        NodeState.UP_TO_DATE,
        NodeState.NOT_READY,
    ]


def test_under_pressure_or_held_a_thousand_nodes_are_one_group_each() -> None:
    nodes = [
        *(a_member(f"p{number:04}", taints=[TAINT, PRESSURE]) for number in range(1000)),
        *(a_member(f"h{number:04}", annotations={HOLD_ANNOTATION: ""}) for number in range(1000)),
    ]
    groups = groups_of(POOL, nodes, counted=2000, up_to_date=2000)
    assert [(group.state, group.count) for group in groups] == [
        (NodeState.MEMORY_PRESSURE, 1000),
        (NodeState.HELD, 1000),
    ]


def test_of_a_spec_that_cannot_be_read_pressure_and_holds_are_told_too() -> None:
    nodes = [a_member("w1", taints=[PRESSURE]), a_member("w2", annotations={HOLD_ANNOTATION: ""})]
    groups = groups_of(a_pool(spec={"nodeSelector": 7}), nodes, counted=2, up_to_date=2)
    assert [group.state for group in groups] == [NodeState.MEMORY_PRESSURE, NodeState.HELD]
