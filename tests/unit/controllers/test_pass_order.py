"""What a pass has written to the pool before it writes a node, so that it may be killed anywhere (P8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from harness.builders import Object, a_node
from harness.loops import MemoryCluster, MemoryOperator, Write
from harness.pods import a_pod
from harness.stage import (
    SETTLE_SECONDS,
    on_stage,
    standing_on,
    status_of,
    teams_of,
    until,
    writes_since,
)
from harness.writes import retainted
from winpool.api.keys import RELEASE_FINALIZER
from winpool.decide import Decision, decide
from winpool.features.feature import Feature
from winpool.kube.errors import Unavailable
from winpool.model.snapshot import Snapshot

NOTHING: Object = {}
LABELS: Object = {"labels": {"team": "payments"}}
GENTLE: Object = {"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]}
HARSH: Object = {"taints": [{"key": "os", "value": "windows", "effect": "NoExecute"}]}
THEIRS = "example.com/theirs"
DOWN = Unavailable("patch windowsnodepools pool: 503", status=503)


def first_node_write(cluster: MemoryCluster, *, since: float = 0.0) -> Write:
    return writes_since(cluster, since, "node")[0]


def finalizers_at(write: Write) -> list[str]:
    return list(write.bodies["pool"]["metadata"].get("finalizers", []))


def issues_at(write: Write, reason: str) -> list[Object]:
    """Return the issues with that reason that stood there when ``write`` was asked for."""
    issues = write.bodies["pool"]["status"]["issues"]
    return [each for each in issues if each["reason"] == reason]


@pytest.mark.parametrize("spec", [NOTHING, LABELS], ids=["without keys", "with keys"])
def test_our_finalizer_is_there_before_the_first_node_is_written(spec: Object) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        body = cluster.bodies["pool"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "finalizers": [THEIRS]}})
        await asyncio.sleep(SETTLE_SECONDS)
        assert finalizers_at(first_node_write(cluster)) == [THEIRS, RELEASE_FINALIZER]
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), a_node("w2"), spec=spec)


def test_no_node_is_written_as_long_as_our_finalizer_is_not_there() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.trouble.finalizers = DOWN
        await asyncio.sleep(300)
        assert {write.kind for write in cluster.writes} == {"finalizers"}
        cluster.trouble.finalizers = None
        await until(lambda: teams_of(cluster) == {"w1": "payments"})

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_pool_that_has_no_nodes_gets_no_finalizer() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        assert [write.kind for write in cluster.writes] == ["status"]
        cluster.delete_pool("pool")
        assert cluster.bodies == {}

    on_stage(scene, spec=LABELS)


def test_the_keys_of_the_spec_are_remembered_in_the_status_before_a_node_carries_them() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        status = first_node_write(cluster).bodies["pool"]["status"]
        assert status["setKeys"] == {"labels": ["team"], "taints": []}

        edited = cluster.time
        taint = {"key": "os", "value": "windows", "effect": "PreferNoSchedule"}
        cluster.edit_pool("pool", labels={"tier": "gold"}, taints=[taint])
        await asyncio.sleep(SETTLE_SECONDS)
        status = first_node_write(cluster, since=edited).bodies["pool"]["status"]
        assert status["setKeys"] == {"labels": ["team", "tier"], "taints": ["os:PreferNoSchedule"]}
        assert status["observedGeneration"] == 2
        assert cluster.nodes["w1"].labels["tier"] == "gold"

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_no_node_is_written_as_long_as_what_has_to_stand_in_the_status_does_not() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        cluster.trouble.statuses = DOWN
        edited = cluster.time
        cluster.edit_pool("pool", labels={"team": "payments", "tier": "gold"})
        await asyncio.sleep(300)
        assert {write.kind for write in writes_since(cluster, edited)} == {"status"}
        cluster.trouble.statuses = None
        await until(lambda: cluster.nodes["w1"].labels.get("tier") == "gold")

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_an_edit_that_brings_no_key_and_meets_no_pod_writes_its_nodes_at_once() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        edited = cluster.time
        cluster.edit_pool("pool", labels={"team": "billing"})
        await asyncio.sleep(SETTLE_SECONDS)
        assert [write.kind for write in writes_since(cluster, edited)] == ["node", "status"]

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_the_pods_that_a_taint_will_meet_are_told_before_it_is_written() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.pods = [a_pod("shop/web-1", node="w1")]
        await until(lambda: cluster.nodes["w1"].taints)
        [told] = issues_at(first_node_write(cluster), "IntolerantPods")
        assert (told["nodeCount"], told["nodes"]) == (1, ["w1"])
        assert "os=windows:NoSchedule" in told["message"]
        assert "shop/web-1" in told["message"]

    on_stage(scene, a_node("w1"), spec=GENTLE)


def test_a_taint_that_is_held_back_is_told_before_anything_else_is_written_there() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        cluster.pods = [a_pod("shop/web-1", node="w1")]
        await asyncio.sleep(SETTLE_SECONDS)
        [told] = issues_at(first_node_write(cluster), "IntolerantPods")
        assert "does not add the taint" in told["message"]
        assert told["nodes"] == ["w1"]
        assert teams_of(cluster) == {"w1": "payments", "w2": "payments"}
        assert [bool(node.taints) for node in cluster.nodes.values()] == [False, True]

    on_stage(scene, a_node("w1"), a_node("w2"), spec={**LABELS, **HARSH})


def test_what_someone_takes_off_is_decided_on_once_to_write_it_and_once_to_report_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided: list[Decision] = []

    def counting(snapshot: Snapshot, features: Sequence[Feature]) -> Decision:
        decided.append(decide(snapshot, features))
        return decided[-1]

    monkeypatch.setattr("winpool.controllers.pool.decide", counting)

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        standing = cluster.nodes["w1"]
        assert standing.taints
        decided.clear()
        begun = cluster.time
        cluster.put_node(retainted(standing))
        await until(lambda: cluster.nodes["w1"].taints == standing.taints, seconds=0.2)
        await asyncio.sleep(1)
        assert [write.kind for write in writes_since(cluster, begun)] == ["node"]
        assert [len(each.writes.patches) for each in decided] == [1, 0]

        decided.clear()
        begun = cluster.time
        cluster.edit_pool("pool", labels={"team": "billing"}, taints=GENTLE["taints"])
        await asyncio.sleep(1)
        assert [write.kind for write in writes_since(cluster, begun)] == ["node", "status"]
        assert [len(each.writes.patches) for each in decided[:2]] == [1, 0]
        assert len(decided) <= 3, "the third comes from the list of all pods for the new generation"

    on_stage(scene, a_node("w1"), spec={**LABELS, **GENTLE})


class Deadly(MemoryCluster):
    """Gives no answer to the write of this number, and none to a later one: done it may be, or not."""

    number = 0
    is_carried_out = False

    async def asked(self, kind: str, name: str) -> None:
        await super().asked(kind, name)
        if not self.is_carried_out:
            await self._fall_silent()

    async def carried_out(self, kind: str, name: str) -> None:
        await super().carried_out(kind, name)
        await self._fall_silent()

    async def _fall_silent(self) -> None:
        if 0 < self.number <= len(self.writes):
            await asyncio.Event().wait()


@pytest.mark.parametrize("is_carried_out", [True, False], ids=["carried out", "not carried out"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_whoever_is_killed_at_a_write_leaves_nothing_that_the_next_does_not_finish_or_take_off(
    number: int, is_carried_out: bool
) -> None:
    bare = {name: a_node(name, labels={"team": "theirs"}) for name in ("w1", "w2")}

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        assert isinstance(cluster, Deadly)
        cluster.number, cluster.is_carried_out = number, is_carried_out
        await until(lambda: len(cluster.writes) >= number)
        await asyncio.sleep(SETTLE_SECONDS)
        await operator.stop()
        cluster.number = 0
        begun = cluster.time
        cluster.delete_pool("pool")
        again = MemoryOperator(cluster)
        again.start()
        await asyncio.sleep(SETTLE_SECONDS)
        assert cluster.bodies == {}
        for name, node in bare.items():
            assert standing_on(cluster.nodes[name]) == standing_on(node)
        assert len(writes_since(cluster, begun, "node")) <= len(bare)

    on_stage(scene, *bare.values(), cluster_of=Deadly, spec=LABELS)
