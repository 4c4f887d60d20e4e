"""Which versions the cluster runs, read through the door: those of nodes, and that of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cluster.door import a_reflector, a_transport, until
from harness.world import World
from testbed.faults import FaultProxy, answer, cut_stream, on
from testbed.faults.rule import Action
from testbed.pins import chosen_pins
from winpool.kube.client import Transport
from winpool.kube.control_plane import ControlPlane
from winpool.model.node import NodeVersions

ASKED = on("get", path="^/version$")
PINNED = chosen_pins().kubernetes


@pytest.fixture
async def transport(proxy: FaultProxy) -> AsyncIterator[Transport]:
    async with a_transport(proxy.kubeconfig("winpool")) as opened:
        yield opened


async def test_a_node_tells_what_it_runs(world: World, transport: Transport) -> None:
    [name] = await asyncio.to_thread(lambda: world.fleet(windows=1))
    async with a_reflector(transport) as reflected:
        await until(lambda: name in reflected.reflector.objects, what="the node is seen")
        seen = reflected.node(name).versions
    told = world.node(name)["status"]["nodeInfo"]
    assert seen == NodeVersions(
        kernel=told["kernelVersion"],
        kubelet=told["kubeletVersion"],
        runtime=told["containerRuntimeVersion"],
        image=told["osImage"],
    )
    assert seen.kernel.startswith("10.0.20348.")


async def test_the_version_of_the_api_server_is_told_once_as_long_as_it_stays(transport: Transport) -> None:
    told: list[str] = []
    control_plane = ControlPlane(transport, on_change=lambda: told.append(control_plane.version))
    for _ in range(3):
        await control_plane.ask()
    assert told == [PINNED]


@pytest.mark.parametrize(
    "trouble",
    [
        answer(403),
        answer(404),
        answer(200, body=b"<html>"),
        answer(200, body=b'{"gitVersion": null}'),
        answer(200, body=b"{}"),
        answer(200, body=b'{"gitVersion": ""}'),
    ],
    ids=["forbidden", "absent", "no JSON", "null", "nothing", "empty"],
)
async def test_a_version_that_cannot_be_read_is_the_one_that_was_known(
    proxy: FaultProxy, transport: Transport, trouble: Action
) -> None:
    control_plane = ControlPlane(transport, on_change=lambda: None)
    with proxy.add(ASKED, trouble):
        await control_plane.ask()
        assert not control_plane.version, "nothing was ever known"
    await control_plane.ask()
    with proxy.add(ASKED, trouble) as rule:
        await control_plane.ask()
        assert rule.hits
    assert control_plane.version == PINNED


@pytest.mark.nightly
@pytest.mark.parametrize("clean", [False, True], ids=["broken off", "ended in good order"])
async def test_contact_is_made_anew_after_a_watch_that_did_not_end_in_its_time(
    proxy: FaultProxy, transport: Transport, clean: bool
) -> None:
    async with a_reflector(transport) as reflected:
        assert reflected.contacts == 1
        proxy.add(on("watch", "nodes"), cut_stream(clean=clean), nth=1)
        await until(lambda: reflected.contacts == 2, what="contact anew")
        await until(lambda: reflected.reflector.stats.watches == 2, what="a watch anew")


@pytest.mark.nightly
async def test_a_contact_that_came_to_nothing_is_made_again_with_the_next_watch(transport: Transport) -> None:
    async with a_reflector(transport, contacts_failing=2) as reflected:
        assert reflected.reflector.synced, "what nodes there are is known all the same"
        await until(lambda: reflected.contacts == 2, what="contact with the first watch")
        reflected.reflector.ask_for_list()
        await until(lambda: reflected.contacts == 3, what="contact with the second watch")
        reflected.reflector.ask_for_list()
        await until(lambda: reflected.reflector.stats.watches == 3, what="a third list, and a watch")
        assert (reflected.reflector.stats.lists, reflected.contacts) == (3, 3)


@pytest.mark.nightly
async def test_a_list_that_is_due_is_no_new_contact(transport: Transport) -> None:
    async with a_reflector(transport) as reflected:
        reflected.reflector.ask_for_list()
        await until(lambda: reflected.reflector.stats.watches == 2, what="a second list, and a watch")
        assert (reflected.reflector.stats.lists, reflected.contacts) == (2, 1)


async def test_an_upgraded_api_server_is_noticed(proxy: FaultProxy, transport: Transport) -> None:
    told: list[str] = []
    control_plane = ControlPlane(transport, on_change=lambda: told.append(control_plane.version))
    await control_plane.ask()
    with proxy.add(ASKED, answer(200, body=b'{"gitVersion": "v1.99.0"}')):
        await control_plane.ask()
    assert told == [PINNED, "v1.99.0"]
