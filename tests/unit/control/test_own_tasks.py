"""Which tasks are ours: Kopf cancels, when it ends, all that it does not know to be others'."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import kopf
import pytest
from kopf._cogs.clients.watching import infinite_watch
from kopf._cogs.structs.references import Resource

from winpool.kube.feed import OwnTasks

POOLS = Resource("winpool.dev", "v1alpha1", "windowsnodepools")


@pytest.fixture
async def own() -> AsyncIterator[OwnTasks]:
    loop = asyncio.get_running_loop()
    factory, handler = loop.get_task_factory(), loop.get_exception_handler()
    own = OwnTasks()
    own.watch(loop)
    yield own
    loop.set_task_factory(factory)
    loop.set_exception_handler(handler)


class Sleeper:
    """Starts tasks that wait until told, so that none is left."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.tasks: list[asyncio.Task[bool]] = []

    def start(self) -> asyncio.Task[bool]:
        task = asyncio.create_task(self.end.wait())
        self.tasks.append(task)
        return task

    async def start_inside(self) -> asyncio.Task[bool]:
        """Start a task from within another."""
        return self.start()


@pytest.fixture
async def sleeper() -> AsyncIterator[Sleeper]:
    sleeper = Sleeper()
    yield sleeper
    sleeper.end.set()
    await asyncio.gather(*sleeper.tasks)


def in_feed(own: OwnTasks, sleeper: Sleeper) -> asyncio.Task[bool]:
    return own.feed_context().run(sleeper.start)


async def test_a_task_made_anywhere_else_is_ours(own: OwnTasks, sleeper: Sleeper) -> None:
    before = set(own)
    task = sleeper.start()
    assert task in own
    assert set(own) - before == {task}
    assert len(own) == len(before) + 1


async def test_a_task_of_the_feed_is_not(own: OwnTasks, sleeper: Sleeper) -> None:
    before = set(own)
    assert in_feed(own, sleeper) not in own
    assert set(own) == before
    assert len(own) == len(before)


async def test_what_a_task_of_the_feed_starts_is_of_the_feed(own: OwnTasks, sleeper: Sleeper) -> None:
    starter = own.feed_context().run(asyncio.create_task, sleeper.start_inside())
    assert await starter not in own


async def test_what_a_task_of_ours_starts_is_ours(own: OwnTasks, sleeper: Sleeper) -> None:
    assert await asyncio.create_task(sleeper.start_inside()) in own


async def test_a_handler_of_the_feed_can_start_a_task_of_ours(own: OwnTasks, sleeper: Sleeper) -> None:
    task = own.feed_context().run(own.outside, sleeper.start)
    assert task in own


async def test_what_such_a_task_starts_is_ours_too(own: OwnTasks, sleeper: Sleeper) -> None:
    def start() -> asyncio.Task[asyncio.Task[bool]]:
        return asyncio.create_task(sleeper.start_inside())

    assert await own.feed_context().run(own.outside, start) in own


async def test_leaving_the_feed_for_a_moment_does_not_leave_it_for_good(
    own: OwnTasks, sleeper: Sleeper
) -> None:
    context = own.feed_context()
    context.run(own.outside, sleeper.start)
    assert context.run(sleeper.start) not in own


async def test_what_outside_returns_and_raises_is_handed_on(own: OwnTasks) -> None:
    def fail() -> None:
        raise LookupError

    assert own.outside(lambda: 7) == 7
    with pytest.raises(LookupError):
        own.outside(fail)


async def test_a_task_that_was_there_before_is_ours_too(sleeper: Sleeper) -> None:
    loop = asyncio.get_running_loop()
    factory, handler = loop.get_task_factory(), loop.get_exception_handler()
    before = sleeper.start()
    own = OwnTasks()
    own.watch(loop)
    assert before in own
    loop.set_task_factory(factory)
    loop.set_exception_handler(handler)


async def test_tasks_that_have_ended_are_not_kept(own: OwnTasks) -> None:
    """Or the collection would grow with every patch and every scrape (P7)."""
    before = len(own)
    for _ in range(100):
        await asyncio.create_task(asyncio.sleep(0))
    await asyncio.sleep(0)  # the callback that woke us still holds the last one
    gc.collect()
    assert len(own) <= before


def lost(task: asyncio.Task[bool] | None) -> dict[str, object]:
    """Return what asyncio tells of an exception that nobody asked for."""
    context: dict[str, object] = {"message": "never retrieved", "exception": LookupError("the cause")}
    return context if task is None else {**context, "future": task}


async def test_an_exception_that_kopf_leaves_behind_is_not_reported(
    own: OwnTasks, sleeper: Sleeper, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.get_running_loop().call_exception_handler(lost(in_feed(own, sleeper)))
    assert caplog.records == []


async def test_an_exception_that_we_lost_is_reported(
    own: OwnTasks, sleeper: Sleeper, caplog: pytest.LogCaptureFixture
) -> None:
    for task in (sleeper.start(), None):
        caplog.clear()
        asyncio.get_running_loop().call_exception_handler(lost(task))
        assert "the cause" in caplog.text


async def ours() -> AsyncIterator[int]:
    yield 1


def lost_stream(stream: object) -> dict[str, object]:
    """Return what asyncio tells of a stream that it cannot close as it ends."""
    running = RuntimeError("aclose(): asynchronous generator is already running")
    return {"message": "an error occurred during closing", "exception": running, "asyncgen": stream}


async def test_a_stream_that_kopf_leaves_open_as_the_process_ends_is_not_reported(
    own: OwnTasks, caplog: pytest.LogCaptureFixture
) -> None:
    stream = infinite_watch(settings=kopf.OperatorSettings(), resource=POOLS, namespace=None)
    asyncio.get_running_loop().call_exception_handler(lost_stream(stream))
    assert caplog.records == []


async def test_a_stream_that_we_leave_open_is_reported(
    own: OwnTasks, caplog: pytest.LogCaptureFixture
) -> None:
    for stream in (ours(), None):
        caplog.clear()
        asyncio.get_running_loop().call_exception_handler(lost_stream(stream))
        assert "asynchronous generator is already running" in caplog.text


async def test_a_connection_that_a_finalizer_closes_is_not_reported(
    own: OwnTasks, caplog: pytest.LogCaptureFixture
) -> None:
    context = {"client_connection": object(), "message": "Unclosed connection"}
    asyncio.get_running_loop().call_exception_handler(context)
    assert caplog.records == []


async def test_anything_can_be_asked_about(own: OwnTasks) -> None:
    for other in (None, "task", object()):
        assert not own.__contains__(other)
