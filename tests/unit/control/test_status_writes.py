"""When the status of a pool is written (P7), and which generation it may claim by then (P9)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

from harness.builders import A_SPEC, a_body, a_node
from harness.loops import MemoryCluster, MemoryOperator
from harness.virtual_time import run_virtually

SETTLE_SECONDS = 30.0


async def settled() -> tuple[MemoryCluster, MemoryOperator]:
    """Return a cluster with three nodes and a pool that has been written to them."""
    cluster = MemoryCluster()
    for name in ("w1", "w2", "w3"):
        cluster.put_node(a_node(name))
    cluster.put_pool({**a_body(), "spec": {**A_SPEC, "labels": {"team": "a"}}})
    operator = MemoryOperator(cluster)
    operator.start()
    await asyncio.sleep(SETTLE_SECONDS)
    assert teams(cluster) == {"a"}
    return cluster, operator


def teams(cluster: MemoryCluster) -> set[str | None]:
    return {node.labels.get("team") for node in cluster.nodes.values()}


def claimed(cluster: MemoryCluster) -> set[int]:
    """Return the generations that the status claims, as a whole and in its conditions."""
    status = cluster.bodies["pool"]["status"]
    return {each["observedGeneration"] for each in (status, *status["conditions"])}


def test_a_status_that_never_rests_is_written_once_a_second() -> None:
    async def play() -> list[float]:
        cluster, operator = await settled()
        cluster.writes.clear()
        for turn in range(200):  # in which another number of nodes is ready
            ready = "False" if turn % 2 else "True"
            cluster.put_node(replace(cluster.nodes["w1"], ready=ready, ready_since=cluster.now()))
            await asyncio.sleep(0.1)
        await operator.stop()
        return [write.at for write in cluster.writes if write.kind == "status"]

    written = run_virtually(play())
    assert len(written) > 10
    assert min(after - before for before, after in pairwise(written)) >= 1


def test_a_generation_is_claimed_once_its_nodes_are_written_and_not_before() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        cluster.trouble.latency = 0.5
        cluster.edit_pool("pool", labels={"team": "b"})
        await asyncio.sleep(0.2)
        assert (teams(cluster), {write.kind for write in cluster.writes[-3:]}) == ({"a"}, {"node"})
        cluster.edit_pool("pool", labels={"team": "c"})  # while those patches are on their way
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if 3 in claimed(cluster):
                break
        assert (claimed(cluster), teams(cluster)) == ({3}, {"c"})
        await operator.stop()

    run_virtually(play())
