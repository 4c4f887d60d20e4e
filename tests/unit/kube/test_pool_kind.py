"""Whether the CRD is there and what it lacks: as its watch tells, and nothing where it may not be watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, Final, cast

import pytest

from harness.scripted_transport import QUIET, ScriptedTransport, Watch
from harness.virtual_time import in_virtual_time, running
from winpool.api.crd import FieldPath, definition
from winpool.api.keys import APPLY_CRD, CRD_NAME
from winpool.kube.client import Transport
from winpool.kube.errors import Forbidden, Unavailable
from winpool.kube.pools import PoolKind

HOUR: Final = 3600.0


def crd(version: int, uid: str = "first", *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the CRD of this version; ``without`` these fields of the spec."""
    spec = deepcopy(definition()["spec"])
    for name in without:
        del spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][name]
    metadata = {"name": CRD_NAME, "uid": uid, "resourceVersion": str(version), "generation": version}
    return {"metadata": metadata, "spec": spec}


def listed(*items: dict[str, Any], version: int) -> bytes:
    listed = {"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1"}
    metadata = {"resourceVersion": str(version)}
    return json.dumps({**listed, "metadata": metadata, "items": list(items)}).encode()


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


THERE: Final = listed(crd(5), version=10)
NOT_THERE: Final = listed(version=10)
GOES: Final[Watch] = [5.0, event("DELETED", crd(11))]
COMES: Final[Watch] = [5.0, event("ADDED", crd(12, "second"))]
GONE_AND_BACK: Final[Watch] = [5.0, event("DELETED", crd(11)), 5.0, event("ADDED", crd(12, "second"))]
DOWN: Final = Unavailable("list customresourcedefinitions: cannot connect", reason="NoConnection")


class Told:
    """A watch of the CRD; ``changes`` and ``fields`` are the times at which each was told."""

    def __init__(self, server: ScriptedTransport) -> None:
        self.changes: list[float] = []
        self.fields: list[float] = []
        self.kind = PoolKind(
            cast("Transport", server),
            on_change=lambda: self.changes.append(server.time),
            on_fields=lambda: self.fields.append(server.time),
            monotonic=asyncio.get_running_loop().time,
        )

    def lacking(self) -> tuple[FieldPath, ...] | None:
        return self.kind.lacking_fields


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


OLDER: Final = listed(crd(5, without=["taints", "labels"]), version=10)
REPLACED: Final[Watch] = [5.0, event("MODIFIED", crd(11))]
LABELS, TAINTS = ("spec", "labels"), ("spec", "taints")


def of_fields(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (each.levelname, each.getMessage()) for each in caplog.records if each.name == "winpool.kube.pools"
    ]


@in_virtual_time
async def test_what_an_older_crd_lacks_is_logged_once_and_until_it_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    still = event("MODIFIED", crd(11, without=["labels", "taints"]))
    watch: Watch = [1.0, still, 5.0, event("MODIFIED", crd(12))]
    server = ScriptedTransport(lists=[OLDER], watches=[watch])
    async with watching(server) as told:
        assert told.lacking() is None, "it was not read yet"
        await asyncio.sleep(4)
        assert (told.lacking(), told.fields) == ((LABELS, TAINTS), [0])
        [(level, message)] = of_fields(caplog)
        assert level == "WARNING"
        assert "it lacks spec.labels, spec.taints; " in message
        assert message.endswith(f". {APPLY_CRD}")
        await asyncio.sleep(HOUR)
        assert (told.lacking(), told.fields) == ((), [0, 6])
    assert of_fields(caplog)[1:] == [("INFO", f"the CRD {CRD_NAME} has all fields of this operator")]


@in_virtual_time
async def test_of_a_crd_that_lacks_nothing_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = ScriptedTransport(lists=[THERE], watches=[REPLACED])
    async with watching(server) as told:
        await asyncio.sleep(HOUR)
        assert (told.lacking(), told.fields) == ((), [0])
    assert of_fields(caplog) == []


@in_virtual_time
async def test_one_that_gets_older_while_it_is_watched_is_noticed() -> None:
    older: Watch = [5.0, event("MODIFIED", crd(11, without=["labels"]))]
    server = ScriptedTransport(lists=[THERE], watches=[older])
    async with watching(server) as told:
        await asyncio.sleep(6)
        assert (told.lacking(), told.fields, told.changes) == ((LABELS,), [0, 5], [5])


@in_virtual_time
@pytest.mark.parametrize("first", [NOT_THERE, DOWN, Forbidden("list: 403", status=403)], ids=str)
async def test_one_that_cannot_be_read_or_is_not_there_holds_nothing_up(first: Any) -> None:
    async with watching(ScriptedTransport(lists=[first])) as told:
        await asyncio.sleep(1)
        assert (told.lacking(), told.fields) == ((), [0])


@in_virtual_time
async def test_what_it_lacks_is_not_forgotten_while_it_cannot_be_read() -> None:
    refused = Forbidden("watch customresourcedefinitions: 403", status=403)
    async with watching(ScriptedTransport(lists=[OLDER], watches=[[5.0, DOWN], refused])) as told:
        await asyncio.sleep(HOUR)
        assert told.lacking() == (LABELS, TAINTS)


@in_virtual_time
async def test_one_that_was_deleted_lacks_nothing() -> None:
    async with watching(ScriptedTransport(lists=[OLDER], watches=[GOES])) as told:
        await asyncio.sleep(6)
        assert (told.lacking(), told.fields) == ((), [0, 5])
