"""Rendering the metrics of many pools: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from harness.builders import NOON, a_pool
from harness.clock import Seconds
from harness.served import GUARD_SECONDS, serving, until
from winpool.api.conditions import ConditionType
from winpool.api.status import Condition, WindowsNodePoolStatus
from winpool.model.pool import Pool
from winpool.serve.metrics import WinpoolCollector, exposition
from winpool.status.status import Figures

POOLS = 1000
"""Rendering them takes some hundred milliseconds of CPU."""

FEWEST_TURNS = 10
"""While the loop itself renders, it turns not once.

A thread that renders keeps the interpreter for 5 ms at a time (``sys.getswitchinterval``), so that the loop
turns about a hundred times on a machine that does nothing else, and less often on a busy one.
"""


def many_pools() -> dict[str, Pool]:
    """Return pools with a status as a pass writes it."""
    conditions = tuple(
        Condition(
            type=each.value,
            status="True",
            reason="Reason",
            message="",
            observed_generation=1,
            last_transition_time=NOON,
        )
        for each in ConditionType
    )
    one = a_pool(status=WindowsNodePoolStatus(nodes=3, conditions=conditions))
    return {f"pool-{number}": replace(one, name=f"pool-{number}") for number in range(POOLS)}


@dataclass
class Known:
    """What an operator knows, which the event loop changes at any time."""

    known: dict[str, Pool] = field(default_factory=many_pools)
    found: dict[str, Figures] = field(default_factory=dict)

    def snapshot(self) -> WinpoolCollector:
        return WinpoolCollector(self.known.values(), figures=self.found, numbers={})


@dataclass
class Loop:
    """Counts the turns of the event loop while ``turning`` is entered."""

    turns: int = 0

    @asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        async def turn() -> None:
            while True:
                self.turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(turn())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@dataclass(eq=False)
class Watched(Collector):
    """Notes at which turns of the loop a rendering began and ended."""

    inner: Known
    loop: Loop
    began: int = 0
    ended: int = 0

    def snapshot(self) -> Collector:
        self.collector = self.inner.snapshot()
        return self

    def collect(self) -> Iterator[Metric]:
        self.began = self.loop.turns
        yield from self.collector.collect()
        self.ended = self.loop.turns


@pytest.mark.slow
async def test_the_event_loop_goes_on_while_the_metrics_of_many_pools_are_rendered() -> None:
    """The watches and the renewal of the Lease are in this loop."""
    loop = Loop()
    watched = Watched(Known(), loop)
    async with serving(watched) as served, loop.turning():
        status, text, _ = await served.answer()
    assert status == 200
    assert text.count("winpool_observed_generation_lag{") == POOLS
    assert watched.ended - watched.began >= FEWEST_TURNS


@pytest.mark.slow
async def test_what_changes_while_a_page_is_rendered_is_not_in_it_and_does_not_break_it() -> None:
    known = Known(found={f"pool-{number}": Figures(overlapping=1) for number in range(POOLS)})
    families = known.snapshot().collect()
    first = next(iter(families))
    known.known.clear()
    known.found.clear()
    seen = {family.name: len(family.samples) for family in (first, *families)}
    assert seen["winpool_observed_generation_lag"] == POOLS
    assert seen["winpool_overlapping_nodes"] == POOLS


class Held(Collector):
    """Renders until it is let go."""

    def __init__(self) -> None:
        self.at_once = self.most_at_once = self.renders = 0
        self.go = threading.Event()

    def snapshot(self) -> Collector:
        return self

    def collect(self) -> Iterator[Metric]:
        self.renders += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.go.wait(GUARD_SECONDS)
        self.at_once -= 1
        yield GaugeMetricFamily("winpool_example", "An example.", value=self.renders)


async def test_requests_that_come_while_a_page_is_rendered_wait_for_that_page() -> None:
    held = Held()
    metrics_pages = exposition(held, monotonic=Seconds())
    waiting = [asyncio.create_task(metrics_pages.page()) for _ in range(32)]
    await until(lambda: held.renders)
    waiting.append(asyncio.create_task(metrics_pages.page()))
    waiting[0].cancel()  # who leaves does not end it for the others
    held.go.set()
    _, *pages = await asyncio.gather(*waiting, return_exceptions=True)
    assert held.renders == 1
    assert held.most_at_once == 1
    assert {id(page) for page in pages} == {id(await metrics_pages.page())}


@pytest.mark.parametrize(("took", "fresh"), [(0.1, 1.0), (5.0, 5.0)])
async def test_a_page_is_served_for_a_second_or_as_long_as_it_took_to_render(
    took: float, fresh: float
) -> None:
    """So scrapers without a pause cannot keep the thread busy for more than half of the time."""
    clock, held = Seconds(), Held()
    metrics_pages = exposition(held, monotonic=clock)
    first = asyncio.create_task(metrics_pages.page())
    await until(lambda: held.renders)
    clock.now += took
    held.go.set()
    await first
    clock.now += fresh - 0.01
    await metrics_pages.page()
    assert held.renders == 1
    clock.now += 0.02
    await metrics_pages.page()
    assert held.renders == 2


@pytest.mark.slow
async def test_a_rendering_does_not_keep_a_server_from_its_end() -> None:
    held = Held()
    async with serving(held) as served:
        asked = asyncio.create_task(served.status("/metrics"))
        await until(lambda: held.renders)
    # ``serving`` has closed the server, with the rendering still held.
    held_threads = [each for each in threading.enumerate() if each.name == "metrics"]
    assert [each.daemon for each in held_threads] == [True]
    held.go.set()
    held_threads[0].join(GUARD_SECONDS)
    assert not held_threads[0].is_alive()
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
