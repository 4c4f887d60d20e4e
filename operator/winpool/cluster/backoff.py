"""How long to wait before trying again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_AFTER_CAP_SECONDS: Final = 60.0
"""The longest Retry-After that is obeyed. Otherwise one wrong header could stop the operator for a day."""

_uniform: Final = random.SystemRandom().uniform


class Backoff:
    """Pauses that double, with jitter: between half of a step and the whole of it.

    The jitter keeps many clients that lost the same server from coming back in step; the lower
    bound limits the requests of a single one. Not thread-safe. It has no clock of its own.
    """

    __slots__ = ("_asked_cap", "_attempt", "_cap", "_first", "_uniform")

    def __init__(
        self,
        *,
        first: float = 1.0,
        cap: float = 30.0,
        asked_cap: float = RETRY_AFTER_CAP_SECONDS,
        uniform: Callable[[float, float], float] = _uniform,
    ) -> None:
        self._first = first
        self._cap = cap
        self._asked_cap = asked_cap
        self._uniform = uniform
        self._attempt = 0

    def next(self, *, asked: float | None = None) -> float:
        """Return the seconds to wait now; the next call returns up to twice as many, up to the cap.

        ``asked`` is what the server asked for (Retry-After): obeyed, up to ``asked_cap``.
        """
        step = self._first
        for _ in range(self._attempt):
            step = min(step * 2, self._cap)
        if step < self._cap:
            self._attempt += 1
        return max(self._uniform(step / 2, step), min(asked or 0.0, self._asked_cap))

    def reset(self) -> None:
        """Start from the first step again, after a success."""
        self._attempt = 0
