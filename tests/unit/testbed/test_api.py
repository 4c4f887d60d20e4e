"""How the API server is asked: over a connection that is kept, and over a new one where that has broken."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.asking import get
from harness.listener import EMPTY, Listener, a_kubeconfig_for, a_pair, an_authority, listening, server_tls
from testbed.api import Api, ApiError
from testbed.errors import TestbedError


@asynccontextmanager
async def an_api(
    folder: Path, *, answer: Callable[[str], bytes] = lambda _: EMPTY
) -> AsyncIterator[tuple[Listener, Api]]:
    authority = an_authority(folder, "ca")
    tls = server_tls(authority, folder)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.paths.certificate)
    pair = authority.issue_client(a_pair(folder, "client"), common_name="alice", now=datetime.now(UTC))
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    async with listening(tls, answer=answer) as server:
        config = a_kubeconfig_for(folder, server.url, ca=authority.paths.certificate, user=user)
        with Api(Path(config)) as api:
            yield server, api


def an_answer(status: int, body: object) -> Callable[[str], bytes]:
    text = body if isinstance(body, str) else json.dumps(body)
    head = f"HTTP/1.1 {status} Told\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n"
    return lambda _: (head + text).encode()


async def test_one_connection_is_kept_for_all_questions(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        for number in range(3):
            assert await asyncio.to_thread(api.get, "/api/v1/nodes", labelSelector=f"a={number}") == {}
        assert [head.split()[1] for head in server.heads] == [
            f"/api/v1/nodes?labelSelector=a%3D{number}" for number in range(3)
        ]
        assert server.users == ["alice"]


@pytest.mark.slow
async def test_a_connection_that_broke_is_replaced(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        await asyncio.to_thread(api.get, "/version")
        await server.drop()
        assert await asyncio.to_thread(api.get, "/version") == {}
        assert server.users == ["alice", "alice"]


@pytest.mark.slow
async def test_threads_may_ask_at_the_same_time(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        asked = [asyncio.to_thread(api.get, f"/{number}") for number in range(20)]
        assert await asyncio.gather(*asked) == [{}] * 20
        assert len(server.heads) == 20


async def test_a_patch_is_merged_and_may_be_a_dry_run(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        await asyncio.to_thread(api.merge, "/api/v1/nodes/w1", {"metadata": {}}, dryRun="All")
        assert server.heads[0].startswith("PATCH /api/v1/nodes/w1?dryRun=All ")
        assert "Content-Type: application/merge-patch+json\r\n" in server.heads[0]


async def test_a_deletion_leaves_dependents_to_the_garbage_collector(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        await asyncio.to_thread(api.delete, "/api/v1/nodes/w1")
        assert server.heads[0].startswith("DELETE /api/v1/nodes/w1?propagationPolicy=Background ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"kind": "Status", "message": 'nodes "w1" not found'}, '404 nodes "w1" not found'),
        ("nobody home", "404 nobody home"),
        ("[]", r"404 \[\]"),
    ],
)
async def test_a_refusal_is_an_error_with_the_reason(tmp_path: Path, body: object, said: str) -> None:
    async with an_api(tmp_path, answer=an_answer(404, body)) as (_, api):
        with pytest.raises(ApiError, match=f"GET /api/v1/nodes/w1: {said}") as caught:
            await asyncio.to_thread(api.get, "/api/v1/nodes/w1")
    assert caught.value.status == 404


async def test_a_server_that_is_down_is_an_error(tmp_path: Path) -> None:
    async with an_api(tmp_path) as (server, api):
        await asyncio.to_thread(api.get, "/version")
        server_port = server.port
    with Api(tmp_path / "kubeconfig") as api, pytest.raises(TestbedError, match="does not answer") as caught:
        await asyncio.to_thread(api.get, "/version")
    assert not isinstance(caught.value, ApiError)
    assert str(server_port) in str(caught.value)


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (("nodes", "-l", "a=b"), "/api/v1/nodes?labelSelector=a%3Db"),
        (("node", "w1"), "/api/v1/nodes/w1"),
        (("wnp",), "/apis/winpool.dev/v1alpha1/windowsnodepools"),
        (("pods", "-n", "shop", "-l", "a=b"), "/api/v1/namespaces/shop/pods?labelSelector=a%3Db"),
        (("pods", "web-1", "-n", "shop"), "/api/v1/namespaces/shop/pods/web-1"),
        (
            ("events", "-n", "default", "--field-selector", "involvedObject.name=w1"),
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dw1",
        ),
    ],
)
async def test_the_words_of_kubectl_get_name_a_path(
    tmp_path: Path, words: tuple[str, ...], target: str
) -> None:
    found = {"apiVersion": "v1", "kind": "SomeList", "metadata": {}, "items": []}
    async with an_api(tmp_path, answer=an_answer(200, found)) as (server, api):
        await asyncio.to_thread(get, api, *words)
        assert server.heads[0].split()[1] == target


async def test_objects_are_shown_as_kubectl_shows_them(tmp_path: Path) -> None:
    node = {"metadata": {"name": "w1", "managedFields": [{"manager": "winpool"}]}}
    found = {"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": [node]}
    async with an_api(tmp_path, answer=an_answer(200, found)) as (server, api):
        [shown] = (await asyncio.to_thread(get, api, "nodes"))["items"]
        assert shown == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}
        server.answer = an_answer(200, node)
        assert await asyncio.to_thread(get, api, "node", "w1", "--show-managed-fields") == node


@pytest.mark.parametrize("words", [("secrets",), ("nodes", "-o", "wide"), ("node", "w1", "w2"), ()])
async def test_what_nobody_can_ask_without_kubectl_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with an_api(tmp_path) as (server, api):
        with pytest.raises(ValueError, match="cannot ask so without kubectl"):
            get(api, *words)
        assert server.heads == []
