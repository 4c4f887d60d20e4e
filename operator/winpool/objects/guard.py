"""The state of the guard of our keys (ADR 0011), as a part of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GuardState:
    """Whether the admission policy that stops kubelets from writing our keys is in force.

    ``identity`` names the one that is in force; it is empty where none is, and ``problem`` then says why.
    ``is_unknown`` says that one may still be in force that cannot be read now.
    """

    identity: str = ""
    problem: str = ""
    is_unknown: bool = False


NO_GUARD: Final = GuardState()
