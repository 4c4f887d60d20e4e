"""What the detectors of watched nodes know of evictions."""

from __future__ import annotations

import asyncio

from harness.memory import GIB
from harness.memory_fleet import Stage, a_watching_pool
from harness.virtual_time import in_virtual_time
from winpool.model.pressure import Axis, Hold

EVICTING = a_watching_pool(mode="Evict")


class Node:
    """A node above its line that is polled until the test ends."""

    def __init__(self) -> None:
        self.stage = Stage([1])
        self.stage.machine(0).committed = lambda _: 23.4
        self.stage.collector.want(EVICTING, self.stage.nodes)
        self.uid = self.stage.nodes[0].uid
        self.evicted = self.stage.collector

    @property
    def hold(self) -> Hold | None:
        return self.stage.known(EVICTING).views[self.uid].axes[Axis.COMMIT].hold

    async def until(self, hold: Hold | None) -> float:
        """Return how long it takes until that holds evictions; None: until one is right."""
        began = self.stage.time
        while self.hold is not hold:
            await asyncio.sleep(1)
            assert self.stage.time < began + 900
        return self.stage.time - began


@in_virtual_time
async def test_until_a_pod_is_gone_and_its_memory_is_back_no_other_eviction_is_right() -> None:
    node = Node()
    task = asyncio.create_task(node.stage.collector.run())
    await node.until(None)
    node.evicted.eviction_begun(node.uid, "hog", GIB / 2)
    assert node.hold is Hold.SETTLING
    await asyncio.sleep(300)
    assert node.hold is Hold.SETTLING
    node.evicted.eviction_gone(node.uid, "hog")
    await asyncio.sleep(30)
    assert node.hold is Hold.SETTLING
    node.stage.machine(0).committed = lambda _: 23.1
    assert await node.until(None) <= 20
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_a_minute_after_a_pod_is_gone_whose_memory_is_not_back_it_has_shown_whose_it_is() -> None:
    node = Node()
    task = asyncio.create_task(node.stage.collector.run())
    await node.until(None)
    node.evicted.eviction_begun(node.uid, "hog", GIB / 2)
    node.evicted.eviction_gone(node.uid, "hog")
    assert 60 <= await node.until(Hold.UNATTRIBUTED) <= 80
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_a_refused_eviction_holds_nothing() -> None:
    node = Node()
    task = asyncio.create_task(node.stage.collector.run())
    await node.until(None)
    node.evicted.eviction_begun(node.uid, "hog", None)
    node.evicted.eviction_refused(node.uid, "hog")
    assert node.hold is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_a_node_that_is_not_watched_is_no_error() -> None:
    node = Node()
    node.evicted.eviction_begun("another", "hog", None)
    node.evicted.eviction_gone("another", "hog")
    assert node.hold is Hold.UNKNOWN
