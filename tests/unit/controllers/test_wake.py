"""The dirty flag of a pool: no change is lost, and many are one."""

from __future__ import annotations

import asyncio

import pytest

from winpool.loops import Wake


@pytest.fixture
async def wake() -> Wake:
    return Wake()


async def waits(wake: Wake) -> asyncio.Task[bool]:
    """Return a task that waits without a limit and has begun to."""
    task = asyncio.create_task(wake.wait(seconds=None))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def is_waiting(wake: Wake) -> bool:
    """Whether a wait would not return at once."""
    task = await waits(wake)
    waiting = not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return waiting


async def test_nothing_is_asked_for_at_first(wake: Wake) -> None:
    assert await is_waiting(wake)


async def test_what_was_asked_before_the_wait_ends_it_at_once(wake: Wake) -> None:
    wake.set()
    await wake.wait(seconds=None)


async def test_what_is_asked_during_the_wait_ends_it(wake: Wake) -> None:
    task = await waits(wake)
    assert not task.done()
    wake.set()
    await asyncio.wait_for(task, 30)


async def test_many_requests_are_one_pass(wake: Wake) -> None:
    for _ in range(5):
        wake.set()
    await wake.wait(seconds=None)
    assert await is_waiting(wake)


async def test_what_is_asked_during_a_pass_is_not_lost(wake: Wake) -> None:
    wake.set()
    await wake.wait(seconds=None)
    wake.set()
    assert not await is_waiting(wake)


@pytest.mark.parametrize("seconds", [0.0, 0.001])
async def test_a_wait_ends_by_itself_after_its_time(wake: Wake, seconds: float) -> None:
    await asyncio.wait_for(wake.wait(seconds=seconds), 30)
    assert await is_waiting(wake)


async def test_a_wait_with_a_limit_ends_when_asked(wake: Wake) -> None:
    wake.set()
    await asyncio.wait_for(wake.wait(seconds=3600), 30)
    assert await is_waiting(wake)


async def test_a_wait_that_is_cancelled_keeps_the_request(wake: Wake) -> None:
    task = await waits(wake)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wake.set()
    assert not await is_waiting(wake)
