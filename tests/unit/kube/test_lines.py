"""A stream is cut into the same lines however it arrives, and no line can fill the memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kube.client import LINE_LIMIT, LineSplitter
from winpool.kube.errors import TooLarge

LINES = st.lists(st.binary(min_size=1, max_size=40).filter(lambda b: b"\n" not in b and not b.isspace()))


@given(LINES, st.lists(st.integers(min_value=1, max_value=50)))
def test_chunks_do_not_matter(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter("watch nodes")
    found: list[bytes] = []
    position = 0
    for size in [*cuts, len(data)]:
        found += splitter.feed(data[position : position + size])
        position += size
    assert found == lines
    assert not splitter.pending


def test_what_has_not_ended_is_pending_and_comes_whole() -> None:
    splitter = LineSplitter("watch nodes")
    assert splitter.feed(b"a\nbc") == [b"a"]
    assert splitter.pending
    assert splitter.feed(b"d") == []
    assert splitter.feed(b"\n\n \r\n") == [b"bcd"]
    assert not splitter.pending


def test_a_line_of_two_mebibytes_comes_through() -> None:
    splitter = LineSplitter("watch nodes")
    line = b"x" * (2 * 1024 * 1024)
    found = [
        done for start in range(0, len(line), 65536) for done in splitter.feed(line[start : start + 65536])
    ]
    assert found == []
    assert splitter.feed(b"\n") == [line]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_above_the_limit_is_refused_before_it_is_whole(end: bytes) -> None:
    splitter = LineSplitter("watch nodes")
    chunk = b"x" * 65536
    for _ in range(LINE_LIMIT // len(chunk)):
        assert splitter.feed(chunk) == []
    with pytest.raises(TooLarge, match="watch nodes: a line of more than"):
        splitter.feed(b"x" + end)


def test_many_lines_may_be_more_than_the_limit_together() -> None:
    splitter = LineSplitter("watch nodes", limit=10)
    assert splitter.feed(b"123456789\n" * 1000) == [b"123456789"] * 1000
