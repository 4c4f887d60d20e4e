"""The operator takes nodes through their upgrade: one after the other, and back into service."""

from __future__ import annotations

from datetime import timedelta

from harness.builders import Nodes
from harness.rollout_world import RolloutWorld, rolling_pool

MINUTE = timedelta(minutes=1)


def a_world(number: int = 3, **upgrade: object) -> RolloutWorld:
    world = RolloutWorld(rolling_pool(upgrade), Nodes())
    for place in range(1, number + 1):
        world.join(f"w{place}", boot_id="1")
        world.place(f"w{place}", f"web-{place}")
    world.list_pods()
    world.pass_time(20 * MINUTE)
    return world


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
