"""What a pool cannot take off itself any more is taken off all the same, and nothing else."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

import pytest

from cluster.contended import assert_pauses
from cluster.door import a_node_manifest
from harness.nodes import labels_of, taints_of
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, answer, on

LISTS: Final = 5
"""After each, leftovers are looked for: so many that the first of them have been seen to the end."""
TAINT = {"key": "os", "value": "windows", "effect": "NoSchedule"}


def _carries_ours(node: dict[str, object]) -> bool:
    text = json.dumps(node)
    return "winpool.dev/" in text or '"payments"' in text


def _impatient(world: World, *, grace_seconds: int = 1) -> Operator:
    """An operator that lists all pools every second, so that a vanished one is known soon after the grace."""
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "operator.log",
        environment={"WINPOOL_POOL_RELIST_SECONDS": "1", "WINPOOL_ORPHAN_GRACE_SECONDS": str(grace_seconds)},
    )


def _let_go_by_force(world: World, name: str) -> None:
    """Delete the pool and take its finalizer off by hand, as people in a hurry do."""
    world.delete(name, wait=False)
    world.kubectl("patch", "wnp", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: name not in world.pools(), what="the pool is gone")


def test_a_node_that_stops_being_windows_loses_what_its_kubelet_could_remove(world: World) -> None:
    """The rest stays until the pool is deleted: a kubelet may change that label, and none of its taints."""
    first, second = world.fleet(windows=2)
    world.operator.start()
    name = world.apply(world.pool(labels={"team": "payments"}, taints=[TAINT]))
    world.wait_up_to_date(name, nodes=2)
    # The simulated kubelet would put the label back, as a real one does when it registers again.
    world.kubectl("label", "node", first, "kubernetes.io/os=linux", "--overwrite")
    eventually(lambda: "team" not in labels_of(world.node(first)), what="the label removed")
    for node in (first, second):
        assert taints_of(world.node(node)) == {"os=windows:NoSchedule"}
    assert labels_of(world.node(second))["team"] == "payments"
    world.delete(name)
    eventually(lambda: not _carries_ours(world.node(first)) or None, what="the node is released")
    assert taints_of(world.node(first)) == set()


def test_a_node_that_stops_being_windows_is_written_soon_after_a_write_that_failed(
    world: World, proxy: FaultProxy
) -> None:
    """Strays are looked for every ten minutes only: a failure is an occasion of its own."""
    [name] = world.fleet(windows=1)
    world.operator.start()
    pool = world.apply(world.pool(labels={"team": "payments"}, taints=[TAINT]))
    world.wait_up_to_date(pool, nodes=1)
    with proxy.add(
        on("patch", "nodes", name=name), answer(503), first=3
    ) as refused:  # all tries of one write
        world.kubectl("label", "node", name, "kubernetes.io/os=linux", "--overwrite")
        eventually(lambda: "team" not in labels_of(world.node(name)), what="the label removed")
    assert refused.hits == 3


@pytest.mark.nightly
def test_a_stray_that_refuses_a_write_is_tried_later_and_later_and_keeps_no_other_waiting(
    world: World, proxy: FaultProxy
) -> None:
    """No status says it: the log does, once."""
    # Without kubelets, which would make Windows nodes of them again.
    refusing, other = names = (f"w-{world.suffix}-1", f"w-{world.suffix}-2")
    for name in names:
        world.kubectl("create", "-f", "-", stdin=a_node_manifest(name, labels=world.selector))
    world.operator.start()
    pool = world.apply(world.pool(labels={"team": "payments"}, taints=[TAINT]))
    world.wait_written(pool, nodes=2)
    proxy.clear()
    tries = on("patch", "nodes", name=refusing)
    with proxy.add(tries, answer(422, message="no changes on Fridays")) as refused:
        for name in names:
            world.kubectl("label", "node", name, "kubernetes.io/os=linux", "--overwrite")
        eventually(lambda: "team" not in labels_of(world.node(other)), what="the other one is written")
        eventually(lambda: refused.hits >= 3, what="three tries")
        assert_pauses(proxy.writes(tries))
        assert world.operator.log_text().count("cannot remove") == 1
        assert "team" in labels_of(world.node(refusing))
    eventually(lambda: "team" not in labels_of(world.node(refusing)), what="the node is written")
    world.kubectl("delete", "node", *names)


def test_what_a_pool_deleted_by_force_left_behind_is_swept(world: World) -> None:
    names = world.fleet(windows=2)
    world.operator.start()
    name = world.apply(world.pool(labels={"team": "payments"}, taints=[TAINT]))
    world.wait_up_to_date(name, nodes=2)
    world.operator.kill()
    world.kubectl("label", "node", names[0], "team=mine", "--overwrite")
    _let_go_by_force(world, name)
    world.operator = _impatient(world)
    world.operator.start()
    eventually(lambda: not taints_of(world.node(names[1])), what="the nodes are swept")
    eventually(lambda: not taints_of(world.node(names[0])), what="the nodes are swept")
    assert world.node(names[0])["metadata"]["labels"]["team"] == "mine"
    assert not any("winpool.dev/" in json.dumps(node) for node in world.nodes().values())


@pytest.mark.nightly
def test_what_a_pool_deleted_by_force_left_behind_is_taken_over_by_the_next(world: World) -> None:
    names = world.fleet(windows=2)
    world.operator.start()
    first = world.apply(world.pool("first", labels={"team": "payments"}, taints=[TAINT]))
    world.wait_up_to_date(first, nodes=2)
    world.operator.kill()
    _let_go_by_force(world, first)
    second = world.apply(world.pool("second", labels={"tier": "web"}))
    world.operator = _impatient(world)
    world.operator.start()
    world.wait_up_to_date(second, nodes=2)
    for name in names:
        node = world.node(name)
        assert node["metadata"]["labels"]["winpool.dev/pool"] == second
        assert node["metadata"]["labels"]["tier"] == "web"
        assert "team" not in node["metadata"]["labels"]
        assert taints_of(node) == set()


def test_one_list_without_a_pool_is_not_enough_to_sweep_its_nodes(world: World) -> None:
    (only,) = world.fleet(windows=1)
    world.operator.start()
    name = world.apply(world.pool(labels={"team": "payments"}))
    world.wait_up_to_date(name, nodes=1)
    world.operator.kill()
    _let_go_by_force(world, name)
    start = world.now()
    world.operator = _impatient(world, grace_seconds=300)  # so only the first of its lists counts
    world.operator.start()
    eventually(lambda: _lists_of_pools(world, since=start) >= LISTS, what="many lists", every=0.5)
    assert _carries_ours(world.node(only))
    world.operator.kill()
    world.operator = _impatient(world)
    world.operator.start()
    eventually(lambda: not _carries_ours(world.node(only)) or None, what="swept after a second list")


def _lists_of_pools(world: World, *, since: datetime) -> int:
    """Return how often the operator has listed all pools."""
    asked = world.requests(since=since)
    return sum((each.verb, each.resource) == ("list", "windowsnodepools") for each in asked)
