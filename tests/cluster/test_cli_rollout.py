"""``kubectl winpool rollout`` and ``why`` where the operator upgrades the nodes, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from cluster.pods import NAMESPACE
from cluster.test_cli_plan import a_user, asked, squeezed
from cluster.test_cli_status import winpool
from cluster.test_rollout import BUILD, QUICKLY, TARGET, actor_of, rights
from cluster.upgrade_ground import Ground, at, ground_in, upgrade
from harness.nodes import annotations_of, labels_of
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

__all__ = ["rights"]  # the fixture, for all tests here

STATE: Final = "winpool.dev/upgrade-state"
WAITS: Final = 90.0
"""Seconds for a step of the operator, on a busy machine."""


def rolling(world: World, **fields: Any) -> Object:
    """Return a pool that the operator upgrades, also where pods fit on no other node."""
    asked_for = upgrade(world, **{**QUICKLY, **fields})
    unfit = {"gate": "Capacity", "until": at(world, hours=8), "reason": "the only node of the test"}
    asked_for["overrides"] = [*asked_for["overrides"], unfit]
    return world.pool(
        os={"version": "2022", "targetRevision": TARGET},
        validation={"readySeconds": 0, "timeoutSeconds": 120},
        upgrade=asked_for,
    )


@contextmanager
def half_drained(world: World) -> Iterator[tuple[Ground, str, str]]:
    """Have a node of which a budget lets one of two pods go; yield its ground, the pool and the budget."""
    with ground_in(world) as ground:
        ground.wait_settled()
        pods = ground.fill("web", build=BUILD, pods=2, cpu="100m")
        budget = f"web-{world.suffix}"
        manifest = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": budget, "labels": {"example.com/obstacle": world.suffix}},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"example.com/replica-set": pods}}},
        }
        world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))
        pool = world.apply(rolling(world))
        world.operator.start()

        def is_blocked() -> bool:
            """The budget is closed once one pod is let go, and that pod is on the node until it has ended."""
            rollout = why(world, ground.first).get("rollout", {})
            return bool(rollout.get("blockers")) and rollout["waitsFor"].startswith("1 pod to leave")

        eventually(is_blocked, what="a budget in mid-drain", seconds=WAITS)
        yield ground, pool, budget


def why(world: World, node: str) -> Object:
    return dict(json.loads(asked(world, "why", node, "-o", "json").stdout))


def state_of(world: World, node: str) -> tuple[str | None, bool]:
    found = world.node(node)
    return labels_of(found).get(STATE), bool(found["spec"].get("unschedulable"))


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a guard: a node is drained twice, and restarts
def test_a_rollout_is_followed_from_a_budget_that_closes_to_its_end(world: World) -> None:
    with half_drained(world) as (ground, pool, budget):
        node = ground.first
        done = asked(world, "why", node)
        text = squeezed(done.stdout)
        assert done.returncode == 3
        assert "The operator drains the node" in text
        assert "Waits for: 1 pod to leave, blocked" in text
        assert f"The PodDisruptionBudget {NAMESPACE}/{budget} allows no eviction now" in text
        assert f"kubectl winpool rollout abort {pool}" in text
        shown = asked(world, "rollout", "status", pool)
        assert shown.returncode == 3
        assert f"{node} Draining" in squeezed(shown.stdout)
        assert "blocked" in shown.stdout

        with a_user(world, "windowsnodepools.winpool.dev", "nodes") as (user, kubeconfig):
            shown = winpool(kubeconfig, "rollout", "status", pool)
            assert shown.returncode == 3
            assert f'User "{user}" cannot list resource "pods"' in squeezed(shown.stdout)
            refused = winpool(kubeconfig, "rollout", "abort", pool)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f'User "{user}" cannot get resource "windowsnodepools"' in refused.stderr

        assert asked(world, "rollout", "abort", pool, "--owner", "sre").returncode == 0
        eventually(lambda: state_of(world, node) == ("Gated", False), what="the node given up", seconds=WAITS)
        assert "PauseRequested" in asked(world, "rollout", "status", f"wnp/{pool}").stdout
        world.kubectl("delete", "pdb", "-n", NAMESPACE, budget)
        assert asked(world, "rollout", "resume", pool, "--owner", "sre").returncode == 0

        actor = actor_of(ground)

        def handed_over() -> bool:
            return bool(why(world, node)["standing"] == "HandedOver")

        eventually(handed_over, what="the node handed over", seconds=WAITS)
        assert asked(world, "why", node).returncode == 0
        actor.look()
        shown = asked(world, "rollout", "status", pool, "-w")
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert shown.stdout.rstrip().splitlines()[-1]
        assert "All nodes are up to date." in shown.stdout
        assert asked(world, "why", node).returncode == 0
        world.delete(pool)


def test_owners_pause_and_resume_a_pool_each_for_itself(world: World) -> None:
    def requests() -> list[Object]:
        return list(world.get("wnp", pool)["spec"]["upgrade"].get("pauseRequests", []))

    pool = world.apply(world.pool(upgrade={}))
    assert (
        asked(world, "rollout", "pause", pool, "--owner", "sre", "--reason", "incident 4711").returncode == 0
    )
    done = asked(world, "rollout", "pause", f"wnp/{pool}")
    assert done.returncode == 0, done.stderr
    first, second = requests()
    assert first == {"owner": "sre", "reason": "incident 4711"}
    assert second["owner"] in done.stdout
    assert asked(world, "rollout", "abort", pool).returncode == 0, "the request of the same owner changes"
    assert requests() == [first, {**second, "nodesInWork": "Restore"}]
    done = asked(world, "rollout", "resume", pool)
    assert (done.returncode, requests()) == (0, [first])
    assert "stays paused by sre (incident 4711)" in squeezed(done.stdout)
    assert asked(world, "rollout", "resume", pool, "--owner", "sre").returncode == 0
    assert requests() == []
    assert asked(world, "rollout", "resume", pool, "--owner", "sre").returncode == 0, "it is so already"
    world.apply(world.pool(upgrade={}))


def test_only_a_node_whose_upgrade_failed_is_retried(world: World) -> None:
    (node,) = world.fleet(windows=1)
    refused = asked(world, "rollout", "retry", node)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "has not failed" in refused.stderr
    moment = "2026-11-01T12:00:00Z"
    times = ("drain", "volumes", "actor", "rejoin", "ready", "validation", "soak", "settle")
    claim = {
        "claim": "0123456789ab",
        "target": {"version": "2022", "revision": TARGET},
        "state": "Failed",
        "since": moment,
        "before": {"uid": "u", "kernel": "k", "bootId": "b", "systemUuid": "s"},
        "limits": dict.fromkeys(times, 60),
        "reason": "the machine did not restart in time",
    }
    world.kubectl("annotate", "node", node, f"winpool.dev/upgrade={json.dumps(claim)}")
    done = asked(world, "rollout", "retry", f"node/{node}")
    assert done.returncode == 0, done.stderr
    assert "the machine did not restart in time" in squeezed(done.stdout)
    assert annotations_of(world.node(node))["winpool.dev/upgrade-retry"]


def test_a_pool_that_upgrades_nothing_is_a_sentence(world: World) -> None:
    pool = world.apply(world.pool())
    for verb in ("status", "pause"):
        done = asked(world, "rollout", verb, pool)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"the pool {pool} has no spec.upgrade" in done.stderr
        done = asked(world, "rollout", verb, "nobody")
        assert (done.returncode, done.stdout) == (1, "")
        assert 'there is no WindowsNodePool "nobody"' in done.stderr
