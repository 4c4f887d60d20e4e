"""Without leader election: whether another operator leads in this cluster, by the Lease that it renews."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from winpool.cluster.named_watch import NamedWatch
from winpool.lease.clock import running_on, utc_now
from winpool.lease.paced import HOLDER_SECONDS, Paced
from winpool.lease.skew import Skew
from winpool.lease.terms import Record, Sighting, sighted
from winpool.lease.wire import TARGET, record_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)


class OtherOperator:
    """Watches the Lease, and never writes it. Where it may not be read, nothing is noticed and nothing fails.

    Clocks as in ``Keeper``, in whose place it is.
    """

    leads: Final = True
    """Without leader election each operator may write at any time."""

    holder: Final = ""
    """This operator does not hold the Lease."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Callable[[], float] = running_on,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.skew = Skew(clock=clock)
        self._clock = clock
        self._now = now
        self._sighting: Sighting | None = None
        # The holder that was seen to renew the Lease, and until when its lease lasts.
        self._holder = ""
        self._holds_until = float("-inf")
        self._lines = Paced(HOLDER_SECONDS, clock=clock)
        self._news = asyncio.Event()
        self._watch = NamedWatch(transport, target=TARGET, on_change=self._watched, monotonic=time.monotonic)

    @property
    def other(self) -> str | None:
        """Who else writes: another operator has renewed the Lease, and its lease lasts.

        Empty where there is none; None where that is not known yet, or the Lease cannot be read.
        """
        now, seen = self._clock(), self._sighting
        if now < self._holds_until:
            return self._holder
        if seen is None or (seen.record is not None and seen.record.holder and now < seen.free_at):
            return None  # a holder that is seen for the first time may have ended long ago
        return ""

    async def run(self, on_lead: Callable[[], None], on_other: Callable[[], None]) -> None:
        """Lead at once, and watch until cancelled. Call ``on_other`` whenever ``other`` has changed."""
        on_lead()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run())
            tasks.create_task(self._tell(on_other))

    async def release(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _tell(self, on_other: Callable[[], None]) -> None:
        """Call ``on_other`` after each change, also where the time alone has made it."""
        told: str | None = None
        while True:
            self._news.clear()
            if self.other != told:
                told = self.other
                on_other()
            now, free_at = self._clock(), self._sighting.free_at if self._sighting else 0.0
            ahead = [moment - now for moment in (self._holds_until, free_at) if moment > now]
            try:
                async with asyncio.timeout(min(ahead, default=None)):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _watched(self) -> None:
        """Take in what the watch has brought."""
        found = self._watch.found
        if found is None and not self._watch.watched:
            return
        before, record = self._sighting, None if found is None else record_in(found)
        self._sighting = sighted(before, record, at=self._clock())
        self._news.set()
        if record is not None and record.is_released:
            self._holds_until = self._sighting.free_at
        elif record is not None and before is not None:
            self._compare(before, self._sighting, record)

    def _compare(self, before: Sighting, after: Sighting, record: Record) -> None:
        """Note a renewal: the Lease has changed, and its holder has not."""
        if not record.holder or before.record is None or after is before:
            return
        self.skew.note(before, after, now=self._now())
        if before.record.holder != record.holder:
            return
        self._holder, self._holds_until = record.shown, after.free_at
        if (suffix := self._lines.suffix(record.holder)) is not None:
            log.warning(
                "a second operator is running in this cluster: %s renews the Lease winpool-system/winpool,"
                " and this operator runs without --leader-elect. Both write to nodes and pools. Stop one,"
                " or start both with --leader-elect%s",
                record.shown,
                suffix,
            )
