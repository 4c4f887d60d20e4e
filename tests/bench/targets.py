"""What a figure was hoped to be. Missing a count fails a run; missing what depends on the machine is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Number = int | float


@dataclass(frozen=True, slots=True)
class Target:
    """A figure, what was wanted of it, and whether it is so; ``met`` is None where it was not measured."""

    name: str
    value: Number | None
    wanted: str
    met: bool | None
    of_the_machine: bool = False
    """A time, a share of a core or a size: it depends on the machine and on what else that does."""

    @property
    def verdict(self) -> str:
        """One word for a table; what fails the run is in capitals."""
        return {True: "met", False: "missed" if self.of_the_machine else "MISSED", None: "not measured"}[
            self.met
        ]


def at_most(name: str, value: Number | None, limit: Number) -> Target:
    """Want a figure of ``limit`` or less."""
    return Target(name, value, f"at most {limit:,}", None if value is None else value <= limit)


def at_least(name: str, value: Number | None, limit: Number) -> Target:
    """Want a figure of ``limit`` or more."""
    return Target(name, value, f"at least {limit:,}", None if value is None else value >= limit)


def exactly(name: str, value: Number | None, number: Number) -> Target:
    """Want exactly this figure."""
    return Target(name, value, f"exactly {number:,}", None if value is None else value == number)


def of_the_machine(target: Target) -> Target:
    """Say of a target that the machine has a part in it."""
    return replace(target, of_the_machine=True)


def missed(targets: Sequence[Target]) -> list[str]:
    """Return the names of the figures that were measured and are not as wanted."""
    return [each.name for each in targets if each.met is False]


def told(targets: Sequence[Target]) -> dict[str, list[str]]:
    """Return what the last line says of the targets: all that were missed, and which of them are counts."""
    return {
        "missed": missed(targets),
        "missed_counts": missed([each for each in targets if not each.of_the_machine]),
    }
