"""Whatever answers in the API server's place, what the transport raises is an ApiError."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.listener import EMPTY, Listener, a_kubeconfig_for, an_authority, listening, server_tls
from harness.waiting import GUARD_SECONDS
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError, Unavailable
from winpool.kube.request import Request

GET = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")
CREATE = Request(verb="create", resource="events", path="/events", body=b"{}")  # never sent a second time
WATCH = Request(verb="watch", resource="nodes", path="/api/v1/nodes?watch=1")
TOKEN = "s3cret.t0ken"

DEEP = b'{"kind":"Status","reason":"x","details":' + b"[" * 100_000

_WORDS = st.sampled_from(
    [
        *(b"HTTP/1.1 ", b"HTTP/9.9 ", b"200 OK", b"302 Found", b"503 No", b"429 No", b"401 No"),
        *(b"99999999999 ", b"-1", b" ", b"\r\n", b"\n", b"\r", b"\0", b":", b"\r\n\r\n", b"\xff", b"\x1b[0m"),
        *(b"Content-Length: 5", b"Content-Length: -5", b"Content-Length: " + b"9" * 5000),
        *(b"Transfer-Encoding: chunked", b"Connection: upgrade", b"Set-Cookie: a=b", b'Warning: 299 - "'),
        *(b"Content-Encoding: gzip", b"Content-Encoding: deflate", b"Content-Encoding: br"),
        *(b"Retry-After: " + b"9" * 5000, b"Retry-After: Sun, 01 Nov 99999999999999 12:00:00 GMT"),
        *(b"Location: http://u:p@[::1", b"Location: //", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n"),
        *(b"ffffffffffffffffffffff\r\n", b'{"kind":"Status"', b"[" * 5000),
    ]
)
ANSWERS = st.lists(_WORDS | st.binary(max_size=20), max_size=14).map(b"".join) | st.builds(
    lambda status, headers, body: b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, b"\r\n".join(headers), body),
    st.sampled_from([b"200 OK", b"401 No", b"429 No", b"503 No", b"504 No", b"302 Found", b"410 Gone"]),
    st.lists(_WORDS, max_size=4),
    _WORDS | st.binary(max_size=50),
)


@asynccontextmanager
async def a_door(
    folder: Path, *, answer: Callable[[str], bytes]
) -> AsyncIterator[tuple[Listener, Transport]]:
    authority = an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=answer) as server:
        kubeconfig = a_kubeconfig_for(
            folder, server.url, ca=authority.paths.certificate, user={"token": TOKEN}
        )
        async with Transport(await load_connection(kubeconfig=kubeconfig, environ={})) as transport:
            yield server, transport


async def ask(folder: Path, answer: bytes) -> None:
    """Send a request and open a watch; each may work, or fail with an ApiError that shows no token."""
    async with a_door(folder, answer=lambda _: answer) as (_, door), asyncio.timeout(GUARD_SECONDS):
        asked = await asyncio.gather(door.request(CREATE), _watch(door), return_exceptions=True)
    errors = [outcome for outcome in asked if isinstance(outcome, BaseException)]
    assert [error for error in errors if not isinstance(error, ApiError)] == []
    assert TOKEN not in repr(errors)


async def _watch(door: Transport) -> None:
    async with door.stream(WATCH, silence_seconds=GUARD_SECONDS, is_calm=lambda: True) as lines:
        async for _ in lines:
            pass


@pytest.mark.slow
@given(answer=ANSWERS)
@example(answer=b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n%s" % (len(DEEP), DEEP))
@example(answer=b"HTTP/1.1 429 No\r\nRetry-After: Sun, 01 Nov 99999999999999999999 12:00:00 GMT\r\n\r\n")
@example(answer=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")
@example(answer=b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 5\r\n\r\nhello")
@example(answer=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n")
def test_whatever_is_answered_raises_an_api_error_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, answer: bytes
) -> None:
    asyncio.run(ask(tmp_path_factory.mktemp("garbage"), answer))


@pytest.mark.slow
async def test_an_answer_that_unpacks_to_far_more_than_we_hold_is_an_api_error(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    bomb = packer.compress(b" " * 64 * 1024 * 1024) + packer.flush()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with a_door(tmp_path, answer=lambda _: head + bomb) as (_, door):
        with pytest.raises(ApiError):
            await door.request(GET)


async def test_a_transport_that_is_closed_raises_an_api_error(tmp_path: Path) -> None:
    async with a_door(tmp_path, answer=lambda _: EMPTY) as (_, door):
        await door.request(GET)
        await door.close()
        with pytest.raises(Unavailable, match="being closed"):
            await door.request(GET)
        with pytest.raises(Unavailable, match="being closed"):
            async with door.stream(WATCH, silence_seconds=1, is_calm=lambda: True):
                pass


async def test_a_504_by_which_the_api_server_says_timeout_is_asked_again(tmp_path: Path) -> None:
    body = b'{"kind":"Status","reason":"Timeout","message":"request timed out"}'
    refusal = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    answers = iter([refusal, EMPTY])
    async with a_door(tmp_path, answer=lambda _: next(answers)) as (server, door):
        assert await door.request(GET) == b"{}"
    assert len(server.heads) == 2
