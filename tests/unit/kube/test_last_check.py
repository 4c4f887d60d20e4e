"""The last check of what a request was decided on, on real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.listener import EMPTY, Listener, a_kubeconfig_for, an_authority, listening, server_tls
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import NotWanted
from winpool.kube.request import Request, unless

EVICT = Request(
    verb="create",
    resource="pods/eviction",
    path="/api/v1/namespaces/shop/pods/hog/eviction",
    body=b"{}",
)


class SlowHeader:
    """Credentials that take until they are released."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()

    async def header(self) -> str:
        await self.ready.wait()
        return "Bearer t"


@asynccontextmanager
async def a_server(folder: Path) -> AsyncIterator[tuple[Listener, Transport]]:
    authority = an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=lambda _: EMPTY) as server:
        kubeconfig = a_kubeconfig_for(folder, server.url, ca=authority.paths.certificate, user={"token": "t"})
        connection = await load_connection(kubeconfig=kubeconfig, environ={})
        async with Transport(connection) as transport:
            yield server, transport


def in_turn(*said: str) -> Iterator[str]:
    yield from said


async def nothing_came(server: Listener, transport: Transport) -> bool:
    """Return whether the next request, which is wanted, is the first that comes."""
    await transport.request(EVICT)
    return len(server.heads) == 1


async def test_what_is_not_wanted_any_more_is_not_sent(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, transport):
        with unless(lambda: "the node has changed"), pytest.raises(NotWanted, match="the node has changed"):
            await transport.request(EVICT)
        assert await nothing_came(server, transport)


async def test_what_changes_during_the_wait_for_credentials_is_seen(tmp_path: Path) -> None:
    said = ""
    async with a_server(tmp_path) as (server, transport):
        fast, slow = transport._authorization, SlowHeader()
        transport._authorization = slow  # type: ignore[assignment]
        with unless(lambda: said):
            sending = asyncio.create_task(transport.request(EVICT))
        await asyncio.sleep(0.05)
        said = "the node is gone"
        slow.ready.set()
        with pytest.raises(NotWanted, match="not sent: the node is gone"):
            await sending
        transport._authorization = fast
        assert await nothing_came(server, transport)


async def test_a_process_that_was_frozen_after_the_first_check_sends_nothing(tmp_path: Path) -> None:
    answers = in_turn("", "no fresh sample")
    async with a_server(tmp_path) as (server, transport):
        with unless(lambda: next(answers)), pytest.raises(NotWanted, match="no fresh sample"):
            await transport.request(EVICT)
        assert await nothing_came(server, transport)


async def test_each_block_is_about_its_own_requests(tmp_path: Path) -> None:
    async def evicted(transport: Transport, said: str) -> bool:
        with unless(lambda: said):
            try:
                await transport.request(EVICT)
            except NotWanted:
                return False
        return True

    async with a_server(tmp_path) as (server, transport):
        sent = await asyncio.gather(*(evicted(transport, said) for said in ("", "no", "", "no")))
        assert (sent, len(server.heads)) == ([True, False, True, False], 2)


async def test_blocks_in_blocks_add_up(tmp_path: Path) -> None:
    async with a_server(tmp_path) as (server, transport):
        with unless(lambda: "the outer"), unless(lambda: ""), pytest.raises(NotWanted, match="the outer"):
            await transport.request(EVICT)
        assert await nothing_came(server, transport)
