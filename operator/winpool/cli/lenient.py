"""Values of objects that nobody has validated: one of the wrong type counts as absent.

What a person reads on a terminal comes from specs, kubelets and servers, so every text is made printable.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from winpool.api.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """Return ``value`` if it is an integer, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
