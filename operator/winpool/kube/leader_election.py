"""Waits for the Lease, renews it, and knows at each moment whether this process may write.

A follower watches the Lease, which costs no request while another operator leads. The watch only says when
to read: a read by name decides, and the write names the version that was read. Where the holder cannot be
sure to hold the Lease it raises LeaseLostError, and the process ends. One that starts again knows nothing
that could be out of date (``docs/adr/0021-own-lease-loop.md``).

``OtherOperator`` is for an operator without leader election: it finds out whether there is a second one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec

from winpool.api.keys import FIELD_MANAGER, LEASE, NAMESPACE
from winpool.kube.backoff import FirstRefusals, LogThrottle, Outage, uniform
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection
from winpool.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NoAnswer,
    NotFound,
    StreamGarbled,
    explained,
)
from winpool.kube.lease_rules import (
    LEASE_SECONDS,
    RETRY_SECONDS,
    SKEW_SECONDS,
    LeaseRecord,
    Move,
    Observation,
    claim,
    host_in_identity,
    next_move,
    observe,
    read_record,
    release,
    renewal,
    skew_of,
    term_end,
)
from winpool.kube.request import JSON, MERGE_PATCH, Request
from winpool.kube.watch import NamedWatch, Target, decode_object
from winpool.kube.wire import BROKEN
from winpool.loops import Wake, utc_now

log = logging.getLogger(__name__)


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still while the machine is suspended, and a term must not. Only Linux has
CLOCK_BOOTTIME."""


def running_on() -> float:
    """Return seconds by a clock that is never set, and runs on while the process or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


def make_identity(host: str) -> str:
    """Return the name of this process among all holders: its host, and what no earlier process there had."""
    return f"{host_in_identity(host)}_{secrets.token_hex(4)}"


TARGET: Final = Target(
    group="coordination.k8s.io",
    version="v1",
    resource="leases",
    kind="Lease",
    name=LEASE,
    namespace=NAMESPACE,
)
"""For the watch by name."""

_COLLECTION: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_BY_US: Final = f"fieldManager={FIELD_MANAGER}"

REQUEST_SECONDS: Final = 4.0
"""For one request. An API server that works answers in milliseconds. A connection that was cut shows by this
limit only, and a term of 10 s then has the time for a second attempt, on a new connection."""


class LeaseClient:
    """Reads and writes the Lease. ``transport`` is used for nothing else, and its writes are not gated.

    All methods raise the ApiError of the request.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> LeaseRecord:
        """Return the Lease as the API server has it now. Raises NotFound where there is none."""
        return await self._ask("get", f"{_COLLECTION}/{LEASE}")

    async def create(self, spec: Mapping[str, Any]) -> LeaseRecord:
        """Create the Lease. Raises AlreadyExists where there is one."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": NAMESPACE},
            "spec": spec,
        }
        return await self._ask("create", f"{_COLLECTION}?{_BY_US}", body)

    async def change(self, known: LeaseRecord, spec: Mapping[str, Any]) -> LeaseRecord:
        """Change the Lease. Raises Conflict where it is no longer ``known``.

        It is not marked as guarded, so the transport does not repeat it: the elector decides when, since the
        term counts from before each attempt.
        """
        body = {"metadata": {"resourceVersion": known.resource_version}, "spec": spec}
        return await self._ask("patch", f"{_COLLECTION}/{LEASE}?{_BY_US}", body)

    async def _ask(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> LeaseRecord:
        request = Request(
            verb=verb,
            resource="leases",
            name=LEASE,
            path=path,
            body=None if body is None else msgspec.json.encode(body),
            content_type=MERGE_PATCH if verb == "patch" else JSON,
        )
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                found = decode_object(await self._transport.request(request))
        except TimeoutError:
            raise NoAnswer(f"{request.label}: no answer within {REQUEST_SECONDS:.0f} s") from None
        except BROKEN as error:
            raise StreamGarbled(f"{request.label}: unreadable answer: {error}") from None
        if not found.resource_version:
            raise StreamGarbled(f"{request.label}: the answer has no resourceVersion")
        return read_record(found.spec, uid=found.uid, resource_version=found.resource_version)


HOLDER_SECONDS: Final = 10.0
"""Between two lines about who holds the Lease. Holders that end without a release follow each other after a
whole lease, 15 s, so no line of a healthy cluster waits. Someone who patches the Lease without a pause causes
six lines a minute."""

SKEW_LOG_SECONDS: Final = 600.0
"""Between two lines about the difference of clocks. Clocks drift by milliseconds in this time, and a person
needs longer to synchronize them. The metric has each difference at once."""


def skipped_text(skipped: int) -> str:
    """Return what to append to a line, before which so many were not logged."""
    return f" ({skipped} changes before were not logged)" if skipped else ""


class Skew:
    """``seconds`` is by how much our clock was ahead of the other's at its last renewal; None before one.

    It is logged when it begins to exceed the limit, and not again until it was below or is of another holder,
    and not more often than SKEW_LOG_SECONDS say. ``clock`` is as in ``LeaderElector``.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None
        self._throttle = LogThrottle(monotonic=clock)

    def note(self, before: Observation | None, after: Observation, *, now: datetime) -> None:
        """Take in a change of the Lease that was seen just now, at ``now`` by our wall clock."""
        skew = skew_of(before, after, now=now)
        if skew is None or after.record is None:
            return
        self.seconds = skew
        if abs(skew) <= SKEW_SECONDS:
            self._throttle.over("skew")
            return
        side = "ahead of" if skew > 0 else "behind"
        fact = f"{side} {after.record.holder}"
        if (skipped := self._throttle.take("skew", seconds=SKEW_LOG_SECONDS, fact=fact)) is not None:
            log.warning(
                "the clock of this operator is %.0f s %s that of %s; synchronize the clocks of their hosts%s",
                abs(skew),
                side,
                after.record.shown,
                skipped_text(skipped),
            )


