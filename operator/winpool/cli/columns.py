"""Tables for people: columns aligned as kubectl aligns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cli.widths import padded, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable

GAP: Final = "   "
"""Between columns, as in the tables of kubectl."""


def aligned(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return ``head`` and ``rows``, which have as many cells, as lines whose columns are aligned."""
    lines = [head, *rows]
    widths = [max(width_of(line[column]) for line in lines) for column in range(len(head))]
    return "".join(
        GAP.join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )
