"""Names of labels and taints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Keys:
    """Labels and annotations by their keys, taints by key and effect, and whether a cordon is included."""

    labels: frozenset[str] = frozenset()
    taints: frozenset[tuple[str, str]] = frozenset()
    annotations: frozenset[str] = frozenset()
    unschedulable: bool = False

    def __or__(self, other: Keys) -> Keys:
        """Return those of both."""
        return Keys(
            self.labels | other.labels,
            self.taints | other.taints,
            self.annotations | other.annotations,
            unschedulable=self.unschedulable or other.unschedulable,
        )

    def __sub__(self, other: Keys) -> Keys:
        """Return those that ``other`` does not have."""
        return Keys(
            self.labels - other.labels,
            self.taints - other.taints,
            self.annotations - other.annotations,
            unschedulable=self.unschedulable and not other.unschedulable,
        )

    def __and__(self, other: Keys) -> Keys:
        """Return those that both have."""
        return Keys(
            self.labels & other.labels,
            self.taints & other.taints,
            self.annotations & other.annotations,
            unschedulable=self.unschedulable and other.unschedulable,
        )

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.labels or self.taints or self.annotations or self.unschedulable)

    @property
    def count(self) -> int:
        """How many labels and taints there are."""
        return len(self.labels) + len(self.taints)


NO_KEYS: Final = Keys()
