"""A sweeper on a cluster in memory, for a scene to be played with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from harness.builders import GUARD, a_node, a_record
from harness.loops import MemoryCluster, MemoryWriter
from harness.services import some_services
from harness.virtual_time import run_virtually
from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.controllers.pools import Absences, Pools
from winpool.controllers.services import Observer
from winpool.controllers.sweep import Sweeper
from winpool.controllers.writes import NodePatcher
from winpool.kube.errors import ApiError
from winpool.kube.events import EventRecord
from winpool.loops import Clock
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.ownership.leftovers import strays_of
from winpool.ownership.record import Owned


def a_leftover(name: str, *, os: str, guard: str = GUARD) -> Node:
    """Return a node on which the pool ``pool`` has set a label that was ``b`` before."""
    record = a_record(labels={"team": Owned("a", before="b")}, guard=guard)
    return a_node(name, os=os, labels={POOL_LABEL: "pool", "team": "a"}, annotations=record)


def a_stray(name: str = "s1", *, guard: str = GUARD) -> Node:
    return a_leftover(name, os="linux", guard=guard)


def an_orphan(name: str = "w1") -> Node:
    return a_leftover(name, os=OS_WINDOWS)


class KnownNodes:
    """What the reflector knows of Windows nodes. ``lists`` counts how often all were asked for."""

    def __init__(self) -> None:
        self.objects: dict[str, Node] = {}
        self.lists = 0
        self.synced = True

    def ask_for_list(self) -> None:
        self.lists += 1


class Stage:
    """A sweeper on a cluster in memory, to which all is known; ``listed`` says when it asked for strays."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.is_complete = True
        self.policy = SimpleNamespace(identity=GUARD, known=True, is_unknown=False)
        self.listed: list[float] = []
        self.problem: ApiError | None = None
        self.announced: list[EventRecord] = []
        self.woken: list[str] = []
        monotonic = asyncio.get_running_loop().time
        clock = Clock(now=self.cluster.now, monotonic=monotonic)
        self.absences = Absences(grace_seconds=0, clock=clock)
        self.pools = Pools(on_change=lambda *_, **__: None, absences=self.absences)
        self.pools.replace((), resource_version="1", began=monotonic())
        self.known = KnownNodes()
        self.services = some_services(
            clock=clock,
            recorder=SimpleNamespace(record=lambda event, **_: self.announced.append(event)),
            pools=self.pools,
            nodes=self.known,
            guard=self.policy,
            lacking_fields=lambda: () if self.is_complete else None,
            list_strays=self._list,
            patches=NodePatcher(MemoryWriter(self.cluster), self.known.objects, self._accept, clock),
            wake=self.woken.append,
        )
        self.sweeper = Sweeper(self.services, Observer(self.services))

    def strays_of(self, pool: Pool) -> tuple[Node, ...]:
        """Return those of the last list that are not released."""
        return strays_of(pool, self.services.strays or ())

    def guarded_by(self, identity: str) -> None:
        """Have the guard of this identity in force; empty for none."""
        self.policy.identity = identity

    def put(self, *nodes: Node) -> None:
        """Create or change nodes, as others do; those of Windows are known at once."""
        for node in nodes:
            self.cluster.put_node(node)
            self._accept(self.cluster.nodes[node.name])

    def list_pools(self, *bodies: dict[str, Any]) -> None:
        """List all pools."""
        began = asyncio.get_running_loop().time()
        self.pools.replace(
            map(self.pools.read, bodies), resource_version=self.cluster.next_version(), began=began
        )
        self.sweeper.sweep_soon()

    @property
    def left(self) -> set[str]:
        """The names of the nodes that still carry ours."""
        return {name for name, node in self.cluster.nodes.items() if node.labels["team"] == "a"}

    def tries(self, name: str) -> list[float]:
        """Return when each write to that node was asked for."""
        return [write.at for write in self.cluster.writes if write.name == name]

    async def _list(self) -> tuple[Node, ...]:
        self.listed.append(self.cluster.time)
        if self.problem:
            raise self.problem
        nodes = self.cluster.nodes.values()
        return tuple(
            node for node in nodes if node.labels.get(OS_LABEL) != OS_WINDOWS and POOL_LABEL in node.labels
        )

    def _accept(self, node: Node) -> None:
        if node.labels.get(OS_LABEL) == OS_WINDOWS:
            self.known.objects[node.name] = node


def played(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        stage = Stage()
        task = asyncio.create_task(stage.sweeper.run())
        try:
            await scene(stage)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtually(play())


def pauses_between(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


async def vanish(stage: Stage) -> None:
    """Let two complete lists pass that show no pool, after somebody has asked about it."""
    await asyncio.sleep(1)
    for _ in range(2):
        stage.list_pools()
        await asyncio.sleep(0)
