"""Evictions and conditions of nodes against a real API server: what it says, and what stands afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.door import a_transport
from cluster.pods import NAMESPACE, Pods
from cluster.workers import a_running_pod, a_writer
from harness.waiting import eventually
from harness.world import World
from winpool.controllers.evictions import Evictor, eviction_answers
from winpool.kube.errors import Conflict, DisruptionBudget, Forbidden, NotFound, Unavailable
from winpool.kube.nodes import decode_node
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import ConditionsPatch, Eviction, Node, NodeCondition, NodePatch

Object = dict[str, Any]

HIGH = NodeCondition("WindowsMemoryPressure", "True", "CommitHigh", "93 % of 48Gi")
HIGHER = NodeCondition("WindowsMemoryPressure", "True", "CommitHigh", "97 % of 48Gi")
CALM = NodeCondition("WindowsMemoryPressure", "False", "Enough")
DRAINED = NodeCondition("Drained", "True", "NoPods")


@pytest.fixture
async def writer(world: World) -> AsyncIterator[Writer]:
    async with a_writer(world) as found:
        yield found


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    mine = Pods(world)
    try:
        yield mine
    finally:
        world.kubectl("delete", "pdb", "-n", NAMESPACE, "-l", f"example.com/run={world.suffix}")
        mine.close()


def a_budget(world: World, name: str) -> str:
    """Make a budget that permits no eviction of the one pod of this test; return its name."""
    full = f"{name}-{world.suffix}"
    manifest = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": full, "labels": {"example.com/run": world.suffix}},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"example.com/pods": world.suffix}}},
    }
    world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))

    def counted() -> bool:
        status = json.loads(world.kubectl("get", "pdb", full, "-n", NAMESPACE, "-o", "json"))["status"]
        return bool(status.get("currentHealthy") == 1 and status["disruptionsAllowed"] == 0)

    eventually(counted, what="a budget that has counted its pod")
    return full


# Evictions


@pytest.mark.nightly
async def test_a_budget_is_of_one_pod_and_once_it_is_gone_the_pod_is_evicted(
    world: World, writer: Writer, pods: Pods
) -> None:
    eviction = await asyncio.to_thread(a_running_pod, world, pods)
    budget = await asyncio.to_thread(a_budget, world, "none")
    evictor = Evictor(writer=writer, monotonic=time.monotonic, answers=eviction_answers(None, clock=Clock()))

    outcome = await evictor.run([eviction])
    [(_, error)] = outcome.stopped
    assert (type(error), outcome.error) == (DisruptionBudget, None)
    assert f"The disruption budget {budget} needs 1 healthy pods and has 1 currently" in error.message
    assert await asyncio.to_thread(pods.uids) == {eviction.name: eviction.uid}

    await asyncio.to_thread(world.kubectl, "delete", "pdb", "-n", NAMESPACE, budget)
    await asyncio.sleep(evictor.seconds_to_next([eviction]) or 0.0)
    assert (await evictor.run([eviction])).done == [eviction]
    await asyncio.to_thread(eventually, lambda: not pods.all(), what="the pod has ended")

    assert (await evictor.run([eviction])).done == [], "it was told to end"
    another = Evictor(writer=writer, monotonic=time.monotonic, answers=eviction_answers(None, clock=Clock()))
    [(_, error)] = (await another.run([eviction])).stopped
    assert (type(error), error.status) == (NotFound, 404)


async def test_a_pod_of_another_uid_is_left_alone_and_the_one_that_was_meant_is_gone(
    world: World, writer: Writer, pods: Pods
) -> None:
    eviction = await asyncio.to_thread(a_running_pod, world, pods)
    another = Eviction(NAMESPACE, eviction.name, "of-a-pod-before", eviction.node, why="a test")
    with pytest.raises(NotFound) as caught:
        await writer.evict(another)
    assert caught.value.status == 409
    assert await asyncio.to_thread(pods.uids) == {eviction.name: eviction.uid}


async def test_a_pod_with_two_budgets_is_refused_for_itself(world: World, writer: Writer, pods: Pods) -> None:
    eviction = await asyncio.to_thread(a_running_pod, world, pods)
    for name in ("one", "two"):
        await asyncio.to_thread(a_budget, world, name)
    with pytest.raises(Unavailable, match="more than one PodDisruptionBudget") as caught:
        await writer.evict(eviction)
    assert caught.value.status == 500
    assert await asyncio.to_thread(pods.uids) == {eviction.name: eviction.uid}


async def test_a_missing_right_is_named(world: World) -> None:
    async with a_transport(world.testbed.kubeconfig("winpool")) as transport:
        eviction = Eviction(NAMESPACE, "any", "any", "any", why="a test")
        with pytest.raises(Forbidden) as caught:
            await asked_until_refused(Writer(transport), eviction)
    assert caught.value.permission is not None
    assert (caught.value.permission.verb, caught.value.permission.resource) == ("create", "pods/eviction")


async def asked_until_refused(writer: Writer, eviction: Eviction) -> None:
    """Ask for the eviction of a pod that is not there until another error than that it is not there comes.

    Another test may have taken back the right to it a moment ago.
    """
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NotFound):
                await writer.evict(eviction)
            await asyncio.sleep(0.1)


# Nodes


def known(world: World, name: str) -> Node:
    """Return a node as the operator knows it."""
    return decode_node(json.dumps(world.node(name)).encode(), request="get node")


def conditions(world: World, name: str) -> dict[str, Object]:
    return {each["type"]: each for each in world.node(name)["status"]["conditions"]}


def steady(conditions: dict[str, Object]) -> dict[str, str]:
    """Return what does not change with a heartbeat, but for conditions of ours."""
    ours = {HIGH.type, DRAINED.type}
    return {type_: each["status"] for type_, each in conditions.items() if type_ not in ours}


async def applied(world: World, writer: Writer, name: str, *wanted: NodeCondition, now: datetime) -> Node:
    """Apply conditions to a node as it is, again after a conflict: its kubelet writes it too."""
    for _ in range(20):
        node = await asyncio.to_thread(known, world, name)
        try:
            return await writer.apply_node_conditions(ConditionsPatch(node, wanted), now=now)
        except Conflict:
            await asyncio.sleep(0.1)
    raise AssertionError("twenty conflicts in a row")


async def test_conditions_of_ours_come_change_and_go_and_those_of_the_kubelet_stay(
    world: World, writer: Writer
) -> None:
    (name,) = await asyncio.to_thread(world.fleet, windows=1)
    before = await asyncio.to_thread(conditions, world, name)
    assert {"Ready", "MemoryPressure"} <= before.keys()
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)

    async def standing() -> dict[str, Object]:
        found = await asyncio.to_thread(conditions, world, name)
        assert steady(found) == steady(before)
        return {type_: each for type_, each in found.items() if type_ in {HIGH.type, DRAINED.type}}

    node = await applied(world, writer, name, HIGH, DRAINED, now=moment)
    assert node.conditions == (DRAINED, HIGH)
    assert (await standing())[HIGH.type] == {
        "type": "WindowsMemoryPressure",
        "status": "True",
        "reason": "CommitHigh",
        "message": "93 % of 48Gi",
        "lastTransitionTime": "2026-11-01T12:00:00Z",
        "lastHeartbeatTime": None,
    }

    again = await applied(world, writer, name, HIGH, DRAINED, now=moment + timedelta(hours=1))
    assert again.conditions[0].since == moment
    node = await applied(world, writer, name, HIGHER, now=moment + timedelta(hours=2))
    assert (node.conditions, node.conditions[0].since) == ((HIGHER,), moment)
    assert (await standing()).keys() == {HIGH.type}, "what is left out comes off"

    # The patch of the node itself has the same field manager, and is none of an apply's business.
    node = await asyncio.to_thread(known, world, name)
    await cordoned(world, writer, name, wanted=True)
    node = await applied(world, writer, name, CALM, now=moment + timedelta(hours=3))
    assert (node.conditions[0], node.conditions[0].since) == (CALM, moment + timedelta(hours=3))
    assert node.unschedulable

    assert (await applied(world, writer, name, now=moment)).conditions == ()
    assert await standing() == {}
    await cordoned(world, writer, name, wanted=False)


async def test_an_equal_set_of_conditions_writes_nothing(world: World, writer: Writer) -> None:
    name = f"w-{world.suffix}"
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": world.selector}}
    await asyncio.to_thread(world.kubectl, "create", "-f", "-", stdin=json.dumps(manifest))
    try:
        for _ in range(20):
            first = await applied(world, writer, name, HIGH, now=datetime.now(UTC))
            second = await applied(world, writer, name, HIGH, now=datetime.now(UTC) + timedelta(hours=1))
            if first.resource_version == second.resource_version:
                return
        pytest.fail("each of twenty equal sets was written")
    finally:
        await asyncio.to_thread(world.kubectl, "delete", "node", name)


async def test_conditions_on_a_stale_or_lost_node_are_refused_and_bring_none_back(
    world: World, writer: Writer
) -> None:
    name = f"w-{world.suffix}"
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": world.selector}}
    await asyncio.to_thread(world.kubectl, "create", "-f", "-", stdin=json.dumps(manifest))
    stale = await asyncio.to_thread(known, world, name)
    await asyncio.to_thread(world.kubectl, "label", "node", name, "somebody=else")
    patch = ConditionsPatch(stale, (HIGH,))
    with pytest.raises(Conflict):
        await writer.apply_node_conditions(patch, now=datetime.now(UTC))
    assert HIGH.type not in await asyncio.to_thread(conditions_if_any, world, name)
    await asyncio.to_thread(world.kubectl, "delete", "node", name)
    with pytest.raises(NotFound):
        await writer.apply_node_conditions(patch, now=datetime.now(UTC))
    assert name not in await asyncio.to_thread(world.nodes)


def conditions_if_any(world: World, name: str) -> set[str]:
    return {each["type"] for each in world.node(name)["status"].get("conditions", [])}


async def cordoned(world: World, writer: Writer, name: str, *, wanted: bool) -> None:
    """Cordon a node, or take the cordon off, and see that nothing else is left of it."""
    for _ in range(20):
        node = await asyncio.to_thread(known, world, name)
        patch = NodePatch(node, labels={}, annotations={}, taints=None, unschedulable=wanted)
        try:
            written = await writer.patch_node(patch)
        except Conflict:
            await asyncio.sleep(0.1)
            continue
        assert written.unschedulable is wanted
        spec = (await asyncio.to_thread(world.node, name))["spec"]
        assert spec.get("unschedulable") is (True if wanted else None), "False is never stored"
        return
    raise AssertionError("twenty conflicts in a row")
