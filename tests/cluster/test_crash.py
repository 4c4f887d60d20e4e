"""SIGKILL at any instruction loses no obligation (P8): the end is as if nothing had happened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import POOL_LABEL

NODES = 12


@pytest.mark.nightly
def test_a_kill_in_the_middle_of_a_cold_start_leads_to_the_same_end(world: World) -> None:
    world.fleet(windows=NODES, linux=1, labels={"example.com/tier": "silver"}, taints=["os=linux:NoSchedule"])
    bare = world.carried()
    undisturbed = cold_start(world, killed_after=None)
    assert world.carried() == bare
    for patches in (0, 5, 11):
        assert cold_start(world, killed_after=patches) == undisturbed, f"killed after PATCH {patches}"
        assert world.carried() == bare


def test_a_kill_in_the_middle_of_a_release_leaves_nothing_behind(world: World) -> None:
    world.fleet(windows=NODES, labels={"example.com/tier": "silver"}, taints=["os=linux:NoSchedule"])
    bare = world.carried()
    name = world.apply(manifest(world))
    world.operator.start()
    world.wait_up_to_date(name, nodes=NODES)
    world.operator.kill()
    world.delete(name, wait=False)

    with world.watch_nodes() as witness:
        start_and_kill(world, after=4)
        assert len(labelled(world)) == NODES - 4
        assert name in world.pools(), "the pool was gone before its nodes were released"
        world.operator.start()
        eventually(lambda: name not in world.pools(), what="the pool gone")
        witness.catch_up(world.nodes().values())

    assert world.carried() == bare
    assert set(witness.changes("metadata", "labels").values()) == {1}


def cold_start(world: World, *, killed_after: int | None) -> str:
    """Run a pool from nothing to convergence and away again; return the converged state, as text."""
    name = world.apply(manifest(world))
    with world.watch_nodes() as witness:
        if killed_after is not None:
            start_and_kill(world, after=killed_after)
            assert len(labelled(world)) == killed_after
        world.operator.start()
        status = world.wait_up_to_date(name, nodes=NODES)
        nodes = world.nodes()
        witness.catch_up(nodes.values())
    changes = witness.changes("metadata", "labels")
    assert {node for node, count in changes.items() if count != 1} == {
        node for node, seen in nodes.items() if labels_of(seen)["kubernetes.io/os"] == "linux"
    }
    assert set(changes.values()) == {0, 1}
    uid = world.get("wnp", name)["metadata"]["uid"]
    text = json.dumps([world.carried(), without_times(status)], sort_keys=True)
    world.delete(name)
    world.operator.close()
    return text.replace(uid, "<uid of the pool>")


def manifest(world: World) -> dict[str, Any]:
    return world.pool(
        labels={"example.com/team": "payments", "example.com/tier": "gold"},
        taints=[{"key": "os", "value": "windows", "effect": "NoSchedule"}],
    )


def labelled(world: World) -> list[str]:
    return [node for node, seen in world.nodes().items() if POOL_LABEL in labels_of(seen)]


def start_and_kill(world: World, *, after: int) -> None:
    """Start the operator, and kill it when so many nodes were written to and further writes are under way."""
    start = world.now()
    with world.write_gate(passes=after) as gate:
        world.operator.start(wait=False)
        eventually(lambda: gate.held, what="a write to a node is held")
        eventually(
            lambda: len(world.patched_nodes(since=start)) == after,
            what=f"{after} nodes are written to",
        )
        world.operator.kill()


def without_times(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        {key: value for key, value in each.items() if key != "lastTransitionTime"}
        for each in status["conditions"]
    ]
    return {**status, "conditions": conditions}
