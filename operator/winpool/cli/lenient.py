"""Values of objects that nobody has validated: one of the wrong type counts as absent.

What a person reads on a terminal comes from specs, kubelets and servers, so every text is made printable.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_INT64: Final = 2**63 - 1
"""The API has no larger integers, and Python does not write one of more than 4,300 digits."""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` if it is an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return ``value`` if it is a list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return ``value``, printable, if it is a text, or an empty one."""
    return printable(value) if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """Return ``value`` if it is an integer of 64 bits, or None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= _MAX_INT64 else None


def count(value: Any) -> int:
    """Return ``value`` if it is a positive integer, or 0."""
    return max(0, number(value) or 0)


def moment(value: Any) -> datetime | None:
    """Return the time that ``value`` writes as RFC 3339, or None."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
