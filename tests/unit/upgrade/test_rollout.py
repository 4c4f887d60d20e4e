"""The operator takes nodes through their upgrade: one after the other, and back into service."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from harness.builders import edited
from harness.evicting import a_pod
from harness.rollout_scenes import a_rollout, failed, until
from harness.rollout_world import THEIRS, RolloutWorld, replace_pod, rolling_pool
from winpool.model.node import NodeCondition
from winpool.model.pods import Pod

MINUTE = timedelta(minutes=1)


def a_world(number: int = 3, **upgrade: object) -> RolloutWorld:
    world = a_rollout(number, **upgrade)
    world.pass_time(6 * MINUTE)
    return world


@pytest.mark.slow
def test_a_node_is_validated_once_a_pod_has_a_sandbox_since_the_restart() -> None:
    """Rule 25: a kubelet is Ready while networks of Windows may still be missing."""
    world = a_world(1)
    agent = replace_pod(a_pod("cni"), node="w1", uid="cni", controller_kind="DaemonSet", is_ready=True)
    before = world.now - 60 * MINUTE
    world.pods["w1"] = [with_sandbox(agent, before)]
    for _ in range(30):
        world.upgrade_all(rounds=1)
        if world.state("w1") == "Failed":
            break
    claim = world.claim("w1")
    assert claim is not None
    assert "sandbox" in claim.reason

    world.pods["w1"] = [with_sandbox(agent, world.now)]
    world.write("w1", annotations={"winpool.dev/upgrade-retry": ""})
    world.upgrade_all()
    assert world.state("w1") == "UpToDate"


@pytest.mark.slow
def test_a_node_that_failed_is_taken_back_where_the_spec_asks_again_for_what_it_runs() -> None:
    world = failed(maxFailedNodes=1)
    spec = world.pool.spec
    assert spec is not None
    assert world.nodes["w1"].unschedulable
    os = spec.os.model_copy(update={"target_revision": 4000})
    world.edit(edited(world.pool, spec.model_copy(update={"os": os})))
    world.pass_time(20 * MINUTE)
    assert world.state("w1") == "UpToDate"
    assert not world.nodes["w1"].unschedulable


@pytest.mark.slow
def test_nodes_that_failed_are_tried_again_one_after_the_other() -> None:
    """Each of them is unavailable, and the spec permits one at a time by now."""
    world = failed(maxUnavailable=2, maxFailedNodes=5)
    until(world, "w2", "Failed")
    spec = world.pool.spec
    assert spec is not None
    assert spec.upgrade is not None
    upgrade = spec.upgrade.model_copy(update={"max_unavailable": 1})
    world.edit(edited(world.pool, spec.model_copy(update={"upgrade": upgrade})))
    for name in ("w1", "w2"):
        world.write(name, annotations={"winpool.dev/upgrade-retry": ""})
    claimed = []
    for _ in range(60):
        claimed.append({name for name in ("w1", "w2") if world.state(name) not in ("Failed", "Gated")})
        world.upgrade_all(rounds=1)
    assert {"w1"} in claimed
    assert {"w1", "w2"} in claimed, "the second waits for ever"
    assert world.state("w1") == world.state("w2") == "UpToDate"


def with_sandbox(pod: Pod, since: datetime) -> Pod:
    assert pod.eviction is not None
    return replace_pod(pod, eviction=replace(pod.eviction, sandboxed=since))


def test_a_condition_that_someone_else_has_written_holds_nothing_up() -> None:
    """A kubelet can write any condition of its node. The operator waits for its own alone."""
    world = a_world(1)
    theirs = NodeCondition("DrainInProgress", "True", THEIRS)
    until(world, "w1", "Upgrading")
    world.turn("w1", conditions=(*world.nodes["w1"].conditions, theirs))
    world.upgrade_all()
    assert world.state("w1") == "UpToDate"
    assert world.nodes["w1"].conditions == (theirs,)


def test_a_node_goes_through_all_states() -> None:
    world = a_world(1)
    world.upgrade_all()
    assert [state for _, state in world.trail][-9:] == [
        "Gated",
        "Claimed",
        "Draining",
        "Drained",
        "Upgrading",
        "Rejoining",
        "Validating",
        "Soaking",
        "UpToDate",
    ]
    node = world.nodes["w1"]
    assert not node.unschedulable
    assert not node.conditions
    assert not world.pool.status.slots


def test_of_more_nodes_than_are_listed_in_a_pass_those_that_were_listed_longest_ago_come_first() -> None:
    paused = [{"owner": "sre", "reason": "not yet"}]
    world = a_world(20, maxUnavailable=20, pauseRequests=paused)
    world.can_list_nodes = False
    world.know_pods(f"w{place}" for place in range(11, 21))
    world.edit(rolling_pool({"maxUnavailable": 20}))
    looks = next(each for _ in range(5) if (each := world.run().pod_list_requests))
    assert len(looks) == 16
    assert {f"w{place}" for place in range(1, 11)} <= {each.node.name for each in looks}
