"""Keeps pools in memory, all or one by its name: by a list and then a watch.

It goes on after trouble as the watch of nodes does (``recovery``): what was last seen stays until more is
known, and the trouble is told.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.keys import PLURAL
from winpool.cli.reasons import reason_of
from winpool.kube.backoff import Backoff
from winpool.kube.errors import ApiError, Gone, StreamCut, StreamGarbled, error_of
from winpool.kube.lists import Pager
from winpool.kube.pools import LISTING, PAGE_BYTES, POOLS_PATH, PoolObject
from winpool.kube.request import Request
from winpool.kube.watch import (
    OVERTIME_SECONDS,
    SHORT_LIFE_SECONDS,
    SILENCE_SECONDS,
    WATCH_SECONDS,
    recovery_after,
)
from winpool.kube.wire import BROKEN, is_older, raw_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.kube.client import Transport
    from winpool.kube.lists import Listing, ListPage

_uniform: Final = random.SystemRandom().uniform
_pool: Final = msgspec.json.Decoder(PoolObject)
_DEFAULT_ERROR_STATUS: Final = 500


class PoolFeed:
    """The pools, or the one called ``name``, kept up to date while ``run`` runs.

    ``trouble`` is why they may be out of date, empty where they are not. ``changed`` is set when either of
    them has changed; whoever reads them clears it before.
    """

    def __init__(self, transport: Transport, *, name: str | None) -> None:
        self.trouble = ""
        self.changed = asyncio.Event()
        self._transport = transport
        self._name = name
        self._pools: dict[str, Mapping[str, Any]] = {}
        self._pager = Pager(transport.request, _listing(name))
        self._backoff = Backoff()
        self._opens_at = float("-inf")
        # The resourceVersion to go on from; "" asks for a list.
        self._position = ""
        # Whether a watch has brought anything since the trouble before, and whether that was a 410.
        self._progressed = False
        self._expired = False

    @property
    def pools(self) -> tuple[Mapping[str, Any], ...]:
        """The pools as last seen, by name."""
        return tuple(self._pools[name] for name in sorted(self._pools))

    async def list(self) -> None:
        """Read all of them anew. Raises ApiErrors."""
        found, self._position = await self._pager.collect(lambda page: page.items)
        self._pools = {pool["metadata"]["name"]: pool for pool in found}
        self.changed.set()

    async def run(self) -> None:
        """Watch until cancelled; survives everything that the API server may answer."""
        while True:
            try:
                if not self._position:
                    await self.list()
                await self._watch()
            except ApiError as error:
                await self._recover(error)

    async def _watch(self) -> None:
        await asyncio.sleep(self._opens_at - time.monotonic())
        started = time.monotonic()
        self._opens_at = started + SHORT_LIFE_SECONDS
        seconds, lines = _uniform(*WATCH_SECONDS), 0
        request = _watch_request(self._name, position=self._position, seconds=seconds)
        async with self._transport.stream(request, silence_seconds=SILENCE_SECONDS) as stream:
            self._tell("")
            try:
                async with asyncio.timeout(seconds + OVERTIME_SECONDS):
                    async for line in stream:
                        lines += 1
                        self._take(line)
            except TimeoutError:  # of ours: those of the stream are ApiErrors
                return
        if not lines and time.monotonic() - started < SHORT_LIFE_SECONDS:
            raise StreamCut(f"{request.label}: the API server ended it at once, without anything")

    def _take(self, line: bytes) -> None:
        """Take in one line of the watch."""
        try:
            event = raw_event.decode(line)
            pool: dict[str, Any] = dict(_pool.decode(event.object))
        except BROKEN as error:
            raise StreamGarbled(f"watch {PLURAL}: unreadable line: {error}") from None
        if event.type == "ERROR":
            raise _error(bytes(event.object))
        metadata = pool.get("metadata") or {}
        name, version = metadata.get("name", ""), metadata.get("resourceVersion", "")
        self._progressed = True
        self._backoff.reset()
        if is_older(version, self._position):
            return  # a stream only goes forward: this was replayed on the way
        self._position = version or self._position
        if event.type == "DELETED":
            self._pools.pop(name, None)
        elif event.type in {"ADDED", "MODIFIED"}:
            self._pools[name] = pool
        else:  # BOOKMARK, and whatever a later Kubernetes may add
            return
        self.changed.set()

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.changed.set()

    async def _recover(self, error: ApiError) -> None:
        recovery = recovery_after(error, progressed=self._progressed, expired_before=self._expired)
        self._progressed, self._expired = False, isinstance(error, Gone)
        if recovery.relist:
            self._position = ""
        if recovery.pause:
            self._tell(reason_of(error))
            await asyncio.sleep(self._backoff.next(asked=error.retry_after))


class _Coded(msgspec.Struct):
    """The part of an ERROR's Status that is read here."""

    code: int = _DEFAULT_ERROR_STATUS


_coded: Final = msgspec.json.Decoder(_Coded)


def _error(body: bytes) -> ApiError:
    """Read the Status of an ERROR event as if it had come as an HTTP answer."""
    try:
        status = _coded.decode(body).code
    except BROKEN:
        status = _DEFAULT_ERROR_STATUS
    return error_of(status=status, body=body, request=f"watch {PLURAL}")


def _selected(name: str | None) -> Mapping[str, str]:
    return {"fieldSelector": f"metadata.name={name}"} if name is not None else {}


def _listing(name: str | None) -> Listing[ListPage[dict[str, Any]]]:
    def request(limit: int, token: str) -> Request:
        query = {**_selected(name), "limit": str(limit), **({"continue": token} if token else {})}
        path = f"{POOLS_PATH}?{urlencode(query, quote_via=quote)}"
        return Request(verb="list", resource=PLURAL, path=path, reply_limit=PAGE_BYTES)

    return replace(LISTING, request=request)


def _watch_request(name: str | None, *, position: str, seconds: float) -> Request:
    query = {
        **_selected(name),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": position,
        "timeoutSeconds": str(max(1, int(seconds))),
    }
    path = f"{POOLS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="watch", resource=PLURAL, path=path)
