"""A drain that is forced, under the operator's own account with the fence: it needs three keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from cluster.pods import NAMESPACE, pods_in
from cluster.test_rollout import BUILD, actor_of, rolling
from cluster.test_rollout import RIGHTS as ROLLOUT_RIGHTS
from cluster.upgrade_ground import Ground, at
from cluster.upgrade_told import states
from harness import quick_force
from harness.documents import ROOT
from harness.waiting import eventually, holds
from harness.world import World

Object = dict[str, Any]

FORCE_RIGHTS: Final = str(ROOT / "deploy" / "components" / "force" / "force-rights.yaml")
UPGRADE: Final = "winpool.dev/upgrade"
WAITS_SECONDS: Final = 5
SILENT_SECONDS: Final = 12.0
"""As long as other tests of silence."""


@contextmanager
def rights(world: World, *files: str) -> Iterator[None]:
    """Give the operator these rights, and no more."""
    for each in files:
        world.kubectl("apply", "-f", each)
    try:
        yield
    finally:
        for each in files:
            world.kubectl("delete", "-f", each, "--ignore-not-found")


@contextmanager
def a_blocked_drain(world: World, *, allowed: bool) -> Iterator[tuple[Ground, str, str]]:
    """Two pods on the only node, of which one may go, and an agent of a DaemonSet.

    Hands over the machines, the name of the pods and that of the pool, which is not applied yet.
    """
    environment = quick_force.environment(seconds=WAITS_SECONDS, allowed=allowed)
    with pods_in(world, environment=environment, module="harness.quick_force") as pods:
        ground = Ground(world, pods)
        try:
            ground.wait_settled()
            agent = pods.daemon_set("agent", tolerations=[{"operator": "Exists"}])
            eventually(lambda: ground.first in pods.of(agent), what="the agent on the node")
            name = ground.fill("web", build=BUILD, pods=2, cpu="100m")
            budget = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "labels": {"example.com/obstacle": world.suffix}},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"example.com/replica-set": name}}},
            }
            world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(budget))
            manifest = rolling(world, drain={"timeoutSeconds": 600, "onTimeout": "Force"})
            unfit = {"gate": "Capacity", "until": at(world, hours=8), "reason": "the only node of the test"}
            manifest["spec"]["upgrade"]["overrides"].append(unfit)
            pool = world.apply(manifest)
            yield ground, name, pool
            world.delete(pool)
        finally:
            ground.close()


def on_node(world: World, node: str) -> dict[str, str]:
    """Return the UIDs of the pods on a node that no one has told to end, by their names."""
    found = world.get("pods", "-n", NAMESPACE, "--field-selector", f"spec.nodeName={node}")["items"]
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    }


def forced(world: World, node: str) -> list[Object]:
    """Return the events that pods of a node were deleted by force."""
    return [each for each in world.events(kind="Node", name=node) if each["reason"] == "PodsForced"]


def reach_deadline(world: World, node: str) -> bool:
    """Let the deadline of the drain be over, which is ten minutes at least, as no one but an admin can."""
    [found] = [each for each in world.nodes().values() if each["metadata"]["name"] == node]
    claim = json.loads(found["metadata"]["annotations"][UPGRADE])
    assert claim["state"] == "Draining"
    claim["deadline"] = claim["drainUntil"] = at(world, seconds=-1)
    world.kubectl("annotate", "node", node, "--overwrite", f"{UPGRADE}={json.dumps(claim)}")
    return True


@pytest.mark.timeout(600)  # a guard
def test_a_pod_behind_a_closed_budget_is_deleted_after_the_deadline_and_no_other(world: World) -> None:
    with (
        rights(world, ROLLOUT_RIGHTS, FORCE_RIGHTS),
        a_blocked_drain(world, allowed=True) as (ground, name, _),
    ):
        begun = world.now()
        world.operator.start()
        counted = "winpool_upgrade_drain_evictions_total"
        eventually(
            lambda: world.operator.metric(counted, result="Evicted") == 1, what="one leaves", seconds=150
        )
        eventually(lambda: states(world)[ground.first] == "Draining", what="the drain", seconds=60)
        before = on_node(world, ground.first)
        [victim] = [each for each in before if each.startswith(name)]
        holds(lambda: on_node(world, ground.first) == before, seconds=WAITS_SECONDS + 3, every=1)
        eventually(lambda: reach_deadline(world, ground.first), what="the deadline", seconds=30)
        eventually(lambda: states(world)[ground.first] == "Upgrading", what="the hand-over", seconds=120)
        kept = {each: uid for each, uid in before.items() if each != victim}
        assert on_node(world, ground.first) == kept, "the agent stays"
        asked = [
            each for each in world.requests(since=begun) if (each.verb, each.resource) == ("delete", "pods")
        ]
        assert [each.name for each in asked if each.code == 200] == [victim]
        assert {each.name for each in asked} == {victim}
        assert world.operator.metric(counted, result="Forced") == 1
        # Events are sent beside the passes that hand the node over.
        [event] = eventually(lambda: forced(world, ground.first), what="the event PodsForced")
        assert f"(onTimeout: Force): {NAMESPACE}/{victim}. What had kept them: Budget." in event["message"]
        actor = actor_of(ground)

        def is_back() -> bool:
            actor.look()
            return states(world)[ground.first] == "UpToDate"

        eventually(is_back, what="the node back: a deletion would wait for it", seconds=120, every=1)


@pytest.mark.timeout(300)  # a guard
def test_without_the_flag_the_spec_is_refused_and_nothing_is_deleted(world: World) -> None:
    with (
        rights(world, ROLLOUT_RIGHTS, FORCE_RIGHTS),
        a_blocked_drain(world, allowed=False) as (ground, _, pool),
    ):
        begun, before = world.now(), on_node(world, ground.first)
        world.operator.start()

        def is_said() -> bool:
            found = world.condition(pool, "Accepted")
            assert (found.get("status"), found.get("reason")) == ("False", "SpecRejected"), found
            assert "the operator was started without --allow-force" in found["message"]
            return True

        eventually(is_said, what="the flag that is missing", seconds=90)
        holds(is_said, seconds=SILENT_SECONDS, every=1)
        assert on_node(world, ground.first) == before
        assert not [each for each in world.requests(since=begun) if each.verb == "delete"]


@pytest.mark.nightly
@pytest.mark.timeout(300)  # a guard
def test_without_the_right_the_rule_is_named_and_no_node_stays_cordoned(world: World) -> None:
    with rights(world, ROLLOUT_RIGHTS), a_blocked_drain(world, allowed=True) as (ground, _, pool):
        begun = world.now()
        world.operator.start()

        def is_said() -> bool:
            found = world.condition(pool, "Accepted")
            assert (found.get("status"), found.get("reason")) == ("False", "MissingPermission"), found
            assert (
                'Add the rule {apiGroups: [""], resources: ["pods"], verbs: ["delete"]}' in found["message"]
            )
            return True

        eventually(is_said, what="the right that is missing", seconds=150)
        eventually(lambda: states(world)[ground.first] == "Gated", what="the claim ended", seconds=90)
        holds(is_said, seconds=SILENT_SECONDS, every=1)
        assert not any(each["spec"].get("unschedulable") for each in world.nodes().values())
        assert not [each for each in world.requests(since=begun) if each.verb == "delete"]
        with rights(world, FORCE_RIGHTS):
            eventually(
                lambda: world.condition(pool, "Accepted").get("status") == "True",
                what="the right counts",
                seconds=150,
            )
