"""Whether the CRD is there: as its watch tells, and nothing where it may not be watched. In virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from harness.scripted_transport import QUIET, ScriptedTransport, Watch
from harness.virtual_time import in_virtual_time, running
from winpool.api.keys import CRD_NAME
from winpool.cluster.errors import Forbidden, Unavailable
from winpool.cluster.pool_kind import PoolKind
from winpool.cluster.transport import Transport

HOUR: Final = 3600.0


def crd(version: int, uid: str = "first") -> dict[str, Any]:
    return {"metadata": {"name": CRD_NAME, "uid": uid, "resourceVersion": str(version), "generation": 1}}


def listed(*items: dict[str, Any], version: int) -> bytes:
    metadata = {"resourceVersion": str(version)}
    return json.dumps(
        {"kind": "PartialObjectMetadataList", "metadata": metadata, "items": list(items)}
    ).encode()


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


THERE: Final = listed(crd(5), version=10)
NOT_THERE: Final = listed(version=10)
GOES: Final[Watch] = [5.0, event("DELETED", crd(11))]
COMES: Final[Watch] = [5.0, event("ADDED", crd(12, "second"))]
GONE_AND_BACK: Final[Watch] = [5.0, event("DELETED", crd(11)), 5.0, event("ADDED", crd(12, "second"))]
DOWN: Final = Unavailable("list customresourcedefinitions: cannot connect", reason="NoConnection")


class Told:
    """A watch of the CRD; ``changes`` are the times at which one was told."""

    def __init__(self, server: ScriptedTransport) -> None:
        self.changes: list[float] = []
        self.kind = PoolKind(
            cast("Transport", server),
            on_change=lambda: self.changes.append(server.time),
            monotonic=asyncio.get_running_loop().time,
        )


@asynccontextmanager
async def watching(server: ScriptedTransport) -> AsyncIterator[Told]:
    told = Told(server)
    async with running(told.kind.run()):
        yield told


@in_virtual_time
async def test_a_crd_that_is_there_is_no_news_and_is_listed_once() -> None:
    server = ScriptedTransport(lists=[THERE], watches=[QUIET])
    async with watching(server) as told:
        await asyncio.sleep(2 * HOUR)
        assert (told.kind.is_missing, told.changes) == (False, [])
        assert server.listed == [0]


@in_virtual_time
async def test_it_is_missing_as_soon_as_its_watch_tells_so_and_until_it_is_back() -> None:
    server = ScriptedTransport(lists=[THERE], watches=[GONE_AND_BACK])
    async with watching(server) as told:
        await asyncio.sleep(4)
        assert not told.kind.is_missing
        await asyncio.sleep(2)
        assert (told.kind.is_missing, told.changes) == (True, [5])
        await asyncio.sleep(5)
        assert (told.kind.is_missing, told.changes) == (False, [5, 10])


@in_virtual_time
async def test_one_that_is_missing_at_the_start_is_no_change_and_its_coming_is_one() -> None:
    server = ScriptedTransport(lists=[NOT_THERE], watches=[COMES])
    async with watching(server) as told:
        await asyncio.sleep(1)
        assert (told.kind.is_missing, told.changes) == (True, [])
        await asyncio.sleep(5)
        assert (told.kind.is_missing, told.changes) == (False, [5])


@in_virtual_time
async def test_before_it_was_looked_at_it_is_not_called_missing() -> None:
    server = ScriptedTransport(lists=[DOWN])
    async with watching(server) as told:
        await asyncio.sleep(HOUR)
        assert (told.kind.is_missing, told.changes) == (False, [])


@in_virtual_time
async def test_where_it_may_not_be_watched_any_more_nothing_is_said_of_it() -> None:
    refused = Forbidden("watch customresourcedefinitions: 403", status=403)
    server = ScriptedTransport(lists=[NOT_THERE], watches=[[5.0, DOWN], refused])
    async with watching(server) as told:
        await asyncio.sleep(4)
        assert told.kind.is_missing
        await asyncio.sleep(10)
        assert not told.kind.is_missing
