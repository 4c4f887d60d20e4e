"""A pool goes, or lets nodes go: exactly what it added comes off, and nobody waits longer than needed."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from harness.nodes import carried, labels_of, taints_of
from harness.waiting import eventually, holds
from harness.world import World
from winpool.api.keys import OS_LABEL, POOL_LABEL, RELEASE_FINALIZER

SPEC: dict[str, Any] = {
    "labels": {"example.com/team": "payments", "example.com/tier": "gold"},
    "taints": [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "example.com/quiet", "value": "yes", "effect": "PreferNoSchedule"},
    ],
}


def test_kubectl_delete_returns_when_every_node_is_as_it_was(world: World) -> None:
    world.fleet(windows=4, labels={"example.com/tier": "silver"}, taints=["os=linux:NoSchedule"])
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)
    start = world.now()
    with world.watch_nodes() as witness:
        world.kubectl("delete", "wnp", pool, "--timeout=30s")
        nodes = world.nodes()
        witness.catch_up(nodes.values())
    assert {name: carried(node) for name, node in nodes.items()} == before
    assert set(witness.changes("metadata", "labels").values()) == {1}
    assert world.patched_nodes(since=start) == sorted(nodes)
    eventually(
        lambda: "NodesReleased" in world.reasons(kind="WindowsNodePool", name=pool),
        what="the event NodesReleased",
    )
    world.end_operator()
    assert [each for name in nodes for each in world.own_events(kind="Node", name=name)] == []


def test_a_pool_deleted_while_the_operator_is_down_is_released_at_the_next_start(world: World) -> None:
    world.fleet(windows=3)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    world.operator.kill()
    applied = world.carried()
    kubectl = [str(world.testbed.kubectl_path), "--kubeconfig", str(world.testbed.kubeconfig("admin"))]
    with subprocess.Popen([*kubectl, "delete", "wnp", pool], stdout=subprocess.DEVNULL) as deletion:
        eventually(
            lambda: "deletionTimestamp" in world.get("wnp", pool)["metadata"], what="the deletion asked for"
        )
        holds(lambda: deletion.poll() is None, seconds=1)
        assert world.carried() == applied
        world.operator.start()
        assert deletion.wait(timeout=30) == 0
    assert world.carried() == before


def test_a_pool_that_has_written_to_no_node_is_deleted_at_once_without_the_operator(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=0)
    assert "finalizers" not in world.get("wnp", pool)["metadata"]
    world.operator.stop()
    world.kubectl("delete", "wnp", pool, "--timeout=10s")
    assert world.pools() == {}


def test_what_a_person_changed_in_between_is_left_alone_at_deletion(world: World) -> None:
    names = world.fleet(windows=5, labels={"example.com/tier": "silver"})
    label, taint, gone, restored, untouched = names
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=5)
    world.operator.kill()
    world.kubectl("label", "node", label, "example.com/team=theirs", "--overwrite")
    world.kubectl("taint", "node", taint, "os=theirs:NoSchedule", "--overwrite")
    world.kubectl("label", "node", gone, "example.com/tier-")
    world.kubectl("taint", "node", gone, "os:NoSchedule-")
    world.kubectl("label", "node", restored, "example.com/tier=bronze", "--overwrite")
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: pool not in world.pools(), what="the pool gone")

    after = world.carried()
    assert after[untouched] == before[untouched]
    assert after[label]["labels"] == {**before[label]["labels"], "example.com/team": "theirs"}
    assert after[label]["taints"] == before[label]["taints"]
    assert taints_of(world.node(taint)) == {"os=theirs:NoSchedule"}
    assert after[taint]["labels"] == before[taint]["labels"]
    assert after[restored]["labels"] == {**before[restored]["labels"], "example.com/tier": "bronze"}
    # Somebody took a label of ours off: it is not ours any more, so what stood there before stays off too.
    assert "example.com/tier" not in after[gone]["labels"]
    assert after[gone]["taints"] == before[gone]["taints"]
    assert [name for name in names if after[name]["annotations"] != before[name]["annotations"]] == []


def test_nodes_that_leave_by_an_edit_of_the_selector_are_released_exactly(world: World) -> None:
    stay = world.fleet(windows=2, labels={"example.com/zone": "a", "example.com/tier": "silver"})
    leave = world.fleet(windows=2, labels={"example.com/zone": "b", "example.com/tier": "silver"})
    before = world.carried()
    pool = world.apply(world.pool(nodeSelector=zones(world, "a", "b"), **SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)
    start = world.now()
    world.apply(world.pool(nodeSelector=zones(world, "a"), **SPEC))
    world.wait_up_to_date(pool, nodes=2)
    eventually(
        lambda: all(each == before[name] for name, each in world.carried().items() if name in leave),
        what="the nodes that left are as they were",
    )
    assert world.patched_nodes(since=start) == leave
    assert {labels_of(world.node(name))[POOL_LABEL] for name in stay} == {pool}
    world.delete(pool)
    assert world.carried() == before


@pytest.mark.nightly
def test_nodes_that_join_get_the_contract_and_counts_follow_those_that_go(world: World) -> None:
    first = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    start = world.now()
    second = world.fleet(windows=2)
    status = world.wait_up_to_date(pool, nodes=4)
    assert {labels_of(world.node(name))[POOL_LABEL] for name in second} == {pool}
    assert {each.name for each in world.node_patches(since=start)} == set(second)
    assert status["nodes"] == 4

    world.kubectl("delete", "node", first[0])
    status = world.wait_up_to_date(pool, nodes=3)
    assert status["nodes"] == status["upToDateNodes"] == 3
    # A label taken away by hand leads out of the pool, and back.
    world.kubectl("label", "node", first[1], "example.com/run-")
    world.wait_up_to_date(pool, nodes=2)
    eventually(lambda: POOL_LABEL not in labels_of(world.node(first[1])), what="the node released")
    assert "example.com/team" not in labels_of(world.node(first[1]))
    assert taints_of(world.node(first[1])) == set()
    world.kubectl("label", "node", first[1], f"example.com/run={world.suffix}")
    world.wait_up_to_date(pool, nodes=3)


def test_a_node_that_is_no_windows_node_any_more_is_found_at_the_next_start_and_released_with_its_pool(
    world: World,
) -> None:
    [odd], [other] = world.fleet(windows=1), world.fleet(windows=1)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    applied = world.carried()[other]
    world.kill_kubelets(odd)  # it would put its label back within a status interval
    world.kubectl("label", "node", odd, f"{OS_LABEL}=linux", "--overwrite")
    world.operator.start()
    eventually(lambda: "example.com/team" not in labels_of(world.node(odd)), what="the node found")
    world.wait_up_to_date(pool, nodes=1)
    assert world.carried()[odd]["taints"] == applied["taints"]
    assert world.carried()[other] == applied
    assert world.get("wnp", pool)["metadata"]["finalizers"] == [RELEASE_FINALIZER]
    world.delete(pool)
    # The controller manager makes the old name of the label follow.
    labels = {**before[odd]["labels"], OS_LABEL: "linux", f"beta.{OS_LABEL}": "linux"}
    expected = {**before[odd], "labels": labels}
    eventually(lambda: world.carried()[odd] == expected, what="the node released")


def zones(world: World, *names: str) -> dict[str, Any]:
    zone = {"key": "example.com/zone", "operator": "In", "values": list(names)}
    return {"matchLabels": dict(world.selector), "matchExpressions": [zone]}
