"""A pool under deletion: held until nothing of it is on any node, and not a moment longer."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import Object, a_node, a_record
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import (
    SETTLE_SECONDS,
    condition_of,
    issues_of,
    on_stage,
    standing_on,
    status_of,
    teams_of,
    until,
    writes_since,
)
from winpool.api.keys import POOL_LABEL
from winpool.kube.errors import ApiError, Forbidden, Invalid, Unavailable
from winpool.model.node import Node
from winpool.ownership.record import Owned

SPEC: Object = {
    "labels": {"team": "payments", "tier": "gold"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
REFUSED = Invalid("patch nodes w1: 422 no changes on Fridays", status=422)
BROKEN = Unavailable("list nodes: 500", status=500)
FORBIDDEN = Forbidden("list nodes: 403", status=403)


def fleet() -> list[Node]:
    return [a_node(name, labels={"tier": "silver"}, taints=["os=linux:NoSchedule"]) for name in ("w1", "w2")]


BARE = {node.name: standing_on(node) for node in fleet()}


def carried(cluster: MemoryCluster) -> object:
    return {name: standing_on(node) for name, node in cluster.nodes.items()}


class SilentNodes(MemoryCluster):
    """Its watch of nodes can lose all that it has to tell."""

    is_silent = False

    def _put_node(self, node: Node) -> Node:
        was_deaf, self.trouble.deaf = self.trouble.deaf, self.trouble.deaf or self.is_silent
        try:
            return super()._put_node(node)
        finally:
            self.trouble.deaf = was_deaf


async def delete(cluster: MemoryCluster) -> float:
    """Delete the pool that has been written everywhere; return when that was."""
    await asyncio.sleep(SETTLE_SECONDS)
    assert status_of(cluster, "Ready") == ("True", "UpToDate")
    cluster.delete_pool("pool")
    return cluster.time


def test_each_node_is_released_by_one_write_and_then_the_pool_without_another_status() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        begun = await delete(cluster)
        await until(lambda: not cluster.bodies, seconds=1)
        assert [write.kind for write in writes_since(cluster, begun)] == ["node", "node", "finalizers"]
        assert carried(cluster) == BARE
        assert operator.events.count(("NodesReleased", "pool")) == 1
        passes = len(operator.passes)
        await asyncio.sleep(SETTLE_SECONDS)
        assert len(operator.passes) == passes, "its loop has ended"

    on_stage(scene, *fleet(), spec=SPEC)


def test_a_node_that_refuses_holds_the_pool_which_says_so_and_keeps_no_other() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        begun = await delete(cluster)
        cluster.trouble.nodes["w1"] = REFUSED
        await until(lambda: teams_of(cluster)["w2"] is None, seconds=1)
        await asyncio.sleep(SETTLE_SECONDS)
        assert writes_since(cluster, begun, "finalizers") == []
        assert "w1" in condition_of(cluster, "Deleting")["message"]
        assert issues_of(cluster) == {("w1", "WriteRefused")}
        assert ("NodesReleased", "pool") not in operator.events
        cluster.trouble.nodes.clear()
        await until(lambda: not cluster.bodies, seconds=20)
        assert carried(cluster) == BARE

    on_stage(scene, *fleet(), spec=SPEC)


@pytest.mark.parametrize(
    ("error", "accepted"), [(FORBIDDEN, "MissingPermission"), (BROKEN, "Accepted")], ids=["403", "500"]
)
def test_a_pool_whose_last_question_is_not_answered_stays_and_says_so(error: ApiError, accepted: str) -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.labelled = error
        begun = await delete(cluster)
        await asyncio.sleep(SETTLE_SECONDS)
        assert writes_since(cluster, begun, "finalizers") == []
        assert status_of(cluster, "Deleting")[0] == "True"
        assert status_of(cluster, "Accepted")[1] == accepted
        assert ("NodesReleased", "pool") not in operator.events
        cluster.trouble.labelled = None
        await until(lambda: not cluster.bodies, seconds=35)
        assert carried(cluster) == BARE

    on_stage(scene, *fleet(), spec=SPEC)


def test_a_pool_is_not_let_go_while_a_write_of_ours_may_stand_that_nobody_told_us_of() -> None:
    """The answers are lost, and the watch of nodes is silent: for all we know w1 is as it was."""

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        assert isinstance(cluster, SilentNodes)
        cluster.is_silent, cluster.trouble.lost = True, {"node"}
        await until(lambda: POOL_LABEL in cluster.nodes["w1"].labels)
        cluster.delete_pool("pool")
        assert POOL_LABEL not in operator.store.objects["w1"].labels
        await until(lambda: POOL_LABEL in operator.store.objects["w1"].labels)  # by a list
        assert "pool" in cluster.bodies
        cluster.trouble.lost.clear()
        await until(lambda: not cluster.bodies, seconds=35)
        assert carried(cluster) == BARE

    on_stage(scene, *fleet(), cluster_of=SilentNodes, spec=SPEC)


def test_a_node_of_the_pool_that_we_do_not_know_of_yet_is_listed_and_released() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        assert isinstance(cluster, SilentNodes)
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.is_silent = True
        record = a_record(labels={"team": Owned("payments", before="theirs")})
        cluster.put_node(a_node("w3", labels={POOL_LABEL: "pool", "team": "payments"}, annotations=record))
        cluster.delete_pool("pool")
        await until(lambda: teams_of(cluster)["w1"] is None)
        await asyncio.sleep(0.3)
        assert condition_of(cluster, "Deleting")["status"] == "True"
        cluster.is_silent = False
        await until(lambda: not cluster.bodies, seconds=5)
        assert teams_of(cluster) == {"w1": None, "w2": None, "w3": "theirs"}

    on_stage(scene, *fleet(), cluster_of=SilentNodes, spec=SPEC)


def test_a_pool_is_let_go_though_nothing_tells_that_the_last_node_of_it_went() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        assert isinstance(cluster, SilentNodes)
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.is_silent = True
        cluster.put_node(a_node("w3", labels={POOL_LABEL: "pool"}))
        cluster.is_silent = False
        cluster.delete_pool("pool")
        await until(lambda: status_of(cluster, "Deleting")[0] == "True")
        await asyncio.sleep(0.2)
        cluster.drop_node("w3")  # which no watch told of, and no list either
        await until(lambda: not cluster.bodies, seconds=4)

    on_stage(scene, *fleet(), cluster_of=SilentNodes, spec=SPEC)


def test_a_node_that_carries_our_label_and_nothing_that_we_may_take_off_holds_no_pool() -> None:
    """Its record names another pool: that one has to release it."""

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        record = a_record("uid-of-another", labels={"team": Owned("payments")})
        cluster.put_node(a_node("w3", labels={POOL_LABEL: "pool", "team": "payments"}, annotations=record))
        await asyncio.sleep(1)
        cluster.delete_pool("pool")
        await until(lambda: not cluster.bodies, seconds=2)
        assert teams_of(cluster)["w3"] == "payments"

    on_stage(scene, *fleet(), spec=SPEC)


def test_a_pool_that_others_hold_as_well_is_left_to_them() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        body = cluster.bodies["pool"]
        finalizers = [*body["metadata"]["finalizers"], "example.com/theirs"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "finalizers": finalizers}})
        cluster.delete_pool("pool")
        await asyncio.sleep(SETTLE_SECONDS)
        assert cluster.bodies["pool"]["metadata"]["finalizers"] == ["example.com/theirs"]
        assert carried(cluster) == BARE
        assert operator.events.count(("NodesReleased", "pool")) == 1
        begun = cluster.time
        await asyncio.sleep(600)
        assert writes_since(cluster, begun) == []
        assert [at for at, _ in operator.passes if at > begun] == []
        assert operator.pools.get("pool"), "it may still select nodes that others ask about"

    on_stage(scene, *fleet(), spec=SPEC)


def test_a_pool_that_went_unseen_is_forgotten_once_a_write_meets_nothing() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.deaf = True
        body = cluster.bodies["pool"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "finalizers": []}})
        cluster.delete_pool("pool")
        cluster.trouble.deaf = False
        cluster.put_node(a_node("w3"))  # which makes for another status
        await until(lambda: operator.pools.get("pool") is None, seconds=5)
        begun = cluster.time
        await asyncio.sleep(SETTLE_SECONDS)
        assert len([at for at, _ in operator.passes if at > begun]) <= 1, "its loop has ended"
        assert writes_since(cluster, begun) == []

    on_stage(scene, *fleet(), spec=SPEC)
