"""Runs Kopf, which brings every event of every WindowsNodePool to the pool store, again and again.

The operator uses Kopf to watch one kind of object, and for nothing that writes. With a handler that returns
a value, a change handler or a daemon, Kopf would write to the objects, and its deletion handlers run beside
a pass that still labels nodes (``docs/adr/0002-kopf-is-the-feed.md``). Kopf ends completely on many answers
of an API server that is out of order, and on a signal it ends normally. So it runs as one task beside ours,
and the supervisor starts a new one whenever it ends before the operator is to stop.

It does the same where Kopf runs and watches no pools. Kopf asks which kinds there are when it starts, and
again when its watch of the CRD reports a change. It misses for good a CRD that is created between the two,
one whose change is reported before the API server has the kind in its list, and any that it may not watch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Final, cast

import aiohttp
import kopf
from kopf._cogs.structs.references import Insights

from winpool.api.keys import CRD_NAME, GROUP, KOPF_FINALIZER, PLURAL, VERSION
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.errors import without_passwords
from winpool.kube.pools import PAGE_LIMIT

log = logging.getLogger(__name__)

_KOPF: Final = Path(kopf.__file__).parent


def note_lost_exception(loop: asyncio.AbstractEventLoop, lost: dict[str, Any]) -> None:
    """Report an exception that no task awaits; one of Kopf is only logged for debugging.

    Kopf's are those of its tasks, and of its streams: a loop that ends closes each that is still open, and
    one that a cancelled task has not left yet cannot be closed. A connection whose request was cancelled
    before its answer is closed by aiohttp's finalizer, and there is nothing to do about it.
    """
    task = lost.get("future") or lost.get("task")
    if (isinstance(task, asyncio.Task) and _is_of_kopf(task.get_coro())) or _is_of_kopf(lost.get("asyncgen")):
        log.debug("Kopf abandoned what had failed: %s", lost.get("exception"))
    elif "client_connection" in lost:
        log.debug("aiohttp closed the connection of a cancelled request")
    else:
        loop.default_exception_handler(lost)


def _is_of_kopf(work: object) -> bool:
    """Return whether a coroutine or an asynchronous generator is one of Kopf's, by the file of its code."""
    code = getattr(work, "cr_code", None) or getattr(work, "ag_code", None)
    return isinstance(code, CodeType) and Path(code.co_filename).is_relative_to(_KOPF)


LOGIN_PAUSE_SECONDS: Final = 5.0
"""Least time between two logins. Kopf logs in again after every 401 and does not wait by itself: with
credentials that stay invalid it would send hundreds of requests a second."""


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
        # What Kopf makes of an event refers to itself, so it stays until garbage is collected, which counts
        # objects and not bytes. Kopf needs no more of it than the metadata now.
        event["object"].pop("spec", None)

    return registry


def make_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings, each with its reason."""
    settings = kopf.OperatorSettings()
    # By default, Kopf ends the whole process 600 s after the feed first failed, even if it has recovered.
    settings.process.ultimate_exiting_timeout = None
    # Without scanning, Kopf never watches a CRD that is missing at the start. Scanning is restricted to ours.
    settings.scanning.disabled = False
    settings.watching.field_selectors["apiextensions.k8s.io/v1", "customresourcedefinitions"] = (
        f"metadata.name={CRD_NAME}"
    )
    # A few quick tries; after them the supervisor starts the feed again, with its own pauses.
    settings.networking.error_backoffs = (0.5, 1, 2)
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    # Less than the 5 minutes after which some load balancers cut a connection without a notice.
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    # Bookmarks come every minute, so 70 s of silence is a dead connection.
    settings.watching.inactivity_timeout = 70
    settings.watching.chunk_size = PAGE_LIMIT
    # kubectl describe does not show Kopf's events of cluster-scoped objects; we write our own.
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Kopf removes this finalizer from every object that has it, so it must never be ours.
    settings.persistence.finalizer = KOPF_FINALIZER
    return settings


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


@dataclass(kw_only=True, eq=False)
class Feed:
    """Runs Kopf with a registry made by ``make_registry``, again and again.

    ``are_listed`` says whether the API server has answered the last list of pools, and ``list_again`` asks
    for another one. ``after_spawn`` replaces the signal handlers that Kopf installs.
    """

    make_registry: Callable[[], kopf.OperatorRegistry]
    after_spawn: Callable[[], None]
    are_listed: Callable[[], bool]
    list_again: Callable[[], None]
    restarts: int = field(default=0, init=False)
    _outage: Outage = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a feed that works."""
        self._outage = Outage("feed of pools", log, time.monotonic, "the operator starts it again")

    async def run(self) -> None:
        """Feed until cancelled."""
        backoff = Backoff()
        while True:
            await self._run_once(backoff)
            self.restarts += 1
            await asyncio.sleep(backoff.next())

    async def _run_once(self, backoff: Backoff) -> None:
        insights = Insights()
        runner = asyncio.create_task(self._kopf(insights), name="kopf")
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
            is_unwatched = self.are_listed() and misses_pools(insights)
            if is_unwatched and is_doubted:
                return PoolsUnwatchedError()
            if is_unwatched:
                self.list_again()  # the last list may be minutes old, and the CRD gone since
            is_doubted = is_unwatched
            if time.monotonic() >= healthy_at:
                backoff.reset()
                self._outage.ended()

    async def _kopf(self, insights: Insights) -> None:
        """Run Kopf until it ends, and end what is left of it.

        ``kopf.run_tasks`` would also cancel each task of ours that is younger than it.
        """
        tasks = await kopf.spawn_tasks(
            registry=self.make_registry(),
            settings=make_settings(),
            clusterwide=True,
            insights=insights,
            # Otherwise Kopf asks for the name of the user, and 65532 in the image has none.
            identity=cast("Any", "winpool"),
        )
        self.after_spawn()
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(tasks)
            await _cancel([each for each in asyncio.all_tasks() if _is_of_kopf(each.get_coro())])
        for each in ended:
            each.result()


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def misses_pools(insights: Insights) -> bool:
    """Return whether Kopf has asked what kinds there are, and has not found that of pools, its only one."""
    return insights.ready_resources.is_set() and not insights.watched_resources
