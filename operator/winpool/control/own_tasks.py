"""Which tasks of the event loop are ours, so that Kopf leaves them alone.

When Kopf ends it cancels every task that is younger than itself, whoever made it, but those in a
collection that it asks at that moment. Ours must be in it: loops, patches in flight, answers to
scrapes. They are told apart by where they were created: Kopf and all that it starts run in a
context that is marked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_IN_FEED: ContextVar[bool] = ContextVar("in_feed", default=False)


class OwnTasks(Collection["asyncio.Task[Any]"]):
    """All tasks that were made outside the feed since ``watch``."""

    def __init__(self) -> None:
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._outside = copy_context()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take note of each task that ``loop`` makes from now on."""

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
            task = asyncio.Task(coro, loop=loop, **options)
            context = options.get("context")
            if not (copy_context() if context is None else context).get(_IN_FEED, False):
                self._tasks.add(task)
            return task

        loop.set_task_factory(factory)

    def feed_context(self) -> Context:
        """Return the context to run the feed in."""
        context = self._outside.copy()
        context.run(_IN_FEED.set, True)
        return context

    def outside(self, function: Callable[[], T]) -> T:
        """Call ``function`` as if from outside the feed: the tasks that it makes are ours."""
        return self._outside.copy().run(function)

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)
