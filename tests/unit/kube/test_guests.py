"""What Kopf's session is allowed: our server only, no redirects, and no credentials in its errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster.door import until
from harness.listener import EMPTY, Listener, a_kubeconfig_for, an_authority, listening, server_tls
from winpool.kube import feed as registry
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError
from winpool.kube.feed import Feed, FeedEndedError, make_registry, note_lost_exception
from winpool.kube.request import Request

GET = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")
TOKEN = "s3cret.t0ken"


def redirect(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@asynccontextmanager
async def a_door(
    folder: Path, *, answer: Callable[[str], bytes] = lambda _: EMPTY, user: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Listener, Transport]]:
    authority = an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=answer) as server:
        kubeconfig = a_kubeconfig_for(
            folder, server.url, ca=authority.paths.certificate, user={"token": TOKEN, **(user or {})}
        )
        async with Transport(await load_connection(kubeconfig=kubeconfig, environ={})) as transport:
            yield server, transport


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_server_is_not_followed(tmp_path: Path, status: int) -> None:
    async with listening(None) as thief, a_door(tmp_path) as (server, door), door.guest_session() as guest:
        server.answer = lambda _: redirect(status, f"http://127.0.0.1:{thief.port}/stolen")
        with pytest.raises(aiohttp.ClientConnectionError, match=f"{status}, a redirect"):
            await guest.get(f"{server.url}/apis")
        with pytest.raises(ApiError, match=f"get nodes: {status}"):
            await door.request(GET)
        assert len(server.heads) == 2
        assert thief.heads == []


async def test_a_redirect_to_itself_is_an_error_and_no_loop(tmp_path: Path) -> None:
    async with a_door(tmp_path, answer=lambda _: redirect(302, "/apis")) as (server, door):
        async with door.guest_session() as guest:
            with pytest.raises(aiohttp.ClientConnectionError, match="not followed"):
                await guest.get(f"{server.url}/apis")
        assert len(server.heads) == 1


async def test_a_guest_gets_no_credentials_for_another_server(tmp_path: Path) -> None:
    async with listening(None) as other, a_door(tmp_path) as (_, door), door.guest_session() as guest:
        with pytest.raises(aiohttp.ClientConnectionError, match="is not the API server"):
            await guest.get(f"http://127.0.0.1:{other.port}/")
        assert other.heads == []


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad\x00Header: 1\r\n\r\n",
    ],
)
async def test_the_errors_of_a_guest_hold_no_token(tmp_path: Path, answer: bytes) -> None:
    async with a_door(tmp_path, answer=lambda _: answer) as (server, door), door.guest_session() as guest:
        with pytest.raises(aiohttp.ClientError) as caught:
            await guest.get(f"{server.url}/apis")
        assert TOKEN in server.heads[0]
    assert TOKEN not in repr(caught.value)
    assert TOKEN not in str(caught.value)


async def test_the_errors_of_an_answer_to_a_guest_hold_no_token(tmp_path: Path) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}"
    async with a_door(tmp_path, answer=lambda _: page) as (server, door), door.guest_session() as guest:
        async with guest.get(f"{server.url}/apis") as response:
            with pytest.raises(aiohttp.ContentTypeError) as caught:
                await response.json()
        assert TOKEN in server.heads[0]
    assert TOKEN not in repr(caught.value)


def test_the_end_of_the_feed_is_told_without_passwords() -> None:
    error = FeedEndedError(aiohttp.InvalidURL("http://u:s3cret@proxy:port"))
    assert str(error) == "the watch ended: http://proxy:port"


async def test_whom_to_act_as_is_told_by_us_and_by_guests(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "u1",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"50%": ["c"], "Example.com/scope": ["a", "b"]},
    }
    async with a_door(tmp_path, user=user) as (server, door):
        await door.request(GET)
        async with door.guest_session() as guest, guest.get(f"{server.url}/apis"):
            pass
        for head in server.heads:
            told = [line for line in head.split("\r\n") if line.startswith("Impersonate-")]
            assert told == [
                "Impersonate-User: jane",
                "Impersonate-Group: dev",
                "Impersonate-Group: ops",
                "Impersonate-Uid: u1",
                "Impersonate-Extra-50%25: c",
                "Impersonate-Extra-Example.com%2Fscope: a",
                "Impersonate-Extra-Example.com%2Fscope: b",
            ]
    assert len(server.heads) == 2


async def test_whom_to_act_as_is_told_once_after_a_401_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

    def answer(head: str) -> bytes:
        (tmp_path / "token").write_text("two")
        return EMPTY if "Bearer two" in head else refusal

    user = {"tokenFile": str(tmp_path / "token"), "as": "jane", "as-groups": ["dev"]}
    async with a_door(tmp_path, answer=answer, user=user) as (server, door), door.guest_session() as guest:
        async with guest.get(f"{server.url}/apis") as response:
            assert response.status == 200
        assert [head.count("Impersonate-Group: dev") for head in server.heads] == [1, 1]


@pytest.mark.slow
async def test_kopf_meets_an_error_where_it_is_redirected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LOGIN_PAUSE_SECONDS", 0.0)
    asyncio.get_running_loop().set_exception_handler(note_lost_exception)
    forever, others = asyncio.Event(), set(asyncio.all_tasks())
    async with listening(None) as thief, a_door(tmp_path) as (server, door):
        server.answer = lambda _: redirect(307, f"http://127.0.0.1:{thief.port}/stolen")
        feed = Feed(
            make_registry=lambda: make_registry(
                accept=lambda _: None,
                forget=lambda _: None,
                server=server.url,
                make_session=door.guest_session,
            ),
            after_spawn=lambda: None,
            are_listed=lambda: False,
            list_again=lambda: None,
        )
        running = asyncio.create_task(feed.run())
        await asyncio.sleep(0)
        ours = asyncio.create_task(forever.wait())
        await until(lambda: feed.restarts, what="the feed ends")
        assert not ours.done(), "it is younger than Kopf, and not Kopf's to cancel"
        running.cancel()
        await asyncio.wait({running})
        forever.set()
        assert await ours
        assert set(asyncio.all_tasks()) <= others, "of Kopf nothing is left"
        assert thief.heads == []
    assert any("307, a redirect, which is not followed" in message for message in caplog.messages)
    assert TOKEN not in caplog.text
