"""How many columns of a terminal a text takes, and how a picture fits into its rows."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLOURS: Final = re.compile("(\x1b\\[[0-9;]*m)")
"""What ``Look.painted`` writes. It takes no column."""

_PLAIN: Final = "\x1b[0m"
_MARKS: Final = frozenset({"Mn", "Me"})
_WIDE: Final = frozenset({"W", "F"})


def width_of(text: str) -> int:
    """Return the columns that ``text``, which has no escape sequences, takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(letter: str) -> int:
    if unicodedata.category(letter) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1


def padded(text: str, width: int) -> str:
    """Return ``text`` with blanks behind it, so that it takes ``width`` columns."""
    return text + " " * (width - width_of(text))


def rows_of(line: str, *, columns: int) -> Iterator[str]:
    """Break ``line``, which may have colours, into rows that a terminal with that many columns shows whole.

    No row leaves its colour to what is written after it.
    """
    if line.isascii() and len(line) <= columns and "\x1b" not in line:
        yield line  # what nearly every line is, of thousands
        return
    row: list[str] = []
    taken, ink = 0, ""
    for part in _COLOURS.split(line):
        if _COLOURS.fullmatch(part):
            ink = "" if part == _PLAIN else part
            row.append(part)
            continue
        for letter in part:
            width = _width(letter)
            if taken + width > columns and taken:
                yield "".join(row) + (_PLAIN if ink else "")
                row, taken = [ink], 0
            row.append(letter)
            taken += width
    yield "".join(row)


def fitted(lines: Sequence[str], *, columns: int, most: int) -> list[str]:
    """Return ``lines`` as rows, at most ``most`` of them; the last says how many are left out."""
    rows = [row for line in lines for row in rows_of(line, columns=columns)]
    if len(rows) <= most:
        return rows
    note = f"({len(rows) - most + 1} more lines: a taller terminal shows them)"
    return [*rows[: most - 1], next(rows_of(note, columns=columns))]


def fills(row: str, *, columns: int) -> bool:
    """Whether ``row`` ends in the last column, where erasing to the end of the line takes its last letter."""
    return width_of(_COLOURS.sub("", row)) >= columns
