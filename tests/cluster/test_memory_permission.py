"""A pool that asks for memory pressure, where its part of the installation is missing."""

from __future__ import annotations

import pytest

from cluster.memory_world import READER_USER, block, machines, watching_operator
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import POOL_LABEL


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["Observe", "Evict"])
def test_without_the_rights_the_pool_says_which_rule_is_missing_and_asks_no_kubelet(
    world: World, mode: str
) -> None:
    world.operator = watching_operator(world)
    with machines(world, seeing=1) as stage:
        [node] = stage.fleets
        since = world.now()
        world.operator.start()
        pool = world.apply(world.pool(memoryPressure=block(mode)))
        eventually(
            lambda: world.condition(pool, "Accepted").get("reason") == "MissingPermission",
            what="Accepted=False MissingPermission",
        )
        accepted = world.condition(pool, "Accepted")
        assert accepted["status"] == "False"
        assert "serviceaccounts/token" in accepted["message"]
        asked = stage.asked_by(f"system:node:{node}", since=since)
        assert [each for each in asked if each.resource == "tokenreviews"] == [], "the kubelet was asked"
        assert stage.asked_by(READER_USER, since=since) == []

        # Without the block the same pool works with what is there.
        world.apply(world.pool())
        world.wait_up_to_date(pool, nodes=1)
        assert labels_of(world.node(node))[POOL_LABEL] == pool