@dataclass(eq=False)
class LeaseObserver:
    """Watches the Lease while ``run`` runs. ``observed`` is what was last seen, None before anything was.

    ``news`` is set when it has changed. ``clock`` and ``now`` are as in
    ``LeaderElector``.
    """

    transport: Transport
    _: KW_ONLY
    clock: Callable[[], float] = running_on
    now: Callable[[], datetime] = utc_now
    observed: Observation | None = field(default=None, init=False)
    news: Wake = field(default_factory=Wake, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        self.skew = Skew(clock=self.clock)
        self._watch = NamedWatch(
            self.transport, target=TARGET, on_change=self._watched, monotonic=time.monotonic
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._watch.run()

    def see(self, record: LeaseRecord | None) -> Observation:
        """Take in a state of the Lease that was read just now."""
        self.observed = observe(self.observed, record, at=self.clock())
        return self.observed

    def _watched(self) -> None:
        found, before = self._watch.found, self.observed
        if found is None and not self._watch.synced:
            return
        record = None if found is None else read_record(found.spec, uid=found.uid)
        after = self.see(record)
        if after is not before:
            self.skew.note(before, after, now=self.now())
            self._changed(before, after)
            self.news.set()

    def _changed(self, before: Observation | None, after: Observation) -> None:
        """Take in a change that the watch has brought."""


@dataclass(eq=False)
class OtherOperator(LeaseObserver):
    """Replaces ``LeaderElector`` without leader election: watches the Lease, never writes it.

    Where the Lease may not be read, nothing is noticed and nothing fails.
    """

    leads: ClassVar[bool] = True
    """Without leader election each operator may write at any time."""

    holder: ClassVar[str] = ""
    """This operator does not hold the Lease."""

    _holder: str = field(default="", init=False)
    _holds_until: float = field(default=float("-inf"), init=False)
    """The last holder that has renewed the Lease, and until when its lease lasts."""

    def __post_init__(self) -> None:
        """Begin with nothing seen and nothing logged."""
        super().__post_init__()
        self._throttle = LogThrottle(monotonic=self.clock)

    @property
    def other(self) -> str | None:
        """Who else writes: another operator has renewed the Lease, and its lease lasts.

        Empty where there is none; None where that is not known yet, or the Lease cannot be read.
        """
        now, seen = self.clock(), self.observed
        if now < self._holds_until:
            return self._holder
        if seen is None or (seen.record is not None and seen.record.holder and now < seen.free_at):
            return None  # a holder that is seen for the first time may have ended long ago
        return ""

    async def lead(self, on_lead: Callable[[], None], on_other: Callable[[], None]) -> None:
        """Lead at once, and watch until cancelled. Call ``on_other`` whenever ``other`` has changed."""
        on_lead()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.run())
            tasks.create_task(self._tell(on_other))

    async def release(self) -> None:
        """Do nothing: there is nothing to release."""

    async def _tell(self, on_other: Callable[[], None]) -> None:
        """Call ``on_other`` after each change, also where the time alone has made it."""
        told: str | None = None
        while True:
            if self.other != told:
                told = self.other
                on_other()
            now, free_at = self.clock(), self.observed.free_at if self.observed else 0.0
            ahead = [moment - now for moment in (self._holds_until, free_at) if moment > now]
            await self.news.wait(seconds=min(ahead, default=None))

    def _changed(self, before: Observation | None, after: Observation) -> None:
        """Note a release, or a renewal: the Lease has changed, and its holder has not."""
        record, known = after.record, before.record if before else None
        if record is not None and record.is_released:
            self._holds_until = after.free_at
        if record is None or known is None or not record.holder or known.holder != record.holder:
            return
        self._holder, self._holds_until = record.shown, after.free_at
        skipped = self._throttle.take("holder", seconds=HOLDER_SECONDS, fact=record.holder)
        if skipped is not None:
            log.warning(
                "a second operator is running in this cluster: %s renews the Lease winpool-system/winpool,"
                " and this operator runs without --leader-elect. Both write to nodes and pools. Stop one,"
                " or start both with --leader-elect%s",
                record.shown,
                skipped_text(skipped),
            )


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
