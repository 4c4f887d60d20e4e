"""When a watch may be opened again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT_LIFE_SECONDS: Final = 1.0
"""The least time from opening a watch to opening it again. Otherwise a proxy that ends each at once, properly
or with a 410, would get requests in a tight loop. A watch that ends sooner and brought nothing is a
failure."""


class Openings:
    """The openings of one watch, SHORT_LIFE_SECONDS apart; one that lived longer is followed at once."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next = float("-inf")

    async def take(self) -> None:
        """Return when the watch may be opened."""
        if (pause := self._next - self._monotonic()) > 0:
            await asyncio.sleep(pause)
        self._next = self._monotonic() + SHORT_LIFE_SECONDS
