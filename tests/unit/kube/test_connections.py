"""How many connections to the API server there are at once (P7): promised, so the figure stands here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.door import until
from harness.listener import a_kubeconfig_for, an_authority, server_tls
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.request import Request

CONNECTIONS = 64
SPARE_SECONDS = 0.3
"""For one connection too many to come: they are all asked for at once."""


@pytest.mark.slow
async def test_requests_share_64_connections_however_many_there_are(tmp_path: Path) -> None:
    connected = 0

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await reader.read()  # never answers, until the other side has gone
        writer.close()

    authority = an_authority(tmp_path, "ca")
    tls = server_tls(authority, tmp_path)
    async with await asyncio.start_server(keep, "127.0.0.1", 0, ssl=tls) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kubeconfig = a_kubeconfig_for(tmp_path, url, ca=authority.paths.certificate, user={"token": "t"})
        async with Transport(await load_connection(kubeconfig=kubeconfig, environ={})) as transport:
            request = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")
            asked = [asyncio.create_task(transport.request(request)) for _ in range(2 * CONNECTIONS)]
            await until(lambda: connected >= CONNECTIONS, what="as many connections as there may be")
            await asyncio.sleep(SPARE_SECONDS)
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
    assert connected == CONNECTIONS
