"""Exceptions that no task awaits: ours are reported, those that Kopf leaves behind are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import kopf
import pytest
from kopf._cogs.aiokits.aiotasks import create_guarded_task
from kopf._cogs.clients.watching import infinite_watch
from kopf._cogs.structs.references import Resource

from winpool.kube.feed import note_lost_exception

POOLS = Resource("winpool.dev", "v1alpha1", "windowsnodepools")


@pytest.fixture(autouse=True)
async def handler() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(note_lost_exception)
    yield
    loop.set_exception_handler(before)


def lost(task: asyncio.Task[Any] | None) -> dict[str, object]:
    """Return what asyncio tells of an exception that nobody asked for."""
    context: dict[str, object] = {"message": "never retrieved", "exception": LookupError("the cause")}
    return context if task is None else {**context, "future": task}


async def test_an_exception_that_kopf_leaves_behind_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = create_guarded_task(coro=asyncio.sleep(0), name="of Kopf", finishable=True)
    asyncio.get_running_loop().call_exception_handler(lost(task))
    assert caplog.records == []
    await task


async def test_an_exception_that_we_lost_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for task in (asyncio.create_task(asyncio.Event().wait()), None):
        caplog.clear()
        asyncio.get_running_loop().call_exception_handler(lost(task))
        assert "the cause" in caplog.text
        if task is not None:
            task.cancel()


async def ours() -> AsyncIterator[int]:
    yield 1


def lost_stream(stream: object) -> dict[str, object]:
    """Return what asyncio tells of a stream that it cannot close as it ends."""
    running = RuntimeError("aclose(): asynchronous generator is already running")
    return {"message": "an error occurred during closing", "exception": running, "asyncgen": stream}


async def test_a_stream_that_kopf_leaves_open_as_the_process_ends_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = infinite_watch(settings=kopf.OperatorSettings(), resource=POOLS, namespace=None)
    asyncio.get_running_loop().call_exception_handler(lost_stream(stream))
    assert caplog.records == []


async def test_a_stream_that_we_leave_open_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for stream in (ours(), None):
        caplog.clear()
        asyncio.get_running_loop().call_exception_handler(lost_stream(stream))
        assert "asynchronous generator is already running" in caplog.text


async def test_a_connection_that_a_finalizer_closes_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = {"client_connection": object(), "message": "Unclosed connection"}
    asyncio.get_running_loop().call_exception_handler(context)
    assert caplog.records == []
