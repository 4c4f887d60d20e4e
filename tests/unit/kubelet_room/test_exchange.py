"""Whatever a server sends, a request ends with a body or with the one error, and in time."""

from __future__ import annotations

import asyncio
import traceback
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from harness.hostile_server import a_server, answering, response
from winpool.kubelet.exchange import Line, within
from winpool.kubelet.outcome import Outcome, PollError

TOKEN: Final = "s3cret-t0ken"
LIMIT: Final = 1000
DEADLINE: Final = 0.2
"""Many answers have no end, so it is short. Whether it is a timeout or another outcome does not matter."""
AMPLE: Final = 30.0

GOOD: Final = response(b'{"node": {}}', Set_Cookie="a=b")
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

PIECES: Final = st.sampled_from(
    [
        *(
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 999 X\r\n",
            b"HTTP/9.9 200\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"\x00",
            b"\xff",
        ),
        *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Location: https://[::1\r\n"),
        *(
            b"fffffffffffffffff\r\n",
            b"5\r\nhello\r\n",
            b"0\r\n\r\n",
            b"Connection: close\r\n",
            b"X: " + 9000 * b"x",
        ),
        *(b"Set-Cookie: " + TOKEN.encode() + b"\r\n", TOKEN.encode(), b"HTTP/1.1 101 Switching\r\n"),
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a good answer with a few bytes that are others."""
    content = bytearray(draw(st.sampled_from([GOOD, CHUNKED])))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(content) - 1))
        content[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4) | PIECES)
        content = content or bytearray(b"H")
    return bytes(content)


ANSWERS: Final = damaged() | st.lists(PIECES, max_size=8).map(b"".join) | st.binary(max_size=100)


async def asked(content: bytes, *, deadline: float) -> bytes | PollError:
    async with a_server(None, answering(content)) as server:
        line = Line(limit=1, keep_alive=1.0)
        try:
            async with within(deadline):
                url = URL(f"http://127.0.0.1:{server.port}/")
                return bytes(
                    await line.get(url, authorization=f"Bearer {TOKEN}", context=None, name=None, limit=LIMIT)
                )
        except PollError as error:
            return error
        finally:
            await line.close()


@given(content=ANSWERS)
def test_any_answer_is_a_body_or_the_one_error_without_the_token(content: bytes) -> None:
    got = asyncio.run(asked(content, deadline=DEADLINE))
    if isinstance(got, PollError):
        assert got.outcome in Outcome
        assert TOKEN not in "".join(traceback.format_exception(got)) + repr(got)
    else:
        assert len(got) <= LIMIT


def test_a_good_answer_is_a_body() -> None:
    assert asyncio.run(asked(GOOD, deadline=AMPLE)) == b'{"node": {}}'
    assert asyncio.run(asked(CHUNKED, deadline=AMPLE)) == b"hello"
