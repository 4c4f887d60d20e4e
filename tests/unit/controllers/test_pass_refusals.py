"""Writes that the API server refuses, in a pass: whom that concerns, and what people hear of it."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest

from harness.builders import Object, a_node
from harness.loops import NEVER, MemoryCluster, MemoryOperator
from harness.stage import (
    SETTLE_SECONDS,
    condition_of,
    issues_of,
    on_stage,
    status_of,
    teams_of,
    until,
    writes_since,
)
from harness.writes import relabelled
from winpool.controllers.pool import HALTED_SECONDS
from winpool.controllers.writes import INTERNAL_ERRORS, PATCHES_IN_FLIGHT
from winpool.kube.errors import ApiError, Forbidden, Invalid, Unavailable, error_of
from winpool.model.node import Node

LABELS: Object = {"labels": {"team": "payments"}}
BY_POLICY = Forbidden("patch nodes w1: 403 no changes on Fridays", status=403)
INVALID = Invalid("patch nodes w1: 422 no changes on Fridays", status=422)
INTERNAL = Unavailable("patch nodes w1: 500 failed calling webhook", status=500)
DOWN = Unavailable("patch nodes w1: 503", status=503)


def by_rbac(resource: str, group: str = "") -> ApiError:
    said = f'User "winpool" cannot patch resource "{resource}" in API group "{group}" at the cluster scope'
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": said})
    return error_of(status=403, body=body.encode(), request=f"patch {resource}")


def fleet(size: int) -> list[Node]:
    return [a_node(f"w{number:02}") for number in range(1, size + 1)]


def test_a_right_that_is_missing_ends_the_pass_and_is_told_until_it_is_there() -> None:
    names = [node.name for node in fleet(PATCHES_IN_FLIGHT + 8)]

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.nodes = dict.fromkeys(names, by_rbac("nodes"))
        await until(lambda: writes_since(cluster, 0, "node"))
        await asyncio.sleep(0.4)  # the least pause after a failure is half a second
        assert [write.name for write in writes_since(cluster, 0, "node")] == names[:PATCHES_IN_FLIGHT]

        await until(lambda: status_of(cluster, "Accepted") == ("False", "MissingPermission"), seconds=5)
        told = condition_of(cluster, "Accepted")["message"]
        assert 'Add the rule {apiGroups: [""], resources: ["nodes"], verbs: ["patch"]}' in told
        assert status_of(cluster, "NodesUpToDate") == ("False", "MissingPermission")
        await asyncio.sleep(60)
        assert issues_of(cluster) == set()
        assert "WriteRefused" not in {reason for reason, _ in operator.events}
        assert operator.events.count(("MissingPermission", "pool")) == 1

        cluster.trouble.nodes.clear()
        await until(lambda: status_of(cluster, "Ready") == ("True", "UpToDate"), seconds=35)
        assert status_of(cluster, "Accepted")[0] == "True"
        assert set(teams_of(cluster).values()) == {"payments"}

    on_stage(scene, *fleet(PATCHES_IN_FLIGHT + 8), spec=LABELS)


def test_a_right_that_is_missing_is_told_by_the_pass_that_meets_it() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.nodes["w1"] = by_rbac("nodes")
        edited = cluster.time
        cluster.edit_pool("pool", labels={"team": "billing"})
        await asyncio.sleep(0.4)  # the least pause after a failure is half a second
        assert [write.kind for write in writes_since(cluster, edited)] == ["node", "status"]
        assert status_of(cluster, "Accepted") == ("False", "MissingPermission")

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_right_that_is_missing_for_the_finalizer_is_told_and_no_node_is_written() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.finalizers = by_rbac("windowsnodepools", "winpool.dev")
        await until(lambda: cluster.bodies["pool"]["status"], seconds=5)
        assert status_of(cluster, "Accepted") == ("False", "MissingPermission")
        assert "windowsnodepools" in condition_of(cluster, "Accepted")["message"]
        await asyncio.sleep(300)
        assert writes_since(cluster, 0, "node") == []

        cluster.trouble.finalizers = None
        await until(lambda: status_of(cluster, "Ready") == ("True", "UpToDate"), seconds=35)
        assert status_of(cluster, "Accepted")[0] == "True"

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_right_that_is_missing_no_more_is_not_told_although_nothing_is_left_to_write() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.nodes["w1"] = by_rbac("nodes")
        cluster.edit_pool("pool", labels={"team": "billing"})
        await until(lambda: status_of(cluster, "Accepted") == ("False", "MissingPermission"))
        cluster.edit_pool("pool", **LABELS)  # as it is on the node
        await until(lambda: status_of(cluster, "Ready") == ("True", "UpToDate"), seconds=35)
        assert status_of(cluster, "Accepted")[0] == "True"

    on_stage(scene, a_node("w1"), spec=LABELS)


@pytest.mark.parametrize("error", [BY_POLICY, INVALID], ids=["by a policy", "invalid"])
def test_a_node_that_is_refused_keeps_no_other_waiting_and_is_told_once(error: ApiError) -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.nodes["w1"] = error
        await until(lambda: writes_since(cluster, 0, "node"))
        first = cluster.writes[-1].at
        await until(lambda: teams_of(cluster) == {"w1": None, "w2": "payments", "w3": "payments"}, seconds=1)
        assert [write.at for write in writes_since(cluster, 0, "node")] == [first] * 3

        await asyncio.sleep(SETTLE_SECONDS)
        assert issues_of(cluster) == {("w1", "WriteRefused")}
        assert "no changes on Fridays" in cluster.bodies["pool"]["status"]["issues"][0]["message"]
        assert cluster.bodies["pool"]["status"]["upToDateNodes"] == 2
        assert status_of(cluster, "Ready") == ("False", "WriteRefused")
        assert status_of(cluster, "Accepted")[0] == "True"
        assert operator.events.count(("WriteRefused", "w1")) == 1
        tries = [write.at for write in writes_since(cluster, 0, "node") if write.name == "w1"]
        pauses = [after - before for before, after in pairwise(tries)]
        assert pauses == pytest.approx([2, 4, 8], abs=0.2)

        # Others are repaired at once meanwhile: no pause is of the pool.
        cluster.put_node(relabelled(cluster.nodes["w2"], team=None))
        await until(lambda: teams_of(cluster)["w2"] == "payments", seconds=0.2)

        cluster.trouble.nodes.clear()
        await until(lambda: status_of(cluster, "Ready") == ("True", "UpToDate"), seconds=20)
        assert issues_of(cluster) == set()

    on_stage(scene, *(a_node(name) for name in ("w1", "w2", "w3")), spec=LABELS)


def test_a_node_that_fails_alone_is_told_when_it_goes_on_failing() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.nodes["w1"] = INTERNAL
        await until(lambda: teams_of(cluster)["w2"] == "payments", seconds=1)
        await asyncio.sleep(5)  # after two tries
        assert issues_of(cluster) == set()
        await until(lambda: issues_of(cluster) == {("w1", "WriteRefused")}, seconds=5)
        tries = [write for write in writes_since(cluster, 0, "node") if write.name == "w1"]
        assert len(tries) == 3
        await asyncio.sleep(SETTLE_SECONDS)
        assert operator.events.count(("WriteRefused", "w1")) == 1

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


def test_a_pass_in_which_all_fails_ends_and_the_next_begins_with_those_that_have_not_failed() -> None:
    failing = [node.name for node in fleet(70)]
    # Each error that is not the last that is borne makes room for one more.
    tried = PATCHES_IN_FLIGHT + INTERNAL_ERRORS - 1

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.pods_seconds = NEVER  # what is found there would be a change
        cluster.trouble.nodes = dict.fromkeys(failing, INTERNAL)
        await until(lambda: writes_since(cluster, 0, "node"))
        begun = cluster.writes[-1].at
        await asyncio.sleep(HALTED_SECONDS - 0.1)
        assert [write.name for write in writes_since(cluster, 0, "node")] == failing[:tried]
        await asyncio.sleep(0.3)
        second = [write.name for write in writes_since(cluster, begun + 1, "node")]
        fresh = [*failing[tried:], "x1"]
        assert second[: len(fresh)] == fresh
        assert teams_of(cluster)["x1"] == "payments"

    on_stage(scene, *fleet(70), a_node("x1"), spec=LABELS)


def test_a_change_cuts_the_pause_short_after_a_pass_in_which_all_failed() -> None:
    nodes = fleet(PATCHES_IN_FLIGHT)

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.nodes = {node.name: INTERNAL for node in nodes}
        await until(lambda: writes_since(cluster, 0, "node"))
        await asyncio.sleep(0.2)
        cluster.put_node(a_node("x1"))
        await until(lambda: teams_of(cluster)["x1"] == "payments", seconds=0.2)

    on_stage(scene, *nodes, spec=LABELS)


def test_a_fault_of_the_api_server_leaves_nobody_with_an_old_status() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.nodes["w1"] = DOWN
        edited = cluster.time
        cluster.edit_pool("pool", labels={"team": "billing"})
        await asyncio.sleep(0.4)  # before the next pass
        assert teams_of(cluster) == {"w1": "payments", "w2": "billing"}
        assert [write.kind for write in writes_since(cluster, edited)] == ["node", "node", "status"]
        status = cluster.bodies["pool"]["status"]
        assert (status["observedGeneration"], status["upToDateNodes"]) == (2, 1)
        assert status_of(cluster, "NodesUpToDate") == ("False", "RolloutInProgress")

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


def test_a_fault_of_the_api_server_is_tried_again_with_pauses_that_no_change_cuts_short() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.writes = DOWN
        cluster.edit_pool("pool", labels={"team": "billing"})
        begun = cluster.time
        for number in range(240):
            cluster.put_node(relabelled(cluster.nodes["w2"], color=f"{number}"))
            await asyncio.sleep(0.5)
        tries = sorted({write.at for write in writes_since(cluster, begun, "node")})
        pauses = [after - before for before, after in pairwise(tries)]
        assert min(pauses) >= 0.5
        assert min(pauses[5:]) >= 15, "half of the longest"

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)
