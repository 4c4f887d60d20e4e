"""An event loop whose time passes only while all wait: an hour of pauses is over at once, to the second."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Never waits: what it is asked to wait is added to the time instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "all wait, and nothing is going to come"
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its ``time`` is what was waited for."""

    def __init__(self) -> None:
        self._moving = _Selector()
        super().__init__(self._moving)

    def time(self) -> float:
        """Return the seconds of the loop's own time."""
        return self._moving.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a loop of virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make an async test one that runs on a loop of virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(test(*args, **kwargs))

    return run


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop that never ends by itself, from the test's first pause on, as long as the context lasts."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            task.result()
        assert not task.done(), "it has ended by itself"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
