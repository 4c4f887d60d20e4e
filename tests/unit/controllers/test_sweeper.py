"""When leftovers are looked for, and what is one: only once all is known that this goes by."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import GUARD, a_body, a_node, a_record, a_taint
from harness.stage import until
from harness.sweeping import Stage, a_stray, an_orphan, pauses_between, played
from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL
from winpool.api.text import written_moment
from winpool.controllers.sweep import STRAYS_PAUSE_SECONDS, STRAYS_SECONDS
from winpool.model.node import Node
from winpool.ownership.record import Owned


def test_nothing_is_looked_for_before_pools_nodes_and_the_guard_are_known() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_complete = False
        stage.guarded_by("")
        stage.put(a_stray())
        await asyncio.sleep(60)
        assert stage.listed == []
        stage.is_complete = True
        stage.guarded_by(GUARD)
        await asyncio.sleep(1)
        labels = stage.cluster.nodes["s1"].labels
        assert (labels["team"], POOL_LABEL in labels) == ("b", True)

    played(scene)


def test_when_the_guard_comes_what_was_left_alone_is_looked_at_again_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.guarded_by("")
        stage.put(a_stray())
        await asyncio.sleep(STRAYS_SECONDS / 2)
        assert (len(stage.listed), stage.left) == (1, {"s1"})
        stage.guarded_by(GUARD)
        stage.sweeper.guard_changed()
        await asyncio.sleep(STRAYS_PAUSE_SECONDS)
        assert stage.left == set()

    played(scene)


def test_strays_are_looked_for_every_ten_minutes_and_no_more_often() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(3 * STRAYS_SECONDS - 1)
        assert pauses_between(stage.listed) == [pytest.approx(STRAYS_SECONDS)] * 2
        assert stage.cluster.writes == []

    played(scene)


def test_a_node_that_goes_out_of_sight_is_an_occasion_only_where_it_carried_ours() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(60)
        stage.sweeper.node_gone(a_node("w1"))
        await asyncio.sleep(60)
        assert len(stage.listed) == 1
        stage.put(a_stray())
        stage.sweeper.node_gone(an_orphan("s1"))
        await until(lambda: not stage.left, seconds=0.1)

    played(scene)


def test_a_fleet_that_goes_out_of_sight_is_looked_for_once_a_second() -> None:
    async def scene(stage: Stage) -> None:
        for number in range(100):
            stage.sweeper.node_gone(an_orphan(f"w{number}"))
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)
        assert len(stage.listed) == 6
        assert min(pauses_between(stage.listed)) >= STRAYS_PAUSE_SECONDS

    played(scene)


def test_one_list_without_its_pool_is_not_enough_to_release_an_orphan() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        await asyncio.sleep(1)
        stage.list_pools()
        await asyncio.sleep(3 * STRAYS_SECONDS)
        assert stage.cluster.writes == []
        stage.list_pools()
        await until(lambda: not stage.left, seconds=1)

    played(scene)


@pytest.mark.parametrize(
    "body",
    [a_body("pool"), a_body("another", uid="uid-of-another")],
    ids=["its own", "one that selects it"],
)
def test_a_node_that_a_pool_has_or_selects_is_no_orphan(body: dict[str, Any]) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        await asyncio.sleep(1)
        for _ in range(5):
            stage.list_pools(body)
            await asyncio.sleep(300)
        assert stage.cluster.writes == []

    played(scene)


def test_a_stray_keeps_its_taints_until_someone_deletes_its_pool() -> None:
    """P3: its kubelet can have changed the label of the system, and may not remove a taint."""

    async def scene(stage: Stage) -> None:
        stage.list_pools(a_body("pool"))
        stage.put(a_tainted_stray())
        await asyncio.sleep(STRAYS_SECONDS / 2)
        pool = stage.pools.get("pool")
        assert pool
        assert [node.name for node in stage.strays_of(pool)] == ["s1"]
        assert stage.woken == ["pool"]
        stage.list_pools(a_body("pool", version=10**6, deletionTimestamp="2026-11-01T13:00:00Z"))
        await asyncio.sleep(STRAYS_PAUSE_SECONDS)
        assert (stage.cluster.nodes["s1"].taints, stage.strays_of(pool)) == ((), ())

    played(scene)


def test_a_stray_that_someone_holds_is_written_once_the_hold_has_ended_or_its_pool_is_deleted() -> None:
    async def scene(stage: Stage) -> None:
        stage.list_pools(a_body("pool"))
        ends = written_moment(stage.cluster.now() + timedelta(seconds=1.5 * STRAYS_SECONDS))
        stage.put(held(a_stray("ending"), ends), held(a_stray("held"), ""))
        await asyncio.sleep(1.9 * STRAYS_SECONDS)
        assert stage.left == {"ending", "held"}
        await asyncio.sleep(0.2 * STRAYS_SECONDS)
        assert stage.left == {"held"}
        stage.list_pools(a_body("pool", version=10**6, deletionTimestamp="2026-11-01T13:00:00Z"))
        await asyncio.sleep(STRAYS_PAUSE_SECONDS)
        assert stage.left == set()

    played(scene)


def held(node: Node, value: str) -> Node:
    return replace(node, annotations={**node.annotations, HOLD_ANNOTATION: value})


def test_a_stray_is_released_where_its_pool_was_deleted_and_is_gone_before_strays_are_listed() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_complete = False
        stage.put(a_tainted_stray())
        stage.pools.accept(a_body("pool", deletionTimestamp="2026-11-01T13:00:00Z"))
        stage.pools.forget(name="pool", uid="uid-of-pool", version="2")
        stage.is_complete = True
        await until(lambda: not stage.cluster.nodes["s1"].taints, seconds=1)

    played(scene)


def test_a_stray_of_a_pool_whose_deletion_nobody_saw_waits_for_two_lists_without_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_tainted_stray())
        await asyncio.sleep(1)
        stage.list_pools()
        await asyncio.sleep(STRAYS_SECONDS / 2)
        assert stage.cluster.nodes["s1"].taints
        stage.list_pools()
        await until(lambda: not stage.cluster.nodes["s1"].taints, seconds=STRAYS_PAUSE_SECONDS)

    played(scene)


def a_tainted_stray() -> Node:
    taint = a_taint("os=windows:NoSchedule")
    record = a_record(taints={taint.identity: Owned(taint.value)})
    labels = {POOL_LABEL: "pool", "team": "a"}
    return a_node("s1", os="linux", labels=labels, taints=[taint], annotations=record)


def test_a_record_that_may_be_forged_is_left_alone_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray(guard="a-guard-that-was"))
        await asyncio.sleep(3 * STRAYS_SECONDS)
        assert stage.cluster.writes == []

    played(scene)
    assert caplog.text.count("may be forged") == 1
