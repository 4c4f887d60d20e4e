"""The operator's setting --max-nodes-in-work: how many nodes of all pools have a slot at the same time."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from harness.builders import NOON, Object, a_pool, with_status
from harness.every import every
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import on_stage
from harness.upgrade_feature import (
    BEHIND,
    overview_of,
    passed,
    settled_node,
    settled_nodes,
    upgrade_pool,
    upgrade_snapshot,
    wishes,
)
from unit.test_settings import by_flags
from winpool.api.conditions import ConditionType
from winpool.api.status import MAX_SLOTS, Slot, SlotState
from winpool.controllers.pools import Pools
from winpool.controllers.services import NodesInWork
from winpool.decide import decide
from winpool.features.upgrade.feature import CAPPED_SECONDS
from winpool.features.upgrade.records import CAPPED
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot


def seen(most_slots: int, *, strategy: str = "Manual", in_work: int = 0) -> Snapshot:
    """Return what a pass sees of three nodes that may all be unavailable, so many of which have a slot."""
    pool = upgrade_pool({"strategy": strategy, "maxUnavailable": 3})
    slots = [a_slot(f"w{place}") for place in range(1, in_work + 1)]
    pool = with_status(pool, pool.status.model_copy(update={"slots": tuple(slots)}))
    return replace(upgrade_snapshot(pool, settled_nodes()), most_slots=most_slots)


def a_slot(name: str, state: SlotState = SlotState.RESERVED) -> Slot:
    return Slot(node=name, uid=f"uid-of-{name}", state=state, since=NOON, deadline=NOON.replace(hour=13))


@every(
    ("strategy", "most", "in_work", "slots"),
    [
        (strategy, *each)
        for strategy in ("Manual", "RollingUpdate")
        for each in ((MAX_SLOTS, 0, 3), (3, 0, 3), (2, 0, 2), (2, 1, 2), (0, 0, 0), (0, 1, 1), (1, 2, 2))
    ],
)
def test_no_slot_is_given_beyond_it_and_none_is_taken_back(
    strategy: str, most: int, in_work: int, slots: int
) -> None:
    overview = overview_of(seen(most, strategy=strategy, in_work=in_work))
    assert len(overview.slots) == slots
    assert overview.is_capped is (slots < 3)


@every("strategy", ["Manual", "RollingUpdate"])
def test_the_condition_names_it_and_the_pool_is_looked_at_again(strategy: str) -> None:
    snapshot = seen(1, strategy=strategy, in_work=1)
    condition = decide(snapshot).status.condition(ConditionType.UPGRADE_ALLOWED)
    assert condition is not None
    assert CAPPED in condition.message
    requeue_at = passed(snapshot).requeue_at
    assert requeue_at is not None
    assert (requeue_at - NOON).total_seconds() <= CAPPED_SECONDS


def test_nodes_with_a_slot_may_be_upgraded() -> None:
    assert wishes(seen(1)) == {"w1": "Required", "w2": "Gated", "w3": "Gated"}


# Over all pools


class _Some:
    """Pools by name."""

    def __init__(self, *pools: Pool) -> None:
        self.pools = {each.name: each for each in pools}

    def all(self) -> list[Pool]:
        return [*self.pools.values()]


def a_pool_with(name: str, *slots: Slot) -> Pool:
    pool = a_pool(name, uid=f"uid-of-{name}")
    return with_status(pool, pool.status.model_copy(update={"slots": slots}))


def counted(*pools: Pool, limit: int | None) -> tuple[NodesInWork, _Some]:
    some = _Some(*pools)
    return NodesInWork(cast(Pools, some), limit), some


def test_what_others_have_is_left_to_no_pool() -> None:
    ended = (a_slot("r3", SlotState.UNUSED), a_slot("r4", SlotState.LOST))
    red = a_pool_with("red", a_slot("r1"), a_slot("r2", SlotState.BEGUN), *ended)
    blue, green = a_pool_with("blue", a_slot("b1")), a_pool_with("green")
    found, _ = counted(red, blue, green, limit=4)
    assert [found.most_slots(each) for each in (red, blue, green)] == [3, 2, 1]
    found, _ = counted(red, blue, green, limit=1)
    assert [found.most_slots(each) for each in (red, blue, green)] == [0, 0, 0]
    found, _ = counted(red, blue, green, limit=None)
    assert found.most_slots(green) == MAX_SLOTS


def test_what_a_pass_has_decided_counts_before_it_is_written_and_ends_with_its_pool() -> None:
    red, blue = a_pool_with("red"), a_pool_with("blue")
    found, some = counted(red, blue, limit=2)
    found.note(red, [a_slot("r1"), a_slot("r2", SlotState.UNUSED)])
    assert (found.most_slots(red), found.most_slots(blue)) == (2, 1)
    del some.pools["red"]
    assert found.most_slots(blue) == 2
    some.pools["red"] = red
    assert found.most_slots(blue) == 2, "another pool may have the name"


@pytest.mark.slow
def test_two_pools_share_it_whichever_pass_comes_first() -> None:
    spec: Object = {"os": BEHIND, "upgrade": {"maxUnavailable": 3}}
    most = 0

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        nonlocal most
        operator.services.nodes_in_work.limit = 2
        body = cluster.bodies["pool"]
        selector = {"nodeSelector": {"matchLabels": {"agentpool": "other"}}}
        metadata = {**body["metadata"], "name": "other", "uid": "uid-of-other"}
        cluster.put_pool({**body, "metadata": metadata, "spec": {**body["spec"], **selector}, "status": {}})
        await asyncio.sleep(3600)
        for write in cluster.writes:
            slots = [each for pool in write.bodies.values() for each in pool["status"].get("slots", [])]
            most = max(most, sum(each["state"] != "Unused" for each in slots))

    others = [settled_node(f"x{place}", labels={"agentpool": "other"}) for place in (1, 2, 3)]
    on_stage(scene, *settled_nodes(), *others, spec=spec)
    assert most == 2


def test_the_flag_is_the_limit() -> None:
    assert by_flags().max_nodes_in_work is None
    assert by_flags("--max-nodes-in-work=3").max_nodes_in_work == 3
