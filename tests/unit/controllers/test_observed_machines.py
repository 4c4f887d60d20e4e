"""What a pass knows of machines and of the control plane: for pools with upgrades, of their own nodes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool
from winpool.controllers.machines import ObservedMachines
from winpool.controllers.pools import Pools
from winpool.kube.control_plane import ControlPlane
from winpool.loops import Clock
from winpool.model.node import Node
from winpool.model.pool import KnownUpgrades, Pool, SurpriseKind

WITH_UPGRADES: dict[str, Any] = {"upgrade": {}}
BLUE = {"matchLabels": {"agentpool": "blue"}}


class _Pools:
    def __init__(self) -> None:
        self.found: list[Pool] = []

    def all(self) -> list[Pool]:
        return self.found


class _ControlPlane:
    unchanged_since, is_first, age_seconds = NOON - timedelta(hours=2), True, 0.0


class Stage:
    """Sights of nodes that a test changes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.now = NOON
        self.machines = ObservedMachines(
            pools=cast(Pools, _Pools()),
            nodes=self.nodes,
            control_plane=cast(ControlPlane, _ControlPlane()),
            on_change=lambda: None,
            clock=Clock(now=self._now, monotonic=lambda: 0.0),
        )

    def _now(self) -> datetime:
        return self.now

    def put(self, node: Node) -> None:
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        self.machines.node_changed(old, node)

    def reboot(self, name: str = "w1", boot_id: str = "8", **changes: Any) -> None:
        self.put(replace(self.nodes[name], boot_id=boot_id, **changes))


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.put(replace(a_node(), boot_id="7"))
    return stage


def kinds(stage: Stage, pool: Pool) -> list[SurpriseKind]:
    return [each.kind for each in stage.machines.known(pool).surprises]


def test_a_pool_without_upgrades_knows_nothing(stage: Stage) -> None:
    stage.reboot()
    gone = a_pool(more=WITH_UPGRADES, deleting=True)
    for pool in (a_pool(), gone, a_pool(refusal="unreadable")):
        assert stage.machines.known(pool) == KnownUpgrades()
    assert not stage.machines.surprises


def test_a_pool_knows_the_surprises_of_its_own_nodes(stage: Stage) -> None:
    stage.reboot()
    assert kinds(stage, a_pool(more=WITH_UPGRADES)) == [SurpriseKind.REBOOT]
    assert kinds(stage, a_pool("blue", selector=BLUE, more=WITH_UPGRADES)) == []


def test_it_knows_since_when_the_control_plane_is_unchanged(stage: Stage) -> None:
    known = stage.machines.known(a_pool(more=WITH_UPGRADES))
    assert (known.control_plane_since, known.control_plane_is_first) == (NOON - timedelta(hours=2), True)


def test_each_surprise_is_counted_once_however_many_passes_know_it(stage: Stage) -> None:
    pool = a_pool(more=WITH_UPGRADES)
    stage.reboot()
    assert not stage.machines.surprises, "an operator that waits to lead makes no pass"
    for _ in range(3):
        stage.machines.known(pool)
        stage.machines.known(a_pool("twin", more=WITH_UPGRADES))
    assert stage.machines.surprises == {SurpriseKind.REBOOT: 1}
    stage.now += timedelta(minutes=1)
    stage.reboot(boot_id="9")
    stage.machines.known(pool)
    assert stage.machines.surprises == {SurpriseKind.REBOOT: 2}


def test_a_node_that_is_gone_is_forgotten(stage: Stage) -> None:
    pool = a_pool(more=WITH_UPGRADES)
    stage.reboot()
    stage.machines.known(pool)
    stage.machines.node_changed(stage.nodes.pop("w1"), None)
    assert kinds(stage, pool) == []
    assert not stage.machines._counted
