"""What a figure was hoped to be. Missing it is told, and is not an error: a bench measures."""

from __future__ import annotations

from dataclasses import dataclass

Number = int | float


@dataclass(frozen=True, slots=True)
class Target:
    """A figure, what was wanted of it, and whether it is so; ``met`` is None where it was not measured."""

    name: str
    value: Number | None
    wanted: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """One word for a table."""
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


def at_most(name: str, value: Number | None, limit: Number) -> Target:
    """Want a figure of ``limit`` or less."""
    return Target(name, value, f"at most {limit:,}", None if value is None else value <= limit)


def at_least(name: str, value: Number | None, limit: Number) -> Target:
    """Want a figure of ``limit`` or more."""
    return Target(name, value, f"at least {limit:,}", None if value is None else value >= limit)


def exactly(name: str, value: Number | None, number: Number) -> Target:
    """Want exactly this figure."""
    return Target(name, value, f"exactly {number:,}", None if value is None else value == number)


def missed(targets: list[Target]) -> list[str]:
    """Return the names of the figures that were measured and are not as wanted."""
    return [each.name for each in targets if each.met is False]
