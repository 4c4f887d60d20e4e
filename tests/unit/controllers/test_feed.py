"""When Kopf is started again: where it has ended, and where it goes on without a watch of pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import kopf
import pytest
from kopf._cogs.structs.references import Insights, Resource

from harness.builders import a_body
from harness.virtual_time import in_virtual_time
from winpool.api.keys import GROUP, PLURAL, VERSION
from winpool.kube.feed import LOOK_SECONDS, Feed, make_registry

UNWATCHED = "pools are not watched, since the start of the watch has missed their CRD"


@dataclass
class Stage:
    """A feed whose Kopf is ``kopf``: it gets what Kopf finds out, and runs for as long as the watch does."""

    kopf: Callable[[Insights], Awaitable[None]]
    are_listed: bool = True
    lists: int = 0
    starts: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Feed]:
        feed = Feed(
            make_registry=kopf.OperatorRegistry,
            after_spawn=lambda: None,
            are_listed=lambda: self.are_listed,
            list_again=self._list,
        )

        async def run(insights: Insights) -> None:
            self.starts += 1
            await self.kopf(insights)

        either: Any = feed
        either._kopf = run
        running = asyncio.create_task(feed.run())
        try:
            yield feed
        finally:
            running.cancel()
            await asyncio.wait({running})

    def _list(self) -> None:
        self.lists += 1


async def blind(insights: Insights) -> None:
    insights.ready_resources.set()
    await asyncio.Event().wait()


async def seeing(insights: Insights) -> None:
    insights.watched_resources.add(Resource(group=GROUP, version=VERSION, plural=PLURAL))
    await blind(insights)


@in_virtual_time
async def test_a_feed_that_watches_pools_is_left_alone() -> None:
    stage = Stage(seeing)
    async with stage.running() as feed:
        await asyncio.sleep(3600)
        assert (feed.restarts, stage.lists) == (0, 0)


@in_virtual_time
async def test_a_feed_that_has_missed_the_crd_is_started_again_after_a_list_that_confirms_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(blind)
    async with stage.running() as feed:
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert (feed.restarts, stage.lists) == (0, 1)
        stage.kopf = seeing
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert (feed.restarts, stage.starts) == (1, 2)
        await asyncio.sleep(3600)
        assert (feed.restarts, stage.lists) == (1, 1)
    assert [UNWATCHED in each for each in caplog.messages].count(True) == 1


@in_virtual_time
async def test_where_pools_cannot_be_listed_there_is_nothing_to_watch() -> None:
    stage = Stage(blind, are_listed=False)
    async with stage.running() as feed:
        await asyncio.sleep(3600)
        assert (feed.restarts, stage.lists) == (0, 0)


@in_virtual_time
async def test_a_list_that_was_old_starts_nothing_again() -> None:
    stage = Stage(blind)
    async with stage.running() as feed:
        await asyncio.sleep(LOOK_SECONDS + 1)
        stage.are_listed = False
        await asyncio.sleep(3600)
        assert (feed.restarts, stage.lists) == (0, 1)


@in_virtual_time
async def test_a_feed_that_still_asks_which_kinds_there_are_has_missed_none() -> None:
    async def slow(insights: Insights) -> None:
        await asyncio.sleep(4 * LOOK_SECONDS)
        await seeing(insights)

    stage = Stage(slow)
    async with stage.running() as feed:
        await asyncio.sleep(600)
        assert (feed.restarts, stage.lists) == (0, 0)


@in_virtual_time
async def test_what_kopf_ended_with_is_reported_also_while_it_was_in_doubt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ending(insights: Insights) -> None:
        insights.ready_resources.set()
        await asyncio.sleep(1.5 * LOOK_SECONDS)
        raise ValueError("the credentials are not accepted")

    stage = Stage(ending)
    async with stage.running() as feed:
        await asyncio.sleep(1.6 * LOOK_SECONDS)
        assert stage.lists == 1
        stage.kopf = seeing
        await asyncio.sleep(60)
        assert feed.restarts == 1
    assert any("the watch ended: the credentials are not accepted" in each for each in caplog.messages)
    assert not any(UNWATCHED in each for each in caplog.messages)


@in_virtual_time
async def test_a_feed_that_is_missed_again_and_again_is_started_at_growing_intervals() -> None:
    stage = Stage(blind)
    async with stage.running() as feed:
        await asyncio.sleep(600)
        assert 10 <= feed.restarts <= 30


async def test_of_an_event_the_spec_is_let_go_once_it_was_read() -> None:
    """Kopf's objects refer to each other, so 128 kB of each large pool waited for the garbage collector."""
    read: list[dict[str, Any]] = []
    registry = make_registry(
        accept=lambda body: read.append(dict(body)),
        forget=lambda _: None,
        server="https://localhost",
        make_session=aiohttp.ClientSession,
    )
    [feed] = [cast(Any, each.fn) for each in registry._watching.get_all_handlers()]
    event = {"type": "ADDED", "object": a_body()}
    await feed(event=event)
    assert read == [a_body()]
    assert set(event["object"]) == {"apiVersion", "kind", "metadata"}
