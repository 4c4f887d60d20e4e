"""How the guard of our keys stands (ADR 0011), as a part of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GuardState:
    """Whether the admission policy that keeps kubelets from writing our keys is in force.

    ``identity`` names the one that is, empty where none is, and ``problem`` then says why not, for people;
    ``is_unknown`` that one may be in force all the same, and cannot be looked at now.
    """

    identity: str = ""
    problem: str = ""
    is_unknown: bool = False


NO_GUARD: Final = GuardState()
