"""Which tasks of the event loop are ours, so that Kopf leaves them alone.

When Kopf ends it cancels every task that is younger than itself, except those in a collection that it
reads at that moment. Our tasks must be in it: loops, patches in flight, answers to scrapes. They are
recognized by where they were created: Kopf and all that it starts run in a context that is marked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar
from weakref import WeakSet

log = logging.getLogger(__name__)

T = TypeVar("T")

_IN_FEED: ContextVar[bool] = ContextVar("in_feed", default=False)


class OwnTasks(Collection["asyncio.Task[Any]"]):
    """All tasks that were made outside the feed: those that exist at ``watch``, and all later ones."""

    def __init__(self) -> None:
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._outside = copy_context()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note each task that ``loop`` has, and of each that it makes from now on."""
        self._tasks.update(asyncio.all_tasks(loop))

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
            task = asyncio.Task(coro, loop=loop, **options)
            context = options.get("context")
            if not (copy_context() if context is None else context).get(_IN_FEED, False):
                self._tasks.add(task)
            return task

        loop.set_task_factory(factory)
        loop.set_exception_handler(self._on_lost_exception)

    def feed_context(self) -> Context:
        """Return the context to run the feed in."""
        context = self._outside.copy()
        context.run(_IN_FEED.set, True)
        return context

    def outside(self, function: Callable[[], T]) -> T:
        """Call ``function`` as if from outside the feed: the tasks that it makes are ours."""
        return self._outside.copy().run(function)

    def _on_lost_exception(self, loop: asyncio.AbstractEventLoop, lost: dict[str, Any]) -> None:
        """Report an exception that no task awaits; one of a task of Kopf is only logged for debugging."""
        task = lost.get("future") or lost.get("task")
        if isinstance(task, asyncio.Task) and task not in self:
            log.debug("Kopf abandoned a task that had failed: %s", lost.get("exception"))
        else:
            loop.default_exception_handler(lost)

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)
