"""Reads and writes the Lease of the operator, and reports how far the clocks of two operators are apart.

The two clocks of the Lease, and the name of this process.

The requests about our Lease, and the JSON of a Lease into a record.

The requests about the Lease, over a connection of their own, and what failed of them.

Lines in the log about what anyone who may patch the Lease can change as fast as they want.

A line for every change would let them fill the log of each operator, and hide all other lines (P7).

How far the wall clocks of two operators are apart, by the times of the renewals of the other.

Without leader election: whether another operator leads in this cluster, by the Lease that it renews.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from winpool.api.keys import FIELD_MANAGER, NAMESPACE
from winpool.kube.backoff import Outage
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, NoAnswer, StreamGarbled, explained
from winpool.kube.lease_rules import SKEW_SECONDS, Record, Sighting, read_record, sighted, skew_of
from winpool.kube.lists import NamedObject, Target
from winpool.kube.request import MERGE_PATCH, Request
from winpool.kube.watch import NamedWatch
from winpool.kube.wire import BROKEN

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still while the machine is suspended, and a term must not. Only Linux has
CLOCK_BOOTTIME."""


def running_on() -> float:
    """Return seconds by a clock that is never set, and runs on while the process or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


def utc_now() -> datetime:
    """Return the wall clock, for the times in the Lease that people read. Nothing is decided by it."""
    return datetime.now(UTC)


def make_identity(host: str) -> str:
    """Return the name of this process among all holders: its host, and what no earlier process there had."""
    named = re.sub(r"[^A-Za-z0-9.-]", "-", host)[:63]
    return f"{named}_{secrets.token_hex(4)}"


NAME: Final = "winpool"
"""Of the Lease. It is the same for every operator of a cluster, wherever it was installed: the second one
must find it."""

TARGET: Final = Target(
    group="coordination.k8s.io",
    version="v1",
    resource="leases",
    kind="Lease",
    name=NAME,
    namespace=NAMESPACE,
)
"""For the watch by name."""

_COLLECTION: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_BY_US: Final = f"fieldManager={FIELD_MANAGER}"


@dataclass(frozen=True, slots=True)
class Found:
    """A Lease as the API server answers it, with the version that a write of it must name."""

    record: Record
    resource_version: str


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] | None = None


_lease: Final = msgspec.json.Decoder(_Lease)


def get_request() -> Request:
    """Return the request for the Lease as it is now, not as a cache has it."""
    return Request(verb="get", resource="leases", path=f"{_COLLECTION}/{NAME}", name=NAME)


def create_request(spec: Mapping[str, Any]) -> Request:
    """Return the request that creates the Lease."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": spec,
    }
    return Request(
        verb="create",
        resource="leases",
        path=f"{_COLLECTION}?{_BY_US}",
        name=NAME,
        body=msgspec.json.encode(body),
    )


def patch_request(spec: Mapping[str, Any], *, resource_version: str) -> Request:
    """Return the request that changes the Lease, if it is still as it was read.

    It is not marked as guarded, so the transport does not repeat it: the keeper decides when, since the term
    counts from before each attempt.
    """
    body = {"metadata": {"resourceVersion": resource_version}, "spec": spec}
    return Request(
        verb="patch",
        resource="leases",
        path=f"{_COLLECTION}/{NAME}?{_BY_US}",
        name=NAME,
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
    )


def read_lease(body: bytes | bytearray, *, label: str) -> Found:
    """Read an answer. Raises StreamGarbled for what is no object with a resourceVersion."""
    try:
        lease = _lease.decode(body)
    except BROKEN as error:
        raise StreamGarbled(f"{label}: unreadable answer: {error}") from None
    if not lease.metadata.resource_version:
        raise StreamGarbled(f"{label}: the answer has no resourceVersion")
    return Found(
        read_record(lease.spec or {}, uid=lease.metadata.uid),
        resource_version=lease.metadata.resource_version,
    )


def record_in(found: NamedObject) -> Record:
    """Return the record of a Lease as a watch has brought it."""
    return read_record(found.spec, uid=found.uid)


log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 4.0
"""For one request. An API server that works answers in milliseconds. A connection that was cut shows by this
limit only, and a term of 10 s then has the time for a second attempt, on a new connection."""


