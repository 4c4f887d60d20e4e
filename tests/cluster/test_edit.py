"""A changed spec reaches every node in one PATCH each, and takes off what it no longer asks for."""

from __future__ import annotations

from typing import Any

import pytest

from harness.nodes import carried, labels_of, taints_of, told_labels, wanted_spec
from harness.waiting import eventually
from harness.world import World

FIRST: dict[str, Any] = {
    "labels": {"example.com/kept": "1", "example.com/changed": "1", "example.com/removed": "1",
               "example.com/color": "green"},
    "taints": [
        {"key": "kept", "value": "1", "effect": "NoSchedule"},
        {"key": "changed", "value": "1", "effect": "NoSchedule"},
        {"key": "removed", "value": "1", "effect": "NoSchedule"},
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
    ],
}  # fmt: skip
SECOND: dict[str, Any] = {
    "labels": {"example.com/kept": "1", "example.com/changed": "2", "example.com/added": "2",
               "example.com/color": "red"},
    "taints": [
        {"key": "kept", "value": "1", "effect": "NoSchedule"},
        {"key": "changed", "value": "2", "effect": "NoSchedule"},
        {"key": "added", "effect": "PreferNoSchedule"},
        {"key": "os", "value": "win", "effect": "NoSchedule"},
    ],
}  # fmt: skip


@pytest.mark.nightly
def test_an_edit_adds_changes_and_removes_labels_and_taints_in_one_patch_per_node(world: World) -> None:
    world.fleet(windows=4, labels={"example.com/color": "blue"}, taints=["os=linux:NoSchedule"])
    before = world.carried()
    pool = world.apply(world.pool(**FIRST))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)

    start = world.now()
    with world.watch_nodes() as witness:
        world.apply(world.pool(**SECOND))
        world.wait_up_to_date(pool, nodes=4)
        nodes = world.nodes()
        witness.catch_up(nodes.values())
    for name, node in nodes.items():
        assert labels_of(node) == {
            **before[name]["labels"],
            **told_labels(node, pool=pool),
            **SECOND["labels"],
        }
        assert taints_of(node) == {
            "kept=1:NoSchedule", "changed=2:NoSchedule", "added=:PreferNoSchedule", "os=win:NoSchedule"
        }  # fmt: skip
    patches = world.node_patches(since=start)
    assert sorted(each.name for each in patches if each.code == 200) == sorted(nodes)
    assert {each.code for each in patches} <= {200, 409}, "409 where a kubelet was faster"
    assert set(witness.changes("metadata", "labels").values()) == {1}
    assert set(witness.changes_of(wanted_spec).values()) == {1}
    assert set(witness.changes("metadata", "annotations").values()) == {1}

    # What stood there before the first spec is what comes back, not what the first spec wrote.
    world.apply(world.pool())
    world.wait_up_to_date(pool, nodes=4)
    for name, node in world.nodes().items():
        assert labels_of(node) == {**before[name]["labels"], **told_labels(node, pool=pool)}
        assert carried(node)["taints"] == before[name]["taints"]
    world.delete(pool)
    assert world.carried() == before
    world.end_operator()
    assert [each for name in nodes for each in world.own_events(kind="Node", name=name)] == []


def test_an_edit_is_told_as_one_rollout_that_started_and_completed(world: World) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**FIRST))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    eventually(lambda: times(world, pool, "RolloutCompleted") == 1, what="the event of the first nodes")
    assert times(world, pool, "RolloutStarted") == 0, "a pool's first nodes get none"
    world.apply(world.pool(**SECOND))
    world.wait_up_to_date(pool, nodes=2)
    eventually(lambda: times(world, pool, "RolloutStarted") == 1, what="RolloutStarted", seconds=15)
    eventually(lambda: times(world, pool, "RolloutCompleted") == 2, what="RolloutCompleted", seconds=15)
    world.end_operator()
    assert [each for name in names for each in world.own_events(kind="Node", name=name)] == []


def test_an_edit_that_changes_nothing_on_nodes_writes_to_none(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**FIRST))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    generation = world.status(pool)["observedGeneration"]
    start = world.now()
    world.apply(world.pool(**{**FIRST, "taints": FIRST["taints"][::-1]}))
    status = world.wait_up_to_date(pool, nodes=2)
    assert status["observedGeneration"] == generation + 1
    assert {each["observedGeneration"] for each in status["conditions"]} == {generation + 1}
    assert world.node_patches(since=start) == []


def times(world: World, pool: str, reason: str) -> int:
    """Return how often it was told: events of one kind may be one object with a count."""
    found = world.own_events(kind="WindowsNodePool", name=pool)
    return sum(each.get("series", {}).get("count", 1) for each in found if each["reason"] == reason)
