"""When the status of a pool is written (P7), and which generation it may claim by then (P9)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace

from harness.builders import A_SPEC, a_body, a_node
from harness.loops import MemoryCluster, MemoryOperator
from harness.pods import a_pod
from harness.stage import issues_of, status_of, until, writes_since
from harness.virtual_time import run_virtually
from winpool.controllers.writes import PATCHES_IN_FLIGHT
from winpool.kube.errors import Forbidden, Unavailable

SETTLE_SECONDS = 30.0
FORBIDDEN = Forbidden("patch windowsnodepools/status pool: 403 User cannot patch", status=403)
DOWN = Unavailable("patch windowsnodepools pool: 503", status=503)


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


def test_a_status_that_says_nothing_new_is_not_written_also_not_after_a_restart() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        await operator.stop()
        begun = cluster.time
        again = MemoryOperator(cluster)
        again.start()
        await asyncio.sleep(SETTLE_SECONDS)
        for _ in range(10):  # which is looked at, and changes nothing
            cluster.put_node(replace(cluster.nodes["w1"], ready_since=cluster.now()))
            await asyncio.sleep(2)
        assert len(again.passes) > 10
        assert writes_since(cluster, begun) == []
        await again.stop()

    run_virtually(play())


def test_what_was_too_early_to_be_written_is_written_when_its_second_is_over() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        begun = cluster.time
        for ready in ("False", "True"):  # and then nothing wakes anybody
            cluster.put_node(replace(cluster.nodes["w1"], ready=ready))
            await asyncio.sleep(0.3)
        await asyncio.sleep(SETTLE_SECONDS)
        first, second = writes_since(cluster, begun)
        assert (first.kind, second.kind) == ("status", "status")
        assert 1 <= second.at - first.at <= 1.2
        assert cluster.bodies["pool"]["status"]["readyNodes"] == 3
        await operator.stop()

    run_virtually(play())


def test_a_status_whose_write_failed_is_written_as_soon_as_that_is_possible() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        cluster.trouble.statuses = DOWN
        cluster.put_node(replace(cluster.nodes["w1"], ready="False"))
        await asyncio.sleep(SETTLE_SECONDS)
        assert cluster.bodies["pool"]["status"]["readyNodes"] == 3
        cluster.trouble.statuses = None
        await until(lambda: cluster.bodies["pool"]["status"]["readyNodes"] == 2, seconds=35)
        await operator.stop()

    run_virtually(play())


@pytest.mark.slow
def test_a_status_that_may_not_be_written_is_told_by_one_event_since_no_condition_can() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        cluster.trouble.statuses = FORBIDDEN
        cluster.put_node(replace(cluster.nodes["w1"], ready="False"))
        await asyncio.sleep(20 * SETTLE_SECONDS)
        assert operator.events.count(("MissingPermission", "pool")) == 1
        cluster.trouble.statuses = None
        await until(lambda: cluster.bodies["pool"]["status"]["readyNodes"] == 2, seconds=60)
        await operator.stop()

    run_virtually(play())


def test_what_happened_to_a_pool_is_told_once_its_status_says_so_and_not_before() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        cluster.pods = [a_pod(node="w1", os="linux")]
        cluster.trouble.statuses = DOWN
        operator.pod_pass.ask()
        await asyncio.sleep(60)
        assert ("MisplacedPods", "pool") not in operator.events
        cluster.trouble.statuses = None
        await until(lambda: issues_of(cluster) == {("w1", "MisplacedPods")}, seconds=35)
        await asyncio.sleep(SETTLE_SECONDS)
        assert operator.events.count(("MisplacedPods", "pool")) == 1
        await operator.stop()

    run_virtually(play())


def test_a_generation_is_not_claimed_by_a_status_that_is_about_something_else() -> None:
    """A report on the last spec that meets an edit leaves the status to the pass of that edit."""

    async def play() -> None:
        cluster, operator = await settled()
        cluster.trouble.latency = 0.5
        cluster.put_node(
            replace(cluster.nodes["w1"], labels={**cluster.nodes["w1"].labels, "team": "theirs"})
        )
        await until(lambda: cluster.writes[-1].kind == "node")
        cluster.edit_pool("pool", labels={"team": "b"})
        begun = cluster.time
        await asyncio.sleep(SETTLE_SECONDS)
        kinds = [write.kind for write in writes_since(cluster, begun)]
        assert kinds == ["node"] * 3 + ["status"]
        assert (claimed(cluster), teams(cluster)) == ({2}, {"b"})
        assert status_of(cluster, "Ready") == ("True", "UpToDate")
        await operator.stop()

    run_virtually(play())


TEMPLATE = ("status", "nodeTemplate")


def test_a_status_is_written_once_without_what_the_crd_lacks_and_whole_when_it_lacks_nothing() -> None:
    async def play() -> None:
        cluster, operator = await settled()
        assert "nodeTemplate" in cluster.bodies["pool"]["status"]
        begun = cluster.time
        operator.lacking_fields = (TEMPLATE, ("spec", "taints"))
        operator.list_everything()
        await asyncio.sleep(SETTLE_SECONDS)
        status = cluster.bodies["pool"]["status"]
        assert "nodeTemplate" not in status
        assert [issue["reason"] for issue in status["issues"]] == ["CRDOutdated"]
        operator.list_everything()
        await asyncio.sleep(SETTLE_SECONDS)
        assert [write.kind for write in writes_since(cluster, begun)] == ["status"]
        operator.lacking_fields = ()
        operator.list_everything()
        await until(lambda: "nodeTemplate" in cluster.bodies["pool"]["status"])
        assert cluster.bodies["pool"]["status"]["issues"] == []
        await operator.stop()

    run_virtually(play())


def test_nothing_is_written_before_it_is_known_what_the_crd_lacks() -> None:
    async def play() -> None:
        cluster = MemoryCluster()
        cluster.put_node(a_node("w1"))
        cluster.put_pool(a_body())
        operator = MemoryOperator(cluster)
        operator.lacking_fields = None
        operator.start()
        await asyncio.sleep(SETTLE_SECONDS)
        assert cluster.writes == []
        operator.lacking_fields = ()
        await until(lambda: cluster.bodies["pool"].get("status", {}).get("nodes") == 1)
        await operator.stop()

    run_virtually(play())


def test_a_status_that_cannot_remember_keys_holds_nodes_up_and_is_written_once() -> None:
    async def play() -> None:
        cluster = MemoryCluster()
        cluster.put_node(a_node("w1"))
        cluster.put_pool({**a_body(), "spec": {**A_SPEC, "labels": {"team": "a"}}})
        operator = MemoryOperator(cluster)
        operator.lacking_fields = (("status", "setKeys"),)
        operator.start()
        await asyncio.sleep(SETTLE_SECONDS)
        assert [write.kind for write in cluster.writes if write.kind != "finalizers"] == ["status"]
        assert teams(cluster) == {None}
        operator.lacking_fields = ()
        operator.list_everything()
        await until(lambda: teams(cluster) == {"a"})
        await operator.stop()

    run_virtually(play())


SEVERAL_SLICES = 3 * PATCHES_IN_FLIGHT + 8
"""More nodes than three rounds of four seconds write, which is what a pass begins in its ten seconds."""


async def in_slices() -> tuple[MemoryCluster, MemoryOperator]:
    """Return a cluster whose pool was edited just now, and takes more than one pass to be written."""
    cluster = MemoryCluster()
    for number in range(SEVERAL_SLICES):
        cluster.put_node(a_node(f"w{number:03}"))
    cluster.put_pool({**a_body(), "spec": {**A_SPEC, "labels": {"team": "a"}}})
    operator = MemoryOperator(cluster)
    operator.start()
    await until(lambda: teams(cluster) == {"a"})
    await asyncio.sleep(SETTLE_SECONDS)
    cluster.trouble.latency = 4
    cluster.edit_pool("pool", labels={"team": "b"})
    return cluster, operator


def test_a_pass_that_continues_writes_first_what_the_last_one_has_done() -> None:
    async def play() -> None:
        cluster, operator = await in_slices()
        begun = cluster.time
        await until(lambda: teams(cluster) == {"b"})
        await asyncio.sleep(SETTLE_SECONDS)
        kinds = [write.kind for write in writes_since(cluster, begun)]
        first = kinds.index("status")
        assert kinds == ["node"] * first + ["status"] + ["node"] * (SEVERAL_SLICES - first) + ["status"]
        assert 0 < first < SEVERAL_SLICES
        shown = writes_since(cluster, begun)[first + 1].bodies["pool"]["status"]
        assert (shown["observedGeneration"], shown["upToDateNodes"]) == (2, first)
        await operator.stop()

    run_virtually(play())


def test_no_node_waits_for_a_report_that_fails() -> None:
    async def play() -> None:
        cluster, operator = await in_slices()
        begun = cluster.time
        cluster.trouble.statuses = DOWN
        await until(lambda: teams(cluster) == {"b"})
        assert {write.kind for write in writes_since(cluster, begun)} == {"node", "status"}
        failed = next(write.at for write in cluster.writes if write.at >= begun and write.kind == "status")
        after = [write.at for write in writes_since(cluster, failed, "node")]
        assert after
        assert max(after) - failed < 0.1 + cluster.trouble.latency, "there is no pause between the two"
        await operator.stop()

    run_virtually(play())
