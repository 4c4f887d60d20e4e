"""Lists through the door: made when asked for, and complete or not used at all (P4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.door import a_node_manifest, a_reflector, a_transport, until
from harness.world import World
from testbed.faults import FaultProxy, answer, cut_stream, on, rewrite, stall
from winpool.api.keys import API_VERSION, KIND, PLURAL, POOL_LABEL
from winpool.kube import pools as pool_list
from winpool.kube import watch as reflecting
from winpool.kube.client import Transport
from winpool.kube.errors import StreamGarbled
from winpool.kube.nodes import list_labelled, list_strays
from winpool.kube.writer import Writer

NODES_WATCH = on("watch", "nodes")


@pytest.fixture
async def transport(proxy: FaultProxy) -> AsyncIterator[Transport]:
    async with a_transport(proxy.kubeconfig("winpool")) as opened:
        yield opened


@pytest.mark.nightly
@pytest.mark.parametrize("nth", [1, 2], ids=["the first watch", "one after it"])
async def test_a_list_asked_for_while_a_watch_is_being_opened_is_made(
    proxy: FaultProxy, transport: Transport, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """There is no watch then that could be ended, and the one that comes would last for minutes."""
    monkeypatch.setattr(
        reflecting, "ASKED_SECONDS", 2.0
    )  # long enough to open a watch before the list is due
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
    listed = await writer.list_pools(tuple)
    assert name in [each["metadata"]["name"] for each in listed.items]

    def list_of(*items: dict[str, Any]) -> bytes:
        metadata = {"resourceVersion": listed.resource_version}
        body = {"kind": f"{KIND}List", "apiVersion": API_VERSION, "metadata": metadata, "items": items}
        return json.dumps(body).encode()

    with proxy.add(on("list", PLURAL), answer(200, body=list_of(*listed.items, {"metadata": METADATA}))):
        assert len((await writer.list_pools(tuple)).items) == len(listed.items) + 1, "this one can be read"
    with (
        proxy.add(on("list", PLURAL), answer(200, body=list_of(item, *listed.items))),
        pytest.raises(StreamGarbled, match="an item has no readable metadata"),
    ):
        await writer.list_pools(tuple)


async def test_pools_that_do_not_fit_one_page_are_listed(
    world: World, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six with all the annotations they may have, where three fit: 130 of them do not fit 32 MiB."""
    note = {"example.com/note": "x" * (256 * 1024 - len("example.com/note"))}
    pools = [world.pool(f"large-{number}", mode="DryRun") for number in range(6)]
    for pool in pools:
        pool["metadata"]["annotations"] = note
    names = {str(pool["metadata"]["name"]) for pool in pools}
    monkeypatch.setattr(pool_list, "PAGE_BYTES", 2**20)
    monkeypatch.setattr(pool_list, "LISTING", replace(pool_list.LISTING, page_bytes=2**20))
    manifests = "\n".join(json.dumps(pool) for pool in pools)
    await asyncio.to_thread(world.kubectl, "create", "-f", "-", stdin=manifests)
    try:
        listed = await Writer(transport).list_pools(tuple)
    finally:
        await asyncio.to_thread(world.kubectl, "delete", "wnp", *names)
    assert names <= {pool["metadata"]["name"] for pool in listed.items}
    assert not any("annotations" in pool["metadata"] for pool in listed.items), "which nobody reads"


@pytest.mark.parametrize("os", ["windows", "linux"])
async def test_labelled_nodes_are_read_to_the_last_page(
    world: World, proxy: FaultProxy, transport: Transport, os: str
) -> None:
    pool = f"pool-{world.suffix}"
    names = [f"labelled-{number}-{world.suffix}" for number in range(5)]
    manifests = "\n".join(a_node_manifest(name, labels={POOL_LABEL: pool}, os=os) for name in names)
    await asyncio.to_thread(world.kubectl, "create", "-f", "-", stdin=manifests)
    proxy.add(on("list", "nodes"), rewrite(lambda path: path.replace("limit=500", "limit=2")))
    try:
        listed = list_labelled(transport, pool_name=pool) if os == "windows" else list_strays(transport)
        assert {node.name for node in await listed if node.labels[POOL_LABEL] == pool} == set(names)
    finally:
        await asyncio.to_thread(world.kubectl, "delete", "node", *names)
