"""The last check before a write is sent, on real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.listener import EMPTY, Listener, a_kubeconfig_for, an_authority, listening, server_tls
from winpool.kube.client import USER_AGENT, Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import NotLeading
from winpool.kube.request import Request

GET = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")
PATCH = Request(verb="patch", resource="nodes", path="/api/v1/nodes/w1", body=b"{}", guarded=True)
CREATE = Request(verb="create", resource="events", path="/apis/events.k8s.io/v1/events", body=b"{}")
REVIEW = Request(
    verb="create",
    resource="subjectaccessreviews",
    path="/apis/authorization.k8s.io/v1/subjectaccessreviews",
    body=b"{}",
)


@dataclass
class Gate:
    """Whether writes may be sent, and how often that was asked."""

    is_open: bool = True
    asked: int = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.is_open


@dataclass
class ShutAfter:
    """Writes may be sent as often as this was asked."""

    times: int

    def __call__(self) -> bool:
        self.times -= 1
        return self.times >= 0


@dataclass
class SlowHeader:
    """Credentials that take until they are released."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def header(self) -> str:
        await self.ready.wait()
        return "Bearer t"

    def reject(self, header: str | None) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def gated(
    folder: Path, gate: Callable[[], bool], *, below: str = ""
) -> AsyncIterator[tuple[Listener, Transport]]:
    """Open a transport to a server whose API is below this path, as behind a gateway."""
    authority = an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=lambda _: EMPTY) as server:
        address, user = f"{server.url}{below}", {"token": "t"}
        kubeconfig = a_kubeconfig_for(folder, address, ca=authority.paths.certificate, user=user)
        connection = await load_connection(kubeconfig=kubeconfig, environ={})
        async with Transport(connection, identity="host_1234abcd", may_write=gate) as transport:
            yield server, transport


async def test_reads_and_reviews_pass_and_no_write_reaches_the_server(tmp_path: Path) -> None:
    gate = Gate(is_open=False)
    async with gated(tmp_path, gate) as (server, transport):
        await transport.request(GET)
        await transport.request(REVIEW)
        for write in (PATCH, CREATE):
            with pytest.raises(NotLeading, match="not sent: this operator does not hold the Lease"):
                await transport.request(write)
        async with transport.guest_session() as guest:
            for send in (guest.patch, guest.post, guest.put, guest.delete):
                with pytest.raises(NotLeading):
                    await send(f"{server.url}/api/v1/nodes/w1")
            await guest.get(f"{server.url}/api/v1/nodes/w1")
        assert [head.split()[0] for head in server.heads] == ["GET", "POST", "GET"]
        assert gate.asked == 6, "once for each write: none is repeated"


@pytest.mark.parametrize(
    "below", ["/k8s/clusters/c-xyz", "/k8s/clusters/c-xyz/", "/apis/authorization.k8s.io"]
)
async def test_behind_a_path_reviews_pass_too_and_writes_do_not(tmp_path: Path, below: str) -> None:
    async with gated(tmp_path, Gate(is_open=False), below=below) as (server, transport):
        await transport.request(REVIEW)
        for write in (PATCH, CREATE):
            with pytest.raises(NotLeading):
                await transport.request(write)
        address = f"{server.url}{below.rstrip('/')}"
        async with transport.guest_session() as guest:
            with pytest.raises(NotLeading):
                await guest.patch(f"{address}{PATCH.path}")
            await guest.post(f"{address}{REVIEW.path}")
        paths = [head.split()[1] for head in server.heads]
        assert paths == [f"{below.rstrip('/')}{REVIEW.path}"] * 2


async def test_a_process_frozen_after_the_first_check_sends_nothing(tmp_path: Path) -> None:
    async with gated(tmp_path, ShutAfter(1)) as (server, transport):
        with pytest.raises(NotLeading, match="PATCH /api/v1/nodes/w1: not sent"):
            await transport.request(PATCH)
        await transport.request(GET)
        assert [head.split()[0] for head in server.heads] == ["GET"]


async def test_neither_does_a_guest_of_a_process_frozen_after_the_first_check(tmp_path: Path) -> None:
    async with gated(tmp_path, ShutAfter(1)) as (server, transport):
        async with transport.guest_session() as guest:
            with pytest.raises(NotLeading):
                await guest.patch(f"{server.url}/api/v1/nodes/w1", data=b"{}")
        assert server.heads == []


async def test_it_is_asked_after_the_wait_for_credentials(tmp_path: Path) -> None:
    gate, header = Gate(), SlowHeader()
    async with gated(tmp_path, gate) as (server, transport):
        transport._authorization = header
        sending = asyncio.create_task(transport.request(PATCH))
        await asyncio.sleep(0.05)
        gate.is_open = False
        header.ready.set()
        with pytest.raises(NotLeading):
            await sending
        assert server.heads == []


async def test_the_identity_is_in_the_user_agent_of_all_requests(tmp_path: Path) -> None:
    async with gated(tmp_path, Gate()) as (server, transport):
        await transport.request(PATCH)
        async with transport.guest_session() as guest:
            await guest.get(f"{server.url}/apis")
        assert [f"User-Agent: {USER_AGENT} (host_1234abcd)" in head for head in server.heads] == [True, True]
