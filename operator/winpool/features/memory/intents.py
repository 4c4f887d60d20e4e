"""Reads and writes ``winpool.dev/memory``: the evictions that are intended on a node, or were made lately.

``{"v":1,"evictions":[{"pod":"shop/web-0","uid":"…","at":"…","until":"…","why":"Commit, Hard"}]}``

An intent is written before the pod is evicted, with absolute times, so a limit holds over a crash and a
change of leader (P8). Its state is not stored, since the pods of the node show it (``eviction.state_of``): an
intent costs two writes, one before the eviction and one that clears it.

Anyone who may annotate a node can write any text, so an intent permits no eviction. It only counts, and the
operator chooses the pod again before it evicts it: a forged one can only lead to fewer evictions. A text that
is not exactly of this form is unreadable as a whole: if it was damaged, it may have lost an intent. A person
has to remove it. Only the deadline may be later than this version would write it: then it counts as the
latest that it would write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from datetime import datetime, timedelta
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from winpool.api.text import read_moment, written_moment

MAX_INTENTS: Final = 10
"""On one node: the most that ``maxPodsPerNode`` permits."""

DEADLINE_SECONDS: Final = 120
"""How long after its grace period an evicted pod may still be there. Windows needs a minute to unmount
volumes and end processes of a large container; after two, someone has to help."""

LONGEST_GRACE_SECONDS: Final = 600
"""A longer grace period counts as this one. The author of a pod may write any number, and until the deadline
its node is one of the ``maxNodes`` nodes of the pool. The cluster autoscaler waits as long for a
pod (``--max-graceful-termination-sec``).
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md"""

LONGEST_SECONDS: Final = LONGEST_GRACE_SECONDS + DEADLINE_SECONDS
"""From an intent to its deadline, at most."""

AHEAD_SECONDS: Final = 5
"""How far ahead of our clock a time may be that counts. The clocks of two operators differ by less, or the
operator warns (``kube/lease_rules.py``)."""

LONGEST_AHEAD_SECONDS: Final = 86_400
"""An intent that is further ahead is removed with the next write. No clock is set back by so much."""


class Intent(msgspec.Struct, frozen=True):
    """One pod that is, or was, to be evicted.

    ``pod`` is namespace and name, as people write them. ``at`` is when it was decided, ``until`` when it has
    to be over, both in whole seconds. ``why`` is short and for people. Where the annotation has no room for
    the names of older pods, these are empty; the UID is what counts.
    """

    pod: str
    uid: str
    at: datetime
    until: datetime
    why: str = ""


Intents: TypeAlias = tuple[Intent, ...]
"""All intents of a node, the oldest first. No two have the same UID."""

NO_INTENTS: Final[Intents] = ()


class Unreadable(msgspec.Struct, frozen=True):
    """An annotation that the operator has not written as it stands. Nothing is evicted on such a node."""

    problem: str


def deadline(*, now: datetime, grace_seconds: float) -> datetime:
    """Return until when an eviction that is decided ``now`` has to be over, in whole seconds."""
    grace = min(max(0.0, grace_seconds), LONGEST_GRACE_SECONDS)
    return now.replace(microsecond=0) + timedelta(seconds=math.ceil(grace) + DEADLINE_SECONDS)


def begun(intents: Intents, intent: Intent) -> Intents:
    """Return ``intents`` with one more, in the order of their times; all others stay.

    One for the same pod is replaced. Raises ValueError where there are MAX_INTENTS already: ask
    ``evictions_left`` first.
    """
    others = [each for each in intents if each.uid != intent.uid]
    if len(others) >= MAX_INTENTS:
        raise ValueError(f"a node has at most {MAX_INTENTS} intents")
    whole = replace(intent, at=intent.at.replace(microsecond=0))
    return tuple(sorted((*others, whole), key=lambda each: (each.at, each.uid)))


def without(intents: Intents, uids: Container[str]) -> Intents:
    """Return ``intents`` without those of these pods: they were refused, or withdrawn before they began."""
    return tuple(each for each in intents if each.uid not in uids)


def is_ahead(intent: Intent, *, now: datetime) -> bool:
    """Whether the time of ``intent`` is still to come: it is not ours, or the clock was set back."""
    return intent.at - now > timedelta(seconds=AHEAD_SECONDS)


def is_invented(intent: Intent, *, now: datetime) -> bool:
    """Whether the time of ``intent`` is further ahead than any clock was set back."""
    return intent.at - now > timedelta(seconds=LONGEST_AHEAD_SECONDS)


def counts(intent: Intent, *, now: datetime, period_seconds: float) -> bool:
    """Whether ``intent`` counts for the limit of a period that ends ``now``.

    A second longer than the period: ``at`` is rounded down.
    """
    return not is_ahead(intent, now=now) and now - intent.at <= timedelta(seconds=period_seconds + 1)


def evictions_left(intents: Intents, *, now: datetime, period_seconds: float, most: int) -> int:
    """Return how many more may begin ``now``, where ``most`` may in a period."""
    counting = sum(counts(each, now=now, period_seconds=period_seconds) for each in intents)
    return max(0, min(most - counting, MAX_INTENTS - len(intents)))


def next_change(intents: Intents, *, now: datetime, period_seconds: float) -> datetime | None:
    """Return when the next one stops counting; None where none counts."""
    ends = (
        each.at + timedelta(seconds=period_seconds + 2)
        for each in intents
        if counts(each, now=now, period_seconds=period_seconds)
    )
    return min(ends, default=None)


def cleared(intents: Intents, *, now: datetime, period_seconds: float, unfinished: Container[str]) -> Intents:
    """Return ``intents`` without those that neither count nor are ``unfinished`` (UIDs).

    One whose time is to come stays for a day: a clock that was set back may be set right again.
    """
    return tuple(
        each
        for each in intents
        if counts(each, now=now, period_seconds=period_seconds)
        or each.uid in unfinished
        or (is_ahead(each, now=now) and not is_invented(each, now=now))
    )


MAX_BYTES: Final = 2048
"""Of the text. Ten intents with the longest UIDs, and without names, have 1,700 bytes."""

VERSION: Final = 1

UID_LENGTH: Final = 64
"""UIDs of the API server have 36 characters."""

_WHY_LENGTH: Final = 64
_POD_LENGTH: Final = 63 + 1 + 253
"""Characters of a namespace, a slash, and the name of a pod (RFC 1123)."""

_UID: Final = re.compile(r"[A-Za-z0-9-]+")
_LONGEST: Final = timedelta(seconds=LONGEST_SECONDS)
_BROKEN: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class _Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    pod: Annotated[str, msgspec.Meta(max_length=_POD_LENGTH)]
    uid: Annotated[str, msgspec.Meta(min_length=1, max_length=UID_LENGTH)]
    at: Annotated[str, msgspec.Meta(max_length=32)]
    until: Annotated[str, msgspec.Meta(max_length=32)]
    why: Annotated[str, msgspec.Meta(max_length=_WHY_LENGTH)] = ""


class _Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    v: int
    evictions: Annotated[list[_Entry], msgspec.Meta(max_length=MAX_INTENTS)]


_decoder: Final = msgspec.json.Decoder(_Text)
_encoder: Final = msgspec.json.Encoder()


def read(text: str | None) -> Intents | Unreadable:
    """Return the intents that ``text`` has; none where there is no text. It never raises."""
    if text is None:
        return NO_INTENTS
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return Unreadable(f"it is longer than {MAX_BYTES} bytes")
    try:
        found = _decoder.decode(text)
    except _BROKEN:
        return Unreadable("it is not JSON of the expected form")
    if found.v != VERSION:
        return Unreadable(f"it has another version than {VERSION}")
    entries: list[Intent] = []
    for entry in found.evictions:
        intent = _intent(entry)
        if intent is None:
            return Unreadable("it has an eviction with times or a UID that no operator writes")
        entries.append(intent)
    if len({each.uid for each in entries}) < len(entries):
        return Unreadable("it names a pod twice")
    return tuple(sorted(entries, key=lambda each: (each.at, each.uid)))


def written(intents: Intents) -> str | None:
    """Return the text of ``intents``, which ``read`` reads; None where there are none: no annotation.

    Where it would be too long, the texts of the oldest are cut: first the reasons, then the names. UIDs and
    times always stand.
    """
    if not intents:
        return None
    entries = [_clean(each) for each in intents]
    for is_pod_cut in (False, True):
        for place, entry in enumerate(entries):
            text = _encoded(entries)
            if len(text) <= MAX_BYTES:
                return text.decode()
            entries[place] = replace(entry, why="", pod="" if is_pod_cut else entry.pod)
    return _encoded(entries).decode()


def _encoded(entries: list[Intent]) -> bytes:
    told = [
        _Entry(each.pod, each.uid, written_moment(each.at), written_moment(each.until), each.why)
        for each in entries
    ]
    return _encoder.encode(_Text(VERSION, told))


def _clean(intent: Intent) -> Intent:
    """Return ``intent`` with a reason of one byte for each character, and not too many."""
    printable = "".join(each if " " <= each <= "~" and each not in '"\\' else "?" for each in intent.why)
    return replace(intent, why=printable[:_WHY_LENGTH])


def _intent(entry: _Entry) -> Intent | None:
    """Return what ``entry`` says; None where no operator can have written it."""
    at, until = _second(entry.at), _second(entry.until)
    if at is None or until is None or until < at:
        return None
    if until - at > _LONGEST:
        until = at + _LONGEST
    namespace, slash, name = entry.pod.partition("/")
    if _UID.fullmatch(entry.uid) is None or bool(entry.pod) != bool(namespace and slash and name):
        return None
    return Intent(entry.pod, entry.uid, at, until, entry.why)


def _second(text: str) -> datetime | None:
    """Return a time as the operator writes it: in UTC and in whole seconds."""
    moment = read_moment(text)
    return moment if moment is not None and written_moment(moment) == text else None
