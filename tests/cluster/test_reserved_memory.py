"""What a pool declares as reserved, held against what the kubelets of its nodes really hold back."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from cluster.door import a_node_manifest
from cluster.pods import tainted
from cluster.told import about, expect, facts, issues, words
from harness.nodes import annotations_of, labels_of
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

LABEL: Final = "example.com/team"
MISMATCH: Final = "winpool.dev/reserved-memory-mismatch=:NoSchedule"
METRIC: Final = "winpool_reserved_memory_mismatched_nodes"
CAPACITY_KI: Final = 16_776_756
USUAL_KI: Final = (2048 + 500) * 1024
"""What a simulated Windows node has and holds back: 2Gi and 500Mi."""


def a_spec(*, on_mismatch: str | None = None, **reserved: str | int) -> Object:
    told = {} if on_mismatch is None else {"onMismatch": on_mismatch}
    return {"labels": {LABEL: "payments"}, "reservedMemory": {**reserved, **told}}


def a_machine(world: World, name: str) -> str:
    """Create a node without a kubelet, so that what it says of its memory stays as it is told."""
    full = f"m{world.suffix}-{name}"
    world.kubectl("create", "-f", "-", stdin=a_node_manifest(full, labels=world.selector))
    return full


def say_memory(world: World, node: str, *, capacity_ki: int, reserved_ki: int) -> None:
    write_memory(
        world,
        node,
        capacity={"memory": f"{capacity_ki}Ki"},
        allocatable={"memory": f"{capacity_ki - reserved_ki}Ki"},
    )


def write_memory(world: World, node: str, *, capacity: Object | None, allocatable: Object | None) -> None:
    """Write what a kubelet reports; None: the field is not there."""
    patch = json.dumps({"status": {"capacity": capacity, "allocatable": allocatable}})
    world.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.nightly
def test_each_node_is_judged_by_what_its_kubelet_holds_back(world: World) -> None:
    [exact] = world.fleet(windows=1)
    near, less = a_machine(world, "near"), a_machine(world, "less")
    say_memory(world, near, capacity_ki=CAPACITY_KI, reserved_ki=USUAL_KI + 4)  # a page of 4 KiB
    say_memory(world, less, capacity_ki=CAPACITY_KI, reserved_ki=2048 * 1024)
    before = {name: labels_of(node) for name, node in world.nodes().items()}

    # 2Gi + 0 + 500Mi, two of them by default.
    pool = world.apply(world.pool(**a_spec(systemReserved="2Gi")))
    world.operator.start()
    status = world.wait_written(pool, nodes=3)
    assert about(status, "ReservedMemoryMismatch") == {less}
    [issue] = issues(status, "ReservedMemoryMismatch")
    assert "join-config" in issue["fix"], "it names the command that says what the kubelet must have"
    assert issues(status, "ReservedMemoryLow") == issues(status, "ReservedMemoryTooLarge") == []
    assert facts(status)["Accepted"] == ("True", "Accepted")
    assert tainted(world, MISMATCH) == set(), "it is reported only"
    eventually(lambda: mismatched(world, pool) == 1, what="the metric")
    eventually(
        lambda: "ReservedMemoryMismatch" in world.reasons(kind="Node", name=less),
        what="the event of that node",
    )

    world.apply(world.pool(**a_spec(systemReserved="2Gi", on_mismatch="Taint")))
    world.wait_written(pool, nodes=3)
    assert tainted(world, MISMATCH) == {less}
    # Now it is that node which fits, and the kubelets of the others hold back more than is declared.
    world.apply(world.pool(**a_spec(systemReserved="1548Mi", evictionHard="500Mi", on_mismatch="Taint")))
    status = world.wait_written(pool, nodes=3)
    assert tainted(world, MISMATCH) == {exact, near}
    assert about(status, "ReservedMemoryMismatch") == {exact, near}
    assert issues(status, "ReservedMemoryLow") != [], "evictionHard does not count"
    eventually(lambda: mismatched(world, pool) == 2, what="the metric")

    # In bytes, a page below 2 GiB: what fits still fits, and it is little for Windows.
    low = 2 * 1024**3 - 4096
    world.apply(world.pool(**a_spec(systemReserved=low, evictionHard=0, on_mismatch="Taint")))
    status = world.wait_written(pool, nodes=3)
    assert tainted(world, MISMATCH) == {exact, near}
    assert issues(status, "ReservedMemoryLow") != []

    world.apply(world.pool(labels={LABEL: "payments"}))
    status = world.wait_written(pool, nodes=3)
    assert tainted(world, MISMATCH) == set()
    assert [each for each in status.get("issues", []) if each["reason"].startswith("Reserved")] == []
    eventually(lambda: not mismatched(world, pool), what="the metric at rest")

    world.apply(world.pool(**a_spec(systemReserved="3Gi", on_mismatch="Taint")))
    world.wait_written(pool, nodes=3)
    assert tainted(world, MISMATCH) == {exact, near, less}
    world.delete(pool)
    assert tainted(world, MISMATCH) == set()
    for name, node in world.nodes().items():
        assert labels_of(node) == before[name]
        assert APPLIED_ANNOTATION not in annotations_of(node)


def test_more_than_half_of_every_node_is_refused_and_of_some_nodes_an_issue(world: World) -> None:
    small = set(world.fleet(windows=2))
    bare = world.carried()
    start = world.now()
    pool = world.apply(world.pool(**a_spec(systemReserved="9Gi", on_mismatch="Taint")))
    world.operator.start()
    expect(world, pool, Accepted=("False", "ReservedMemoryTooLarge"), Ready=("False", "SpecRejected"))
    assert world.carried() == bare
    assert world.node_patches(since=start) == []
    assert "finalizers" not in world.get("wnp", pool)["metadata"]

    large = a_machine(world, "large")
    reserved_ki = 9 * 1024**2 + 500 * 1024
    say_memory(world, large, capacity_ki=64 * 1024**2, reserved_ki=reserved_ki)
    status = world.wait_written(pool, nodes=3)
    assert facts(status)["Accepted"] == ("True", "Accepted")
    assert about(status, "ReservedMemoryTooLarge") == small
    assert tainted(world, MISMATCH) == small
    assert {labels_of(node).get(LABEL) for node in world.nodes().values()} == {"payments"}


@pytest.mark.nightly
def test_a_node_that_does_not_tell_its_memory_is_not_judged_and_loses_nothing(world: World) -> None:
    silent, other = a_machine(world, "silent"), a_machine(world, "other")
    say_memory(world, other, capacity_ki=CAPACITY_KI, reserved_ki=USUAL_KI)
    pool = world.apply(world.pool(**a_spec(systemReserved="2Gi", on_mismatch="Taint")))
    world.operator.start()
    status = world.wait_written(pool, nodes=2)
    assert issues(status, "ReservedMemoryMismatch") == [], words(status["issues"])
    assert tainted(world, MISMATCH) == set()

    say_memory(world, silent, capacity_ki=CAPACITY_KI, reserved_ki=1024**2)
    eventually(lambda: tainted(world, MISMATCH) == {silent}, what="the taint of a node that is known now")
    write_memory(world, silent, capacity=None, allocatable=None)
    # A repair of that node comes from a look at it as it is now.
    world.kubectl("label", "node", silent, f"{LABEL}-")
    eventually(lambda: LABEL in labels_of(world.node(silent)), what="the label put back")
    assert tainted(world, MISMATCH) == {silent}, "what is not known is no reason to take anything off"
    say_memory(world, silent, capacity_ki=CAPACITY_KI, reserved_ki=USUAL_KI)
    eventually(lambda: tainted(world, MISMATCH) == set(), what="no taint on a node that fits")


def mismatched(world: World, pool: str) -> float:
    return world.operator.metric(METRIC, pool=pool) or 0
