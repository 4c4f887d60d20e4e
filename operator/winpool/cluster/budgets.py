"""Token buckets by name: how often something may be done, with some room for a burst."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES_KEPT: Final = 1024
"""Bound of memory. Beyond it, the name used longest ago is forgotten; at worst it has its burst again."""


class Budgets:
    """Each name has up to ``burst`` tokens, and gets ``per_second`` new ones until it has that many."""

    __slots__ = ("_burst", "_left", "_monotonic", "_per_second")

    def __init__(self, *, per_second: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        # For each name the tokens left, and at which time; the last used is at the end.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, leaving: int = 0) -> bool:
        """Take a token; False where no more than ``leaving`` are left."""
        now = self._monotonic()
        left, when = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - when) * self._per_second)
        granted = left >= 1.0 + leaving
        self._left[name] = (left - 1.0 if granted else left, now)
        if len(self._left) > _NAMES_KEPT:
            self._left.popitem(last=False)
        return granted
