"""The Kopf feed: every event of every WindowsNodePool goes to the pool store, and nothing else.

The operator uses Kopf to watch one kind of object, and for nothing that writes. With a handler that
returns a value, a change handler or a daemon, Kopf would write to the objects, and its deletion
handlers run beside a pass that still labels nodes (``docs/adr/0002-kopf-is-the-feed.md``).

Kopf ends completely on many answers of an API server that is out of order, and on a signal it ends
normally. So it runs as one task beside ours, and the supervisor starts a new one whenever it ends
before the operator is to stop.

It does the same where Kopf runs and watches no pools. Kopf asks which kinds there are when it starts, and
again when its watch of the CRD reports a change. It misses for good a CRD that is created between the two,
one whose change is reported before the API server has the kind in its list, and any that it may not watch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, cast

import kopf
from kopf._cogs.structs.references import Insights

from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import without_passwords
from winpool.cluster.outage import Outage
from winpool.feed.registry import make_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.feed.own_tasks import OwnTasks

log = logging.getLogger(__name__)

HEALTHY_SECONDS: Final = 60.0
"""After a feed ran this long without an error, the next pause is the shortest again."""

LOOK_SECONDS: Final = 5.0
"""Between two looks at whether Kopf watches pools, which cost no request. After a change of the CRD, Kopf
takes less than a second to ask which kinds there are. On a busy machine it has until the second look."""

STOP_SECONDS: Final = 1.0
"""How long a cancelled feed may take to end, of the 2 s that a stop may take. It takes 0.1 to 0.4 s."""


class FeedEndedError(Exception):
    """Kopf ended, with or without a ``cause``. ``reason`` distinguishes the kinds of end."""

    def __init__(self, cause: BaseException | None) -> None:
        # Kopf's API errors have the server's message in ``message``; their text is a whole Status object.
        said = getattr(cause, "message", None) or str(cause or "")
        super().__init__(f"the watch ended: {without_passwords(said) or 'Kopf gave no reason'}")
        self.reason = type(cause).__name__


class PoolsUnwatchedError(Exception):
    """Kopf runs and watches no pools, which the API server has."""

    def __init__(self) -> None:
        super().__init__("pools are not watched, since the start of the watch has missed their CRD")


class Feed:
    """Runs Kopf with a registry made by ``make_registry``, again and again."""

    def __init__(
        self,
        *,
        make_registry: Callable[[], kopf.OperatorRegistry],
        own_tasks: OwnTasks,
        after_spawn: Callable[[], None],
        are_listed: Callable[[], bool],
        list_again: Callable[[], None],
    ) -> None:
        """Make a feed.

        ``are_listed`` says whether the API server has answered the last list of pools, and ``list_again``
        asks for another one. ``own_tasks`` are the tasks that Kopf must not cancel. ``after_spawn`` replaces
        the signal handlers that Kopf installs.
        """
        self._make_registry = make_registry
        self._own_tasks = own_tasks
        self._after_spawn = after_spawn
        self._are_listed = are_listed
        self._list_again = list_again
        self.restarts = 0
        self._outage = Outage(
            "feed of pools", logger=log, monotonic=time.monotonic, meanwhile="the operator starts it again"
        )

    async def run(self) -> None:
        """Feed until cancelled."""
        backoff = Backoff()
        while True:
            await self._run_once(backoff)
            self.restarts += 1
            await asyncio.sleep(backoff.next())

    async def _run_once(self, backoff: Backoff) -> None:
        insights = Insights()
        context = self._own_tasks.feed_context()
        runner = asyncio.get_running_loop().create_task(self._kopf(insights), name="kopf", context=context)
        try:
            error = await self._observe(runner, insights, backoff)
            self._outage.failed(error)
            runner.cancel()
            await asyncio.wait({runner})
        except asyncio.CancelledError:
            runner.cancel()
            await asyncio.wait({runner}, timeout=STOP_SECONDS)
            raise

    async def _observe(self, runner: asyncio.Task[None], insights: Insights, backoff: Backoff) -> Exception:
        """Return why Kopf has ended, or why it is to be ended."""
        healthy_at, is_doubted = time.monotonic() + HEALTHY_SECONDS, False
        while True:
            await asyncio.wait({runner}, timeout=LOOK_SECONDS)
            if runner.done():
                return FeedEndedError(None if runner.cancelled() else runner.exception())
            is_unwatched = self._are_listed() and misses_pools(insights)
            if is_unwatched and is_doubted:
                return PoolsUnwatchedError()
            if is_unwatched:
                self._list_again()  # the last list may be minutes old, and the CRD gone since
            is_doubted = is_unwatched
            if time.monotonic() >= healthy_at:
                backoff.reset()
                self._outage.ended()

    async def _kopf(self, insights: Insights) -> None:
        tasks = await kopf.spawn_tasks(
            registry=self._make_registry(),
            settings=make_settings(),
            clusterwide=True,
            insights=insights,
            # Otherwise Kopf asks for the name of the user, and 65532 in the image has none.
            identity=cast("Any", "winpool"),
        )
        self._after_spawn()
        await kopf.run_tasks(tasks, ignored=self._own_tasks)


def misses_pools(insights: Insights) -> bool:
    """Return whether Kopf has asked what kinds there are, and has not found that of pools, its only one."""
    return insights.ready_resources.is_set() and not insights.watched_resources
