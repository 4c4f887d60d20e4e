"""A terminal on which one picture is drawn again and again, over the one before."""

from __future__ import annotations

import sys
from typing import Final

from winpool.cli.paper import is_terminal, size_of_terminal
from winpool.cli.widths import fills, fitted

_CLEAR: Final = "\x1b[2J"
_HOME, _TO_LINE_END, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
"""Escape sequences of ECMA-48. Lines are written over, not after a blank screen, which would flicker."""


class Screen:
    """Shows pictures on standard output: over the one before on a terminal, below it elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self._drawn = False

    def show(self, picture: str) -> None:
        """Show ``picture``, whose lines end with a newline."""
        if self.is_terminal:
            self._draw_over(picture)
        else:
            sys.stdout.write(("\n" if self._drawn else "") + picture)
        self._drawn = True
        sys.stdout.flush()

    def _draw_over(self, picture: str) -> None:
        columns, height = size_of_terminal()
        # One row is for the cursor.
        rows = fitted(picture.splitlines(), columns=columns, most=max(1, height - 1))
        clear = "" if self._drawn else _CLEAR
        text = "".join(f"{row}{'' if fills(row, columns=columns) else _TO_LINE_END}\n" for row in rows)
        sys.stdout.write(f"{clear}{_HOME}{text}{_TO_END}")
