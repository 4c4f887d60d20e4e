"""Free text of others, made fit to be shown: in a condition, an event, a log line, a terminal.

Specs, kubelets, API servers and what stands between hand us texts of their own choice. A newline in one
forges a line of the log, an escape sequence rewrites a terminal, a change of direction shows other words
than stand there (CVE-2021-42574). A pile of marks covers the lines above it, and an invisible letter makes
two names look the same.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

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
