"""The answer of /metrics: a snapshot of all metrics, rendered on request and shared by all requests.

Rendering takes some 10 µs for each series, so seconds with thousands of pools. In the event loop it would
stop the watches and the renewal of the Lease for that time. So the event loop only takes the snapshot, and a
thread renders it. The number of scrapers, and how often they ask, must not change the load.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector

FRESH_SECONDS: Final = 1.0
"""How long a page is served at least: much less than any reasonable scrape interval."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The only format, which every Prometheus reads. Each further format would need a rendering of its own."""

_GZIP_LEVEL: Final = 1
"""The fastest: these texts repeat so much that a higher level gains little."""


class Source(Protocol):
    """Has the metrics."""

    def snapshot(self) -> Collector:
        """Return a collector of the metrics as they are now.

        It is called in the event loop and must return at once. The collector is used in another thread, so it
        may read nothing that the event loop changes.
        """


@dataclass(frozen=True, slots=True)
class Page:
    """The text of all metrics, and the same compressed."""

    plain: bytes
    gzipped: bytes


class Exposition:
    """The metrics of ``source`` as a page. ``monotonic`` returns seconds.

    One page is rendered at a time. It is served for FRESH_SECONDS from then on, or for as long as it took to
    render if that is longer: scrapers without a pause keep a thread busy for half of the time at most.
    """

    def __init__(self, source: Source, *, monotonic: Callable[[], float]) -> None:
        self._source = source
        self._monotonic = monotonic
        # Both read files of the kernel and constants, in any thread.
        self._of_process = (ProcessCollector(registry=None), PlatformCollector(registry=None))
        self._fresh_until = float("-inf")
        self._rendering: asyncio.Task[Page] | None = None

    async def page(self) -> Page:
        """Return the page. Requests that come while one is rendered get that one."""
        task = self._rendering
        if task is None or (task.done() and self._monotonic() >= self._fresh_until):
            task = self._rendering = asyncio.create_task(self._render(), name="metrics")
        # A client that leaves does not end the rendering for the others that wait for it.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait no longer for a page. The thread that renders it does not keep the process from its end."""
        if self._rendering is not None:
            self._rendering.cancel()
            await asyncio.gather(self._rendering, return_exceptions=True)

    async def _render(self) -> Page:
        began = self._monotonic()
        try:
            registry = CollectorRegistry()
            for collector in (self._source.snapshot(), *self._of_process):
                registry.register(collector)
            return await _in_thread(lambda: _page_of(registry))
        finally:
            ended = self._monotonic()
            self._fresh_until = ended + max(FRESH_SECONDS, ended - began)


def _page_of(registry: CollectorRegistry) -> Page:
    plain = generate_latest(registry)
    return Page(plain, gzip.compress(plain, _GZIP_LEVEL, mtime=0))


async def _in_thread(render: Callable[[], Page]) -> Page:
    """Return what ``render`` returns or raises, from a thread of its own.

    The threads of asyncio's executors would keep a process that ends until their work is done, here for
    seconds. This one is a daemon.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Page] = loop.create_future()

    def settle(page: Page | None, error: BaseException | None) -> None:
        if found.done():  # no one waits any more
            return
        if page is not None:
            found.set_result(page)
        elif error is not None:
            found.set_exception(error)

    def work() -> None:
        page, error = None, None
        try:
            page = render()
        except BaseException as raised:  # noqa: BLE001 - it is raised where the result is awaited
            error = raised
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(settle, page, error)

    threading.Thread(target=work, name="metrics", daemon=True).start()
    return await found
