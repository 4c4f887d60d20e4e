"""What a run prints: lines for people while it goes on, and one JSON object as its last line."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO

from bench.targets import Target

SIGNIFICANT_DIGITS: Final = 6
"""More would claim a precision that no measurement here has."""

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


class Report:
    """Prints as the run goes on, with the seconds since its start."""

    def __init__(
        self, *, output: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._output = output or sys.stdout
        self._monotonic = monotonic
        self._started = monotonic()

    def say(self, text: str) -> None:
        """Print one line about what happens now."""
        self._print(f"{self._monotonic() - self._started:7.1f} s  {text}")

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table; numbers stand right, texts left."""
        self._print(f"\n{title}")
        for line in layout(header, rows):
            self._print(f"  {line}")

    def targets(self, targets: Sequence[Target]) -> None:
        """Print what was hoped for and what was reached."""
        rows = [(each.verdict, each.name, shown(each.value), each.wanted) for each in targets]
        self.table("What must be shown", ("", "figure", "measured", "wanted"), rows)

    def result(self, figures: Mapping[str, Any]) -> None:
        """Print the figures as one JSON object. It must be the last that is printed."""
        self._print("")
        self._print(as_line(figures))

    def _print(self, line: str) -> None:
        print(line, file=self._output, flush=True)


def as_line(figures: Mapping[str, Any]) -> str:
    """Return the figures as one line of JSON, in their order.

    Raises ValueError for a name that is not lower_snake_case: later runs are compared by name.
    """
    if bad := [name for name in figures if not _NAME.fullmatch(name)]:
        raise ValueError(f"names of figures are lower_snake_case with the unit at the end, not {bad}")
    return json.dumps({name: _rounded(value) for name, value in figures.items()}, allow_nan=False)


def layout(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table, without spaces at their ends."""
    cells = [[str(name) for name in header], *([shown(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    numeric = [any(isinstance(row[column], int | float) for row in rows) for column in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    ]


def shown(value: object) -> str:
    """Write a value as people read it in a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            # JSON has no infinity and no NaN: a figure that could not be computed is null.
            return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
        case list() | tuple():
            return [_rounded(each) for each in value]
        case Mapping():
            return {name: _rounded(each) for name, each in value.items()}
        case _:
            return value
