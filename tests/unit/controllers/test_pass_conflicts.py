"""What happens between the look of a pass and its writes, or to their answers: no write is wasted."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from harness.builders import Object, a_node, record_on
from harness.loops import NEVER, MemoryCluster, MemoryOperator
from harness.stage import (
    SETTLE_SECONDS,
    on_stage,
    status_of,
    teams_of,
    until,
    writes_since,
)
from harness.writes import relabelled
from winpool.api.keys import RELEASE_FINALIZER
from winpool.controllers.writes import PATCHES_IN_FLIGHT
from winpool.kube.errors import Conflict
from winpool.model.node import Node
from winpool.ownership.record import Owned

LABELS: Object = {"labels": {"team": "payments"}}
WAITING = ["x1", "x2"]
"""Nodes for which there is no room in flight while the others are written."""


def fleet() -> list[Node]:
    """Return more nodes than fit in flight; those that wait come last."""
    return [a_node(f"w{number:02}") for number in range(1, PATCHES_IN_FLIGHT + 1)] + list(
        map(a_node, WAITING)
    )


def tries_of(cluster: MemoryCluster, name: str, *, since: float = 0.0) -> int:
    return [write.name for write in writes_since(cluster, since, "node")].count(name)


async def until_in_flight(cluster: MemoryCluster) -> None:
    """Wait until the first patches are on their way, which is when others can come in between."""
    cluster.trouble.latency = 0.3
    await until(lambda: writes_since(cluster, 0, "node"))
    await asyncio.sleep(0.1)


def test_what_somebody_writes_between_look_and_write_stays_and_is_decided_on_anew() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        cluster.put_node(relabelled(cluster.nodes["w1"], team="theirs", late="theirs"))
        await asyncio.sleep(0.2)
        assert teams_of(cluster) == {"w1": "theirs", "w2": "payments"}
        late = cluster.time
        await until(lambda: teams_of(cluster)["w1"] == "payments", seconds=0.5)
        await asyncio.sleep(SETTLE_SECONDS)
        assert (tries_of(cluster, "w1"), tries_of(cluster, "w2")) == (2, 1)
        assert cluster.nodes["w1"].labels["late"] == "theirs"
        assert record_on(cluster.nodes["w1"]).labels["team"] == Owned("payments", before="theirs")
        assert writes_since(cluster, late, "status"), "the pass went on to its end"
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


@pytest.mark.parametrize("is_dropped", [True, False], ids=["gone", "changed"])
def test_nodes_that_are_not_what_they_were_keep_no_other_waiting(is_dropped: bool) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        for node in fleet()[:PATCHES_IN_FLIGHT]:
            if is_dropped:
                cluster.drop_node(node.name)
            else:
                cluster.put_node(relabelled(cluster.nodes[node.name], team="theirs"))
        await until(lambda: tries_of(cluster, WAITING[-1]), seconds=1)
        tried = writes_since(cluster, 0, "node")
        assert tried[-1].name == WAITING[-1]
        assert tried[-1].at - tried[0].at == pytest.approx(cluster.trouble.latency)

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_newer_state_that_wakes_nobody_is_found_long_before_a_pause_is_over() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.pods_seconds = NEVER  # a look at pods would lead to a pass
        await until_in_flight(cluster)
        cluster.trouble.lag = 0.5  # it is known after the answer
        cluster.put_node(cluster.nodes["w1"])  # a heartbeat: nothing that we look at has changed
        await until(lambda: teams_of(cluster)["w1"] == "payments", seconds=1.3)
        assert tries_of(cluster, "w1") == 2

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_the_answer_to_a_write_is_gone_by_however_late_the_watch_is() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.lag = 20
        await asyncio.sleep(3)
        assert [write.kind for write in cluster.writes] == ["finalizers", "status", "node", "status"]
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_newer_state_that_the_watch_has_lost_is_found_by_a_list() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.deaf = True
        cluster.put_node(cluster.nodes["w1"])
        cluster.trouble.deaf = False
        edited = cluster.time
        cluster.edit_pool("pool", labels={"team": "billing"})
        await until(lambda: teams_of(cluster)["w1"] == "billing", seconds=10)
        assert tries_of(cluster, "w1", since=edited) == 3, "the second shows that something was lost"
        assert tries_of(cluster, "w2", since=edited) == 1
        await asyncio.sleep(SETTLE_SECONDS)
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


def test_a_pool_that_somebody_has_written_meanwhile_is_looked_at_again() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.latency = 0.3
        await until(lambda: cluster.writes)
        await asyncio.sleep(0.1)
        body = cluster.bodies["pool"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "finalizers": ["example.com/theirs"]}})
        await until(lambda: teams_of(cluster) == {"w1": "payments"}, seconds=1.5)
        assert [write.kind for write in cluster.writes[:3]] == ["finalizers", "finalizers", "status"]
        finalizers = cluster.bodies["pool"]["metadata"]["finalizers"]
        assert finalizers == ["example.com/theirs", RELEASE_FINALIZER]

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_newer_state_of_a_pool_that_the_watch_has_lost_is_found_by_a_list() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.deaf = True
        cluster.edit_pool("pool", labels={"team": "billing"})
        cluster.trouble.deaf = False
        cluster.put_node(a_node("w2"))  # which makes for another status
        await until(lambda: teams_of(cluster) == {"w1": "billing", "w2": "billing"}, seconds=10)

    on_stage(scene, a_node("w1"), spec=LABELS)


@pytest.mark.parametrize("kind", ["finalizers", "status", "node"])
def test_a_write_whose_answer_is_lost_is_not_made_twice(kind: str) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.lost = {kind}
        await until(lambda: writes_since(cluster, 0, kind))
        await asyncio.sleep(0.2)
        cluster.trouble.lost.clear()
        await asyncio.sleep(SETTLE_SECONDS)
        assert tries_of(cluster, "w1") == 1
        assert len(writes_since(cluster, 0, "finalizers")) == 1
        statuses = [write.bodies["pool"]["status"] for write in writes_since(cluster, 0, "status")]
        assert len(statuses) == len({str(each) for each in statuses}), "each found another one there"
        assert teams_of(cluster) == {"w1": "payments"}
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_an_edit_stops_a_pass_after_the_patches_that_are_in_flight() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        cluster.edit_pool("pool", labels={"team": "billing"})
        await asyncio.sleep(SETTLE_SECONDS)
        assert set(teams_of(cluster).values()) == {"billing"}
        assert [tries_of(cluster, name) for name in ("w01", "w32", *WAITING)] == [2, 2, 1, 1]

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_deletion_stops_a_pass_after_the_patches_that_are_in_flight() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        cluster.delete_pool("pool")
        await asyncio.sleep(SETTLE_SECONDS)
        assert cluster.bodies == {}
        assert set(teams_of(cluster).values()) == {None}
        assert [tries_of(cluster, name) for name in ("w01", "w32", *WAITING)] == [2, 2, 0, 0]

    on_stage(scene, *fleet(), spec=LABELS)


def test_what_is_no_edit_of_the_pool_does_not_stop_a_pass() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        body = cluster.bodies["pool"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}})
        await until(lambda: set(teams_of(cluster).values()) == {"payments"}, seconds=1)
        tried = writes_since(cluster, 0, "node")
        assert tried[-1].name == WAITING[-1]
        assert tried[-1].at - tried[0].at == pytest.approx(cluster.trouble.latency)

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_node_that_only_reported_meanwhile_is_written_on_its_newest_state() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        for name in WAITING:
            cluster.put_node(cluster.nodes[name])
        await asyncio.sleep(SETTLE_SECONDS)
        assert set(teams_of(cluster).values()) == {"payments"}
        assert [tries_of(cluster, name) for name in WAITING] == [1, 1]

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_node_that_was_changed_meanwhile_is_decided_on_anew_before_it_is_written() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        for name in WAITING:
            cluster.put_node(relabelled(cluster.nodes[name], team="theirs"))
        await asyncio.sleep(SETTLE_SECONDS)
        assert set(teams_of(cluster).values()) == {"payments"}
        assert [tries_of(cluster, name) for name in WAITING] == [1, 1]
        records = [record_on(cluster.nodes[name]) for name in WAITING]
        assert [each.labels["team"].before for each in records] == ["theirs"] * 2

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_node_that_was_replaced_meanwhile_gets_a_patch_of_its_own() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await until_in_flight(cluster)
        cluster.drop_node("w1")
        cluster.put_node(replace(a_node("w1", labels={"team": "theirs"}), uid="another"))
        await until(lambda: teams_of(cluster)["w1"] == "payments", seconds=3)
        assert record_on(cluster.nodes["w1"]).labels["team"].before == "theirs"

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_status_that_conflicts_is_not_tried_again_for_every_node_that_changes() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.statuses = Conflict("409", status=409)
        begun = cluster.time
        for turn in range(51):  # in which another number of nodes is ready
            ready = "False" if turn % 2 else "True"
            cluster.put_node(replace(cluster.nodes["w1"], ready=ready, ready_since=cluster.now()))
            await asyncio.sleep(0.2)
        assert 3 <= len(writes_since(cluster, begun, "status")) <= 6, "after 0.5 to 1 s, 1 to 2 s, and so on"
        cluster.put_node(relabelled(cluster.nodes["w1"], team="billing"))
        await until(lambda: teams_of(cluster)["w1"] == "payments", seconds=1)
        cluster.trouble.statuses = None
        await asyncio.sleep(SETTLE_SECONDS)
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), spec=LABELS)
