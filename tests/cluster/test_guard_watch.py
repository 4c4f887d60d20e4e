"""The watch of one object by its name goes on after any trouble, and keeps what it has seen meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from cluster.door import a_transport, until
from harness.world import World
from testbed.faults import FaultProxy, answer, cut, cut_stream, error_line, insert, on, silence
from winpool.api.admission import API_GROUP, API_VERSION, GUARD_NAME, POLICIES, POLICY_KIND
from winpool.kube.errors import Forbidden, NotFound
from winpool.kube.watch import SILENCE_SECONDS, NamedWatch, Target

POLICY: Final = Target(
    group=API_GROUP, version=API_VERSION, resource=POLICIES, kind=POLICY_KIND, name=GUARD_NAME
)
WATCH: Final = on("watch", POLICIES)
LIST: Final = on("list", POLICIES)
ANNOTATE_SECONDS: Final = 1.0
"""The times by which a write is seen count in seconds."""


@asynccontextmanager
async def watching(
    proxy: FaultProxy, *, silence_seconds: float = SILENCE_SECONDS
) -> AsyncIterator[tuple[NamedWatch, list[int]]]:
    """Watch the guard; the list grows with each change that is told."""
    told: list[int] = []
    async with a_transport(proxy.kubeconfig("winpool")) as transport:
        watch = NamedWatch(
            transport,
            target=POLICY,
            on_change=lambda: told.append(len(told)),
            monotonic=time.monotonic,
            silence_seconds=silence_seconds,
        )
        task = asyncio.create_task(watch.run())
        try:
            await until(lambda: watch.synced and watch.found is not None, what="the guard was seen")
            yield watch, told
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def hears_of_a_change(world: World, watch: NamedWatch) -> None:
    """Annotate the guard, which changes nothing of what it does, until the watch has heard of it."""
    before = watch.found
    assert before is not None

    async def heard() -> None:
        while watch.found is None or watch.found.changed == before.changed:
            await asyncio.to_thread(annotate, world)
            await asyncio.sleep(ANNOTATE_SECONDS)

    await asyncio.wait_for(heard(), timeout=60)
    assert watch.found is not None
    assert (watch.found.uid, watch.found.generation) == (before.uid, before.generation)


def annotate(world: World) -> None:
    mark = f"example.com/seen={uuid.uuid4().hex}"
    world.kubectl("annotate", "--overwrite", POLICIES, GUARD_NAME, mark)


def cut_twice(proxy: FaultProxy) -> None:
    proxy.add(WATCH, cut(), first=2)
    proxy.add(WATCH, cut_stream(in_line=True), nth=1)


def too_old(proxy: FaultProxy) -> None:
    proxy.add(WATCH, insert(error_line(410)), nth=1)
    proxy.add(WATCH, cut_stream(clean=True), nth=1)


def garbage(proxy: FaultProxy) -> None:
    proxy.add(WATCH, insert(b"<html>"), first=2)


def errors(proxy: FaultProxy) -> None:
    proxy.add(WATCH, answer(503), first=3)
    proxy.add(WATCH, cut_stream(), nth=1)


def lists_of_nothing(proxy: FaultProxy) -> None:
    """What some proxy may answer in place of a list."""
    proxy.add(LIST, answer(200, body=b"{}"), first=2)
    too_old(proxy)


@pytest.mark.parametrize("trouble", [cut_twice, too_old, garbage, errors, lists_of_nothing])
async def test_it_goes_on_after(
    world: World, proxy: FaultProxy, trouble: Callable[[FaultProxy], Any]
) -> None:
    async with watching(proxy) as (watch, _):
        before = watch.found
        await asyncio.to_thread(trouble, proxy)
        for _ in range(20):
            assert watch.found == before, "what was seen stays"
            await asyncio.sleep(0.1)
        await hears_of_a_change(world, watch)
        await until(lambda: watch.failing is None, what="no trouble any more")
        assert watch.refusal is None


async def test_a_watch_that_is_silent_for_too_long_is_begun_anew(world: World, proxy: FaultProxy) -> None:
    proxy.add(WATCH, silence(), first=2)
    async with watching(proxy, silence_seconds=2) as (watch, _):
        await hears_of_a_change(world, watch)
    assert len([each for each in proxy.log if (each.verb, each.resource) == ("list", POLICIES)]) >= 2


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (404, NotFound)])
async def test_a_refusal_is_told_and_so_is_its_end(
    world: World, proxy: FaultProxy, status: int, kind: type[Exception]
) -> None:
    async with watching(proxy) as (watch, told):
        count = len(told)
        with proxy.add(WATCH, answer(status)):
            proxy.add(WATCH, cut_stream(), nth=1)
            await until(lambda: watch.refusal is not None, what="the refusal")
            assert isinstance(watch.refusal, kind)
            assert len(told) > count
        await until(lambda: watch.refusal is None, what="the end of the refusal")
        await hears_of_a_change(world, watch)


async def test_a_quiet_one_asks_for_nothing(world: World, proxy: FaultProxy) -> None:
    async with watching(proxy):
        await asyncio.to_thread(proxy.clear)
        await asyncio.sleep(3)
        assert [
            str(each.verb) for each in proxy.log if each.resource == POLICIES and each.verb != "watch"
        ] == []
