"""Answers of a server that is no good: damaged ones, and pieces of answers in any order."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from harness.hostile_server import response

TOKEN: Final = "s3cret-t0ken"

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
"""Bytes that a server may send. Some have the token in them that it was sent."""
