"""What a watch can do to us, on aiohttp's own stream: lines, ends, breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from harness.virtual_time import in_virtual_time
from winpool.kube.client import (
    GATHER_SECONDS,
    LINE_LIMIT,
    describe,
    is_worth_repeating,
    read_lines,
    translated,
)
from winpool.kube.errors import ApiError, NotFound, StreamCut, StreamSilent, TooLarge, Unavailable


class Way(asyncio.Transport):
    """Notes when it is not read."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[tuple[float, float]] = []

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def resume_reading(self) -> None:
        self.pauses.append((self._since, asyncio.get_running_loop().time()))


def a_stream(
    way: Way | None = None, *, is_calm: Callable[[], bool] = lambda: False
) -> tuple[aiohttp.StreamReader, AsyncIterator[bytes]]:
    loop = asyncio.get_running_loop()
    content = aiohttp.StreamReader(BaseProtocol(loop), 2**23, loop=loop)
    lines = read_lines(content, way, label="watch nodes", silence_seconds=70, is_calm=is_calm)
    return content, lines


async def test_lines_come_one_by_one_and_a_proper_end_ends() -> None:
    content, lines = a_stream()
    content.feed_data(b'{"a":1}\n{"b"')
    content.feed_data(b":2}\n")
    content.feed_eof()
    assert [line async for line in lines] == [b'{"a":1}', b'{"b":2}']


async def test_an_end_in_the_middle_of_a_line_is_a_cut() -> None:
    content, lines = a_stream()
    content.feed_data(b'{"a":1}\n{"b"')
    content.feed_eof()
    assert await anext(lines) == b'{"a":1}'
    with pytest.raises(StreamCut, match=r"^watch nodes: the stream ended in the middle of a line$"):
        await anext(lines)


async def test_a_broken_connection_is_a_cut_after_the_lines_before_it() -> None:
    content, lines = a_stream()
    content.feed_data(b'{"a":1}\n')
    content.set_exception(aiohttp.ClientPayloadError("whatever"))
    with pytest.raises(StreamCut, match="the answer broke off"):
        _ = [line async for line in lines]


async def test_silence_is_told_apart() -> None:
    content, lines = a_stream()
    content.set_exception(aiohttp.SocketTimeoutError())
    with pytest.raises(StreamSilent, match=r"^watch nodes: nothing came for 70 s$"):
        await anext(lines)


async def test_a_line_without_an_end_is_given_up() -> None:
    content, lines = a_stream()
    for _ in range(LINE_LIMIT // 65536 + 1):
        content.feed_data(b"x" * 65536)
    with pytest.raises(TooLarge, match=f"more than {LINE_LIMIT} bytes"):
        await anext(lines)


@in_virtual_time
async def test_after_lines_of_no_interest_the_next_may_gather_and_after_others_they_are_read_at_once() -> (
    None
):
    way, calm = Way(), iter([True, False])
    content, lines = a_stream(way, is_calm=lambda: next(calm))
    content.feed_data(b"1\n2\n")
    assert [await anext(lines), await anext(lines)] == [b"1", b"2"]
    asyncio.get_running_loop().call_later(0.1, content.feed_data, b"3\n")
    assert await anext(lines) == b"3"
    [(since, until)] = way.pauses
    assert until - since == pytest.approx(GATHER_SECONDS)
    content.feed_data(b"4\n")
    assert await anext(lines) == b"4"
    assert len(way.pauses) == 1


@pytest.mark.parametrize(
    ("raised", "reason", "repeat"),
    [
        (TimeoutError(), "NoAnswer", False),
        (aiohttp.ServerTimeoutError(), "NoAnswer", False),
        (aiohttp.ConnectionTimeoutError(), "NoAnswer", False),
        (aiohttp.ServerDisconnectedError(), "NoConnection", True),
        (aiohttp.ClientOSError(104, "Connection reset by peer"), "NoConnection", True),
        (ConnectionResetError(104, "Connection reset by peer"), "NoConnection", True),
    ],
)
def test_what_the_network_raises_becomes_unavailable(raised: Exception, reason: str, repeat: bool) -> None:
    with pytest.raises(Unavailable) as caught, translated("list nodes", seconds=30):
        raise raised
    assert caught.value.reason == reason
    assert caught.value.status is None
    assert caught.value.message.startswith("list nodes: ")
    assert is_worth_repeating(caught.value) is repeat


def test_our_own_errors_pass_through_as_they_are() -> None:
    error = NotFound("gone", status=404)
    with pytest.raises(ApiError) as caught, translated("list nodes", seconds=30):
        raise error
    assert caught.value is error


def test_a_description_is_never_empty() -> None:
    assert describe(aiohttp.ClientError()) == "ClientError"
    assert describe(OSError(113, "No route to host")) == "[Errno 113] No route to host"