class Door:
    """Reads and writes the Lease. ``transport`` is used for nothing else, and has no gate.

    All methods raise the ApiError of the request.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> Found:
        """Return the Lease as the API server has it now. Raises NotFound where there is none."""
        return await self._ask(get_request())

    async def create(self, spec: Mapping[str, Any]) -> Found:
        """Create the Lease. Raises AlreadyExists where there is one."""
        return await self._ask(create_request(spec))

    async def change(self, found: Found, spec: Mapping[str, Any]) -> Found:
        """Change the Lease. Raises Conflict where it is no longer ``found``."""
        return await self._ask(patch_request(spec, resource_version=found.resource_version))

    async def _ask(self, request: Request) -> Found:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._transport.request(request)
        except TimeoutError:
            raise NoAnswer(f"{request.label}: no answer within {REQUEST_SECONDS:.0f} s") from None
        return read_lease(answer, label=request.label)


class Faults:
    """Logs failed attempts. ``last`` is what went wrong last, empty after a success."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self.last = ""
        self._outage = Outage("Lease", logger=log, monotonic=monotonic, meanwhile="the operator tries again")

    def note(self, error: ApiError | TimeoutError) -> None:
        """Note a failed attempt; a TimeoutError is the end of the term during one."""
        told = (
            explained(error) if isinstance(error, ApiError) else NoAnswer("no answer before the term ended")
        )
        self.last = told.message
        self._outage.failed(told)

    def ended(self) -> None:
        """Note a success."""
        self.last = ""
        self._outage.ended()


HOLDER_SECONDS: Final = 10.0
"""Between two lines about who holds the Lease. Holders that end without a release follow each other after a
whole lease, 15 s, so no line of a healthy cluster waits. Someone who patches the Lease without a pause causes
six lines a minute."""

SKEW_LOG_SECONDS: Final = 600.0
"""Between two lines about the difference of clocks. Clocks drift by milliseconds in this time, and a person
needs longer to synchronize them. The metric has each difference at once."""


class Paced:
    """Says which facts to log: a new one, and at most one in ``seconds`` of ``clock``.

    A fact that comes too early is logged when it is given again after that time, if it is still new then.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._given: str | None = None
        self._told: str | None = None
        self._told_at = float("-inf")
        self._skipped = 0

    def suffix(self, fact: str) -> str | None:
        """Return what to append to the line about ``fact``: how many were not logged. None for no line."""
        now = self._clock()
        is_change, self._given = fact != self._given, fact
        if fact == self._told or now - self._told_at < self._seconds:
            self._skipped += is_change
            return None
        skipped = self._skipped - (not is_change)  # this fact was skipped itself, when it was new
        self._told, self._told_at, self._skipped = fact, now, 0
        return f" ({skipped} changes before were not logged)" if skipped > 0 else ""

    def over(self) -> None:
        """Note that the last fact is no longer true: the same one is new when it comes again."""
        self._given = self._told = None


class Skew:
    """``seconds`` is by how much our clock was ahead of the other's at its last renewal; None before one.

    It is logged when it begins to exceed the limit, and not again until it was below or is of another holder,
    and not more often than ``paced`` says. ``clock`` is as in ``Keeper``.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None
        self._lines = Paced(SKEW_LOG_SECONDS, clock=clock)

    def note(self, before: Sighting | None, after: Sighting, *, now: datetime) -> None:
        """Take in a change of the Lease that was seen just now, at ``now`` by our wall clock."""
        skew = skew_of(before, after, now=now)
        if skew is None or after.record is None:
            return
        self.seconds = skew
        if abs(skew) <= SKEW_SECONDS:
            self._lines.over()
            return
        side = "ahead of" if skew > 0 else "behind"
        if (suffix := self._lines.suffix(f"{side} {after.record.holder}")) is not None:
            log.warning(
                "the clock of this operator is %.0f s %s that of %s; synchronize the clocks of their hosts%s",
                abs(skew),
                side,
                after.record.shown,
                suffix,
            )


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
        # The holder that renewed the Lease last, and until when its lease lasts.
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
