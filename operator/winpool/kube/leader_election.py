"""Waits for the Lease, renews it, and knows at each moment whether this process may write.

A follower watches the Lease, which costs no request while another operator leads. The watch only says when
to read: a read by name decides, and the write names the version that was read. Where the holder cannot be
sure to hold the Lease it raises LeaseLostError, and the process ends. One that starts again knows nothing
that could be out of date (``docs/adr/0021-own-lease-loop.md``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from winpool.kube.backoff import FirstRefusals, LogThrottle, Outage, uniform
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection
from winpool.kube.errors import AlreadyExists, ApiError, Conflict, NoAnswer, NotFound, explained
from winpool.kube.lease import (
    HOLDER_SECONDS,
    LeaseClient,
    LeaseObserver,
    OtherOperator,
    running_on,
    skipped_text,
)
from winpool.kube.lease_rules import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    LeaseRecord,
    Move,
    claim,
    next_move,
    release,
    renewal,
    term_end,
)
from winpool.loops import utc_now

log = logging.getLogger(__name__)

JITTER: Final = 0.2
"""The pause after a failed attempt is longer by up to this share, so that followers do not try in step."""

RELEASE_SECONDS: Final = 1.0
"""For the two requests of a release, of the 2 s that a SIGTERM may take."""


class LeaseLostError(Exception):
    """The process can no longer be sure that it holds the Lease. The message says why, for people."""


@dataclass(eq=False)
class LeaderElector:
    """One process that wants the Lease, and renews it once it has it.

    ``clock`` is in seconds and must run on while the process is frozen; ``now`` is the wall clock, by which
    nothing is decided. ``transport`` is for the Lease only, so that a burst of patches cannot delay a
    renewal.
    """

    other: ClassVar[None] = None
    """Not known: an operator that runs without leader election only reads the Lease."""

    transport: Transport
    _: KW_ONLY
    identity: str
    clock: Callable[[], float] = running_on
    now: Callable[[], datetime] = utc_now
    _term_ends: float = field(default=float("-inf"), init=False)
    _last_error: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Begin as a follower that has seen nothing."""
        self._client = LeaseClient(self.transport)
        self._observer = LeaseObserver(self.transport, clock=self.clock, now=self.now)
        self.skew = self._observer.skew
        self._outage = Outage("Lease", log, self.clock)
        self._throttle = LogThrottle(monotonic=self.clock)

    @property
    def leads(self) -> bool:
        """Whether this process has the Lease, and time left: whether it may write now."""
        return self._left() > 0

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as this process knows; empty where no one does."""
        if self.leads:
            return self.identity
        record = self._observer.observed.record if self._observer.observed else None
        # Our own term is over, and the process ends.
        return "" if record is None or record.holder == self.identity else record.shown

    async def lead(self, on_lead: Callable[[], None], _on_other: Callable[[], None]) -> None:
        """Follow until this process has the Lease, call ``on_lead`` once, and renew until cancelled.

        Raises LeaseLostError when it may no longer lead.
        """
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._observer.run(), name="watch of the Lease")
            record = await self._follow()
            watching.cancel()
        log.info("Lease: this operator (%s) leads", self.identity)
        on_lead()
        try:
            await self._renew_on(record)
        except LeaseLostError:
            self._term_ends = float("-inf")
            raise

    async def release(self) -> None:
        """Let another operator take over at once. From now on this process may not write.

        To be called when everything that writes has ended, and ``lead`` was cancelled.
        """
        if not self.leads:
            return
        self._term_ends = float("-inf")
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                record = await self._client.read()
                if record.holder == self.identity:
                    await self._client.change(record, release(record, now=self.now()))
                    log.info("Lease: released")
        except (ApiError, TimeoutError) as error:
            log.warning(
                "Lease: not released: %s; another operator takes over after %.0f s",
                error if isinstance(error, ApiError) else f"no answer within {RELEASE_SECONDS:.0f} s",
                LEASE_SECONDS,
            )

    async def _follow(self) -> LeaseRecord:
        """Return the Lease when this process has it, with time left."""
        while True:
            observed, now = self._observer.observed, self.clock()
            if observed is None or next_move(observed, identity=self.identity, now=now) is not Move.WAIT:
                record = await self._try()
                # A process that was frozen meanwhile has the Lease and no time left: it tries once more.
                if record is not None and self._left():
                    return record
                continue
            self._log_holder(observed.record)
            await self._observer.news.wait(seconds=observed.free_at - now)

    async def _try(self) -> LeaseRecord | None:
        """Read, and take the Lease where that is permitted. After a failure, return after a pause."""
        try:
            record = await self._acquire()
        except ApiError as error:
            if not isinstance(error, Conflict | AlreadyExists):  # of these, another follower was faster
                self._failed(error)
            await asyncio.sleep(RETRY_SECONDS * uniform(1, 1 + JITTER))
            return None
        self._succeeded()
        return record

    async def _acquire(self) -> LeaseRecord | None:
        try:
            record: LeaseRecord | None = await self._client.read()
        except NotFound:
            record = None
        move = next_move(self._observer.see(record), identity=self.identity, now=self.clock())
        if move is Move.WAIT:
            return None
        now = self.now()
        if move is Move.RENEW and record is not None:  # the answer to an earlier attempt was lost
            spec = renewal(record, identity=self.identity, now=now)
        else:
            spec = claim(record, identity=self.identity, now=now)
        sent = self.clock()
        taken = await (self._client.create(spec) if record is None else self._client.change(record, spec))
        self._observer.see(taken)
        if taken.holder != self.identity:
            return None
        self._term_ends = term_end(sent=sent)
        return taken

    async def _renew_on(self, record: LeaseRecord) -> None:
        while True:
            await asyncio.sleep(min(RETRY_SECONDS, self._left()))
            left = self._left()
            if not left:
                why = self._last_error or "the process or its machine did not run for so long"
                raise LeaseLostError(f"it was not renewed in time: {why}")
            try:
                async with asyncio.timeout(left):
                    record = await self._renew(record)
            except NotFound:
                raise LeaseLostError("someone deleted it") from None
            except ApiError as error:
                self._failed(error)
            except TimeoutError:
                self._failed(NoAnswer("no answer before the term ended"))
            else:
                self._succeeded()

    async def _renew(self, record: LeaseRecord) -> LeaseRecord:
        try:
            return await self._write(record)
        except Conflict:
            # Someone changed it, or the answer to the last renewal was lost.
            return await self._write(self._checked(await self._client.read()))

    async def _write(self, record: LeaseRecord) -> LeaseRecord:
        sent = self.clock()
        spec = renewal(record, identity=self.identity, now=self.now())
        written = self._checked(await self._client.change(record, spec))
        self._term_ends = term_end(sent=sent)
        return written

    def _checked(self, record: LeaseRecord) -> LeaseRecord:
        if record.holder != self.identity:
            raise LeaseLostError(f"{record.shown} has taken it" if record.holder else "someone emptied it")
        return record

    def _left(self) -> float:
        return max(0.0, self._term_ends - self.clock())

    def _failed(self, error: ApiError) -> None:
        told = explained(error)
        self._last_error = told.message
        self._outage.failed(told)

    def _succeeded(self) -> None:
        self._last_error = ""
        self._outage.ended()

    def _log_holder(self, record: LeaseRecord | None) -> None:
        """Log for whom this process waits, once for each, and not more often than HOLDER_SECONDS say."""
        if record is not None and record.holder:
            why = f"{record.shown} holds it"
        else:
            done = "deleted" if record is None else "emptied"
            why = f"someone {done} it, and its holder may not know yet"
        if (skipped := self._throttle.take("holder", seconds=HOLDER_SECONDS, fact=why)) is not None:
            ended = skipped_text(skipped)
            log.info("Lease: %s; this operator (%s) stands by%s", why, self.identity, ended)


Elector = LeaderElector | OtherOperator
"""What the application needs to know of the Lease, with leader election and without.

``leads`` is whether this process may write now, ``holder`` who leads as far as it has seen (empty where no
one does, or it is not known), and ``other`` who writes although this operator does (empty for none, None: not
known). ``lead`` calls one function once, when this process leads, and another when ``other`` has changed; it
raises LeaseLostError when this process no longer leads. After ``release`` it may not write any more.
"""


@asynccontextmanager
async def connected(
    connection: Connection, *, identity: str, elects: bool, refusals: FirstRefusals
) -> AsyncIterator[tuple[Transport, Elector]]:
    """Open the transport of the operator, and its elector. ``elects`` is whether there is leader election."""
    if not elects:
        async with Transport(connection, refusals=refusals, identity=identity) as plain:
            yield plain, OtherOperator(plain)
        return
    async with Transport(connection, identity=identity) as apart:
        elector = LeaderElector(apart, identity=identity)
        gated = Transport(
            connection,
            stats=apart.stats,
            refusals=refusals,
            identity=identity,
            may_write=lambda: elector.leads,
        )
        async with gated:
            yield gated, elector
