"""Nodes vanish, come back and change sides, also while their pool is being deleted."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from harness.faulty import through_proxy
from harness.nodes import annotations_of, carried, labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.world import RUN_LABEL, World
from testbed.faults import Record, call, on, stall
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL, PREFIX

Object = dict[str, Any]

LABEL: Final = "example.com/team"
TAINT: Final = "os=windows:NoSchedule"
SPEC: Final[Object] = {
    "labels": {LABEL: "payments", "example.com/tier": "gold"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
FIRST_LIFE: Final = {"example.com/tier": "silver"}
SECOND_LIFE: Final = {"example.com/tier": "bronze"}


@pytest.mark.nightly
def test_a_node_that_comes_back_under_its_name_is_a_new_one_with_a_past_of_its_own(world: World) -> None:
    name, other = world.fleet(windows=2, labels=FIRST_LIFE)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    stayed = world.carried()[other]
    start = world.now()
    world.kubectl("delete", "node", name)
    world.wait_up_to_date(pool, nodes=1)
    register(world, name)
    world.wait_up_to_date(pool, nodes=2)
    assert record_of(world.node(name))["labels"]["example.com/tier"] == {"set": "gold", "before": "bronze"}
    assert world.carried()[other] == stayed
    # One write, and one for the labels of its Windows where the kubelet reports that after the node is there.
    patched = world.patched_nodes(since=start)
    assert patched in ([name], [name, name])
    world.delete(pool)
    assert_second_life(world, name)


@pytest.mark.nightly
def test_a_node_that_was_replaced_while_the_operator_was_down_is_a_new_one_too(world: World) -> None:
    [name] = world.fleet(windows=1, labels=FIRST_LIFE)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    world.operator.kill()
    world.kubectl("delete", "node", name)
    register(world, name)
    world.operator.start()
    wait_carries(world, name, pool=pool)
    world.delete(pool)
    assert_second_life(world, name)


@pytest.mark.nightly
def test_a_write_that_was_meant_for_a_node_does_not_hit_the_new_one_of_that_name(world: World) -> None:
    [name] = world.fleet(windows=1, labels=FIRST_LIFE)
    pool = world.apply(world.pool(**SPEC))

    def replace(_: Record) -> None:
        world.kubectl("delete", "node", name)
        register(world, name)

    with through_proxy(world) as proxy:
        with proxy.add(on("patch", "nodes"), call(replace), nth=1):
            world.operator.start()
            wait_carries(world, name, pool=pool)
        first, *others = [each.status for each in proxy.writes(on("patch", "nodes"))]
        assert first == 409
        assert 200 in others
        world.delete(pool)
    assert_second_life(world, name)


def test_nodes_that_join_leave_and_vanish_while_their_pool_is_deleted_are_all_left_as_they_should_be(
    world: World,
) -> None:
    names = world.fleet(windows=6, labels=FIRST_LIFE)
    quiet, vanishes, leaves, changes_os, is_edited, comes_back = names
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=len(names))
        start = world.now()
        with proxy.add(on("patch", "nodes"), stall()):
            world.delete(pool, wait=False)
            proxy.wait_for(on("patch", "nodes", where=lambda each: each.time >= start), count=len(names))
            joined = world.fleet(windows=2, labels=FIRST_LIFE)
            joined_bare = {name: each for name, each in world.carried().items() if name in joined}
            world.kubectl("delete", "node", vanishes, comes_back)
            register(world, comes_back)
            world.kubectl("label", "node", leaves, f"{RUN_LABEL}-")
            world.kubectl("label", "node", changes_os, f"{OS_LABEL}=linux", "--overwrite")
            world.kubectl("label", "node", is_edited, f"{LABEL}=theirs", "--overwrite")
        eventually(lambda: pool not in world.pools(), what="the pool gone")
        # No pool sees it any more: it is swept, and the deletion does not wait for that.
        eventually(
            lambda: APPLIED_ANNOTATION not in annotations_of(world.node(changes_os)),
            what="the stray released",
        )
    # The controller manager makes the old name of the label follow.
    eventually(
        lambda: labels_of(world.node(changes_os))[f"beta.{OS_LABEL}"] == "linux", what="the old label changed"
    )
    try:
        after = {name: carried(world.node(name)) for name in {*names, *joined} - {vanishes}}
    finally:
        world.kubectl("label", "node", leaves, f"{RUN_LABEL}={world.suffix}")  # for the world to clean up
    assert after[quiet] == bare[quiet]
    assert {name: after[name] for name in joined} == joined_bare
    assert {each.name for each in world.node_patches(since=start)}.isdisjoint(joined)
    changed: dict[str, dict[str, str | None]] = {
        leaves: {RUN_LABEL: None},
        changes_os: {OS_LABEL: "linux", f"beta.{OS_LABEL}": "linux"},
        is_edited: {LABEL: "theirs"},
    }
    for name, labels in changed.items():
        wanted = {key: value for key, value in {**bare[name]["labels"], **labels}.items() if value}
        assert after[name] == {**bare[name], "labels": wanted}
    assert_second_life(world, comes_back)


def test_a_pool_whose_nodes_all_vanish_while_it_is_deleted_is_gone_at_once(world: World) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        proxy.clear()
        with proxy.add(on("patch", "nodes"), stall()):
            world.delete(pool, wait=False)
            proxy.wait_for(on("patch", "nodes"), count=2)
            world.kubectl("delete", "node", *names)
        eventually(lambda: pool not in world.pools(), what="the pool gone")


def register(world: World, name: str) -> None:
    """Create a node as a kubelet does that has never been there: what a pool put on it is not on it."""
    labels = {OS_LABEL: "windows", "kubernetes.io/hostname": name, **world.selector, **SECOND_LIFE}
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    world.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def wait_carries(world: World, name: str, *, pool: str) -> None:
    """Return when a node carries what the pool asks for."""

    def carries() -> bool:
        node = world.nodes().get(name, {"metadata": {}, "spec": {}})  # for a moment it is not there
        ours = {POOL_LABEL: pool, **SPEC["labels"]}
        return labels_of(node).items() >= ours.items() and TAINT in taints_of(node)

    eventually(carries, what=f"{name} with the labels and taints of {pool}")
    world.wait_up_to_date(pool)


def assert_second_life(world: World, name: str) -> None:
    """Assert that a node which came back carries nothing of a pool, and nothing of its first life."""
    node = world.node(name)
    assert labels_of(node)["example.com/tier"] == "bronze"
    assert LABEL not in labels_of(node)
    assert [key for key in labels_of(node) if key.startswith(PREFIX)] == []
    assert APPLIED_ANNOTATION not in node["metadata"].get("annotations", {})
    assert TAINT not in taints_of(node)
