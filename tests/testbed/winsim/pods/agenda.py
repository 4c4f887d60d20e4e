"""A list of what is due when; one entry for each key."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from testbed.winsim.clock import Clock

Item = TypeVar("Item")


class Agenda(Generic[Item]):
    """What is due when. Costs nothing while nothing is."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._order = count()
        self._heap: list[tuple[float, int, str]] = []
        self._entries: dict[str, tuple[float, int, Item]] = {}
        self._earlier = asyncio.Event()

    def put(self, key: str, item: Item, *, delay: float) -> None:
        """Enter something. The same thing for the same key comes at the earlier of both times."""
        due = self._clock.monotonic() + delay
        known = self._entries.get(key)
        if known is not None and known[2] == item and known[0] <= due:
            return
        number = next(self._order)
        self._entries[key] = (due, number, item)
        heapq.heappush(self._heap, (due, number, key))
        if self._heap[0][1] == number:
            self._earlier.set()

    def drop(self, key: str) -> None:
        """Strike out what is entered for a key, if anything is."""
        self._entries.pop(key, None)

    async def next(self) -> tuple[str, Item]:
        """Wait until something is due, strike it out and return it."""
        while True:
            self._earlier.clear()
            self._skip_struck()
            wait = self._heap[0][0] - self._clock.monotonic() if self._heap else None
            if wait is not None and wait <= 0:
                _, _, key = heapq.heappop(self._heap)
                return key, self._entries.pop(key)[2]
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._earlier.wait()

    def _skip_struck(self) -> None:
        while self._heap:
            _, number, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[1] == number:
                return
            heapq.heappop(self._heap)
