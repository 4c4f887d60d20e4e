"""From a pass that asks for samples to the pass that they wake: the loops of an operator in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from msgspec.structs import replace

from harness.builders import Object, a_body
from harness.loops import MemoryCluster, MemoryOperator
from harness.memory_fleet import CALM_GIB, Fleet, Machine, a_watched_node
from harness.stage import condition_of, status_of, teams_of
from harness.virtual_time import in_virtual_time
from winpool.api.keys import PRESSURE_TAINT
from winpool.decide import FEATURES
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.kube.errors import error_of
from winpool.model.pressure import Axis, Guard, KnownMemory, Level
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Members


def watching(mode: str) -> Object:
    """Return the block of a pool whose memory is watched."""
    return {"memoryPressure": {"mode": mode}}


class World:
    """A pool of five nodes whose memory is watched, and an operator.

    ``seen`` is what each decision knew, and when.
    """

    def __init__(self, mode: str = "Signal") -> None:
        self.fleet = Fleet()
        self.cluster = MemoryCluster()
        self.nodes = [a_watched_node(number) for number in range(5)]
        for node in self.nodes:
            self.fleet.machines[node.name] = Machine()
            self.cluster.put_node(node)
        body = a_body()
        self.cluster.put_pool({**body, "spec": {**body["spec"], **watching(mode)}})
        self.seen: list[tuple[float, KnownMemory]] = []
        self.operator = MemoryOperator(
            self.cluster, connections=self.fleet.connections(), features=(*FEATURES, self._spying)
        )

    @property
    def watched(self) -> list[str]:
        """The names of the nodes whose memory is watched."""
        assert self.operator.memory is not None
        return sorted(each.node.name for each in self.operator.memory.watched)

    def passes_since(self, at: float) -> int:
        """Return how many passes there were."""
        return sum(began >= at for began, _ in self.operator.passes)

    def _spying(self, snapshot: Snapshot, _: Members, __: AllowedActions) -> FeatureResult:
        self.seen.append((self.cluster.time, snapshot.memory))
        return FeatureResult()


@asynccontextmanager
async def a_world(mode: str = "Signal") -> AsyncIterator[World]:
    world = World(mode)
    world.operator.start()
    try:
        yield world
    finally:
        await world.operator.stop()
        assert not world.fleet.is_open


@in_virtual_time
async def test_while_all_is_well_no_sample_leads_to_a_pass() -> None:
    async with a_world() as world:
        await asyncio.sleep(600)
        polls, begun = sum(map(len, world.fleet.polls.values())), world.cluster.time
        await asyncio.sleep(3600)
        assert world.passes_since(begun) == 0
        assert sum(map(len, world.fleet.polls.values())) - polls >= 5 * 55
        _, known = world.seen[-1]
        assert {view.level for view in known.told.values()} == {Level.NORMAL}
        assert known.told.keys() == {node.uid for node in world.nodes}


@in_virtual_time
async def test_what_sources_can_tell_writes_nothing_in_an_hour_of_passes_for_other_reasons() -> None:
    async with a_world() as world:

        async def pass_for_another_reason(reason: int) -> None:
            begun, node = world.cluster.time, world.cluster.nodes["w000"]
            world.cluster.put_node(replace(node, labels={**node.labels, "reason": str(reason)}))
            await asyncio.sleep(60)
            assert world.passes_since(begun) > 0

        await asyncio.sleep(900)
        begun = world.cluster.time
        await pass_for_another_reason(0)
        assert world.cluster.bodies["pool"]["status"]["memoryCapabilities"] == (
            "Of 5 nodes, these report the commit limit: 5, the commit of pods: 0 (unknown: 5), paging: 0. "
            "Kubelets that evict pods themselves: 5."
        )
        for reason in range(1, 61):
            await pass_for_another_reason(reason)
        assert [write.kind for write in world.cluster.writes if write.at >= begun] == []


@in_virtual_time
async def test_that_nothing_is_to_be_signalled_is_no_reason_to_write_newer_numbers() -> None:
    async with a_world() as world:
        world.fleet.machines["w001"] = Machine(committed=lambda now: 21.5 + now % 7 / 100)
        await asyncio.sleep(240)
        uid, begun = world.nodes[1].uid, world.cluster.time
        assert "have committed much" in json.dumps(world.cluster.bodies["pool"]["status"])
        await asyncio.sleep(360)
        known = [memory.told[uid].is_signalled for when, memory in world.seen if when >= begun]
        assert known == [False], "the pass that knows it"
        assert [write.kind for write in world.cluster.writes if write.at >= begun] == []


@in_virtual_time
async def test_the_pass_that_a_level_wakes_knows_it_at_once() -> None:
    async with a_world() as world:
        await asyncio.sleep(600)
        uid, begun = world.nodes[2].uid, world.cluster.time
        at = asyncio.get_running_loop().time()
        leak = {"w002": Machine(committed=lambda now: min(23.5, CALM_GIB + max(0.0, now - at) / 120))}
        world.fleet.machines.update(leak)
        await asyncio.sleep(3600)
        levels = [memory.told[uid].axes[Axis.COMMIT].level for when, memory in world.seen if when >= begun]
        assert [*dict.fromkeys(levels)] == [Level.WARNING, Level.SOFT, Level.HARD]
        written = [(write.kind, write.name) for write in world.cluster.writes if write.at >= begun]
        assert written.count(("node", "w002")) == 1, "the taint, with Soft"
        assert written.count(("conditions", "w002")) == 2, "with Soft, and with Hard"
        wakes = 4  # Warning, Soft, what is signalled half a minute later, Hard
        assert world.passes_since(begun) <= wakes + len(written)


@pytest.mark.slow
@in_virtual_time
async def test_memory_outside_pods_that_varies_about_its_line_writes_nothing_more() -> None:
    """At Hard, with 8.3 to 8.5 GiB outside pods; more than 8.4 are unattributed."""

    def varying(now: float) -> float:
        return 23.5 + (now * 7 // 10 % 11 - 5) / 50

    async with a_world("Evict") as world:
        await asyncio.sleep(600)
        world.fleet.machines["w002"] = Machine(committed=varying, pods=(("hog", 15.1, 1.0),))
        await asyncio.sleep(600)
        begun = world.cluster.time
        await asyncio.sleep(3600)
        assert [write for write in world.cluster.writes if write.at >= begun] == []
        assert world.passes_since(begun) <= 6, "one for every list of all nodes"
        view = world.seen[-1][1].told[world.nodes[2].uid]
        assert (view.level, view.guard) == (Level.HARD, Guard.OUTSIDE_SHARE)


SLOW_SECONDS = 7.5


@in_virtual_time
async def test_an_eviction_that_waits_for_samples_of_other_nodes_has_a_pass_every_five_seconds() -> None:
    """Those samples are no news, so they wake nobody."""
    async with a_world("Evict") as world:
        await asyncio.sleep(600)
        since = asyncio.get_running_loop().time() - world.cluster.time
        begun, hog = world.cluster.time, (("hog", 20.0, 1.0),)
        for name in ("w000", "w001", "w003", "w004"):
            world.fleet.machines[name] = Machine(seconds=SLOW_SECONDS)
        world.fleet.machines["w002"] = Machine(committed=lambda _: 23.5, pods=hog)
        await asyncio.sleep(300)
        polls = {name: [at - since for at in times] for name, times in world.fleet.polls.items()}
        _, right, *_ = (at for at in polls.pop("w002") if at >= begun)
        seen = max(min(at for at in times if at >= right) for times in polls.values()) + SLOW_SECONDS
        assert seen > right + 6, "or there was nothing to wait for"
        passes = [at for at, _ in world.operator.passes if at >= right]
        assert all(later - earlier < 6 for earlier, later in pairwise(passes))
        assert seen <= passes[-1] < seen + 6


@in_virtual_time
async def test_a_pool_that_is_deleted_and_a_node_that_is_gone_are_watched_no_more() -> None:
    async with a_world() as world:
        await asyncio.sleep(120)
        assert world.watched == ["w000", "w001", "w002", "w003", "w004"]
        world.cluster.drop_node("w001")
        await asyncio.sleep(5)
        assert world.watched == ["w000", "w002", "w003", "w004"]
        world.cluster.delete_pool("pool")
        await asyncio.sleep(30)
        assert world.watched == []


@in_virtual_time
async def test_a_spec_without_the_block_ends_the_watch() -> None:
    async with a_world() as world:
        await asyncio.sleep(120)
        world.cluster.edit_pool("pool", memoryPressure=None)
        await asyncio.sleep(5)
        assert world.watched == []


@in_virtual_time
async def test_a_node_that_moves_to_another_address_is_polled_there() -> None:
    async with a_world() as world:
        await asyncio.sleep(120)
        moved = replace(world.nodes[0].kubelet, address="")
        world.cluster.put_node(replace(world.cluster.nodes["w000"], kubelet=moved))
        await asyncio.sleep(5)
        polls = len(world.fleet.polls["w000"])
        await asyncio.sleep(300)
        assert len(world.fleet.polls["w000"]) == polls


@in_virtual_time
async def test_a_snapshot_has_which_right_is_missing_for_as_long_as_it_is() -> None:
    async with a_world() as world:
        await asyncio.sleep(60)
        [pool] = world.operator.pools.all()
        collector = world.operator.memory
        assert collector is not None
        for rule in ("Add the rule.", ""):
            world.fleet.forbidden = rule
            known = collector.known(pool)
            assert known.forbidden == rule
            assert len(known.told) == 5


@in_virtual_time
async def test_without_the_right_to_write_conditions_the_rule_is_told_and_all_else_is_written() -> None:
    said = 'User "winpool" cannot patch resource "nodes/status" in API group "" at the cluster scope'
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": said}).encode()
    async with a_world() as world:
        await asyncio.sleep(600)
        world.cluster.trouble.conditions = error_of(status=403, body=body, request="patch nodes/status")
        world.fleet.machines["w002"] = Machine(committed=lambda _: 23.5)
        await asyncio.sleep(300)
        assert status_of(world.cluster, "Accepted") == ("False", "MissingPermission")
        assert "nodes/status" in condition_of(world.cluster, "Accepted")["message"]
        assert PRESSURE_TAINT in {(each.key, each.effect) for each in world.cluster.nodes["w002"].taints}
        world.cluster.edit_pool("pool", labels={"team": "payments"})
        await asyncio.sleep(120)
        assert set(teams_of(world.cluster).values()) == {"payments"}
        world.cluster.trouble.conditions = None
        await asyncio.sleep(600)
        assert status_of(world.cluster, "Accepted")[0] == "True"
        assert [each.type for each in world.cluster.nodes["w002"].conditions] == ["WindowsMemoryPressure"]
