"""What the processes of a pod want at one moment, and the noise in it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a workload wants."""

    commit_bytes: int
    touched: float
    """The part of it that is written to, 0 to 1."""
    active: float
    """The part of that which is used again and again, 0 to 1."""
    use_seconds: float
    """In which all of the active part is used once."""
    until: float
    """Up to this time since the start nothing of this changes; 0 where it changes all the time."""
    file_reads: int = 0
    """Read operations per second on files that are not in RAM."""
    outside_bytes: int = 0
    """Memory outside of the pod that it makes Windows lose."""
    unrepeated_bytes: int = 0
    """The part of commit that it asks for once only: what a failed operation would have leaked."""


def seed_of(*parts: object) -> int:
    """Return a seed that is the same for the same parts, in every process."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def noise(seed: int, number: int) -> float:
    """Return the random number between 0 and 1 that has this place in the sequence of a seed (splitmix64)."""
    mixed = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return float((mixed ^ (mixed >> 31)) >> 11) / 2**53
