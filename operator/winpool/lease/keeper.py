"""Holds the Lease, renews it, and knows at each moment whether this process may write.

Where it cannot be sure to hold the Lease it raises LeaseLostError, and the process ends. One that starts anew
knows nothing that could be out of date (``docs/adr/0021-own-lease-loop.md``).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import ApiError, Conflict, NotFound
from winpool.lease.candidate import Candidate, Won
from winpool.lease.clock import running_on, utc_now
from winpool.lease.door import Door, Faults
from winpool.lease.skew import Skew
from winpool.lease.terms import LEASE_SECONDS, RETRY_SECONDS, Term, release, renewal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from winpool.cluster.transport import Transport
    from winpool.lease.wire import Found

log = logging.getLogger(__name__)

RELEASE_SECONDS: Final = 1.0
"""For the two requests of a release, of the 2 s that a SIGTERM may take."""


class LeaseLostError(Exception):
    """The process can no longer be sure that it holds the Lease. The message says why, for people."""


class Keeper:
    """The Lease as this process has it.

    ``run`` stands by until it has the Lease, calls ``on_lead`` once, and renews. ``clock`` is in seconds and
    must run on while the process is frozen; ``now`` is the wall clock, by which nothing is decided.
    ``transport`` is for the Lease only, so that a burst of patches cannot delay a renewal.
    """

    other: Final = None
    """Not known: an operator that runs without leader election only reads the Lease."""

    def __init__(
        self,
        transport: Transport,
        *,
        identity: str,
        clock: Callable[[], float] = running_on,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.skew = Skew(clock=clock)
        self._identity = identity
        self._clock = clock
        self._now = now
        self._door = Door(transport)
        self._faults = Faults(monotonic=clock)
        self._candidate = Candidate(
            transport, identity=identity, faults=self._faults, skew=self.skew, clock=clock, now=now
        )
        self._term: Term | None = None

    @property
    def leads(self) -> bool:
        """Whether this process has the Lease, and time left: whether it may write now."""
        return self._left() > 0

    @property
    def holder(self) -> str:
        """The identity of the process that holds the Lease; empty where none does, or it is not known."""
        if self.leads:
            return self._identity
        seen = self._candidate.holder
        return "" if seen == self._identity else seen  # its term is over, and the process ends

    async def run(self, on_lead: Callable[[], None], _on_other: Callable[[], None]) -> None:
        """Stand by, lead, renew until cancelled. Raises LeaseLostError when it may no longer lead."""
        won = await self._candidate.win()
        self._term = won.term
        log.info("Lease: this operator (%s) leads", self._identity)
        on_lead()
        try:
            await self._hold(won.found)
        except LeaseLostError:
            self._term = None
            raise

    async def release(self) -> None:
        """Let another operator take over at once. From now on this process may not write.

        To be called when everything that writes has ended, and ``run`` was cancelled.
        """
        if not self.leads:
            return
        self._term = None
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                found = await self._door.read()
                if found.record.holder == self._identity:
                    await self._door.change(found, release(found.record, now=self._now()))
                    log.info("Lease: released")
        except (ApiError, TimeoutError) as error:
            log.warning(
                "Lease: not released: %s; another operator takes over after %.0f s",
                error if isinstance(error, ApiError) else f"no answer within {RELEASE_SECONDS:.0f} s",
                LEASE_SECONDS,
            )

    async def _hold(self, found: Found) -> None:
        while True:
            await asyncio.sleep(min(RETRY_SECONDS, self._left()))
            left = self._left()
            if not left:
                why = self._faults.last or "the process or its machine did not run for so long"
                raise LeaseLostError(f"it was not renewed in time: {why}")
            try:
                async with asyncio.timeout(left):
                    renewed = await self._renew(found)
            except NotFound:
                raise LeaseLostError("someone deleted it") from None
            except (ApiError, TimeoutError) as error:
                self._faults.note(error)
            else:
                found, self._term = renewed.found, renewed.term
                self._faults.ended()

    async def _renew(self, found: Found) -> Won:
        try:
            return await self._write(found)
        except Conflict:
            # Someone changed it, or the answer to the last renewal was lost.
            now = await self._door.read()
            self._check(now)
            return await self._write(now)

    async def _write(self, found: Found) -> Won:
        sent = self._clock()
        written = await self._door.change(
            found, renewal(found.record, identity=self._identity, now=self._now())
        )
        self._check(written)
        return Won(written, Term.granted(sent=sent))

    def _check(self, found: Found) -> None:
        record = found.record
        if record.holder != self._identity:
            raise LeaseLostError(f"{record.shown} has taken it" if record.holder else "someone emptied it")

    def _left(self) -> float:
        return 0.0 if self._term is None else self._term.left(self._clock())
