"""Which nodes of a fleet the API server has, and which of them are Ready."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from testbed.winsim.clock import Clock
    from testbed.winsim.objects import Node

_PROGRESS_SECONDS: Final = 1.0


class Census:
    """Kept up to date by whoever hears of a change; ``complete`` is set once no node is awaited any more."""

    def __init__(self) -> None:
        self.registered: set[str] = set()
        self.ready: set[str] = set()
        self.complete = asyncio.Event()
        self._reported: set[str] = set()
        self._awaited: set[str] = set()

    def expect(self, names: Iterable[str]) -> None:
        """Await that these nodes become Ready for the first time."""
        self._awaited.update(names)
        self._judge()

    def excuse(self, names: Iterable[str]) -> None:
        """Await these no longer: their owner has made sure that they do not become Ready."""
        self._awaited.difference_update(names)
        self._judge()

    def began(self, name: str) -> None:
        """Note that a kubelet has started; what its node says from an earlier life does not count."""
        self._reported.discard(name)
        self.ready.discard(name)

    def reported(self, name: str, node: Node | None) -> None:
        """Note that a kubelet has registered and reported in its present life."""
        self._reported.add(name)
        self.saw(name, node)

    def saw(self, name: str, node: Node | None) -> None:
        """Note the present state of a node on the API server; None: it is gone."""
        (self.registered.discard if node is None else self.registered.add)(name)
        # A Node that was there before may say Ready while its kubelet is not yet at work.
        if node is not None and node.ready and name in self._reported:
            self.ready.add(name)
            self._awaited.discard(name)
            self._judge()
        else:
            self.ready.discard(name)

    def forget(self, names: Iterable[str]) -> None:
        """Count these no longer."""
        gone = set(names)
        for counted in (self.registered, self.ready, self._reported):
            counted.difference_update(gone)
        self.excuse(gone)

    def _judge(self) -> None:
        if not self._awaited:
            self.complete.set()

    async def tell(self, *, total: Callable[[], int], clock: Clock, say: Callable[[str], None]) -> None:
        """Say how far the bring-up is, once a second while that changes, until nobody is awaited."""
        started = clock.monotonic()
        told = ""
        while True:
            registered, ready, all_of_them = len(self.registered), len(self.ready), total()
            text = f"registered {registered}/{all_of_them}, Ready {ready}/{all_of_them}"
            if text != told:
                say(f"{text} after {clock.monotonic() - started:.1f} s")
                told = text
            if self.complete.is_set():
                say(f"{ready} nodes Ready")
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self.complete.wait(), _PROGRESS_SECONDS)
