"""How many patches are sent at once, and for how long (P7): promised, so the figures stand here."""

from __future__ import annotations

import asyncio

from harness.builders import a_node
from harness.virtual_time import run_virtually
from winpool.controllers.writes import NodePatcher
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import Node, NodePatch

IN_FLIGHT = 32
SLICE = 10.0


class SlowWriter(Writer):
    """Takes ``seconds`` for each patch, and notes when each began and how many there were at once."""

    def __init__(self, *, seconds: float) -> None:
        self.began: list[float] = []
        self.most = 0
        self._seconds = seconds
        self._now = 0

    async def patch_node(self, patch: NodePatch) -> Node:
        self.began.append(asyncio.get_running_loop().time())
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds)
        self._now -= 1
        return patch.node


def a_patcher(writer: Writer) -> NodePatcher:
    """Make one inside the running event loop, whose time it goes by."""
    return NodePatcher(
        writer=writer,
        known={},
        accept_written=lambda _: None,
        clock=Clock(monotonic=asyncio.get_running_loop().time),
    )


def patches(number: int) -> list[NodePatch]:
    return [
        NodePatch(node=a_node(f"w{each}"), labels={"team": "a"}, annotations={}, taints=None)
        for each in range(number)
    ]


def test_of_all_pools_together_32_patches_are_in_flight_and_no_more() -> None:
    async def run() -> SlowWriter:
        writer = SlowWriter(seconds=0.1)
        patcher = a_patcher(writer)
        await asyncio.gather(*(patcher.run(patches(100)) for _ in range(3)))
        return writer

    writer = run_virtually(run())
    assert (len(writer.began), writer.most) == (300, IN_FLIGHT)


def test_a_pass_starts_patches_for_ten_seconds_and_leaves_the_rest_to_the_next() -> None:
    async def run() -> tuple[SlowWriter, int]:
        writer = SlowWriter(seconds=1)
        outcome = await a_patcher(writer).run(patches(5000))
        return writer, outcome.remaining

    writer, remaining = run_virtually(run())
    assert max(writer.began) - min(writer.began) < SLICE
    assert len(writer.began) == IN_FLIGHT * SLICE
    assert remaining == 5000 - len(writer.began)
