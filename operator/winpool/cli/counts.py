"""How many of a thing there are, and the first of many names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES_SHOWN: Final = 3
"""Names that a line has: as many as an issue."""


def listed(names: Sequence[str], *, most: int = NAMES_SHOWN, count: int | None = None) -> str:
    """Write the first names, and how many there are beside them."""
    shown = names[:most]
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 and shown else "")


def counted(number: int, thing: str) -> str:
    """Write how many things there are."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
