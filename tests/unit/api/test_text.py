"""Text of others: whatever comes in, nothing goes out that does not show as itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.strategies import NASTY
from winpool.api.text import printable


@given(st.text() | NASTY)
def test_any_text_comes_out_printable(text: str) -> None:
    out = printable(text)
    assert out.isprintable()
    assert out.encode().decode() == out, "and can be sent"
    assert printable(out) == out, "once is enough: a status that is read back is the one that was written"


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"))))
def test_what_shows_as_itself_is_left_alone(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("vendor backport", "vendor backport"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x7f\x9b", r"\x7f\x9b"),
        ("\u2028\u202e\u2066", r"\u2028\u202e\u2066"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_does_not_is_written_out(text: str, out: str) -> None:
    assert printable(text) == out
