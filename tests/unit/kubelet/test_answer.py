"""Reading an answer: whatever bytes come, and in whatever pieces, it is a body or the one error."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.answers import ANSWERS, TOKEN
from harness.hostile_server import response
from winpool.kubelet.connection import Answer
from winpool.kubelet.samples import Outcome, PollError

LIMIT: Final = 1000
OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The parser of aiohttp asks for one, and does not use it."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def read(loop: asyncio.AbstractEventLoop, *pieces: bytes, ends: bool = False) -> Answer:
    answer = Answer(limit=LIMIT, loop=loop)
    for piece in pieces:
        answer.feed(piece)
    if ends and not answer.is_complete:
        answer.end()
    return answer


def outcome(loop: asyncio.AbstractEventLoop, *pieces: bytes, ends: bool = False) -> Outcome:
    with pytest.raises(PollError) as raised:
        read(loop, *pieces, ends=ends)
    return raised.value.outcome


def pieces_of(content: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    return [content[start:end] for start, end in pairwise(at)]


@given(content=ANSWERS, cuts=st.lists(st.integers(0, 10_000), max_size=4))
def test_any_answer_in_any_pieces_is_a_body_or_the_one_error_without_the_token(
    loop: asyncio.AbstractEventLoop, content: bytes, cuts: list[int]
) -> None:
    found: Answer | PollError
    try:
        found = read(loop, *pieces_of(content, cuts), ends=True)
    except PollError as error:
        found = error
    if isinstance(found, PollError):
        assert found.outcome in Outcome
        assert TOKEN not in "".join(traceback.format_exception(found)) + repr(found)
    else:
        assert found.is_complete
        assert len(found.body) <= LIMIT


@pytest.mark.parametrize("content", [response(b"hello"), CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"])
def test_an_answer_that_comes_byte_by_byte_is_the_same(
    loop: asyncio.AbstractEventLoop, content: bytes
) -> None:
    answer = Answer(limit=LIMIT, loop=loop)
    for at in range(len(content)):
        assert not answer.is_complete
        answer.feed(content[at : at + 1])
    assert (answer.is_complete, answer.is_last, bytes(answer.body)) == (True, False, b"hello")


def test_what_comes_before_the_answer_proper_is_no_answer(loop: asyncio.AbstractEventLoop) -> None:
    assert not read(loop, INTERIM).has_begun
    assert read(loop, INTERIM + response(b"hello")).body == b"hello"
    assert outcome(loop, INTERIM, ends=True) is Outcome.NO_CONNECTION


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("101 Switching Protocols", Outcome.SERVER_ERROR),
        ("204 No Content", Outcome.SERVER_ERROR),
        ("304 Not Modified", Outcome.REDIRECTED),
        ("401 Unauthorized", Outcome.UNAUTHORIZED),
        ("403 Forbidden", Outcome.FORBIDDEN),
        ("500 Internal Server Error", Outcome.SERVER_ERROR),
    ],
)
def test_another_status_is_refused_with_the_head(
    loop: asyncio.AbstractEventLoop, status: str, found: Outcome
) -> None:
    assert outcome(loop, f"HTTP/1.1 {status}\r\n\r\n".encode()) is found


@pytest.mark.parametrize(
    "content",
    [
        response(b"hello", Connection="close"),
        response(b"hello") + response(b"again"),
        response(b"hello") + OK + b"Content-Length: 100\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["says so", "two answers", "a half one more", "HTTP/1.0"],
)
def test_after_the_last_answer_the_connection_is_of_no_use(
    loop: asyncio.AbstractEventLoop, content: bytes
) -> None:
    answer = read(loop, content)
    assert (answer.is_complete, answer.is_last, bytes(answer.body)) == (True, True, b"hello")


def test_a_body_without_a_length_ends_with_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    assert not read(loop, OK + b"\r\nhello").is_complete
    answer = read(loop, OK + b"\r\nhello", ends=True)
    assert (answer.is_complete, answer.is_last, bytes(answer.body)) == (True, True, b"hello")


@pytest.mark.parametrize(
    "content", [b"", b"HTTP/1.1", OK, response(b"hello")[:-1], CHUNKED + b"5\r\nhello\r\n"]
)
def test_an_answer_that_breaks_off_is_none(loop: asyncio.AbstractEventLoop, content: bytes) -> None:
    assert outcome(loop, content, ends=True) is Outcome.NO_CONNECTION


def test_a_body_has_as_many_bytes_as_it_may_and_no_more(loop: asyncio.AbstractEventLoop) -> None:
    assert len(read(loop, response(LIMIT * b"x")).body) == LIMIT
    assert outcome(loop, response((LIMIT + 1) * b"x")) is Outcome.TOO_LARGE
    assert outcome(loop, CHUNKED, *[b"100\r\n" + 256 * b"x" + b"\r\n"] * 4) is Outcome.TOO_LARGE


def test_the_parser_pauses_no_connection_however_many_small_chunks_come(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """It would ask for a pause that there is no connection for."""
    answer = Answer(limit=2**20, loop=loop)
    answer.feed(CHUNKED)
    for _ in range(40):
        answer.feed(b"1\r\nx\r\n" * 5000)
    answer.feed(b"0\r\n\r\n")
    assert answer.is_complete
    assert len(answer.body) == 200_000
