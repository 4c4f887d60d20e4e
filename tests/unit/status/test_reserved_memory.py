"""Reserved memory in status, conditions, taints and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot, deleted, with_status
from harness.writes import patched
from winpool.decide import Decision, decide
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Pool

GIB = 1024**3
TAINT = "winpool.dev/reserved-memory-mismatch"
DECLARED: Mapping[str, Any] = {"systemReserved": "2Gi", "kubeReserved": "512Mi", "evictionHard": "512Mi"}


def a_declaring_pool(**more: Any) -> Pool:
    return a_pool(more={"reservedMemory": {**DECLARED, **more}})


def a_machine(name: str = "w1", *, gib: float = 16, reserved: float | None = 3) -> Node:
    capacity = int(gib * GIB)
    allocatable = None if reserved is None else capacity - int(reserved * GIB)
    return replace(a_node(name), memory=NodeMemory(capacity, allocatable))


def reasons(found: Decision) -> dict[tuple[str, ...], str]:
    return {each.nodes: each.reason for each in found.status.issues}


def tainted(found: Decision) -> set[str]:
    return {
        patch.node.name
        for patch in found.writes.patches
        if TAINT in {taint.key for taint in patch.taints or ()}
    }


def test_nodes_that_reserve_less_or_more_are_issues_and_one_that_reserves_as_declared_is_none() -> None:
    nodes = [a_machine("less", reserved=1), a_machine("more", reserved=4), a_machine("right")]
    found = decide(a_snapshot(a_declaring_pool(), nodes))
    assert reasons(found) == {("less", "more"): "ReservedMemoryMismatch"}
    [issue] = found.status.issues
    assert "1Gi to 4Gi" in issue.message
    assert found.figures.reserved_memory_mismatched == 2
    assert tainted(found) == set()
    events = [(each.reason, each.name) for each in found.pool_events if each.name != "pool"]
    assert events == [("ReservedMemoryMismatch", "less"), ("ReservedMemoryMismatch", "more")]


def test_pools_of_mixed_sizes_compare_each_node_with_itself() -> None:
    nodes = [a_machine("small", gib=8), a_machine("large", gib=256), a_machine("tiny", gib=5)]
    found = decide(a_snapshot(a_declaring_pool(), nodes))
    assert reasons(found) == {("tiny",): "ReservedMemoryTooLarge"}
    accepted = found.status.condition("Accepted")
    assert accepted is not None
    assert accepted.status == "True"


def test_more_than_half_of_every_node_is_refused_and_nothing_is_written() -> None:
    pool = a_pool(labels={"team": "a"}, more={"reservedMemory": {"systemReserved": "9Gi"}})
    found = decide(a_snapshot(pool, [a_machine("w1"), a_machine("w2", gib=8), a_node("w3")]))
    accepted, ready = found.status.condition("Accepted"), found.status.condition("Ready")
    assert accepted is not None
    assert ready is not None
    assert (accepted.status, accepted.reason) == ("False", "ReservedMemoryTooLarge")
    assert (ready.status, ready.reason) == ("False", "SpecRejected")
    assert found.writes.patches == ()
    assert "SpecRejected" in {each.reason for each in found.pool_events}


def test_where_no_memory_is_known_nothing_is_refused_and_nothing_said() -> None:
    pool = a_pool(more={"reservedMemory": {"systemReserved": "9Gi"}})
    found = decide(a_snapshot(pool, [a_node("w1"), a_node("w2")]))
    assert reasons(found) == {}
    assert found.writes.patches


def test_less_than_two_gib_is_called_low() -> None:
    pool = a_pool(more={"reservedMemory": {"systemReserved": "1Gi", "evictionHard": 0}})
    found = decide(a_snapshot(pool, [a_machine(reserved=1)]))
    assert reasons(found) == {(): "ReservedMemoryLow"}


def test_the_taint_goes_on_both_kinds_of_mismatch_and_off_when_it_fits() -> None:
    pool = a_declaring_pool(onMismatch="Taint")
    nodes = [a_machine("less", reserved=1), a_machine("more", reserved=4), a_machine("right")]
    found = decide(a_snapshot(pool, nodes))
    assert tainted(found) == {"less", "more"}
    [less] = [patched(patch.node, patch) for patch in found.writes.patches if patch.node.name == "less"]
    fits = replace(less, memory=a_machine().memory)
    [patch] = decide(a_snapshot(pool, [fits])).writes.patches
    assert patch.taints == ()
    for other in (a_declaring_pool(), a_pool(), deleted(pool)):
        [patch] = decide(a_snapshot(other, [less])).writes.patches
        assert patch.taints == ()


@pytest.mark.parametrize("unknown", [NodeMemory(), NodeMemory(16 * GIB, None), NodeMemory(None, 8 * GIB)])
def test_of_a_node_that_does_not_say_the_taint_stays_as_it_is(unknown: NodeMemory) -> None:
    pool = a_declaring_pool(onMismatch="Taint")
    [patch] = decide(a_snapshot(pool, [a_machine(reserved=1)])).writes.patches
    node = patched(a_machine(reserved=1), patch)
    assert decide(a_snapshot(pool, [replace(node, memory=unknown)])).writes.patches == ()
    [patch] = decide(a_snapshot(pool, [replace(a_node(), memory=unknown)])).writes.patches
    assert not patch.taints


@pytest.mark.slow
def test_a_fleet_that_is_all_wrong_has_one_issue_and_few_events() -> None:
    """Machines of one kind differ by some bytes."""
    nodes = [a_machine(f"w{number:04d}", gib=16 + number / 10_000, reserved=1) for number in range(500)]
    pool = a_declaring_pool()
    found = decide(a_snapshot(pool, nodes))
    [issue] = found.status.issues
    assert (issue.node_count, issue.nodes) == (500, ("w0000", "w0001", "w0002"))
    assert len([each for each in found.pool_events if each.reason == "ReservedMemoryMismatch"]) <= 3
    again = decide(a_snapshot(with_status(pool, found.status), nodes))
    assert [each for each in again.pool_events if each.reason == "ReservedMemoryMismatch"] == []
