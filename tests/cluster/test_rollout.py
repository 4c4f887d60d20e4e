"""The operator upgrades a pool: it drains one node after the other, hands it over, and takes it back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from cluster.pods import NAMESPACE
from cluster.test_upgrade_slots import most_unavailable
from cluster.upgrade_ground import QUICK, STATE_LABEL, WAY, Ground, at, ground_in, upgrade
from cluster.upgrade_told import states, told_states
from harness.documents import ROOT
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.watcher import Watcher
from harness.world import World
from testbed.actuator import Actuator, Method
from testbed.cluster import Testbed

Object = dict[str, Any]

TARGET: Final = 4171
SILENT_SECONDS: Final = 12.0
"""As long as other tests of silence."""
BUILD: Final = "10.0.20348"
QUICKLY: Final[Object] = {
    "strategy": "RollingUpdate",
    "soakSeconds": 1,
    "rejoinTimeoutSeconds": 120,
    "settleTimeoutSeconds": 120,
}


RIGHTS: Final = str(ROOT / "deploy" / "components" / "rollout" / "rollout-rights.yaml")


@contextmanager
def rollout_rights(world: World) -> Iterator[None]:
    """Give the operator the rights of the overlay ``rollout``, and no more."""
    world.kubectl("apply", "-f", RIGHTS)
    try:
        yield
    finally:
        world.kubectl("delete", "-f", RIGHTS, "--ignore-not-found")


@pytest.fixture(autouse=True)
def rights(world: World) -> Iterator[None]:
    """Give the operator these rights in each test here."""
    with rollout_rights(world):
        yield


def rolling(world: World, **fields: Any) -> Object:
    return world.pool(
        os={"version": "2022", "targetRevision": TARGET},
        validation={"readySeconds": 0, "timeoutSeconds": 120},
        upgrade=upgrade(world, **{**QUICKLY, **fields}),
    )


def actor_of(ground: Ground, method: Method = "patch") -> Actuator:
    api = ground.world.testbed.api()
    return Actuator(api=api, fleet=ground.fleet, method=method, outage=QUICK)


@pytest.mark.timeout(600)  # a guard: machines restart one after the other
def test_nodes_are_upgraded_one_after_the_other(world: World) -> None:
    with ground_in(world) as ground:
        nodes = [ground.first, *(ground.join("2022", 1607) for _ in range(2))]
        ground.wait_settled()
        ground.fill("web", build=BUILD, pods=4, cpu="100m")
        pool = world.apply(rolling(world))
        actor = actor_of(ground)
        with world.watch_nodes() as witness:
            world.operator.start()

            def done() -> bool:
                actor.look()
                assert set(states(world).values()) == {"UpToDate"}, states(world)
                return True

            eventually(done, what="all nodes up to date", seconds=150, every=1)
            witness.catch_up(world.nodes().values())
        assert most_unavailable(witness) == 1
        for name in nodes:
            said = [each for each in told_states(witness)[name] if each]
            assert said[-len(WAY) :] == WAY, said
        eventually(lambda: "slots" not in world.status(pool), what="no slots are left")
        for node in world.nodes().values():
            assert not node["spec"].get("unschedulable")
        # The watch of budgets stays for a minute, since a next node would need it.
        eventually(
            lambda: world.writes(since=world.now() - timedelta(seconds=3)) == [], what="the last event is out"
        )
        version, start = world.get("wnp", pool)["metadata"]["resourceVersion"], world.now()
        holds(lambda: world.operator.running, seconds=SILENT_SECONDS, every=1)
        assert world.writes(since=start) == []
        assert world.get("wnp", pool)["metadata"]["resourceVersion"] == version
        world.delete(pool)


@pytest.mark.timeout(300)  # a guard
def test_a_new_machine_of_another_name_takes_over_slot_claim_and_cordon(world: World) -> None:
    with ground_in(world) as ground:
        ground.wait_settled()
        pool = world.apply(rolling(world, method="Replace"))
        actor = actor_of(ground, "surge")
        with world.watch_nodes() as witness:
            world.operator.start()

            def done() -> bool:
                actor.look()
                found = states(world)
                assert ground.first not in found
                assert set(found.values()) == {"UpToDate"}, found
                # The new machine comes first, and is up to date before it takes the place of the old one.
                assert "slots" not in world.status(pool)
                return True

            eventually(done, what="the new machine in the place of the old one", seconds=120, every=1)
            witness.catch_up(world.nodes().values())
        assert [each for each in told_states(witness)[ground.first] if each][-1] == "Upgrading"
        [heir] = successors(ground.first, witness)
        assert [*world.nodes()] == [heir]
        assert told_states(witness)[heir][-4:] == WAY[-4:]
        assert not world.nodes()[heir]["spec"].get("unschedulable")
        world.delete(pool)


def successors(old: str, nodes: Watcher) -> set[str]:
    """Return the other nodes that have had the claim of a node, each cordoned from the first state on."""
    claims = {claim_of(each) for each in nodes.states[old]} - {None}
    found = {}
    for name, seen in nodes.states.items():
        if name != old and (there := [each for each in seen if claim_of(each) in claims]):
            found[name] = (labels_of(there[0])[STATE_LABEL], bool(there[0]["spec"].get("unschedulable")))
    assert set(found.values()) == {("Rejoining", True)}, found
    return set(found)


def claim_of(node: Object) -> str | None:
    """Return the name of the claim that a node has; None without one."""
    text = node["metadata"].get("annotations", {}).get("winpool.dev/upgrade", "{}")
    name = json.loads(text).get("claim")
    return None if name is None else str(name)


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a guard: a drain may take a minute at least
def test_a_budget_that_closes_in_mid_drain_is_reported_until_it_is_freed(world: World) -> None:
    """Of two pods one may go, and its replacement fits on no other node."""
    with ground_in(world) as ground:
        ground.wait_settled()
        pods = ground.fill("web", build=BUILD, pods=2, cpu="100m")
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": pods, "labels": {"example.com/obstacle": world.suffix}},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"example.com/replica-set": pods}}},
        }
        world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(budget))
        manifest = rolling(world, drain={"timeoutSeconds": 60})
        unfit = {"gate": "Capacity", "until": at(world, hours=8), "reason": "the only node of the test"}
        manifest["spec"]["upgrade"]["overrides"].append(unfit)
        pool = world.apply(manifest)
        world.operator.start()

        def is_reported() -> bool:
            found = world.condition(pool, "Stalled")
            assert (found.get("status"), found.get("reason")) == ("True", "DrainBlocked"), found
            status = world.status(pool)
            [issue] = [each for each in status["issues"] if each["reason"] == "DrainBlocked"]
            assert f"The PodDisruptionBudget {NAMESPACE}/{pods} allows no eviction now" in issue["message"]
            assert issue["nodes"] == [ground.first]
            assert (status["drainingNodes"], status["blockedNodes"], status["failedNodes"]) == (1, 1, 0)
            return True

        eventually(is_reported, what="the budget in the status", seconds=150)

        def is_counted() -> bool:
            return world.operator.metric("winpool_upgrade_blocked_nodes", pool=pool, reason="Budget") == 1

        eventually(is_counted, what="the metric, made anew each second")
        assert world.operator.metric("winpool_upgrade_drain_evictions_total", result="Evicted") == 1
        world.kubectl("delete", "pdb", "-n", NAMESPACE, pods)
        eventually(lambda: states(world)[ground.first] == "Upgrading", what="the hand-over", seconds=90)
        eventually(lambda: world.condition(pool, "Stalled")["status"] == "False", what="nothing stalls it")
        actor = actor_of(ground)

        def is_back() -> bool:
            actor.look()
            return states(world)[ground.first] == "UpToDate"

        eventually(is_back, what="the node back: a deletion would wait for it", seconds=120, every=1)
        world.delete(pool)


@pytest.mark.timeout(300)  # a guard
def test_without_its_rights_no_node_is_cordoned_and_the_rule_is_named(world: World, testbed: Testbed) -> None:
    testbed.kubectl("delete", "-f", RIGHTS)
    with ground_in(world) as ground:
        ground.wait_settled()
        pool = world.apply(rolling(world))
        with world.watch_nodes() as witness:
            world.operator.start()

            def is_said() -> bool:
                found = world.condition(pool, "Accepted")
                assert (found.get("status"), found.get("reason")) == ("False", "MissingPermission"), found
                assert "Add the rule" in found["message"], found
                return True

            eventually(is_said, what="the missing permission", seconds=90)
            eventually(lambda: states(world)[ground.first] == "Gated", what="the claim ended", seconds=90)
            holds(is_said, seconds=SILENT_SECONDS, every=1)
            witness.catch_up(world.nodes().values())
            # Soon after the operator has the rights it cordons the node.
            assert not any(each["spec"].get("unschedulable") for each in witness.states[ground.first])
            testbed.kubectl("apply", "-f", RIGHTS)
            eventually(
                lambda: world.condition(pool, "Accepted").get("status") == "True",
                what="the rights count",
                seconds=90,
            )
        world.delete(pool)
