"""One request on its way through the proxy, and the log of all of them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from multidict import CIMultiDict

from testbed.faults.errors import FaultError
from testbed.faults.record import Record, RecordTest

LOG_LIMIT: Final = 100_000
"""Requests that are remembered, the latest; ten times what the largest test makes."""
SHOWN: Final = 15
"""Requests shown to whoever waited in vain for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer in full: the API server's, or one that a rule gives in its place."""

    status: int
    reason: str
    headers: CIMultiDict[str]
    body: bytes


class Exchange:
    """One request in the making; lives on the loop of the proxy. Its ``record`` is what others see."""

    def __init__(self, record: Record, *, on_change: Callable[[], None]) -> None:
        self.record = record
        self.path = record.path
        """Path and query to ask the API server for: a rule may have changed them."""
        self.reply: Reply | None = None
        """The API server's answer, where it was read whole before it is passed on."""
        self.released = asyncio.Event()
        """Set when the rule that acts now is released or removed."""
        self._on_change = on_change
        self._carried_out_by: asyncio.Task[Reply] | None = None

    def update(self, **changes: Any) -> None:
        """Change the record."""
        self.record = replace(self.record, **changes)
        self._on_change()

    def note(self, action: str) -> None:
        """Add to what rules did."""
        self.update(actions=(*self.record.actions, action))

    def carried_out_by(self, task: asyncio.Task[Reply]) -> None:
        """Take note of what goes on at the API server even if the client leaves."""
        self._carried_out_by = task

    def finish(self) -> None:
        """Take note that all is over on the side of the client."""
        task = self._carried_out_by
        if task is None or task.done():
            self.update(done=True)
        else:
            task.add_done_callback(lambda _: self.update(done=True))


class Log:
    """All requests in the order in which they arrived; may be read from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._exchanges: deque[Exchange] = deque(maxlen=LOG_LIMIT)

    def add(self, record: Record) -> Exchange:
        """Take in a request."""
        exchange = Exchange(record, on_change=self._notify)
        with self._changed:
            self._exchanges.append(exchange)
            self._changed.notify_all()
        return exchange

    def records(self) -> tuple[Record, ...]:
        """Return all requests as they stand."""
        with self._changed:
            return tuple(exchange.record for exchange in self._exchanges)

    def clear(self) -> None:
        """Forget all requests that are over."""
        with self._changed:
            under_way = [exchange for exchange in self._exchanges if not exchange.record.done]
            self._exchanges.clear()
            self._exchanges.extend(under_way)

    def wait_for(self, test: RecordTest, *, count: int, seconds: float) -> Record:
        """Return the ``count``-th request that passes the test, once there is one.

        Raises:
            FaultError: there is none within ``seconds``.

        """

        def found() -> list[Record]:
            return [exchange.record for exchange in self._exchanges if test(exchange.record)][:count]

        with self._changed:
            if self._changed.wait_for(lambda: len(found()) == count, timeout=seconds):
                return found()[-1]
            shown = "\n".join(f"  {exchange.record}" for exchange in list(self._exchanges)[-SHOWN:])
            raise FaultError(
                f"waited {seconds:.0f} s in vain for {count} requests; {len(found())} of "
                f"{len(self._exchanges)} pass the test; the latest:\n{shown or '  (none)'}"
            )

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
