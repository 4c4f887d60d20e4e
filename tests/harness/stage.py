"""One pool in memory and the operator that serves it, for a scene to be played with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from harness.builders import Object, a_body
from harness.loops import MemoryCluster, MemoryOperator, Write
from harness.virtual_time import run_virtually
from winpool.model.node import Node

Scene = Callable[[MemoryCluster, MemoryOperator], Awaitable[None]]

SETTLE_SECONDS = 30.0
"""Long after all is written, and after the last pause that a new pool has."""


def on_stage(
    scene: Scene,
    *nodes: Node,
    cluster_of: type[MemoryCluster] = MemoryCluster,
    spec: Object,
    status: Object | None = None,
) -> None:
    """Play ``scene`` with an operator that has just been started for one pool and ``nodes``."""

    async def play() -> None:
        cluster = cluster_of()
        for node in nodes:
            cluster.put_node(node)
        body = a_body()
        cluster.put_pool({**body, "spec": {**body["spec"], **spec}, "status": status or {}})
        operator = MemoryOperator(cluster)
        operator.start()
        try:
            await scene(cluster, operator)
        finally:
            for each in tuple(cluster.listeners):
                await each.stop()

    run_virtually(play())


async def until(condition: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Let time pass until ``condition`` is met, which must be so within ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, f"not within {seconds} s"
        await asyncio.sleep(0.01)


def writes_since(cluster: MemoryCluster, at: float, *kinds: str) -> list[Write]:
    """Return the writes that were asked for from then on, in order; of these ``kinds``, or of all."""
    return [write for write in cluster.writes if write.at >= at and (not kinds or write.kind in kinds)]


def status_of(cluster: MemoryCluster, kind: str) -> tuple[str, str]:
    """Return status and reason of that condition as they stand on the pool."""
    found = condition_of(cluster, kind)
    return found["status"], found["reason"]


def condition_of(cluster: MemoryCluster, kind: str) -> Object:
    """Return that condition as it stands on the pool."""
    conditions: list[Object] = cluster.bodies["pool"]["status"]["conditions"]
    [found] = [each for each in conditions if each["type"] == kind]
    return found


def issues_of(cluster: MemoryCluster) -> set[tuple[str, str]]:
    """Return node and reason of each issue about nodes that stands on the pool."""
    issues = cluster.bodies["pool"]["status"]["issues"]
    return {(name, each["reason"]) for each in issues for name in each["nodes"]}


def teams_of(cluster: MemoryCluster) -> dict[str, str | None]:
    """Return the label ``team`` of each node, by name."""
    return {name: node.labels.get("team") for name, node in cluster.nodes.items()}


def standing_on(node: Node) -> tuple[dict[str, str], dict[str, str], set[tuple[str, str, str]]]:
    """Return what a pool can change of a node: to compare it with what stood there before."""
    taints = {(taint.key, taint.value, taint.effect) for taint in node.taints}
    return dict(node.labels), dict(node.annotations), taints
