"""The node that the operator runs on is upgraded last, and only once no other node of its pool is due."""

from __future__ import annotations

import asyncio
from typing import cast
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from harness.builders import NOON, Nodes, a_pool
from harness.every import every
from harness.rollout_world import RolloutWorld, rolling_pool
from harness.upgrade_feature import overview_of, settled_nodes, upgrade_pool, upgrade_snapshot, wishes
from harness.virtual_time import in_virtual_time
from unit.test_settings import by_flags
from unit.upgrade.test_rollout import MINUTE
from winpool.controllers.controller import Controller
from winpool.controllers.services import Observer
from winpool.decide import decide
from winpool.kube.client import Transport
from winpool.kube.leader_election import LeaderElector
from winpool.loops import Clock
from winpool.model.pool import Attempts
from winpool.model.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"


def seen_from(node: str, *, strategy: str = "Manual", mode: str = "Active") -> Snapshot:
    pool = upgrade_pool({"strategy": strategy, "maxUnavailable": 3}, mode=mode)
    return replace(upgrade_snapshot(pool, settled_nodes()), operator_node=node)


def test_it_is_not_permitted_while_others_are_due() -> None:
    assert wishes(seen_from("w1")) == {"w1": "Gated", "w2": "Required", "w3": "Required"}
    assert [each.name for each in overview_of(seen_from("w1")).due[0].stops] == ["OperatorNode"]


def test_it_is_permitted_as_the_only_one() -> None:
    snapshot = replace(upgrade_snapshot(upgrade_pool(), settled_nodes(1)), operator_node="w1")
    assert wishes(snapshot) == {"w1": "Required"}


@every("node", ["", "lin-1"])
def test_elsewhere_it_keeps_no_node(node: str) -> None:
    assert wishes(seen_from(node)) == dict.fromkeys(("w1", "w2", "w3"), "Required")


def test_a_dry_run_has_it_last() -> None:
    plan = decide(seen_from("w1", strategy="RollingUpdate", mode="DryRun")).status.plan
    assert plan is not None
    steps = [each.node for each in plan.steps if each.action == "Upgrade"]
    assert steps == ["w2", "w3", "w1"]


@pytest.mark.slow
def test_it_is_claimed_after_all_zones_when_no_other_node_is_due() -> None:
    world = RolloutWorld(rolling_pool({"maxUnavailable": 4}), Nodes(), operator_node="w1")
    for place, zone in enumerate("abba", start=1):
        world.join(f"w{place}", boot_id="1")
        world.write(f"w{place}", labels={ZONE: zone})
    world.list_pods()
    world.pass_time(20 * MINUTE)
    world.write("w3", annotations={"winpool.dev/hold": ""})
    world.upgrade_all(rounds=20)
    assert {name for name, state in world.trail if state == "Claimed"} == {"w2", "w4"}
    world.write("w3", annotations={"winpool.dev/hold": None})
    world.upgrade_all()
    assert [name for name, state in world.trail if state == "Claimed"] == ["w4", "w2", "w3", "w1"]
    assert world.state("w1") == "UpToDate"


@pytest.mark.parametrize(("flags", "name"), [((), ""), (("--node-name=w1",), "w1")])
@in_virtual_time
async def test_a_pass_knows_it_by_the_flag(flags: tuple[str, ...], name: str) -> None:
    loop = asyncio.get_running_loop()
    services = Controller(
        cast(Transport, Mock()),
        by_flags(*flags),
        elector=cast(LeaderElector, Mock()),
        clock=Clock(now=lambda: NOON, monotonic=loop.time),
    ).services
    assert Observer(services).snapshot(a_pool(), attempts=Attempts()).operator_node == name
