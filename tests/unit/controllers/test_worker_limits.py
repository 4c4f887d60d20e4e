"""Workers that hang take no place of others, and all leave room for what is no write of theirs (P7)."""

from __future__ import annotations

import asyncio
from datetime import datetime

from harness.builders import NOON, a_node
from harness.virtual_time import in_virtual_time
from winpool.controllers.evictions import EVICTIONS_IN_FLIGHT, Evictor, eviction_answers
from winpool.controllers.node_pods import LISTS_IN_FLIGHT
from winpool.controllers.writes import CONDITIONS_IN_FLIGHT, PATCHES_IN_FLIGHT, ConditionApplier, NodePatcher
from winpool.kube.client import MAX_CONNECTIONS
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import ConditionsPatch, Eviction, Node, NodePatch

LONG_LIVED = 4
"""Watches: nodes, pools, and the two objects of the guard."""


class HangingWriter(Writer):
    """Never answers an eviction, nor a write of conditions."""

    def __init__(self) -> None:
        self.hanging = 0

    async def patch_node(self, patch: NodePatch) -> Node:
        await asyncio.sleep(0.1)
        return patch.node

    async def evict(self, eviction: Eviction) -> None:
        await self._hang(eviction)

    async def apply_node_conditions(self, patch: ConditionsPatch, *, now: datetime) -> Node:
        await self._hang(now)
        return patch.node

    async def _hang(self, *_: object) -> None:
        self.hanging += 1
        await asyncio.Event().wait()


def test_all_workers_at_their_limits_leave_connections_for_other_requests() -> None:
    assert (PATCHES_IN_FLIGHT, EVICTIONS_IN_FLIGHT, CONDITIONS_IN_FLIGHT) == (32, 8, 8)
    acts = PATCHES_IN_FLIGHT + EVICTIONS_IN_FLIGHT + CONDITIONS_IN_FLIGHT
    assert acts + LISTS_IN_FLIGHT + LONG_LIVED < MAX_CONNECTIONS


@in_virtual_time
async def test_workers_that_hang_hold_up_no_others() -> None:
    writer, loop = HangingWriter(), asyncio.get_running_loop()
    nodes = [a_node(f"w{each}") for each in range(2 * PATCHES_IN_FLIGHT)]
    evictions = [
        Eviction(namespace="shop", name=node.name, uid=node.uid, node=node.name, why="a drain")
        for node in nodes
    ]
    clock = Clock(now=lambda: NOON, monotonic=loop.time)
    applier = ConditionApplier(
        writer=writer,
        known={},
        accept_written=lambda _: None,
        clock=clock,
    )
    answers = eviction_answers(None, clock=clock)
    tasks = [
        asyncio.create_task(Evictor(writer=writer, monotonic=loop.time, answers=answers).run(evictions)),
        asyncio.create_task(applier.run([ConditionsPatch(node, ()) for node in nodes])),
    ]
    await asyncio.sleep(1)
    assert writer.hanging == EVICTIONS_IN_FLIGHT + CONDITIONS_IN_FLIGHT
    patcher = NodePatcher(writer, {}, lambda _: None, Clock(monotonic=loop.time))
    began = loop.time()
    outcome = await patcher.run([NodePatch(node, {"a": "b"}, {}, taints=None) for node in nodes])
    assert (len(outcome.done), round(loop.time() - began, 1)) == (len(nodes), 0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
