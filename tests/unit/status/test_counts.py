"""The counts of the status: which nodes belong to the pool, and in which state they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from harness.assessing import assess_all
from harness.builders import (
    SUPPORTED,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    by_name,
    deleted,
    unreadable,
)
from harness.strategies import fleets, pools
from harness.writes import acted, relabelled, settled
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.text import NAMES_SHOWN, enumerate_names
from winpool.decide import decide
from winpool.model.node import Node, is_available
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.status.assessment import count_nodes, is_ready, tally

LABELS = {"team": "a"}


def counts(status: WindowsNodePoolStatus) -> dict[str, int]:
    return {
        "nodes": status.nodes,
        "ready": status.ready_nodes,
        "up to date": status.up_to_date_nodes,
        "both": status.up_to_date_and_ready_nodes,
        "available": status.available_nodes,
    }


def on_them(pool: Pool, *nodes: Node) -> Nodes:
    """Return the nodes after a pass of the pool."""
    return settled(pool, by_name(*nodes))[1]


@pytest.mark.parametrize(("ready", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_that_nothing_is_heard_of_is_not_ready(ready: str, expected: bool) -> None:
    assert is_ready(a_node(ready=ready)) is expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({}, True),
        ({"ready": "False"}, False),
        ({"ready": "Unknown"}, False),
        ({"unschedulable": True}, False),
        ({"deleting": True}, False),
    ],
)
def test_a_node_is_available_when_new_pods_can_run_there(node: dict[str, Any], expected: bool) -> None:
    assert is_available(a_node(**node)) is expected


def test_every_count_counts_its_own_kind() -> None:
    pool = a_pool(labels=LABELS)
    nodes = on_them(
        pool, a_node("fine"), a_node("sick", ready="False"), a_node("cordoned", unschedulable=True)
    )
    nodes |= {"new": a_node("new"), "new and sick": a_node("new-and-sick", ready="Unknown")}
    nodes |= {"linux": a_node("linux", os="linux"), "blue": a_node("blue", labels={"agentpool": "blue"})}
    found = counts(decide(a_snapshot(pool, nodes)).status)
    assert found == {"nodes": 5, "ready": 3, "up to date": 3, "both": 2, "available": 2}


def test_counts_of_a_pool_without_nodes_are_zero() -> None:
    assert set(counts(decide(a_snapshot(a_pool())).status).values()) == {0}


def test_a_node_of_another_pool_is_not_counted() -> None:
    rival = a_pool("rival")
    shared = a_node("shared", annotations=a_record(rival.uid))
    snapshot = a_snapshot(a_pool(), [a_node(), shared], rivals=[rival])
    assert decide(snapshot).status.nodes == 1
    assert tally(assess_all(snapshot), ()).foreign == 1


def test_a_node_that_has_left_is_counted_until_it_is_released() -> None:
    """Or a gate that compares counts would pass too early."""
    pool = a_pool(labels=LABELS)
    nodes = on_them(pool, a_node("w1"), a_node("w2"))
    nodes["w1"] = relabelled(nodes["w1"], agentpool="blue")
    decision = decide(a_snapshot(pool, nodes))
    assert counts(decision.status) == {"nodes": 2, "ready": 2, "up to date": 1, "both": 1, "available": 2}
    after = decide(a_snapshot(pool, acted(decision, nodes))).status
    assert counts(after) == {"nodes": 1, "ready": 1, "up to date": 1, "both": 1, "available": 1}


def test_nodes_under_deletion_are_counted_until_they_are_released() -> None:
    pool = a_pool(labels=LABELS)
    nodes = on_them(pool, a_node("w1"), a_node("w2"))
    decision = decide(a_snapshot(deleted(pool), nodes))
    assert decision.status.nodes == 2
    assert decide(a_snapshot(deleted(pool), acted(decision, nodes))).status.nodes == 0


def test_a_spec_that_cannot_be_read_keeps_its_nodes_and_none_is_up_to_date_with_it() -> None:
    pool = a_pool(labels=LABELS)
    nodes = on_them(pool, a_node("w1"), a_node("w2", ready="False")) | {"free": a_node("free")}
    found = counts(decide(a_snapshot(unreadable(pool), nodes)).status)
    assert found == {"nodes": 2, "ready": 1, "up to date": 0, "both": 0, "available": 1}


def test_a_node_whose_taints_only_differ_is_not_up_to_date() -> None:
    nodes = on_them(a_pool(), a_node())
    pool = a_pool(taints=["os=windows:NoSchedule"])
    assert decide(a_snapshot(pool, nodes)).status.up_to_date_nodes == 0


@pytest.mark.slow
@given(pools(), fleets())
def test_counts_are_what_nodes_report_and_never_what_was_intended(pool: Pool, fleet: dict[str, Node]) -> None:
    """P9: a decision to write does not count as written."""
    fleet = {name: replace(node, versions=SUPPORTED) for name, node in fleet.items()}
    decision = decide(a_snapshot(pool, fleet))
    found = counts(decision.status)
    assert found["nodes"] - found["up to date"] == len(decision.writes.patches)
    after = decide(a_snapshot(pool, acted(decision, fleet))).status
    assert after.up_to_date_nodes == after.nodes == found["nodes"]
    assert after.up_to_date_and_ready_nodes == after.ready_nodes == found["ready"]
    assert found["available"] <= found["ready"] <= found["nodes"]


@given(pools(), fleets())
def test_the_outstanding_nodes_are_those_with_a_patch(pool: Pool, fleet: dict[str, Node]) -> None:
    snapshot: Snapshot = a_snapshot(pool, fleet)
    assert set(tally(assess_all(snapshot), ()).outstanding) == {
        patch.node.name for patch in decide(snapshot).writes.patches
    }


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (12, "12 nodes")])
def test_a_number_of_nodes_is_written_as_people_say_it(number: int, text: str) -> None:
    assert count_nodes(number) == text


def test_of_many_names_the_first_are_shown_and_the_rest_counted() -> None:
    names = [f"w{number}" for number in range(NAMES_SHOWN + 4)]
    text = enumerate_names(names)
    assert all(name in text for name in names[:NAMES_SHOWN])
    assert not any(name in text for name in names[NAMES_SHOWN:])
    assert "4 more" in text
    assert "1 more" in enumerate_names(names[: NAMES_SHOWN + 1])
    assert enumerate_names(["w1"]) == "w1"
    assert "more" not in enumerate_names(names[:NAMES_SHOWN])
