"""A finalizer that somebody removes by hand from a living pool: back at once, and not in a write war."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from harness.builders import Object, a_node
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import SETTLE_SECONDS, on_stage, status_of, teams_of, until, writes_since
from harness.writes import relabelled
from winpool.api.keys import RELEASE_FINALIZER
from winpool.controllers.pool import LONGEST_PAUSE_SECONDS

LABELS: Object = {"labels": {"team": "payments"}}


def strip(cluster: MemoryCluster) -> None:
    body = cluster.bodies["pool"]
    cluster.put_pool({**body, "metadata": {**body["metadata"], "finalizers": []}})


def stands(cluster: MemoryCluster) -> bool:
    return bool(cluster.bodies["pool"]["metadata"]["finalizers"] == [RELEASE_FINALIZER])


@pytest.mark.parametrize("mode", ["Active", "Paused", "DryRun"])
def test_it_comes_back_at_once_in_every_mode_and_nothing_else_is_written(mode: str) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.edit_pool("pool", mode=mode)
        await asyncio.sleep(SETTLE_SECONDS)
        stripped = cluster.time
        strip(cluster)
        await until(lambda: stands(cluster), seconds=0.2)
        await asyncio.sleep(SETTLE_SECONDS)
        assert [write.kind for write in writes_since(cluster, stripped)] == ["finalizers"]

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_it_stays_away_where_nodes_carry_nothing() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.drop_node("w1")
        await asyncio.sleep(SETTLE_SECONDS)
        strip(cluster)
        await asyncio.sleep(SETTLE_SECONDS)
        assert not stands(cluster)

    on_stage(scene, a_node("w1"), spec=LABELS)


@pytest.mark.slow
def test_whoever_removes_it_again_and_again_has_it_back_later_and_later() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        begun = cluster.time
        while cluster.time < begun + 300:
            if stands(cluster):
                strip(cluster)
            await asyncio.sleep(0.01)
        tries = [write.at for write in writes_since(cluster, begun, "finalizers")]
        pauses = [after - before for before, after in pairwise(tries)]
        assert pauses[:4] == pytest.approx([2, 4, 8, 16], abs=0.3)
        assert max(pauses) == pytest.approx(LONGEST_PAUSE_SECONDS, abs=0.3)

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_no_node_is_written_while_it_has_to_wait_and_the_status_is_true_all_the_same() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        for _again in range(2):
            strip(cluster)
            await until(lambda: stands(cluster), seconds=3)
        strip(cluster)
        stripped = cluster.time
        cluster.put_node(relabelled(cluster.nodes["w1"], team="theirs"))
        await asyncio.sleep(2)
        assert writes_since(cluster, stripped, "node") == []
        assert status_of(cluster, "NodesUpToDate")[0] == "False"
        await until(lambda: teams_of(cluster) == {"w1": "payments"}, seconds=5)
        first = writes_since(cluster, stripped, "node")[0]
        assert first.bodies["pool"]["metadata"]["finalizers"] == [RELEASE_FINALIZER]

    on_stage(scene, a_node("w1"), spec=LABELS)
