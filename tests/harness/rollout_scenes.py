"""Pools in the middle of a rollout, each in a state that people have to be able to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final

from harness.builders import Nodes
from harness.rollout_world import RolloutWorld, rolling_pool
from harness.upgrade_world import UpgradeWorld
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.model.node import NodePatch
from winpool.model.snapshot import Snapshot

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


def a_rollout(number: int = 3, **upgrade: Any) -> RolloutWorld:
    """Return a pool with so many nodes that are due, a pod on each, before the first is claimed."""
    world = RolloutWorld(rolling_pool(upgrade), Nodes())
    for place in range(1, number + 1):
        world.join(f"w{place}", boot_id="1")
        world.place(f"w{place}", f"web-{place}")
    world.list_pods()
    world.pass_time(14 * MINUTE)
    return world


def until(world: RolloutWorld, name: str, state: str, *, most: int = 200) -> None:
    """Let time pass until a node is in a state."""
    for _ in range(most):
        if world.state(name) == state:
            return
        world.pass_time(MINUTE)
    raise AssertionError(f"{name} is {world.state(name)}, not {state}")


def close_budget(world: UpgradeWorld, patch: NodePatch, _: Snapshot) -> None:
    """A budget closes once the drain of the first node begins."""
    is_first = patch.node.name == "w1" and patch.labels.get(UPGRADE_STATE_LABEL) == "Draining"
    if is_first and isinstance(world, RolloutWorld):
        world.close_budget(patch.node.name)


def draining(**upgrade: Any) -> RolloutWorld:
    """The first of three nodes is drained, and a budget has closed meanwhile."""
    world = a_rollout(**{"drain": {"timeoutSeconds": 300}, **upgrade})
    world.watchers.append(close_budget)
    until(world, "w1", "Draining")
    return world


def blocked(**upgrade: Any) -> RolloutWorld:
    """The first of three nodes could not be drained in time."""
    world = draining(**upgrade)
    until(world, "w1", "DrainBlocked")
    return world


def failed(**upgrade: Any) -> RolloutWorld:
    """No one has upgraded the machine of the first node in time."""
    world = a_rollout(**upgrade)
    until(world, "w1", "Failed")
    return world


def soaking(number: int = 1) -> RolloutWorld:
    """So many of three nodes are upgraded and have to stay healthy for an hour."""
    world = a_rollout(maxUnavailable=number, soakSeconds=3600)
    names = [f"w{place}" for place in range(1, number + 1)]
    for name in names:
        until(world, name, "Upgrading")
    world.actor()
    for name in names:
        until(world, name, "Soaking")
    return world


def unhealthy() -> RolloutWorld:
    """Two nodes are not Ready any more after their upgrade."""
    world = soaking(2)
    for name in ("w1", "w2"):
        world.turn(name, ready="False", ready_since=world.now)
    world.pass_time(MINUTE)
    return world


def unsettled() -> RolloutWorld:
    """A node that is upgraded is not Ready for longer than its workloads may take to be back."""
    world = soaking()
    world.turn("w1", ready="False", ready_since=world.now)
    world.pass_time(2 * HOUR)
    return world


def replaced() -> RolloutWorld:
    """The machine of a node is replaced: its Node is gone, and no other has come yet."""
    world = a_rollout(method="Replace")
    until(world, "w1", "Upgrading")
    del world.nodes["w1"]
    world.pass_time(MINUTE)
    return world


def lost() -> RolloutWorld:
    """No machine has come in the place of one that was handed over."""
    world = replaced()
    world.pass_time(2 * HOUR)
    return world


def gated() -> RolloutWorld:
    """No node may begin: the budget is none."""
    return a_rollout(maxUnavailable=0)


SCENES: Final[Mapping[str, Callable[[], RolloutWorld]]] = {
    "a node is drained": draining,
    "a drain is blocked": blocked,
    "an upgrade failed": failed,
    "upgraded nodes are not ready": unhealthy,
    "workloads are not back": unsettled,
    "a machine is replaced": replaced,
    "a machine is lost": lost,
    "no upgrade may begin": gated,
}


@cache
def seen_in(scene: str) -> Snapshot:
    """Return what a pass sees in a scene."""
    return SCENES[scene]().snapshot()
