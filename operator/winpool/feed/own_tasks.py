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
from pathlib import Path
from types import AsyncGeneratorType
from typing import Any, Final, TypeVar
from weakref import WeakSet

import kopf

log = logging.getLogger(__name__)

T = TypeVar("T")

_KOPF: Final = Path(kopf.__file__).parent

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
        """Report an exception that no task awaits; one of Kopf is only logged for debugging.

        Kopf's are those of its tasks, and of its streams: a loop that ends closes each that is still open,
        and one that a cancelled task has not left yet cannot be closed. A connection whose request was
        cancelled before its answer is closed by aiohttp's finalizer, and there is nothing to do about it.
        """
        task, stream = lost.get("future") or lost.get("task"), lost.get("asyncgen")
        if (isinstance(task, asyncio.Task) and task not in self) or _is_of_kopf(stream):
            log.debug("Kopf abandoned what had failed: %s", lost.get("exception"))
        elif "client_connection" in lost:
            log.debug("aiohttp closed the connection of a cancelled request")
        else:
            loop.default_exception_handler(lost)

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)


def _is_of_kopf(stream: object) -> bool:
    """Return whether an asynchronous generator is one of Kopf's, by the file that it was written in."""
    return isinstance(stream, AsyncGeneratorType) and Path(stream.ag_code.co_filename).is_relative_to(_KOPF)
