"""The text of ``winpool.dev/memory``: intents as JSON, in at most 2 KiB.

``{"v":1,"evictions":[{"pod":"shop/web-0","uid":"…","at":"…","until":"…","why":"Commit, Hard"}]}``

Anyone who may annotate a node can write any text. One that is not exactly of this form is unreadable as a
whole: if it was damaged, it may have lost an intent. The operator does not replace it; a person has to. Only
the deadline may be later than this version would write it: then it counts as the latest that it would write.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from winpool.api.moments import read_moment, written_moment
from winpool.memory.intents import (
    LONGEST_SECONDS,
    MAX_INTENTS,
    NO_INTENTS,
    Intent,
    Intents,
    Unreadable,
)

if TYPE_CHECKING:
    from datetime import datetime

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
    return Intents(tuple(sorted(entries, key=lambda each: (each.at, each.uid))))


def written(intents: Intents) -> str | None:
    """Return the text of ``intents``, which ``read`` reads; None where there are none: no annotation.

    Where it would be too long, the texts of the oldest are cut: first the reasons, then the names. UIDs and
    times always stand.
    """
    if not intents.entries:
        return None
    entries = [_clean(each) for each in intents.entries]
    for shorten in (_without_why, _without_name):
        for place, entry in enumerate(entries):
            text = _encoded(entries)
            if len(text) <= MAX_BYTES:
                return text.decode()
            entries[place] = shorten(entry)
    return _encoded(entries).decode()


def _encoded(entries: list[Intent]) -> bytes:
    told = [
        _Entry(
            f"{each.namespace}/{each.name}" if each.name else "",
            each.uid,
            written_moment(each.at),
            written_moment(each.until),
            each.why,
        )
        for each in entries
    ]
    return _encoder.encode(_Text(VERSION, told))


def _clean(intent: Intent) -> Intent:
    """Return ``intent`` with a reason of one byte for each character, and not too many."""
    printable = "".join(each if " " <= each <= "~" and each not in '"\\' else "?" for each in intent.why)
    return replace(intent, why=printable[:_WHY_LENGTH])


def _without_why(intent: Intent) -> Intent:
    return replace(intent, why="")


def _without_name(intent: Intent) -> Intent:
    return replace(intent, why="", namespace="", name="")


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
    return Intent(namespace, name, entry.uid, at, until, entry.why)


def _second(text: str) -> datetime | None:
    """Return a time as the operator writes it: in UTC and in whole seconds."""
    moment = read_moment(text)
    return moment if moment is not None and written_moment(moment) == text else None
