"""How often ``status -w`` reads and draws."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from harness.virtual_time import in_virtual_time
from winpool.cli import live
from winpool.cli.live import Seen


@dataclass
class Feed:
    """Pools that change when the test says so."""

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 0


@dataclass
class Watch:
    """What is drawn, and when the nodes were listed."""

    pools: int
    feed: Feed = field(default_factory=Feed)
    drawn: list[int] = field(default_factory=list)
    listed: list[float] = field(default_factory=list)

    async def seen(self, feed: Feed, _: object) -> Seen:
        self.listed.append(asyncio.get_running_loop().time())
        return Seen(pools=({"version": feed.version},) * self.pools)

    async def run(self, monkeypatch: pytest.MonkeyPatch, *, changes: int, every: float) -> None:
        monkeypatch.setattr(live, "_seen", self.seen)
        unused: Any = None
        task = asyncio.create_task(
            live._draw(
                cast(Any, self.feed),
                unused,
                draw=lambda seen: self.drawn.append(seen.pools[0]["version"]),
                goes_on=lambda: True,
            )
        )
        for _ in range(changes):
            await asyncio.sleep(every)
            self.feed.version += 1
            self.feed.changed.set()
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_nodes_are_listed_at_most_once_in_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(pools=1)
    await watch.run(monkeypatch, changes=300, every=0.2)
    assert min(later - before for before, later in pairwise(watch.listed)) >= 3
    assert 15 <= len(watch.listed) <= 22
    assert watch.drawn[-1] == 300, "the last change is shown"


@in_virtual_time
async def test_a_change_after_a_rest_is_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(pools=1)
    await watch.run(monkeypatch, changes=1, every=4)
    assert watch.listed[1] - watch.listed[0] == pytest.approx(4)
    assert watch.drawn == [0, 1]


@in_virtual_time
async def test_of_several_pools_no_nodes_are_listed_and_changes_are_shown_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch(pools=2)
    await watch.run(monkeypatch, changes=10, every=1)
    assert watch.drawn == list(range(11))
