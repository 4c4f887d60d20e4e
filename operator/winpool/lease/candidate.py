"""Stands by until this process has the Lease.

It watches the Lease, which costs no request while another operator leads. The watch only says when to look: a
read by name decides, and the write names the version that was read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from winpool.cluster.named_watch import NamedWatch
from winpool.lease.door import Door
from winpool.lease.paced import HOLDER_SECONDS, Paced
from winpool.lease.terms import (
    RETRY_SECONDS,
    Move,
    Sighting,
    Term,
    claim,
    renewal,
    sighted,
    verdict_of,
)
from winpool.lease.wire import TARGET, Found, record_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from winpool.cluster.transport import Transport
    from winpool.lease.door import Faults
    from winpool.lease.skew import Skew
    from winpool.lease.terms import Record

log = logging.getLogger(__name__)

JITTER: Final = 0.2
"""The pause after a failed attempt is longer by up to this share, so that candidates do not try in step."""

_uniform: Final = random.SystemRandom().uniform


@dataclass(frozen=True, slots=True)
class Won:
    """The Lease as this process has written it, and the term that this gives."""

    found: Found
    term: Term


class Candidate:
    """One process that wants the Lease. Clocks as in ``Keeper``."""

    def __init__(
        self,
        transport: Transport,
        *,
        identity: str,
        faults: Faults,
        skew: Skew,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._identity = identity
        self._door = Door(transport)
        self._faults = faults
        self._skew = skew
        self._clock = clock
        self._now = now
        self._news = asyncio.Event()
        self._sighting: Sighting | None = None
        self._lines = Paced(HOLDER_SECONDS, clock=clock)
        self._watch = NamedWatch(transport, target=TARGET, on_change=self._watched, monotonic=time.monotonic)

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; empty where no one did, or it was not seen."""
        record = None if self._sighting is None else self._sighting.record
        return "" if record is None else record.shown

    async def win(self) -> Won:
        """Return when this process has the Lease, with time left."""
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch.run(), name="watch of the Lease")
            won = await self._stand_by()
            watching.cancel()
        return won

    async def _stand_by(self) -> Won:
        while True:
            self._news.clear()
            verdict = verdict_of(self._sighting, identity=self._identity, now=self._clock())
            if verdict.move is not Move.WAIT:
                won = await self._try()
                # A process that was frozen meanwhile has the Lease and no time left: it tries once more.
                if won is not None and won.term.left(self._clock()):
                    return won
                continue
            self._tell()
            try:
                async with asyncio.timeout(verdict.seconds):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _try(self) -> Won | None:
        """Look, and take the Lease where that is permitted. After a failure, return after a pause."""
        try:
            won = await self._acquire()
        except ApiError as error:
            if not isinstance(error, Conflict | AlreadyExists):  # of these, another candidate was faster
                self._faults.note(error)
            await asyncio.sleep(RETRY_SECONDS * _uniform(1, 1 + JITTER))
            return None
        self._faults.ended()
        return won

    async def _acquire(self) -> Won | None:
        try:
            found: Found | None = await self._door.read()
        except NotFound:
            found = None
        record = None if found is None else found.record
        self._see(record)
        move = verdict_of(self._sighting, identity=self._identity, now=self._clock()).move
        if move is Move.WAIT:
            return None
        now = self._now()
        if move is Move.RENEW and record is not None:  # the answer to an earlier attempt was lost
            spec = renewal(record, identity=self._identity, now=now)
        else:
            spec = claim(record, identity=self._identity, now=now)
        sent = self._clock()
        taken = await (self._door.create(spec) if found is None else self._door.change(found, spec))
        self._see(taken.record)
        return Won(taken, Term.granted(sent=sent)) if taken.record.holder == self._identity else None

    def _watched(self) -> None:
        """Take in what the watch has brought."""
        found = self._watch.found
        if found is None and not self._watch.watched:
            return
        before = self._sighting
        after = self._see(None if found is None else record_in(found))
        if after is not before:
            self._skew.note(before, after, now=self._now())
            self._news.set()

    def _see(self, record: Record | None) -> Sighting:
        self._sighting = sighted(self._sighting, record, at=self._clock())
        return self._sighting

    def _tell(self) -> None:
        """Log for whom this process waits, once for each, and not more often than HOLDER_SECONDS say."""
        record = None if self._sighting is None else self._sighting.record
        if record is None:
            why = "someone deleted it, and its holder may not know yet"
        elif record.holder:
            why = f"{record.shown} holds it"
        else:
            why = "someone emptied it, and its holder may not know yet"
        if (suffix := self._lines.suffix(why)) is not None:
            log.info("Lease: %s; this operator (%s) stands by%s", why, self._identity, suffix)
