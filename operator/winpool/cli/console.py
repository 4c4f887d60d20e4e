"""Writes answers to standard output: for people as their terminal wants them, or in a format for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TextIO

from winpool.api.text import printable

PIPE_WIDTH: Final = 100
"""Columns where nothing says how wide the terminal is, as in a pipe."""
_NARROWEST: Final = 40
_WIDEST: Final = 120
"""Longer lines are hard to read, however wide the terminal is."""
_HEIGHT: Final = 24


class Ink(StrEnum):
    """How a text is shown where there are colours: the parameter of the escape sequence SGR."""

    PLAIN = ""
    HEAD = "1"
    GOOD = "32"
    BUSY = "33"
    BAD = "31"


_MARKS: Final[Mapping[Ink, tuple[str, str]]] = {
    Ink.BAD: ("✗", "!"),
    Ink.BUSY: ("●", "*"),
    Ink.GOOD: ("✓", "+"),
}
"""What stands before a line: where the terminal has such letters, and where it has ASCII only."""

GAP: Final = "   "
"""Between columns, as in the tables of kubectl."""

_COLOURS: Final = re.compile("(\x1b\\[[0-9;]*m)")
"""What ``Look.painted`` writes. It takes no column."""

_NO_COLOUR: Final = "\x1b[0m"
_COMBINING: Final = frozenset({"Mn", "Me"})
_WIDE: Final = frozenset({"W", "F"})

_CLEAR: Final = "\x1b[2J"
_HOME, _TO_LINE_END, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
"""Escape sequences of ECMA-48. Lines are written over, not after a blank screen, which would flicker."""

_FOR_PEOPLE: Final = frozenset({"text", "wide"})

_CUT: Final = "…"
"""Ends a text of the status that was cut to its limit."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a terminal wants: columns, whether it has letters beyond ASCII, whether it shows colours.

    ``wide`` is what the person wants: tables with all of their columns, whole, however long the lines are.
    """

    width: int = PIPE_WIDTH
    unicode: bool = False
    colour: bool = False
    wide: bool = False

    def plain(self, text: str) -> str:
        """Return ``text``, printable, in the letters of the terminal."""
        shown = printable(text)
        if self.unicode or shown.isascii():
            return shown
        return shown.replace(_CUT, "...").encode("ascii", "backslashreplace").decode("ascii")

    def painted(self, text: str, ink: Ink) -> str:
        """Return ``text`` in that colour, where there are colours."""
        return f"\x1b[{ink}m{text}\x1b[0m" if self.colour and ink is not Ink.PLAIN else text

    def mark(self, ink: Ink) -> str:
        """Return the mark that stands for ``ink``, so that no meaning is in the colour alone."""
        return _MARKS[ink][0 if self.unicode else 1]


@dataclass(slots=True)
class Paper:
    """Lines that are written one after the other, as a terminal of that look wants them.

    Every text is made printable here, so that no text of others has to be before. ``title_width`` is that of
    the column that begins lines about one thing: by default after ``State:`` with its mark.
    """

    look: Look
    title_width: int = 9
    _lines: list[str] = field(default_factory=list)

    def line(self, text: str = "", *, ink: Ink = Ink.PLAIN) -> None:
        """Write one line as it is, however long."""
        self._lines.append(self.look.painted(self.look.plain(text), ink))

    def wrapped(self, text: str, *, first: str, rest: str = "", ink: Ink = Ink.PLAIN) -> None:
        """Write ``text`` after ``first``, and further lines after as many blanks, or after ``rest``.

        A word that is longer than a line stays whole, so that a command can be copied. ``ink`` is for
        ``first``.
        """
        plain, begin = self.look.plain(text), self.look.plain(first)
        after = rest or " " * len(begin)
        lines = textwrap.wrap(
            plain,
            self.look.width,
            initial_indent=begin,
            subsequent_indent=after,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [begin.rstrip()]
        head = begin.rstrip()
        lines[0] = self.look.painted(head, ink) + lines[0][len(head) :]
        self._lines.extend(lines)

    def heading(self, text: str) -> None:
        """Begin a part: an empty line, and what the part is about."""
        self.line()
        self.line(text, ink=Ink.HEAD)

    def titled(self, title: str, text: str, *, ink: Ink = Ink.PLAIN) -> None:
        """Write ``title: text``, with the mark for ``ink`` at the end of the column of titles."""
        mark = " " if ink is Ink.PLAIN else self.look.mark(ink)
        shown = f"{title}:".ljust(self.title_width - 2) + f"{mark} "
        self.wrapped(text, first=shown, ink=Ink.HEAD if ink is Ink.PLAIN else ink)

    def marked(self, text: str, *, ink: Ink) -> None:
        """Write an entry of a list, after the mark for ``ink``."""
        self.wrapped(text, first=f"  {self.look.mark(ink)} ", ink=ink)

    def bullets(self, lines: Iterable[str]) -> None:
        """Write a list of sentences."""
        for each in lines:
            self.wrapped(each, first="  - ")

    def table(self, rows: Sequence[Mapping[str, str]], *, dropped: Sequence[str], indent: str) -> None:
        """Write ``rows`` by the names of their columns, without as many of ``dropped`` as do not fit."""
        cells = [{name: self.look.plain(cell) for name, cell in row.items()} for row in rows]
        for left_out in range(len(dropped) + 1):
            gone = dropped[:left_out]
            shown = [{name: cell for name, cell in row.items() if name not in gone} for row in cells]
            lines = aligned(shown).splitlines()
            if self.look.wide or len(indent) + max(map(width_of, lines)) <= self.look.width:
                break
        for number, line in enumerate(lines):
            self.line(f"{indent}{line}", ink=Ink.PLAIN if number else Ink.HEAD)

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(f"{line}\n" for line in self._lines)


def dated(look: Look, said: str, *, at: datetime, trouble: str) -> Paper:
    """Begin a picture of ``-w``: of when it is, and why it may be out of date."""
    paper = Paper(look)
    paper.line(f"{at:%H:%M:%S} UTC, {said}; stop with Ctrl-C", ink=Ink.HEAD)
    if trouble:
        paper.marked(f"out of date: {trouble}", ink=Ink.BAD)
    paper.line()
    return paper


def look_of(stream: TextIO, *, environ: Mapping[str, str] = os.environ) -> Look:
    """Return what the terminal behind ``stream`` wants, or what a pipe or a file gets.

    Colours: https://no-color.org. Letters beyond ASCII where both the stream and the locale have them.
    """
    columns = size_of_terminal().columns
    colour = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    return Look(max(_NARROWEST, min(columns, _WIDEST)), unicode=_has_unicode(stream, environ), colour=colour)


def size_of_terminal() -> os.terminal_size:
    """Return how many columns and lines the terminal shows at once."""
    return shutil.get_terminal_size((PIPE_WIDTH, _HEIGHT))


def _has_unicode(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Ask the stream, and the locale: Python writes UTF-8 in the locale C too, where a terminal may not."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    locale = next((each for name in ("LC_ALL", "LC_CTYPE", "LANG") if (each := environ.get(name))), "")
    if sys.platform == "win32":
        return encoding == "utf8"
    return encoding == "utf8" and "utf8" in locale.lower().replace("-", "")


def aligned(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the names of the columns of ``rows``, and the rows, as lines whose columns are aligned."""
    lines = [tuple(rows[0]), *(tuple(row.values()) for row in rows)]
    widths = [max(map(width_of, cells)) for cells in zip(*lines, strict=True)]
    return "".join(
        GAP.join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


def width_of(text: str) -> int:
    """Return the columns that ``text``, which has no escape sequences, takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def padded(text: str, width: int) -> str:
    """Return ``text`` with blanks behind it, so that it takes ``width`` columns."""
    return text + " " * (width - width_of(text))


def _width(letter: str) -> int:
    if unicodedata.category(letter) in _COMBINING:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1


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
            ink = "" if part == _NO_COLOUR else part
            row.append(part)
            continue
        for letter in part:
            width = _width(letter)
            if taken + width > columns and taken:
                yield "".join(row) + (_NO_COLOUR if ink else "")
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


def is_text(output: str) -> bool:
    """Whether this format of ``-o`` is for people."""
    return output in _FOR_PEOPLE


def document(output: str, content: Any) -> str:
    """Return ``content`` with ``-o json`` or ``-o yaml``: the same object."""
    if output == "json":
        return f"{json.dumps(content, indent=2)}\n"
    import yaml  # it takes as long to load as the rest of a short verb

    # By way of JSON, which knows enumerations and tuples.
    text: str = yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, width=PIPE_WIDTH)
    return text


def write(
    output: str,
    content: Callable[[], Any],
    text: Callable[[Look], str],
    names: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Write the answer of a verb to standard output.

    With ``-o json`` and ``-o yaml`` it is ``content``; with ``-o name`` each of ``names`` is a line, as
    RESOURCE/NAME; otherwise it is ``text``, in a look that is wide with ``-o wide``.
    """
    if is_text(output):
        sys.stdout.write(text(_chosen_look(output)))
    elif output == "name":
        sys.stdout.writelines(f"{printable(each)}\n" for each in names())
    else:
        sys.stdout.write(document(output, content()))


def _chosen_look(output: str) -> Look:
    return replace(look_of(sys.stdout), wide=output == "wide")


class Screen:
    """Shows answers of a verb with ``-w`` on standard output, one after the other.

    A picture goes over the one before on a terminal, and below it elsewhere. With ``-o json`` each answer is
    a line, with ``-o yaml`` a document. ``is_live`` says that a person sees how ages go on.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._is_terminal = sys.stdout.isatty()
        self.is_live = self._is_terminal and is_text(output)
        self.has_shown = False

    def show(
        self,
        content: Callable[[], Any],
        picture: Callable[[Look], str],
        names: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Show the next answer, as ``write`` does; the lines of ``picture`` end with a newline."""
        if self._output == "json":
            sys.stdout.write(json.dumps(content()) + "\n")
        elif not is_text(self._output):
            sys.stdout.write("---\n" if self._output == "yaml" and self.has_shown else "")
            write(self._output, content, picture, names)
        elif self._is_terminal:
            self._draw_over(picture(_chosen_look(self._output)))
        else:
            shown = picture(_chosen_look(self._output))
            sys.stdout.write(f"\n{shown}" if self.has_shown else shown)
        self.has_shown = True
        sys.stdout.flush()

    def _draw_over(self, picture: str) -> None:
        columns, height = size_of_terminal()
        # One row is for the cursor.
        rows = fitted(picture.splitlines(), columns=columns, most=max(1, height - 1))
        clear = "" if self.has_shown else _CLEAR
        text = "".join(f"{row}{'' if fills(row, columns=columns) else _TO_LINE_END}\n" for row in rows)
        sys.stdout.write(f"{clear}{_HOME}{text}{_TO_END}")
