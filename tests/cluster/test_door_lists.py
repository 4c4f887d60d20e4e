"""Lists through the door: made when asked for, and complete or not used at all (P4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from cluster.door import a_reflector, a_transport, until
from harness.world import World
from testbed.faults import FaultProxy, answer, cut_stream, on, stall
from winpool.api.keys import API_VERSION, KIND, PLURAL
from winpool.cluster.errors import StreamGarbled
from winpool.cluster.transport import Transport
from winpool.cluster.writer import Writer

NODES_WATCH = on("watch", "nodes")


@pytest.fixture
async def transport(proxy: FaultProxy) -> AsyncIterator[Transport]:
    async with a_transport(proxy.kubeconfig("winpool")) as opened:
        yield opened


@pytest.mark.parametrize("nth", [1, 2], ids=["the first watch", "one after it"])
async def test_a_list_asked_for_while_a_watch_is_being_opened_is_made(
    proxy: FaultProxy, transport: Transport, nth: int
) -> None:
    """There is no watch then that could be ended, and the one that comes would last for minutes."""
    opening = proxy.add(NODES_WATCH, stall(), nth=nth)
    async with a_reflector(transport, sync=False) as reflected:
        reflector = reflected.reflector
        if nth > 1:
            await until(lambda: reflector.stats.watches, what="the first watch")
            proxy.add(NODES_WATCH, cut_stream(), nth=1)
        await until(lambda: opening.hits, what="a watch that is being opened")
        before = replace(reflector.stats)
        assert (before.lists, before.watches) == (1, nth - 1)
        reflector.ask_for_list()
        opening.remove()
        await until(lambda: reflector.stats.lists == 2, what="the list that was asked for")
        assert reflector.stats.watches >= nth, "the watch was opened, and ended for the list"
        assert reflector.stats.restarts == before.restarts, "it was no trouble that brought it about"


METADATA = {
    "name": "broken",
    "uid": "6f2ab70c-5b0e-4f43-9d5e-0a4f3a3a3c11",
    "resourceVersion": "1",
    "creationTimestamp": "2026-11-01T12:00:00Z",
}


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None},
        {"metadata": "broken"},
        *({"metadata": {key: value for key, value in METADATA.items() if key != left}} for left in METADATA),
        {"metadata": {**METADATA, "uid": 7}},
        {"metadata": {**METADATA, "creationTimestamp": "yesterday"}},
    ],
    ids=["none", "null", "a text", *(f"no {key}" for key in METADATA), "another type", "no time"],
)
async def test_a_list_of_pools_with_an_item_that_cannot_be_read_is_not_used_at_all(
    world: World, proxy: FaultProxy, transport: Transport, item: dict[str, Any]
) -> None:
    """Without that item it would be a list that says of a pool that it is gone."""
    name = world.apply(world.pool())
    writer = Writer(transport)
    listed = await writer.list_pools()
    assert name in [each["metadata"]["name"] for each in listed.items]

    def list_of(*items: dict[str, Any]) -> bytes:
        metadata = {"resourceVersion": listed.resource_version}
        body = {"kind": f"{KIND}List", "apiVersion": API_VERSION, "metadata": metadata, "items": items}
        return json.dumps(body).encode()

    with proxy.add(on("list", PLURAL), answer(200, body=list_of(*listed.items, {"metadata": METADATA}))):
        assert len((await writer.list_pools()).items) == len(listed.items) + 1, "this one can be read"
    with (
        proxy.add(on("list", PLURAL), answer(200, body=list_of(item, *listed.items))),
        pytest.raises(StreamGarbled, match="an item has no readable metadata"),
    ):
        await writer.list_pools()
