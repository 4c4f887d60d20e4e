"""The Kopf feed: every event of every WindowsNodePool goes to the pool store, and nothing else.

Kopf is used for what it is best at, a tireless watch of one kind of object, and for nothing that
writes. A handler that returns a value, a change handler or a daemon would have Kopf write to
the objects, and its deletion handlers run beside a pass that still labels nodes
(``docs/adr/0002-kopf-is-the-feed.md``).

Kopf ends as a whole on a good many answers of an API server that is not well, and on a signal it
ends normally. So it runs as one task beside ours, and is started anew, fresh from the ground up,
whenever it ends in any way before we want to stop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import kopf

from winpool.api.keys import CRD_NAME, GROUP, KOPF_FINALIZER, PLURAL, VERSION
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import without_passwords
from winpool.cluster.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import aiohttp

    from winpool.control.own_tasks import OwnTasks

log = logging.getLogger(__name__)

LOGIN_PAUSE_SECONDS: Final = 5.0
"""Least time between two logins. Kopf logs in again after every 401 and does not wait by itself: with
credentials that stay bad it would ask hundreds of times a second."""

HEALTHY_SECONDS: Final = 60.0
"""A feed that ran this long was well: the next pause starts small again."""

STOP_SECONDS: Final = 1.0
"""How long a cancelled feed may take to end, of the 2 s that a stop may take. It takes 0.1 to 0.4 s."""


class FeedEndedError(Exception):
    """Kopf ended, with ``cause`` or without any. ``reason`` tells one kind of end from another."""

    def __init__(self, cause: BaseException | None) -> None:
        # Kopf's API errors hold the server's words in ``message``; as a text they are a whole Status object.
        said = getattr(cause, "message", None) or str(cause or "")
        super().__init__(f"the watch ended: {without_passwords(said) or 'Kopf gave no reason'}")
        self.reason = type(cause).__name__


def make_registry(
    *,
    accept: Callable[[Mapping[str, Any]], None],
    forget: Callable[[Mapping[str, Any]], None],
    server: str,
    make_session: Callable[[], aiohttp.ClientSession],
) -> kopf.OperatorRegistry:
    """Return a fresh registry with the two handlers: login, and the feed.

    ``accept`` gets each object that exists, ``forget`` each that was deleted.
    """
    registry = kopf.OperatorRegistry()
    last_login = float("-inf")

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal last_login
        await asyncio.sleep(max(0.0, last_login + LOGIN_PAUSE_SECONDS - time.monotonic()))
        last_login = time.monotonic()
        return kopf.AiohttpSession(server=server, aiohttp_session=make_session())

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def feed(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] == "DELETED":
            forget(event["object"])
        else:
            accept(event["object"])

    return registry


def make_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings, each with its reason."""
    settings = kopf.OperatorSettings()
    # The default ends the whole process 600 s after the feed first failed, healthy again or not.
    settings.process.ultimate_exiting_timeout = None
    # Without scanning, a CRD that is missing at a start means deaf for ever. Restricted to ours.
    settings.scanning.disabled = False
    settings.watching.field_selectors["apiextensions.k8s.io/v1", "customresourcedefinitions"] = (
        f"metadata.name={CRD_NAME}"
    )
    # A few quick tries; beyond that the supervisor starts the feed anew, with its own pauses.
    settings.networking.error_backoffs = (0.5, 1, 2)
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    # Below the 5 minutes after which some load balancers cut a connection without a word.
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    # Bookmarks come every minute, so 70 s of silence is a dead connection.
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = 500
    # Kopf's events of cluster-scoped objects are invisible to kubectl describe; we have our own.
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Kopf takes this finalizer off whatever carries it, so it must never be ours.
    settings.persistence.finalizer = KOPF_FINALIZER
    return settings


class Feed:
    """Runs Kopf with a registry made by ``make_registry``, again and again."""

    def __init__(
        self,
        *,
        make_registry: Callable[[], kopf.OperatorRegistry],
        own_tasks: OwnTasks,
        after_spawn: Callable[[], None],
    ) -> None:
        """Make a feed.

        ``own_tasks`` are those that Kopf has to leave alone. ``after_spawn`` takes back the signal
        handlers that Kopf installs for itself.
        """
        self._make_registry = make_registry
        self._own_tasks = own_tasks
        self._after_spawn = after_spawn
        self.restarts = 0
        self._outage = Outage(
            "feed of pools", logger=log, monotonic=time.monotonic, meanwhile="it is started again"
        )

    async def run(self) -> None:
        """Feed until cancelled."""
        backoff = Backoff()
        while True:
            await self._run_once(backoff)
            self.restarts += 1
            await asyncio.sleep(backoff.next())

    async def _run_once(self, backoff: Backoff) -> None:
        context = self._own_tasks.feed_context()
        runner = asyncio.get_running_loop().create_task(self._kopf(), name="kopf", context=context)
        try:
            await asyncio.wait({runner}, timeout=HEALTHY_SECONDS)
            if not runner.done():
                backoff.reset()
                self._outage.ended()
                await asyncio.wait({runner})
        except asyncio.CancelledError:
            runner.cancel()
            await asyncio.wait({runner}, timeout=STOP_SECONDS)
            raise
        self._outage.failed(FeedEndedError(None if runner.cancelled() else runner.exception()))

    async def _kopf(self) -> None:
        tasks = await kopf.spawn_tasks(
            registry=self._make_registry(), settings=make_settings(), clusterwide=True
        )
        self._after_spawn()
        await kopf.run_tasks(tasks, ignored=self._own_tasks)
