"""Proxies are found in the kubeconfig or in the environment, and their passwords are never shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from harness.certificates import a_mount
from harness.every import every
from harness.listener import Listener, a_kubeconfig_for, an_authority, listening, server_tls
from testbed.pki import Authority
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection, find_proxy, load_connection
from winpool.kube.errors import CredentialsError, Unavailable
from winpool.kube.request import Request

GET = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")
NAME = "https://kubernetes.default.svc"
"""Not on loopback by its name, and in the certificate of the harness."""


@every(
    ("server", "no_proxy", "excluded"),
    [
        ("https://api.example.com", "", False),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "other.com, example.com", True),
        ("https://API.example.com", "EXAMPLE.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com", "example.com:443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://localhost:6443", "", True),
        ("https://127.9.9.9", "", True),
        ("https://[::1]:6443", "", True),
    ],
)
def test_no_proxy_has_names_and_addresses_and_this_host_needs_none(
    server: str, no_proxy: str, excluded: bool
) -> None:
    environ = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}
    assert (find_proxy(URL(server), configured=None, environ=environ) is None) is excluded


async def test_in_a_pod_the_environment_has_no_effect(tmp_path: Path) -> None:
    a_mount(tmp_path, now=datetime.now(UTC))
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("winpool-system")
    environ = {
        "HTTPS_PROXY": "http://p:1",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
    }
    found = await load_connection(environ=environ, service_account_folder=tmp_path)
    assert found.proxy is None


@every(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:1"}, "http://p:1"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://q:1"}, "http://q:1"),
        ({"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ({"HTTPS_PROXY": "https://p/"}, "https://p"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "default.svc"}, None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "default.svc"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other", "no_proxy": "default.svc"}, "http://p:1"),
    ],
)
def test_the_environment_names_a_proxy(environ: dict[str, str], proxy: str | None) -> None:
    found = find_proxy(URL(NAME), configured=None, environ=environ)
    assert (str(found.url) if found else None) == proxy


def test_the_kubeconfigs_proxy_stands_above_the_environment() -> None:
    environ = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}
    found = find_proxy(URL(NAME), configured="http://q:1", environ=environ)
    assert found is not None
    assert found.url == URL("http://q:1")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http://u:s3cret@proxy:port", "is not the address of a proxy"),
        ("http://u:s3/cret@proxy:1", "is not the address of a proxy"),
        ("http://u:s3cret@", "is not the address of a proxy"),
        ("ftp://u:s3cret@proxy:21", "is not the address of a proxy"),
        ("socks5://u:s3cret@proxy:1080", "asks for a SOCKS proxy"),
        (["s3cret"], "is not the address of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_and_not_shown(text: Any, problem: str) -> None:
    with pytest.raises(CredentialsError, match=problem) as caught:
        find_proxy(URL(NAME), configured=text, environ={})
    assert "s3" not in str(caught.value)


class Proxy:
    """A proxy on loopback that tunnels everything to one port, whatever name is asked for."""

    def __init__(self, target: int) -> None:
        self.heads: list[str] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        self.port = 0
        self._target = target
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.answer)
            if self.answer.startswith(b"HTTP/1.1 200"):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def proxied(folder: Path, authority: Authority) -> AsyncIterator[tuple[Listener, Proxy]]:
    async with listening(server_tls(authority, folder)) as server:
        proxy = Proxy(server.port)
        listening_proxy = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.port = listening_proxy.sockets[0].getsockname()[1]
        try:
            yield server, proxy
        finally:
            listening_proxy.close()
            await proxy.end()
            await listening_proxy.wait_closed()


async def load(folder: Path, *, ca: Authority, environ: dict[str, str], **cluster: Any) -> Connection:
    user = {"token": "t0ken", "as": "jane"}
    path = a_kubeconfig_for(folder, NAME, ca=ca.paths.certificate, user=user, **cluster)
    return await load_connection(kubeconfig=path, environ=environ)


async def test_requests_go_through_the_proxy_of_the_environment_and_show_it_only_its_own_password(
    tmp_path: Path,
) -> None:
    ca = an_authority(tmp_path, "ca")
    async with proxied(tmp_path, ca) as (server, proxy):
        environ = {"HTTPS_PROXY": f"http://user:p%40ss@127.0.0.1:{proxy.port}"}
        connection = await load(tmp_path, ca=ca, environ=environ)
        assert "p%40ss" not in repr(connection)
        assert "p@ss" not in repr(connection)
        async with Transport(connection) as door, door.guest_session() as guest:
            await door.request(GET)
            async with guest.get(f"{NAME}/apis") as answer:
                assert answer.status == 200
        assert len(server.heads) == 2
        assert all("Bearer t0ken" in head and "Proxy-Authorization" not in head for head in server.heads)
        (asked,) = proxy.heads
        assert asked.startswith("CONNECT kubernetes.default.svc:443 HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in asked
        assert "t0ken" not in asked
        assert "jane" not in asked


@pytest.mark.slow
async def test_a_proxy_that_refuses_is_named_without_its_password(tmp_path: Path) -> None:
    ca = an_authority(tmp_path, "ca")
    async with proxied(tmp_path, ca) as (_, proxy):
        proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        url = f"http://user:s3cret@127.0.0.1:{proxy.port}"
        connection = await load(tmp_path, ca=ca, environ={}, **{"proxy-url": url})
        async with Transport(connection) as door, door.guest_session() as guest:
            with pytest.raises(Unavailable, match="the proxy answers 407") as ours:
                await door.request(GET)
            with pytest.raises(aiohttp.ClientError) as theirs:
                await guest.get(f"{NAME}/apis")
    for error in (ours.value, theirs.value):
        assert not any(secret in repr(error) for secret in ("s3cret", "dXNlcjpzM2NyZXQ=", "t0ken"))


async def test_a_failure_behind_the_proxy_does_not_show_its_password(tmp_path: Path) -> None:
    ca, other = an_authority(tmp_path, "ca"), an_authority(tmp_path, "other")
    async with proxied(tmp_path, ca) as (_, proxy):
        url = f"http://user:s3cret@127.0.0.1:{proxy.port}"
        connection = await load(tmp_path, ca=other, environ={}, **{"proxy-url": url})
        async with Transport(connection) as door, door.guest_session() as guest:
            with pytest.raises(Unavailable, match="certificate is not believed") as ours:
                await door.request(GET)
            with pytest.raises(aiohttp.ClientError) as theirs:
                await guest.get(f"{NAME}/apis")
    for error in (ours.value, theirs.value):
        assert not any(secret in repr(error) for secret in ("s3cret", "dXNlcjpzM2NyZXQ=", "t0ken"))
