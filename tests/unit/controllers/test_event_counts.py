"""How many events a pass has: one for each of few nodes, or one of the pool that counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from harness.builders import Object, a_node
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import SETTLE_SECONDS, on_stage, until
from harness.writes import relabelled
from winpool.controllers.status import GATHER_SECONDS, LONGEST_GATHER_SECONDS
from winpool.kube.errors import Invalid, Unavailable
from winpool.kube.events import EventRecord
from winpool.model.node import Node

LABELS: Object = {"labels": {"team": "payments", "tier": "gold"}}
DOWN = Unavailable("patch nodes: 503", status=503)
NAMES = [f"w{number:02d}" for number in range(12)]


def fleet(number: int = 12) -> list[Node]:
    return [a_node(name) for name in NAMES[:number]]


def refused(name: str) -> Invalid:
    return Invalid(f'patch nodes {name}: 422 nodes "{name}" is forbidden: not on Fridays', status=422)


def strip(cluster: MemoryCluster, names: Sequence[str], label: str = "team") -> None:
    for name in names:
        cluster.put_node(relabelled(cluster.nodes[name], **{label: None}))


def events(operator: MemoryOperator, reason: str) -> list[EventRecord]:
    return [each for each in operator.told if each.reason == reason]


def repairs(operator: MemoryOperator) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in events(operator, "DriftRepaired")]


async def settled() -> None:
    await asyncio.sleep(SETTLE_SECONDS)


def test_what_happens_to_a_few_nodes_is_an_event_of_each() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        strip(cluster, NAMES[:3])
        await settled()
        assert repairs(operator) == [("Node", name) for name in NAMES[:3]]

    on_stage(scene, *fleet(), spec=LABELS)


def test_what_happens_to_many_nodes_at_once_is_one_event_that_counts_them() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        strip(cluster, NAMES)
        await settled()
        [event] = events(operator, "DriftRepaired")
        assert (event.kind, event.name) == ("WindowsNodePool", "pool")
        assert "label team on 12 nodes (w00, w01, w02 and 9 more)" in event.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_what_many_passes_do_to_one_node_after_the_other_is_one_event_too() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        begun = len(operator.passes)
        for name in NAMES:
            strip(cluster, [name])
            await asyncio.sleep(0.3)
        assert len(operator.passes) - begun >= len(NAMES)
        await settled()
        [event] = events(operator, "DriftRepaired")
        assert "12 nodes" in event.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_different_things_at_once_are_told_apart() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        strip(cluster, NAMES[:5])
        strip(cluster, NAMES[5:7], "tier")
        await settled()
        assert sorted(repairs(operator)) == [("Node", "w05"), ("Node", "w06"), ("WindowsNodePool", "pool")]

    on_stage(scene, *fleet(), spec=LABELS)


def test_an_event_waits_for_others_as_long_as_they_come_but_not_for_ever() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        strip(cluster, NAMES[:1])
        await asyncio.sleep(GATHER_SECONDS / 2)
        assert repairs(operator) == []
        await asyncio.sleep(GATHER_SECONDS)
        assert repairs(operator) == [("Node", "w00")]

        begun = cluster.time
        while len(repairs(operator)) == 1:
            strip(cluster, [NAMES[1 + round(cluster.time * 2) % 11]], "tier")
            await asyncio.sleep(GATHER_SECONDS / 2)
        assert cluster.time - begun <= LONGEST_GATHER_SECONDS + 1

    on_stage(scene, *fleet(), spec=LABELS)


def test_only_nodes_that_were_written_are_counted_and_no_event_comes_before_its_write() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        cluster.trouble.nodes = dict.fromkeys(NAMES[2:], DOWN)
        strip(cluster, NAMES)
        await asyncio.sleep(5)
        found = events(operator, "DriftRepaired")
        assert {each.kind for each in found} == {"WindowsNodePool"}, "twelve nodes share the cause"
        assert all(" 2 nodes (w00, w01)" in each.note for each in found)

        cluster.trouble.nodes = {}
        await until(lambda: all("team" in node.labels for node in cluster.nodes.values()))
        await settled()
        *_, last = events(operator, "DriftRepaired")
        assert " 10 nodes (w02, w03, w04 and 7 more)" in last.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_what_waits_to_be_told_is_told_when_the_operator_stops() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        strip(cluster, NAMES[:1])
        await until(lambda: "team" in cluster.nodes["w00"].labels)
        await asyncio.sleep(GATHER_SECONDS / 4)
        await operator.stop()
        assert repairs(operator) == [("Node", "w00")]

    on_stage(scene, *fleet(), spec=LABELS)


def test_nodes_that_are_refused_for_one_cause_are_one_event() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.nodes = {name: refused(name) for name in NAMES}
        await settled()
        await settled()
        [event] = events(operator, "WriteRefused")
        assert (event.kind, event.name) == ("WindowsNodePool", "pool")
        assert "12 nodes (w00, w01, w02 and 9 more)" in event.note
        assert "not on Fridays" in event.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_few_nodes_that_are_refused_have_an_event_each() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.nodes = {name: refused(name) for name in NAMES[:2]}
        await settled()
        found = [(each.kind, each.name) for each in events(operator, "WriteRefused")]
        assert found == [("Node", "w00"), ("Node", "w01")]

        cluster.trouble.nodes |= {name: refused(name) for name in NAMES[2:6]}
        strip(cluster, NAMES[2:6])
        await settled()
        [more] = events(operator, "WriteRefused")[2:]
        assert "6 nodes (w00, w01, w02 and 3 more)" in more.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_nodes_whose_release_is_refused_are_told_too() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        cluster.trouble.nodes = {name: refused(name) for name in NAMES}
        cluster.delete_pool("pool")
        await settled()
        [event] = events(operator, "WriteRefused")
        assert "12 nodes" in event.note

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_deletion_counts_the_nodes_that_it_has_released() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        cluster.trouble.nodes = {"w00": refused("w00")}
        cluster.delete_pool("pool")
        await settled()
        cluster.trouble.nodes = {}
        await until(lambda: not cluster.bodies)
        [event] = events(operator, "NodesReleased")
        assert event.note == "Released 12 nodes."

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_deletion_that_another_process_has_begun_is_not_counted() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        cluster.trouble.nodes = {"w00": refused("w00")}
        cluster.delete_pool("pool")
        await settled()
        await operator.stop()
        cluster.trouble.nodes = {}
        again = MemoryOperator(cluster)
        again.start()
        await until(lambda: not cluster.bodies)
        [event] = events(again, "NodesReleased")
        assert event.note == "Released all nodes."

    on_stage(scene, *fleet(), spec=LABELS)


def test_a_deletion_while_no_operator_runs_is_counted_by_the_next() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await settled()
        await operator.stop()
        cluster.delete_pool("pool")
        again = MemoryOperator(cluster)
        again.start()
        await until(lambda: not cluster.bodies)
        [event] = events(again, "NodesReleased")
        assert event.note == "Released 12 nodes."

    on_stage(scene, *fleet(), spec=LABELS)
