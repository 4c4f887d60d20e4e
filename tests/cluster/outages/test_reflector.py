"""What the reflector survives of a control plane: killed, frozen, compacted, absent."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import urllib.request
from typing import Any

import pytest

from cluster.door import Reflected, a_node_manifest, a_reflector, a_transport, until
from testbed.cluster import Testbed
from winpool.kube.client import Transport
from winpool.kube.errors import Unavailable


def add(testbed: Testbed, *names: str) -> None:
    for name in names:
        testbed.kubectl("create", "-f", "-", stdin=a_node_manifest(name, labels={}))


def restart(testbed: Testbed) -> None:
    testbed.component("apiserver").start()
    testbed.component("apiserver").wait_ready()


def kept(reflected: Reflected, *names: str) -> bool:
    """Whether none of the nodes was ever taken for gone."""
    return all(new is not None for name in names for _, new in reflected.about(name))


async def test_an_api_server_that_is_killed_is_picked_up_where_it_was(fragile: Testbed) -> None:
    await asyncio.to_thread(add, fragile, "killed-a", "killed-b")
    async with a_transport(fragile.kubeconfig("admin")) as transport, a_reflector(transport) as reflected:
        reflector = reflected.reflector
        await until(lambda: "killed-b" in reflector.objects, what="the nodes are seen")
        await asyncio.to_thread(fragile.component("apiserver").kill)
        await until(lambda: isinstance(reflector.last_error, Unavailable), what="the loss is noticed")
        assert reflector.synced
        assert "killed-a" in reflector.objects
        await asyncio.to_thread(restart, fragile)
        await until(lambda: reflector.last_error is None, what="contact again")
        await asyncio.to_thread(fragile.kubectl, "label", "node", "killed-a", "after=restart")
        await until(lambda: "after" in reflected.node("killed-a").labels, what="a later change is seen")
        assert kept(reflected, "killed-a", "killed-b")
        assert reflector.stats.lists <= 1 + reflector.stats.expired, "no list without need"


async def test_what_was_missed_for_good_is_found_by_a_list(fragile: Testbed) -> None:
    """A deletion that no watch can tell any more: its history was compacted while we were away."""
    await asyncio.to_thread(add, fragile, "missed", "stays")
    async with a_transport(fragile.kubeconfig("admin")) as transport, a_reflector(transport) as reflected:
        reflector = reflected.reflector
        await until(lambda: {"missed", "stays"} <= set(reflector.objects), what="the nodes are seen")
        before = reflector.stats.expired
        await asyncio.to_thread(fragile.component("apiserver").kill)
        await asyncio.to_thread(delete_behind_the_api, fragile, "missed")
        await asyncio.to_thread(restart, fragile)
        await until(lambda: "missed" not in reflector.objects, what="the deletion is concluded")
        assert reflector.stats.expired > before
        await until(lambda: reflector.last_error is None, what="the watch goes on from the list")
        assert reflected.about("missed")[-1][1] is None
        assert kept(reflected, "stays")


def delete_behind_the_api(testbed: Testbed, node: str) -> None:
    """Delete a node in etcd and compact away the history that would tell of it."""

    def etcd(path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{testbed.etcd_url}{path}", data=json.dumps(body).encode())  # noqa: S310 - http
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - http
            found: dict[str, Any] = json.load(answer)
        return found

    key = base64.b64encode(f"/registry/minions/{node}".encode()).decode()
    deleted = etcd("/v3/kv/deleterange", {"key": key})
    assert deleted["deleted"] == "1"
    etcd("/v3/kv/compaction", {"revision": deleted["header"]["revision"], "physical": True})


@pytest.mark.parametrize("component", ["apiserver", "etcd"])
async def test_a_frozen_control_plane_takes_nothing_away_and_can_be_left(
    fragile: Testbed, component: str
) -> None:
    name = f"frozen-{component}"
    await asyncio.to_thread(add, fragile, name)
    async with (
        a_transport(fragile.kubeconfig("admin")) as transport,
        a_reflector(transport, silence_seconds=3.0) as reflected,
    ):
        reflector = reflected.reflector
        await until(lambda: name in reflector.objects, what="the node is seen")
        frozen = fragile.component(component)
        await asyncio.to_thread(frozen.kill, signal.SIGSTOP)
        try:
            started = reflector.stats.restarts
            await until(lambda: reflector.stats.restarts > started, what="silence is noticed")
            assert name in reflector.objects
            await cancelled_in_time(transport)
        finally:
            await asyncio.to_thread(frozen.kill, signal.SIGCONT)
        await asyncio.to_thread(fragile.component("apiserver").wait_ready)
        await until(lambda: reflector.last_error is None, what="contact again")
        assert kept(reflected, name)


async def cancelled_in_time(transport: Transport) -> None:
    """Start another reflector that cannot even list, and leave it: ``a_reflector`` allows two seconds."""
    async with a_reflector(transport, sync=False):
        await asyncio.sleep(0.2)


async def test_a_control_plane_that_is_absent_at_the_start_is_waited_for(fragile: Testbed) -> None:
    await asyncio.to_thread(add, fragile, "late")
    await asyncio.to_thread(fragile.component("apiserver").kill)
    async with (
        a_transport(fragile.kubeconfig("admin")) as transport,
        a_reflector(transport, sync=False) as reflected,
    ):
        reflector = reflected.reflector
        error = await until(lambda: reflector.last_error, what="the absence is told")
        assert isinstance(error, Unavailable)
        assert "cannot connect to 127.0.0.1" in error.message
        assert not reflector.synced
        await asyncio.to_thread(restart, fragile)
        await until(lambda: reflector.synced and reflector.last_error is None, what="it works")
        assert "late" in reflector.objects
        code = ("list", "nodes", "error")
        assert transport.stats.requests[code] <= 60, "attempts are bounded"
