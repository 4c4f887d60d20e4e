"""Two pools select the same nodes: one owns them, both say so, and nothing goes to and fro."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cluster.kstatus import Status, compute
from harness.nodes import labels_of, record_of, taints_of, told_labels
from harness.waiting import eventually, holds
from harness.world import World
from winpool.api.keys import POOL_LABEL

OLDER: dict[str, Any] = {
    "labels": {"example.com/owner": "older", "example.com/older": "yes"},
    "taints": [{"key": "owner", "value": "older", "effect": "NoSchedule"}],
}
YOUNGER: dict[str, Any] = {
    "labels": {"example.com/owner": "younger", "example.com/younger": "yes"},
    "taints": [{"key": "owner", "value": "younger", "effect": "NoSchedule"}],
}


@pytest.mark.nightly
def test_the_older_pool_owns_shared_nodes_and_its_deletion_hands_them_to_the_younger(world: World) -> None:
    names = world.fleet(windows=3, labels={"example.com/owner": "nobody"})
    world.kubectl("label", "node", *names, "example.com/theirs=kept")
    bare = world.carried()
    older = world.apply(world.pool("zz-older", **OLDER))
    created = created_at(world, older)
    eventually(lambda: (world.now() - created).total_seconds() >= 1, what="the next second")
    younger = world.apply(world.pool("aa-younger", **YOUNGER))
    assert created_at(world, younger) > created

    start = world.now()
    world.operator.start()
    world.wait_up_to_date(older, nodes=3)
    eventually(
        lambda: world.condition(younger, "Ready").get("reason") == "PoolOverlap", what="PoolOverlap reported"
    )
    assert world.condition(younger, "Ready")["status"] == "False"
    assert world.condition(younger, "NodesUpToDate")["status"] == "False"
    assert world.condition(younger, "Stalled")["status"] == "True"
    assert compute(world.get("wnp", younger)) is Status.FAILED, "no gate passes, and none waits for ever"
    eventually(lambda: "PoolOverlap" in issues(world, older), what="the issue in the older pool")
    eventually(lambda: "PoolOverlap" in issues(world, younger), what="the issue in the younger pool")
    eventually(
        lambda: "PoolOverlap" in world.reasons(kind="WindowsNodePool", name=younger),
        what="the event PoolOverlap",
    )
    # Which comes after the status that says that its nodes are up to date, and is a write too.
    eventually(
        lambda: "RolloutCompleted" in world.reasons(kind="WindowsNodePool", name=older),
        what="the event RolloutCompleted",
    )
    uid = world.get("wnp", older)["metadata"]["uid"]
    for node in world.nodes().values():
        assert labels_of(node)[POOL_LABEL] == older
        assert labels_of(node)["example.com/owner"] == "older"
        assert "example.com/younger" not in labels_of(node)
        assert record_of(node)["pool"] == uid
    settled = world.now()
    holds(lambda: world.operator.running, seconds=4)
    assert [f"{each.verb} {each.uri}" for each in world.writes(since=settled)] == []
    assert len(world.patched_nodes(since=start)) == 3

    with world.watch_nodes() as witness:
        world.delete(older)
        world.wait_up_to_date(younger, nodes=3)
        nodes = world.nodes()
        witness.catch_up(nodes.values())
    for name, node in nodes.items():
        assert labels_of(node) == {
            **bare[name]["labels"],
            **told_labels(node, pool=younger),
            **YOUNGER["labels"],
        }
        assert taints_of(node) == {"owner=younger:NoSchedule"}
    assert max(witness.changes("metadata", "labels").values()) <= 2
    assert issues(world, younger) == []
    world.delete(younger)
    assert world.carried() == bare


def test_a_recorded_owner_keeps_its_nodes_when_an_older_pool_comes_to_select_them(world: World) -> None:
    world.fleet(windows=2)
    bare = world.carried()
    nowhere = {"matchLabels": {**world.selector, "example.com/none": "none"}}
    older = world.apply(world.pool("aa-older", nodeSelector=nowhere, **OLDER))
    created = created_at(world, older)
    eventually(lambda: (world.now() - created).total_seconds() >= 1, what="the next second")
    younger = world.apply(world.pool("zz-younger", **YOUNGER))
    world.operator.start()
    world.wait_up_to_date(younger, nodes=2)
    applied = world.carried()
    start = world.now()
    world.apply(world.pool("aa-older", **OLDER))
    eventually(lambda: "PoolOverlap" in issues(world, older), what="the issue in the older pool")
    eventually(lambda: "PoolOverlap" in issues(world, younger), what="the issue in the younger pool")
    assert world.condition(older, "Ready")["reason"] == "PoolOverlap"
    assert world.condition(younger, "Ready")["status"] == "True"
    assert world.carried() == applied
    assert world.node_patches(since=start) == []
    world.delete(older)
    assert world.carried() == applied
    world.delete(younger)
    assert world.carried() == bare


def issues(world: World, pool: str) -> list[str]:
    return [issue["reason"] for issue in world.status(pool).get("issues", [])]


def created_at(world: World, pool: str) -> datetime:
    return datetime.fromisoformat(world.get("wnp", pool)["metadata"]["creationTimestamp"])
