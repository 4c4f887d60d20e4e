"""A rule: which requests, which of them by count, and what is done to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from testbed.faults.actions import RequestAction
from testbed.faults.counting import Count
from testbed.faults.record import Match, Record
from testbed.faults.stream import StreamAction

Action = RequestAction | StreamAction
"""What a rule does."""
RunOnLoop = Callable[[Callable[[], None]], None]
"""Has a function run on the loop of the proxy and returns when it has."""


class Rule:
    """Made by ``FaultProxy.add``; acts until removed. As a context manager it is removed at the end."""

    def __init__(self, match: Match, action: Action, *, count: Count, run_on_loop: RunOnLoop) -> None:
        self.match = match
        self.action = action
        self.hits = 0
        """Requests that were selected so far, by match and count."""
        self.removed = False
        self._count = count
        self._run_on_loop = run_on_loop
        self._matching = 0
        # Set when what is held now may go on; each release begins a new one.
        self._released = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def release(self) -> None:
        """Let go what the rule holds now: stalled requests and silent watches. It stays in force."""
        self._run_on_loop(self._release)

    def remove(self) -> None:
        """Let go what the rule holds, and do nothing any more."""
        self._run_on_loop(self.drop)

    def selects(self, record: Record) -> bool:
        """Count a request; tell whether it is acted on. To be asked once for each, on the loop."""
        if self.removed or not self.match(record):
            return False
        self._matching += 1
        if not self._count.selects(self._matching):
            return False
        self.hits += 1
        return True

    @property
    def released(self) -> asyncio.Event:
        """What something that is held now waits for."""
        return self._released

    def _release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def drop(self) -> None:
        """Remove it, as ``remove`` does; to be called on the loop."""
        self.removed = True
        self._released.set()
