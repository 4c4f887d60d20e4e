"""What is told of a right that evictions need: for as long as it is refused, and not much longer."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import Object, a_body, a_node
from harness.clock import Seconds
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import condition_of, status_of, until, writes_since
from harness.virtual_time import in_virtual_time
from winpool.controllers.evictions import REPORTED_SECONDS, MissingRights
from winpool.decide import FEATURES
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.kube.errors import Forbidden, Permission
from winpool.model.node import Eviction
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Members

EVICTS: Object = {"memoryPressure": {"mode": "Evict"}}


def refusal(namespace: str = "shop") -> Forbidden:
    error = Forbidden("create pods/eviction: 403", status=403)
    error.permission = Permission("create", "pods/eviction", "", namespace, "winpool")
    return error


class World:
    """A pool of one node from which a pod is to be evicted as long as ``is_short``."""

    def __init__(self) -> None:
        self.is_short = True
        self.accepted: list[tuple[float, tuple[str, str]]] = []
        self.cluster = MemoryCluster()
        self.cluster.put_node(a_node("w1"))
        body = a_body()
        self.cluster.put_pool({**body, "spec": {**body["spec"], **EVICTS}})
        self.operator = MemoryOperator(self.cluster, features=(*FEATURES, self._evicting))

    def _evicting(self, snapshot: Snapshot, members: Members, _: AllowedActions) -> FeatureResult:
        """Ask for the eviction, and write down what stands in Accepted meanwhile."""
        if snapshot.pool.status.conditions:
            self.accepted.append((self.cluster.time, status_of(self.cluster, "Accepted")))
        hogs = [Eviction("shop", "hog", "uid-hog", each.node.name, "it is large") for each in members.ours]
        return FeatureResult(evictions=tuple(hogs) if self.is_short else ())

    def accepted_since(self, at: float) -> set[tuple[str, str]]:
        return {said for time, said in self.accepted if time >= at}


@in_virtual_time
async def test_accepted_stays_false_while_only_evictions_are_refused() -> None:
    world = World()
    world.cluster.trouble.evictions = refusal()
    world.operator.start()
    try:
        await until(lambda: world.cluster.bodies["pool"].get("status", {}).get("conditions"))
        await until(lambda: status_of(world.cluster, "Accepted") == ("False", "MissingPermission"))
        first = world.cluster.time + 1
        await asyncio.sleep(600)
        assert world.accepted_since(first) == {("False", "MissingPermission")}
        assert "pods/eviction" in condition_of(world.cluster, "Accepted")["message"]
        assert writes_since(world.cluster, first, "status") == []
        assert 10 <= len(writes_since(world.cluster, first, "eviction")) <= 40
    finally:
        await world.operator.stop()


@in_virtual_time
async def test_the_right_counts_as_granted_once_a_pod_is_evicted() -> None:
    world = World()
    world.cluster.trouble.evictions = refusal()
    world.operator.start()
    try:
        await asyncio.sleep(120)
        assert status_of(world.cluster, "Accepted") == ("False", "MissingPermission")
        world.cluster.trouble.evictions = None
        await until(lambda: status_of(world.cluster, "Accepted")[0] == "True")
    finally:
        await world.operator.stop()


@pytest.mark.slow
@in_virtual_time
async def test_a_refusal_is_forgotten_when_nothing_is_evicted_any_more() -> None:
    world = World()
    world.cluster.trouble.evictions = refusal()
    world.operator.start()
    try:
        await asyncio.sleep(120)
        world.is_short = False
        assert status_of(world.cluster, "Accepted") == ("False", "MissingPermission")
        await until(lambda: status_of(world.cluster, "Accepted")[0] == "True", seconds=REPORTED_SECONDS + 60)
    finally:
        await world.operator.stop()


def test_the_sentence_stays_while_another_namespace_is_refused_too(clock: Seconds) -> None:
    rights = MissingRights(monotonic=clock)
    rights.refused("pods/eviction", refusal("shop"))
    first = rights.sentence()
    clock.now += REPORTED_SECONDS - 1
    rights.refused("pods/eviction", refusal("books"))
    clock.now += 2
    assert rights.sentence() == first
    assert "shop" in first
    assert rights.seconds_left() == REPORTED_SECONDS - 2


def test_what_is_permitted_of_one_resource_says_nothing_of_another(clock: Seconds) -> None:
    rights = MissingRights(monotonic=clock)
    rights.refused("pods/eviction", refusal())
    rights.granted("pods")
    assert rights.sentence()
    rights.granted("pods/eviction")
    assert rights.sentence() == ""
    assert rights.seconds_left() is None
