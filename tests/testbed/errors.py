"""Errors whose text is written for the person at the terminal."""

from pathlib import Path
from typing import Final

TAIL_LINES: Final = 15
"""Enough of a log to show a cause and its context, few enough to stay on one screen."""


class TestbedError(Exception):
    """Something about the testbed went wrong; the text says what, where and what to do."""

    __test__ = False  # its name begins like a test class; pytest must not collect it


def tail(path: Path, *, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, indented, or say that there are none."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return f"  (no log at {path})"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or f"  ({path} is empty)"
