"""What the plan of a dry run shows is what the operator then does: zone by zone, node by node, in ten worlds.

Nothing else happens in these worlds, but that pods which are evicted come to other nodes of the pool. So how
many pods would move changes from node to node, in the middle of the rollout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any, Final

import pytest

from harness.builders import NOON, Nodes, edited
from harness.due import moving
from harness.rollout_world import RolloutWorld, rolling_pool
from winpool.api.spec import Mode
from winpool.model.node import Eviction, NodePatch, is_available
from winpool.model.snapshot import Snapshot

ZONE: Final = "topology.kubernetes.io/zone"
HOURS: Final = range(2, 500)


@dataclass
class MovingWorld(RolloutWorld):
    """Pods that are evicted come to another node at once. ``cordons`` has the first cordon of each node."""

    chance: Random = field(default_factory=Random)
    cordons: dict[str, datetime] = field(default_factory=dict)

    def list_pods(self) -> None:
        """List all pods, where they are now."""
        self.workloads = {name: moving(len(self.pods.get(name, ()))) for name in self.nodes}
        super().list_pods()

    def note(self, _: object, patch: NodePatch, __: Snapshot) -> None:
        """Note the first cordon of a node."""
        if patch.unschedulable:
            self.cordons.setdefault(patch.node.name, self.now)

    def _evict(self, eviction: Eviction) -> None:
        super()._evict(eviction)
        free = [name for name, node in self.nodes.items() if is_available(node)]
        self.place(self.chance.choice(free), f"{eviction.name}-again")


def a_world(chance: Random) -> MovingWorld:
    """Return a pool that is about to be upgraded."""
    upgrade: dict[str, Any] = {
        "maxUnavailable": chance.choice((1, 2, 3, "30%")),
        "soakSeconds": chance.choice((0, 60)),
        "topologyKey": chance.choice((ZONE, ZONE, "")),
        **chance.choice(
            (
                {},
                {"canary": {"nodes": chance.randint(1, 3), "soakSeconds": 60}},
                {"canary": {"nodeSelector": {"matchLabels": {"tier": "test"}}, "soakSeconds": 60}},
            )
        ),
    }
    world = MovingWorld(rolling_pool(upgrade, mode="DryRun"), Nodes(), chance=chance)
    zones = [*"abc"[: chance.randint(1, 3)], *chance.choice(((), ("",)))]
    for place in chance.sample(range(100), chance.randint(5, 10)):
        name, zone = f"w{place}", chance.choice(zones)
        world.join(name, boot_id="1", created=NOON - timedelta(hours=chance.choice(HOURS)))
        tier = {"tier": "test"} if chance.random() < 0.3 else {}
        world.write(name, labels={**({ZONE: zone} if zone else {}), **tier})
        world.place(name, *(f"web-{place}-{number}" for number in range(chance.randint(0, 9))))
    world.operator_node = chance.choice(["", *world.nodes])
    world.watchers.append(world.note)
    world.list_pods()
    world.pass_time(timedelta(minutes=20))
    return world


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_the_operator_does_what_the_plan_shows(number: int) -> None:
    world = a_world(Random(number))
    plan = world.pool.status.plan
    assert plan is not None
    shown = [each.node for each in plan.steps if each.action == "Upgrade"]
    assert sorted(shown) == sorted(world.nodes)
    before = dict(world.workloads)
    assert world.pool.spec is not None
    world.edit(edited(world.pool, world.pool.spec.model_copy(update={"mode": Mode.ACTIVE})))
    world.upgrade_all(rounds=200)
    assert {world.state(name) for name in world.nodes} == {"UpToDate"}

    # Nodes that are cordoned in the same moment are of one batch, side by side.
    together = [
        sorted((name for name, _ in found), key=shown.index)
        for _, found in groupby(world.cordons.items(), key=lambda each: each[1])
    ]
    assert [name for batch in together for name in batch] == shown, before
