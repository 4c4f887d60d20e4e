"""Decides who may hold the Lease, from when, and until when, without I/O and without a clock.

A follower never compares the times in the Lease with a clock of its own: the clocks of two machines may
differ by any amount. It measures by its own clock how long the record has not changed. The holder counts its
term from before it sent the request, and ends it ``LEASE_SECONDS - TERM_SECONDS`` before any follower may
take over. All moments named ``at``, ``sent`` or ``now`` are seconds of the local clock of the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from winpool.api.text import printable, read_moment, written_micro

LEASE_SECONDS: Final = 15.0
"""How long a follower waits after the last change of the Lease. It is the default of client-go, which the
operators of a cluster have in common, so a takeover takes as long as people expect."""

TERM_SECONDS: Final = 10.0
"""How long a holder may write after a renewal: the renew deadline of client-go. The rest of the lease, 5 s,
is for a request that is under way when the term ends. It also permits one clock to run 1.5 times as fast as
the other."""

RETRY_SECONDS: Final = 2.0
"""Between two renewals, and between two attempts of a follower, as in client-go: four renewals may fail
before the term ends. One write in two seconds costs the API server nothing that can be measured."""

LONGEST_LEASE_SECONDS: Final = 60.0
"""A longer duration in the Lease counts as this one. A damaged record must not keep every operator from
leading for ever; a later version of winpool may use a duration up to this."""

SKEW_SECONDS: Final = 5.0
"""A difference between the clocks of two operators from which on it is logged. The Lease does not depend on
it, but times in statuses and deadlines do. Clocks that are synchronized differ by milliseconds."""

RELEASED_SECONDS: Final = 1
"""The duration that a holder leaves behind when it releases the Lease, as client-go does. The API server
refuses 0."""

_MOST_TRANSITIONS: Final = 2**31 - 2
"""The field is an int32: from here on the count begins again."""

_HOLDER_SHOWN: Final = 100
"""Characters of another's identity that a message quotes. Ours have at most 72."""

_MICROSECOND: Final = timedelta(microseconds=1)


def host_in_identity(host: str) -> str:
    """Return how a host is named in the identity of a holder, before the part that is of one process."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", host)[:63]


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a Lease says, as far as it can be read.

    ``holder`` is empty where no one holds it. ``seconds`` is how long to wait after its last change.
    ``is_released`` says that its holder gave it up. ``renewed`` is None where it is not readable.
    ``mark`` differs between any two states of the Lease. ``resource_version`` is what a write must name.
    """

    holder: str
    seconds: float
    is_released: bool
    renewed: datetime | None
    transitions: int
    mark: tuple[object, ...]
    resource_version: str = ""

    @property
    def shown(self) -> str:
        """The holder for a message."""
        return printable(self.holder[:_HOLDER_SHOWN])


def read_record(spec: Mapping[str, Any], *, uid: str = "", resource_version: str = "") -> LeaseRecord:
    """Read the spec of a Lease. Any content gives a record: an unreadable field never shortens the wait."""
    holder = spec.get("holderIdentity")
    duration = spec.get("leaseDurationSeconds")
    transitions = spec.get("leaseTransitions")
    renewed = spec.get("renewTime")
    return LeaseRecord(
        holder=holder if isinstance(holder, str) else "" if holder is None else "(not readable)",
        seconds=_seconds(duration),
        is_released=holder in (None, "") and duration == RELEASED_SECONDS,
        renewed=read_moment(renewed) if isinstance(renewed, str) else None,
        transitions=_count(transitions),
        mark=(uid, holder, duration, transitions, renewed, spec.get("acquireTime")),
        resource_version=resource_version,
    )


def _seconds(duration: object) -> float:
    if not isinstance(duration, int):
        return LEASE_SECONDS
    return float(min(max(duration, LEASE_SECONDS), LONGEST_LEASE_SECONDS))


def _count(transitions: object) -> int:
    if not isinstance(transitions, int) or not 0 <= transitions <= _MOST_TRANSITIONS:
        return 0
    return int(transitions)


class Observation(msgspec.Struct, frozen=True):
    """What was last seen of the Lease: ``record`` is None where there is none.

    ``free_at`` is when the term of the former holder has ended.
    """

    record: LeaseRecord | None
    free_at: float


def observe(before: Observation | None, record: LeaseRecord | None, *, at: float) -> Observation:
    """Return what is known after ``record`` was read at ``at``, the moment at which the answer was there.

    It is ``before`` itself where nothing has changed. A Lease that was deleted does not end the term of its
    holder, who does not know it yet. Neither does one whose holder was taken out by anybody but the holder
    itself.
    """
    if record is None:
        if before is not None and before.record is None:
            return before
        return Observation(None, free_at=at if before is None else max(at, before.free_at))
    if before is not None and before.record is not None and before.record.mark == record.mark:
        return before
    return Observation(record, free_at=at if record.is_released else at + record.seconds)


class Move(Enum):
    """What a follower does now."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"
    """Until ``Observation.free_at``."""


def next_move(observed: Observation, *, identity: str, now: float) -> Move:
    """Return what the follower ``identity`` does at ``now``, with what it has last seen."""
    if observed.record is not None and observed.record.holder == identity:
        return Move.RENEW
    return Move.ACQUIRE if now >= observed.free_at else Move.WAIT


def term_end(*, sent: float) -> float:
    """Return until when the holder may write after a write to the Lease that succeeded.

    ``sent`` is from before the write was sent.
    """
    return sent + TERM_SECONDS


def claim(before: LeaseRecord | None, *, identity: str, now: datetime) -> dict[str, Any]:
    """Return the spec with which ``identity`` takes the Lease; ``now`` is the wall clock."""
    transitions = 0 if before is None else before.transitions + 1
    moment = _unlike(before, now)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": transitions if transitions <= _MOST_TRANSITIONS else 0,
    }


def renewal(before: LeaseRecord, *, identity: str, now: datetime) -> dict[str, Any]:
    """Return what a renewal changes of the spec.

    The time always changes, whatever the wall clock does: an equal one would be no change to the API server
    nor to a follower, and the holder would count a term that the follower does not know of.
    """
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(LEASE_SECONDS),
        "renewTime": _unlike(before, now),
    }


def release(before: LeaseRecord, *, now: datetime) -> dict[str, Any]:
    """Return what a holder that has stopped writing changes of the spec."""
    moment = _unlike(before, now)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": RELEASED_SECONDS,
        "acquireTime": moment,
        "renewTime": moment,
    }


def _unlike(before: LeaseRecord | None, now: datetime) -> str:
    renewed = None if before is None else before.renewed
    return written_micro(now + _MICROSECOND if now == renewed else now)


def skew_of(before: Observation | None, after: Observation, *, now: datetime) -> float | None:
    """Return by how many seconds our wall clock is ahead of the holder's; None where that is not known.

    It is known only when a renewal was seen that happened while we watched. The way of the renewal to us
    counts as skew, which is milliseconds.
    """
    record = after.record
    if before is None or after is before or record is None or record.renewed is None or not record.holder:
        return None
    return (now - record.renewed).total_seconds()
