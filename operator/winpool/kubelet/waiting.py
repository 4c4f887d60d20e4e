"""Names in the order of a number, from which any name can be removed."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Waiting:
    """Names that wait, each with a number: the smallest number first, then the order of the names.

    The entry of a name that is removed stays in the heap until it is on top, or until a name is added while
    most entries are such.
    """

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._numbers: dict[str, float] = {}

    def __len__(self) -> int:
        """Return how many names wait."""
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        """Whether that name waits."""
        return name in self._numbers

    def number(self, name: str) -> float | None:
        """Return the number with which ``name`` waits; None where it does not."""
        return self._numbers.get(name)

    def add(self, name: str, number: float) -> None:
        """Have ``name`` wait with this number, and with no other."""
        if self._numbers.get(name) == number:
            return
        self._numbers[name] = number
        heapq.heappush(self._heap, (number, name))
        if len(self._heap) > 2 * len(self._numbers) + 1:
            self._heap = [(number, name) for name, number in self._numbers.items()]
            heapq.heapify(self._heap)

    def remove(self, name: str) -> None:
        """Have ``name`` wait no more, if it does."""
        self._numbers.pop(name, None)

    def first(self) -> float | None:
        """Return the smallest number, None where none waits."""
        while self._heap and self._numbers.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def head(self) -> str:
        """Return the first name. One must be waiting."""
        self.first()
        return self._heap[0][1]

    def pop(self) -> str:
        """Remove the first name and return it. One must be waiting."""
        name = self.head()
        del self._numbers[name]
        return name

    def until(self, number: float) -> Iterator[str]:
        """Remove the names with numbers up to this one, and yield them in their order."""
        while (first := self.first()) is not None and first <= number:
            yield self.pop()
