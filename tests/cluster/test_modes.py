"""Active, DryRun and Paused: what each may write, and the ways between them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import RELEASE_FINALIZER

SPEC: dict[str, Any] = {
    "labels": {"example.com/team": "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}


def test_dry_run_writes_a_plan_and_nothing_else(world: World) -> None:
    names = world.fleet(windows=3, linux=1)
    before = world.carried()
    start = world.now()
    pool = world.apply(world.pool(mode="DryRun", **SPEC))
    world.operator.start()
    status = wait_seen(world, pool)
    assert status["plan"]["totalNodes"] == 3
    assert sorted(step["node"] for step in status["plan"]["steps"]) == sorted(names)[1:]
    assert {step["action"] for step in status["plan"]["steps"]} == {"Update"}
    assert [step for step in status["plan"]["steps"] if not step["reason"]] == []
    assert facts(status) == {
        "Ready": ("True", "DryRun"),
        "Accepted": ("True", "Accepted"),
        "Available": ("True", "NodesAvailable"),
        "NodesUpToDate": ("False", "DryRun"),
        "OSSupported": ("True", "NodesSupported"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("False", "NotStalled"),
        "Paused": ("False", "NotPaused"),
        "Deleting": ("False", "NotDeleting"),
    }
    assert (status["nodes"], status["upToDateNodes"]) == (3, 0)

    world.kubectl("delete", "wnp", pool, "--timeout=30s")
    assert world.carried() == before
    written = {(each.resource, each.subresource) for each in world.writes(since=start)}
    assert ("windowsnodepools", "status") in written
    assert written <= {("windowsnodepools", "status"), ("events", "")}
    assert world.node_patches(since=start) == []


def test_paused_writes_to_no_node_and_active_completes_what_was_left(world: World) -> None:
    world.fleet(windows=3)
    before = world.carried()
    start = world.now()
    pool = world.apply(world.pool(mode="Paused", **SPEC))
    world.operator.start()
    status = wait_seen(world, pool)
    assert facts(status) == {
        "Ready": ("True", "Paused"),
        "Accepted": ("True", "Accepted"),
        "Available": ("True", "NodesAvailable"),
        "NodesUpToDate": ("False", "Paused"),
        "OSSupported": ("True", "NodesSupported"),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("False", "NotStalled"),
        "Paused": ("True", "PausedBySpec"),
        "Deleting": ("False", "NotDeleting"),
    }
    assert "plan" not in status
    assert world.carried() == before
    assert world.node_patches(since=start) == []
    assert "finalizers" not in world.get("wnp", pool)["metadata"]

    world.apply(world.pool(mode="Active", **SPEC))
    status = world.wait_up_to_date(pool, nodes=3)
    assert facts(status)["Paused"] == ("False", "NotPaused")
    assert facts(status)["Ready"] == ("True", "UpToDate")
    assert len(world.patched_nodes(since=start)) == 3
    eventually(
        lambda: "PoolResumed" in world.reasons(kind="WindowsNodePool", name=pool),
        what="the event PoolResumed",
    )


def test_a_pause_leaves_drift_alone_and_deletion_undoes_all_the_same(world: World) -> None:
    names = world.fleet(windows=3)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    world.apply(world.pool(mode="Paused", **SPEC))
    status = wait_seen(world, pool)
    assert facts(status)["NodesUpToDate"] == ("True", "UpToDate")
    eventually(
        lambda: "PoolPaused" in world.reasons(kind="WindowsNodePool", name=pool), what="the event PoolPaused"
    )

    start = world.now()
    world.kubectl("label", "node", names[0], "example.com/team-")
    eventually(lambda: world.status(pool)["upToDateNodes"] == 2, what="the drift counted")
    assert facts(world.status(pool))["NodesUpToDate"] == ("False", "Paused")
    assert "example.com/team" not in labels_of(world.node(names[0]))
    assert world.node_patches(since=start) == []

    world.kubectl("delete", "wnp", pool, "--timeout=30s")
    assert world.carried() == before


@pytest.mark.nightly
def test_dry_run_of_a_pool_that_had_applied_plans_the_edit_and_keeps_what_is_there(world: World) -> None:
    names = world.fleet(windows=3)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    applied = world.carried()
    start = world.now()
    edited: dict[str, Any] = {"labels": {"example.com/team": "billing"}}
    world.apply(world.pool(mode="DryRun", **edited))
    status = wait_seen(world, pool)
    assert sorted(step["node"] for step in status["plan"]["steps"]) == names
    assert world.carried() == applied
    assert world.node_patches(since=start) == []
    assert world.get("wnp", pool)["metadata"]["finalizers"] == [RELEASE_FINALIZER]

    world.apply(world.pool(mode="Active", **edited))
    status = world.wait_up_to_date(pool, nodes=3)
    assert "plan" not in status
    assert {labels_of(node)["example.com/team"] for node in world.nodes().values()} == {"billing"}

    world.apply(world.pool(mode="DryRun", **SPEC))
    wait_seen(world, pool)
    world.kubectl("delete", "wnp", pool, "--timeout=30s")
    assert world.carried() == before


def wait_seen(world: World, pool: str) -> dict[str, Any]:
    """Return the status once it is about the generation that the pool has now."""

    def seen() -> dict[str, Any] | None:
        found = world.get("wnp", pool)
        status: dict[str, Any] = found["status"]
        return status if status["observedGeneration"] == found["metadata"]["generation"] else None

    return eventually(seen, what=f"a status of the current generation of {pool}") or {}


def facts(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
