"""Leader election: waits for the Lease, renews it, and knows at each moment whether this process may write.

Stands by until this process has the Lease.

It watches the Lease, which costs no request while another operator leads. The watch only says when to look: a
read by name decides, and the write names the version that was read.

Holds the Lease, renews it, and knows at each moment whether this process may write.

Where it may not hold the Lease it raises LeaseLostError, and the process ends. One that starts again
knows nothing that could be out of date (``docs/adr/0021-own-lease-loop.md``).

The connections of one operator, and what says whether it leads.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from winpool.kube.backoff import FirstRefusals
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection
from winpool.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from winpool.kube.lease import (
    HOLDER_SECONDS,
    TARGET,
    Door,
    Faults,
    Found,
    OtherOperator,
    Paced,
    Skew,
    record_in,
    running_on,
    utc_now,
)
from winpool.kube.lease_rules import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    Move,
    Record,
    Sighting,
    Term,
    claim,
    release,
    renewal,
    sighted,
    verdict_of,
)
from winpool.kube.watch import NamedWatch

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


class Seat(Protocol):
    """What the application needs to know of the Lease, with leader election and without."""

    skew: Skew

    @property
    def leads(self) -> bool:
        """Whether this process may write now."""

    @property
    def holder(self) -> str:
        """Who leads, as far as this process has seen; empty where no one does, or it is not known."""

    @property
    def other(self) -> str | None:
        """The identity of an operator that writes although this one does; empty for none, None: not known."""

    async def run(self, on_lead: Callable[[], None], on_other: Callable[[], None], /) -> None:
        """Call ``on_lead`` once, when this process leads, and ``on_other`` when ``other`` has changed.

        Raises LeaseLostError when it no longer leads.
        """

    async def release(self) -> None:
        """Let another operator lead; this process may not write any more."""


@asynccontextmanager
async def seated(
    connection: Connection, *, identity: str, elects: bool, refusals: FirstRefusals
) -> AsyncIterator[tuple[Transport, Seat]]:
    """Open the transport of the operator, and its seat. ``elects`` is whether there is leader election."""
    async with AsyncExitStack() as stack:
        if not elects:
            plain = Transport(connection, refusals=refusals, identity=identity)
            await stack.enter_async_context(plain)
            yield plain, OtherOperator(plain)
            return
        apart = await stack.enter_async_context(Transport(connection, identity=identity))
        keeper = Keeper(apart, identity=identity)
        gated = Transport(
            connection,
            stats=apart.stats,
            refusals=refusals,
            identity=identity,
            may_write=lambda: keeper.leads,
        )
        await stack.enter_async_context(gated)
        yield gated, keeper
