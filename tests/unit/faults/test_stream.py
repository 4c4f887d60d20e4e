"""What rules make of the lines of a watch."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.faults import alter, bookmark_line, cut_stream, drop, error_line, event, insert, replay, silence
from testbed.faults.stream import LineBuffer, Mark, Step, StreamAction

LINES = [b'{"n":1}\n', b'{"n":2}\n', b'{"n":3}\n']


def sent(action: StreamAction, lines: Iterable[bytes] = LINES) -> list[Step]:
    """Return what a watch becomes, up to its end."""
    work = action.open()
    steps = list(work(None))
    for line in lines:
        if Mark.CUT in steps or Mark.END in steps:
            break
        steps += work(line)
    return steps


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (cut_stream(), [Mark.CUT]),
        (cut_stream(clean=True), [Mark.END]),
        (cut_stream(after_lines=2), [*LINES[:2], Mark.CUT]),
        (cut_stream(in_line=True), [b'{"n"', Mark.CUT]),
        (cut_stream(after_lines=1, in_line=True, clean=True), [LINES[0], b'{"n"', Mark.END]),
        (silence(), [Mark.HOLD, *LINES]),
        (silence(after_lines=2), [*LINES[:2], Mark.HOLD, LINES[2]]),
        (insert(b"x"), [b"x\n", *LINES]),
        (insert(b"x\n", after_lines=3), [*LINES, b"x\n"]),
        (replay(after_lines=2), [*LINES[:2], *LINES[:2], LINES[2]]),
        (drop(), []),
        (drop(nth=2), [LINES[0], LINES[2]]),
        (drop(where=lambda line: b"1" not in line, first=1), [LINES[0], LINES[2]]),
        (alter(lambda line: line[1:-1], every=2), [LINES[0], b'"n":2\n', LINES[2]]),
        (alter(lambda _: None, where=lambda line: b"3" in line), LINES[:2]),
    ],
)
def test_lines(action: StreamAction, expected: list[Step]) -> None:
    assert sent(action) == expected


def test_each_watch_is_counted_by_itself() -> None:
    action = drop(nth=1)
    assert sent(action) == sent(action) == LINES[1:]


@pytest.mark.parametrize(
    "make", [lambda: cut_stream(after_lines=-1), lambda: replay(after_lines=0), lambda: drop(nth=0)]
)
def test_what_makes_no_sense_is_refused(make: Callable[[], StreamAction]) -> None:
    with pytest.raises(ValueError, match=r"counts|nothing to send|not less than 1"):
        make()


def test_an_error_line_is_what_the_api_server_sends() -> None:
    told = json.loads(error_line(410, message="too old resource version: 337 (489)"))
    assert told == {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "too old resource version: 337 (489)",
            "reason": "Expired",
            "code": 410,
        },
    }


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        (b'{"type":"DELETED","object":{"metadata":{"name":"w1"}}}', True),
        (b'{"type":"DELETED","object":{"metadata":{"name":"w2"}}}', False),
        (b'{"type":"ADDED","object":{"metadata":{"name":"w1"}}}', False),
        (bookmark_line("7", kind="Node"), False),
        (b'{"type":"DELETED"}', False),
        (b'{"type":"DELETED","object":[]}', False),
        (b'{"type":"DELETED","object":{"metadata":null}}', False),
        (b"[]", False),
        (b"{", False),
        (b"\xff", False),
    ],
)
def test_an_event_is_told_by_type_and_name(line: bytes, *, matches: bool) -> None:
    assert event("MODIFIED", "DELETED", name="w1")(line) is matches


def test_an_event_of_any_type() -> None:
    assert event()(bookmark_line("7", kind="Node"))
    assert not event()(b"null")


@given(
    data=st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n")), cuts=st.sets(st.integers(0, 60))
)
def test_lines_are_the_same_however_they_are_cut_into_chunks(data: bytes, cuts: set[int]) -> None:
    buffer = LineBuffer()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    lines = [line for a, b in itertools.pairwise(edges) for line in buffer.feed(data[a:b])]
    assert b"".join(lines) + buffer.rest() == data
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    assert b"\n" not in buffer.rest()


def test_a_line_without_end_is_not_held_for_ever() -> None:
    buffer = LineBuffer()
    chunk = b"x" * (32 * 1024 * 1024)
    assert buffer.feed(chunk) == buffer.feed(chunk) == []
    with pytest.raises(ValueError, match="a line of more than 67108864 bytes"):
        buffer.feed(b"x")
