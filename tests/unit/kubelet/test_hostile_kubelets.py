"""What the worst kubelet costs: one poll that gives nothing, and a few megabytes for a moment.

Its neighbours are polled meanwhile. What it answers is in the tests of the client and the parsers. Here it
sends what has no end, or nothing that was asked for.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from cluster.door import until
from harness.hostile_server import Answer, a_server, answering, response, trickling
from harness.kubelet_payloads import a_pod, a_summary
from harness.polling import AMPLE, SOON, a_client, at, poll_once, refused
from testbed.pki import Authority
from winpool.kubelet.samples import MAX_BODY_BYTES, MOST_PODS, Outcome

OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EMPTY: Final = OK + b"Content-Length: 0\r\n\r\n"
WELL: Final = response(a_summary("w1", pods=[], systemContainers=[]))

PEAK_BYTES: Final = 16 * 2**20
"""Of all that is allocated during a poll, by the client and the server of the test together. An answer has 1
MiB at most, and it is read in pieces."""


def flooding(piece: bytes, *, after: bytes = b"", pause: float = 0.0) -> Answer:
    """Return an answer that begins well and goes on with the same bytes for ever, after a pause."""

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(after)
        await writer.drain()
        await asyncio.sleep(pause)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # a drain alone does not let the end of the connection be noticed

    return answer


def closing(content: bytes) -> Answer:
    """Return an answer after which the connection is closed."""

    async def answer(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        writer.close()

    return answer


def bomb(encoding: str) -> Answer:
    """Return a summary, and after it a gigabyte of spaces; all in a megabyte."""
    pack = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    parts = [pack.compress(a_summary("w1"))]
    parts += [pack.compress(b" " * 2**20) for _ in range(900)]
    body = b"".join([*parts, pack.flush()])
    assert len(body) < MAX_BODY_BYTES
    return answering(response(body, Content_Encoding=encoding))


async def peak_of(work: Awaitable[object]) -> int:
    """Return the most bytes of Python's memory that were in use meanwhile, beyond those before."""
    tracemalloc.start()
    try:
        await work
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


