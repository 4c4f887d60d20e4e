"""Text of others: whatever comes in, nothing goes out that does not show as itself."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.strategies import NASTY
from winpool.api.text import printable

INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2800\u3164\ufe00\ufe0f\uffa0\U000e0100"
MARKS = st.text(st.characters(categories=("Mn", "Me")) | st.sampled_from(f"e{INVISIBLE}"))


@given(st.text() | NASTY | MARKS)
def test_any_text_comes_out_printable(text: str) -> None:
    out = printable(text)
    assert out.isprintable()
    assert out.encode().decode() == out, "and can be sent"
    assert printable(out) == out, "once is enough: a status that is read back is the one that was written"


@given(st.text() | NASTY | MARKS)
def test_no_letter_carries_more_than_two_marks(text: str) -> None:
    stacked = "".join("m" if unicodedata.category(each) in ("Mn", "Me") else "-" for each in printable(text))
    assert "mmm" not in stacked


@pytest.mark.parametrize("letter", INVISIBLE)
def test_an_invisible_letter_is_written_out(letter: str) -> None:
    assert printable(f"w{letter}1") == "w" + letter.encode("unicode_escape").decode() + "1"


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z", "Mn", "Me"))).map(
        lambda text: text.translate(dict.fromkeys(map(ord, f"{INVISIBLE}\U0001d159")))
    )
)
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
        ("e\u0302\u0301", "e\u0302\u0301"),
        ("e\u0302\u0301\u0300\u0316x", "e\u0302\u0301" r"\u0300\u0316x"),
        ("e\u0301e\u0301e\u0301", "e\u0301e\u0301e\u0301"),
    ],
)
def test_what_does_not_is_written_out(text: str, out: str) -> None:
    assert printable(text) == out
