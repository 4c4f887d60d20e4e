"""Text and times that other clients write, made fit to be shown, names in a sentence, tables, lists by key.

Specs, kubelets, API servers and what stands between hand us texts of their own choice. A newline in one
forges a line of the log, an escape sequence rewrites a terminal, a change of direction shows other words
than stand there (CVE-2021-42574). A pile of marks covers the lines above it, and an invisible letter makes
two names look the same.

A time may be any that RFC 3339 can write. Those of Python end with the year 9999; beyond it, it raises
OverflowError.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MARKS: Final = 2
"""Marks on one letter: as many as living languages write, such as the circumflex and tone of Vietnamese."""

_STACKED: Final = frozenset({"Mn", "Me"})
"""Categories of what is drawn over the letter before it."""

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""What is blank and ``str.isprintable`` nevertheless: joiners, fillers, blanks, and selectors of variants."""


def printable(text: str) -> str:
    r"""Return ``text`` with what does not show as itself written out: a newline as ``\n``, ESC as ``\x1b``.

    That is whatever Unicode calls a control, a format, a separator other than the space, a surrogate, or
    does not assign (``str.isprintable``), invisible letters, and marks beyond ``MARKS`` in a row. What is
    written out once stays as it is the next time.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for each in text:
        marks = marks + 1 if unicodedata.category(each) in _STACKED else 0
        hidden = marks > MARKS or not each.isprintable() or _INVISIBLE.match(each)
        shown.append(each.encode("unicode_escape").decode() if hidden else each)
    return "".join(shown)


LAST: Final = datetime.max.replace(tzinfo=UTC)
"""Stands for every time that is later than Python can write."""


def later(moment: datetime, seconds: float) -> datetime:
    """Return the time ``seconds``, which are not negative, after ``moment``; LAST where there is none."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def read_moment(text: str | None) -> datetime | None:
    """Read a time of RFC 3339 as UTC; None for what is none, has no offset, or has no form in UTC."""
    try:
        moment = datetime.fromisoformat(text or "")
        if moment.tzinfo is None:
            return None
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def written_micro(moment: datetime) -> str:
    """Write a time as the API server writes those of a Lease and of an Event (metav1.MicroTime)."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def written_moment(moment: datetime) -> str:
    """Write a time as the API server does (metav1.Time): in UTC, in seconds, the year in four digits."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown; a bar inside a cell stays a bar."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the second parts of ``pairs`` by the first ones, in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


NAMES_SHOWN: Final = 3
"""As many names as a sentence bears."""


def enumerate_names(names: Sequence[str], number: int | None = None, *, most: int = NAMES_SHOWN) -> str:
    """Write ``names`` as a sentence bears them: the first, and how many more.

    ``names`` may be the first of ``number`` names only.
    """
    shown = names[:most]
    more = (len(names) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
