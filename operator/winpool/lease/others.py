"""Without leader election: whether another operator leads in this cluster, by the Lease that it renews."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from winpool.cluster.named_watch import NamedWatch
from winpool.lease.clock import running_on, utc_now
from winpool.lease.skew import Skew
from winpool.lease.terms import Sighting, sighted
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

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Callable[[], float] = running_on,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.skew = Skew()
        self._clock = clock
        self._now = now
        self._sighting: Sighting | None = None
        self._renewed: Sighting | None = None
        self._told = ""
        self._watch = NamedWatch(transport, target=TARGET, on_change=self._watched, monotonic=time.monotonic)

    @property
    def other_runs(self) -> bool:
        """Whether another operator has renewed the Lease, and its lease lasts."""
        return self._renewed is not None and self._clock() < self._renewed.free_at

    async def run(self, on_lead: Callable[[], None]) -> None:
        """Lead at once, and watch until cancelled."""
        on_lead()
        await self._watch.run()

    async def release(self) -> None:
        """Do nothing: there is nothing to release."""

    def _watched(self) -> None:
        found = self._watch.found
        before, record = self._sighting, None if found is None else record_in(found)
        after = self._sighting = sighted(before, record, at=self._clock())
        if record is None or not record.holder or before is None or before.record is None or after is before:
            return
        self.skew.note(before, after, now=self._now())
        # A holder that is seen for the first time may have ended long ago.
        if before.record.holder != record.holder:
            return
        self._renewed = after
        if self._told != record.holder:
            self._told = record.holder
            log.warning(
                "a second operator is running in this cluster: %s renews the Lease winpool-system/winpool,"
                " and this operator runs without --leader-elect. Both write to nodes and pools. Stop one,"
                " or start both with --leader-elect",
                record.shown,
            )
