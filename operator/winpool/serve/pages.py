"""A page that takes long to render: one for all who request it, in a thread beside the event loop.

The event loop reads the watches and renews the Lease, and a page of thousands of lines takes a hundred
milliseconds. So the loop only copies what is known (the snapshot), and a thread renders it. The number of
clients, and how often they ask, must not change the load.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Callable

FRESH_SECONDS: Final = 1.0
"""How long a page is served at least: much less than any reasonable interval of its readers."""

_GZIP_LEVEL: Final = 1
"""The fastest: these texts repeat so much that a higher level gains little."""

_NO_GZIP: Final = re.compile(r"q=0(\.0*)?")


@dataclass(frozen=True, slots=True)
class Page:
    """A text, and the same compressed."""

    plain: bytes
    gzipped: bytes

    def answer(self, request: web.BaseRequest, *, content_type: str) -> web.Response:
        """Return the answer to ``request``, compressed where the client accepts it."""
        headers = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            headers[hdrs.CONTENT_ENCODING] = "gzip"
            return web.Response(body=self.gzipped, headers=headers)
        return web.Response(body=self.plain, headers=headers)


class Pages:
    """Pages of one kind, the next one made from what is known then. ``monotonic`` returns seconds.

    ``snapshot`` is called in the event loop and must return at once. What it returns is called in another
    thread and returns the text, so it may read nothing that the event loop changes.

    One page is rendered at a time. It is served for FRESH_SECONDS from then on, or for as long as it took to
    render if that is longer: clients without a pause keep a thread busy for half of the time at most.
    """

    def __init__(
        self, snapshot: Callable[[], Callable[[], bytes]], *, name: str, monotonic: Callable[[], float]
    ) -> None:
        self._snapshot = snapshot
        self._name = name
        self._monotonic = monotonic
        self._fresh_until = float("-inf")
        self._rendering: asyncio.Task[Page] | None = None

    async def page(self) -> Page:
        """Return the page. Requests that come while one is rendered get that one."""
        task = self._rendering
        if task is None or (task.done() and self._monotonic() >= self._fresh_until):
            task = self._rendering = asyncio.create_task(self._render(), name=self._name)
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
            render = self._snapshot()
            return await _in_thread(lambda: _page_of(render()), name=self._name)
        finally:
            ended = self._monotonic()
            self._fresh_until = ended + max(FRESH_SECONDS, ended - began)


def takes_gzip(accept_encoding: str) -> bool:
    """Whether this header accepts gzip: it names it, and not with a weight of 0 (RFC 9110, 12.5.3)."""
    for part in accept_encoding.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return _NO_GZIP.fullmatch(weight.strip()) is None
    return False


def _page_of(plain: bytes) -> Page:
    return Page(plain, gzip.compress(plain, _GZIP_LEVEL, mtime=0))


async def _in_thread(render: Callable[[], Page], *, name: str) -> Page:
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

    threading.Thread(target=work, name=name, daemon=True).start()
    return await found
