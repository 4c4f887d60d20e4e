"""Texts that others write, and times, as sentences have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.moments import written_moment
from winpool.api.text import printable

if TYPE_CHECKING:
    from datetime import datetime

SHOWN_LENGTH: Final = 120
"""Characters of a text that a message shows: a sentence. An annotation may have 256 KiB."""


def shown(text: str, *, length: int = SHOWN_LENGTH) -> str:
    """Return ``text`` on one line, printable, and cut after ``length`` characters."""
    # What is written out can be ten times as long, so that the text is cut before and after.
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[:length].rstrip()}…"


def because(reason: str) -> str:
    """Return what follows a sentence without its full stop: the reason of a person, where there is one."""
    said = shown(reason).rstrip(".")
    return f": {said}." if said else "."


def at(moment: datetime) -> str:
    """Return ``moment`` as a sentence has it: UTC, to the second."""
    return written_moment(moment)
