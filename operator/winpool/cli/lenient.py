"""Reads fields of objects that nobody has validated: one that is missing or of another type counts as absent.

What a person reads on a terminal comes from specs, kubelets and servers, so every text is made printable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import printable, read_moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_MAX_INT64: Final = 2**63 - 1
"""The API has no larger integers, and Python does not write one of more than 4,300 digits."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of an object, by the names of the API."""

    content: Mapping[str, Any]

    @classmethod
    def of(cls, value: Any) -> Fields:
        """Return the fields of ``value``, none where it is no object."""
        return cls(value if isinstance(value, dict) else {})

    def text(self, name: str) -> str:
        """Return a text, printable, or an empty one."""
        value = self.content.get(name)
        return printable(value) if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """Return an integer of 64 bits, or None."""
        value = self.content.get(name)
        is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INT64
        return value if is_number else None

    def count(self, name: str) -> int:
        """Return a positive integer, or 0."""
        return max(0, self.number(name) or 0)

    def moment(self, name: str) -> datetime | None:
        """Return the time that is written as RFC 3339, in UTC, or None."""
        return read_moment(self.text(name))

    def one(self, *names: str) -> Fields:
        """Return the fields of an object in an object and so on, none where one of them is absent."""
        found = self
        for name in names:
            found = Fields.of(found.content.get(name))
        return found

    def items(self, name: str) -> list[Any]:
        """Return the items of a list, of whatever type they are."""
        value = self.content.get(name)
        return value if isinstance(value, list) else []

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list that are not empty, printable."""
        return tuple(printable(each) for each in self.items(name) if isinstance(each, str) and each)

    def all(self, name: str) -> tuple[Fields, ...]:
        """Return the fields of each object of a list."""
        return tuple(map(Fields.of, self.items(name)))
