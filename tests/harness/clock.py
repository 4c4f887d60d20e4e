"""Time that passes when a test says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Seconds:
    """Monotonic time that stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