FLOODS: Final = {
    "headers": (flooding(b"A: b\r\n" * 1000, after=OK), Outcome.UNREADABLE),
    "one header": (flooding(b"a" * 50_000, after=OK + b"X: "), Outcome.UNREADABLE),
    "a status line": (flooding(b"a" * 50_000, after=b"HTTP/1.1 200 "), Outcome.UNREADABLE),
    "trailers": (flooding(b"A: b\r\n" * 1000, after=CHUNKED + b"0\r\n"), Outcome.UNREADABLE),
    "empty lines": (flooding(b"\r\n" * 10_000), Outcome.UNREADABLE),
    "interim answers": (flooding(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), Outcome.UNREADABLE),
    "early hints": (flooding(b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 1000), Outcome.UNREADABLE),
    "an extension of a chunk": (flooding(b"a" * 50_000, after=CHUNKED + b"1;"), Outcome.TOO_LARGE),
    "chunks of one byte": (flooding(b"1\r\nx\r\n" * 10_000, after=CHUNKED), Outcome.TOO_LARGE),
    "a body": (flooding(b"8000\r\n" + 0x8000 * b"x" + b"\r\n", after=CHUNKED), Outcome.TOO_LARGE),
    "a body without a length": (flooding(b"x" * 50_000, after=OK + b"\r\n"), Outcome.TOO_LARGE),
    "answers": (flooding(EMPTY * 1000), Outcome.UNREADABLE),
    "another protocol": (
        flooding(b"x" * 50_000, after=b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        Outcome.SERVER_ERROR,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS)
async def test_what_never_ends_ends_the_poll_soon(
    authority: Authority, tls: ssl.SSLContext, flood: str
) -> None:
    """Each of them could also go on until the deadline: that it does not is what the outcome shows."""
    answer, wanted = FLOODS[flood]
    assert await poll_once(authority, tls, answer) is wanted


@pytest.mark.parametrize(
    "flood", ["headers", "trailers", "early hints", "a body", "answers", "another protocol"]
)
async def test_what_never_ends_takes_no_memory(authority: Authority, tls: ssl.SSLContext, flood: str) -> None:
    async with a_server(tls, FLOODS[flood][0]) as server, a_client(authority) as client:
        assert await peak_of(refused(client.summary(at(server), deadline=AMPLE, keep=True))) < PEAK_BYTES


@pytest.mark.parametrize("flood", ["interim answers", "a body"])
async def test_a_neighbour_of_one_that_floods_is_sampled_meanwhile(
    authority: Authority, tls: ssl.SSLContext, flood: str
) -> None:
    answer, wanted = FLOODS[flood]
    async with (
        a_server(tls, answer) as hostile,
        a_server(tls, answering(WELL)) as server,
        a_client(authority) as client,
    ):
        targets = [at(hostile, node=f"h{number}") for number in range(4)]
        bad = [asyncio.ensure_future(client.summary(each, deadline=AMPLE)) for each in targets]
        await until(lambda: hostile.heads, what="it is asked")
        assert (await client.summary(at(server), deadline=AMPLE))[0].commit_total
        assert [await refused(each) for each in bad] == [wanted] * len(bad)
        assert len(hostile.heads) == len(bad), "nothing is repeated"


# A connection that is kept


@pytest.mark.slow
@pytest.mark.parametrize("piece", [EMPTY * 1000, WELL * 20, b"x" * 50_000], ids=["empty", "samples", "junk"])
async def test_what_comes_over_a_kept_connection_unasked_ends_it(
    authority: Authority, tls: ssl.SSLContext, piece: bytes
) -> None:
    answer = flooding(piece, after=WELL, pause=0.2)

    async def poll() -> None:
        async with a_server(tls, answer) as server, a_client(authority) as client:
            assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_total
            assert server.open == 1
            # Not for long: what is not cut fills the memory.
            await until(lambda: server.open == 0, what="the connection is cut", seconds=5)
            assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_total
            assert server.connections == 2

    assert await peak_of(poll()) < PEAK_BYTES


async def test_two_answers_to_one_request_are_one_sample_and_the_connection_is_not_kept(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    second = response(a_summary("w2"))
    async with a_server(tls, answering(WELL + second)) as server, a_client(authority) as client:
        for connections in (1, 2, 3):
            assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_total
            await until(lambda: server.open == 0, what="the connection is closed")
            assert server.connections == connections


@pytest.mark.slow
async def test_an_answer_that_came_before_its_request_is_no_answer(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    """Else a kubelet could be one answer ahead for ever."""

    async def ahead(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(WELL)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(response(a_summary("w2")))

    async with a_server(tls, ahead) as server, a_client(authority) as client:
        assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_total
        await asyncio.sleep(0.3)
        assert (await client.summary(at(server), deadline=AMPLE, keep=True))[0].commit_total
        assert server.connections == 2


# Bodies


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_body_stays_compressed(
    authority: Authority, tls: ssl.SSLContext, encoding: str
) -> None:
    answer = bomb(encoding)

    async def poll() -> None:
        assert await poll_once(authority, tls, answer) is Outcome.UNREADABLE

    assert await peak_of(poll()) < PEAK_BYTES


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "chunked"])
async def test_what_is_said_of_the_encoding_changes_nothing(
    authority: Authority, tls: ssl.SSLContext, encoding: str
) -> None:
    answer = answering(response(a_summary("w1"), Content_Encoding=encoding))
    async with a_server(tls, answer) as server, a_client(authority) as client:
        assert (await client.summary(at(server), deadline=AMPLE))[0].commit_total


async def test_a_compressed_transfer_is_unreadable(authority: Authority, tls: ssl.SSLContext) -> None:
    packed = gzip.compress(a_summary("w1"))
    head = OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n"
    answer = answering(head + f"{len(packed):x}\r\n".encode() + packed + b"\r\n0\r\n\r\n")
    assert await poll_once(authority, tls, answer) is Outcome.UNREADABLE


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        a_summary("w1", pods=[{"podRef": {"uid": f"{number:x}"}} for number in range(37_000)]).replace(
            b" ", b""
        ),
        a_summary("w1", pods=[a_pod(str(number)) for number in range(MOST_PODS + 1)]),
        b'{"node": {"nodeName": "w1", "fs": ' + b"[" * 1_000_000,
        b'{"node": {"nodeName": "w1"}, "pods": ' + b'[{"podRef":' * 90_000,
        b'{"node": {"nodeName": "w1", "memory": {"usageBytes": ' + b"9" * 1_000_000 + b"}}}",
        b'{"node": {"nodeName": "' + b"\\u0041" * 170_000 + b'"}}',
    ],
    ids=["37,000 pods", "1,001 pods", "nested", "nested where it is read", "a long number", "a long name"],
)
async def test_the_strangest_bodies_within_the_limit_take_no_memory(
    authority: Authority, tls: ssl.SSLContext, body: bytes
) -> None:
    assert len(body) <= MAX_BODY_BYTES

    async def poll() -> None:
        async with a_server(tls, answering(response(body))) as server, a_client(authority) as client:
            assert await refused(client.summary(at(server), deadline=AMPLE, pods=True)) is Outcome.UNREADABLE

    assert await peak_of(poll()) < 2 * PEAK_BYTES


# Ends and redirects


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (OK + b"Content-Length: 100\r\n\r\n", Outcome.NO_CONNECTION),
        (CHUNKED, Outcome.NO_CONNECTION),
        (CHUNKED + b"100\r\n", Outcome.NO_CONNECTION),
        (OK + b"\r\n", Outcome.UNREADABLE),
        (OK + b"Content-Length: 100\r\n", Outcome.NO_CONNECTION),
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", Outcome.UNREADABLE),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Outcome.UNREADABLE),
    ],
)
async def test_a_connection_that_ends_after_the_headers_is_no_sample(
    authority: Authority, tls: ssl.SSLContext, content: bytes, outcome: Outcome
) -> None:
    assert await poll_once(authority, tls, closing(content)) is outcome


