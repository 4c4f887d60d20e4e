"""The connections of an operator: a burst of patches delays no renewal of the Lease."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from harness.listener import a_kubeconfig_for, an_authority, server_tls
from winpool.kube.backoff import FirstRefusals
from winpool.kube.client import MAX_CONNECTIONS
from winpool.kube.credentials import load_connection
from winpool.kube.leader_election import connected
from winpool.kube.request import Request

PATCH = Request(verb="patch", resource="nodes", path="/api/v1/nodes/w1", body=b"{}", guarded=True)
SECONDS = 60
"""Guard; a renewal comes after two seconds."""


@dataclass
class Server:
    """Answers what is about the Lease, and holds patches of nodes until ``end`` is set."""

    end: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 0
    renewals: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    """The client's port of each write of the Lease after the first."""
    held: set[int] = field(default_factory=set)
    """The client's ports of the patches that are held."""
    is_full: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether as many patches are held as one transport has connections."""
    spec: dict[str, Any] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request."""
        assert request.transport is not None
        port = request.transport.get_extra_info("peername")[1]
        if "/nodes/" in request.path:
            self.held.add(port)
            if len(self.held) == MAX_CONNECTIONS:
                self.is_full.set()
            await self.end.wait()
            return web.json_response({})
        if request.method == "GET" and not self.spec:
            status = {"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}
            return web.json_response(status, status=404)
        if request.method in ("POST", "PATCH"):
            if self.spec:
                self.renewals.put_nowait(port)
            self.version += 1
            self.spec |= json.loads(await request.text())["spec"]
        metadata = {"name": "winpool", "uid": "u1", "resourceVersion": str(self.version)}
        return web.json_response({"metadata": metadata, "spec": self.spec})


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Server, str]]:
    """Serve on a free port of loopback; yield the server and a kubeconfig."""
    authority = an_authority(folder, "ca")
    server, app = Server(), web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_tls(authority, folder))
        await site.start()
        host, port = runner.addresses[0][:2]
        url, ca = f"https://{host}:{port}", authority.paths.certificate
        yield server, a_kubeconfig_for(folder, url, ca=ca, user={"token": "t"})
    finally:
        server.end.set()
        await runner.cleanup()


@pytest.mark.slow
async def test_patches_that_take_every_connection_hold_up_no_renewal(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, kubeconfig), asyncio.timeout(SECONDS):
        connection = await load_connection(kubeconfig=kubeconfig, environ={})
        leads = asyncio.Event()
        refusals = FirstRefusals(monotonic=time.monotonic)
        async with connected(connection, identity="host_1234abcd", elects=True, refusals=refusals) as (
            transport,
            elector,
        ):
            keeping = asyncio.create_task(elector.lead(leads.set, lambda: None))
            await leads.wait()
            patches = [asyncio.create_task(transport.request(PATCH)) for _ in range(2 * MAX_CONNECTIONS)]
            await server.is_full.wait()
            while not server.renewals.empty():  # those from before the burst
                server.renewals.get_nowait()
            assert await server.renewals.get() not in server.held
            keeping.cancel()
            server.end.set()
            await asyncio.gather(keeping, *patches, return_exceptions=True)
