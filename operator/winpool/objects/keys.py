"""Names of labels and taints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Keys:
    """Labels by their keys, and taints by key and effect."""

    labels: frozenset[str] = frozenset()
    taints: frozenset[tuple[str, str]] = frozenset()

    def __or__(self, other: Keys) -> Keys:
        """Return those of both."""
        return Keys(self.labels | other.labels, self.taints | other.taints)

    def __sub__(self, other: Keys) -> Keys:
        """Return those that ``other`` has not."""
        return Keys(self.labels - other.labels, self.taints - other.taints)

    def __and__(self, other: Keys) -> Keys:
        """Return those that both have."""
        return Keys(self.labels & other.labels, self.taints & other.taints)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.labels or self.taints)

    @property
    def count(self) -> int:
        """How many there are of both."""
        return len(self.labels) + len(self.taints)


NO_KEYS: Final = Keys()