@pytest.mark.parametrize("content", [b"", OK, OK + b"Content-Length: 5\r\n\r\n"])
async def test_a_request_is_not_repeated_on_another_connection(
    authority: Authority, tls: ssl.SSLContext, content: bytes
) -> None:
    async with a_server(tls, closing(content)) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.NO_CONNECTION
        assert (server.connections, len(server.heads)) == (1, 1)


@pytest.mark.parametrize(
    "location",
    [
        "/stats/summary",
        "//10.96.0.1:443/api",
        "https://10.96.0.1/api/v1/secrets",
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
        "http://metadata.google.internal/",
        "file:///etc/passwd",
        "",
        "https://[::1",
    ],
)
@pytest.mark.parametrize(
    "status", ["301 Moved Permanently", "307 Temporary Redirect", "308 Permanent Redirect"]
)
async def test_a_redirect_to_wherever_is_one_request(
    authority: Authority, tls: ssl.SSLContext, status: str, location: str, asked_addresses: list[str]
) -> None:
    answer = answering(response(b"", status=status, Location=location))
    async with a_server(tls, answer) as server, a_client(authority) as client:
        assert await refused(client.summary(at(server), deadline=AMPLE)) is Outcome.REDIRECTED
        assert (server.connections, len(server.heads)) == (1, 1)
    assert asked_addresses == ["127.0.0.1"]


@pytest.fixture
def asked_addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses to which the event loop connects a socket of the client."""
    found: list[str] = []
    connect: Callable[..., Awaitable[None]] = asyncio.SelectorEventLoop.sock_connect

    async def noted(self: asyncio.SelectorEventLoop, sock: object, address: tuple[str, int]) -> None:
        found.append(address[0])
        await connect(self, sock, address)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", noted)
    return found


@pytest.mark.slow
async def test_one_byte_at_a_time_until_the_deadline_is_one_failed_poll(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    answer = trickling(OK + b"X: y\r\n" * 1000, every=0.01)
    assert await poll_once(authority, tls, answer, deadline=SOON) is Outcome.TIMEOUT
