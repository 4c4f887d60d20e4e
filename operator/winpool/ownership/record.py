"""The ownership record: which labels and taints of a node are ours, and what stood there before.

It stands in the annotation ``winpool.dev/applied`` and is written in the same PATCH as the
labels and taints that it tells of, so the two cannot disagree by our doing. Anybody who may
annotate a node can write one, though, so reading it is defensive: a record only ever gives us
the right to touch keys that a pool could have set in the first place, and a record that
cannot be read gives us no right at all. What one that can be read permits: ``rights``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.node_keys import BORROWED_ANNOTATIONS, CONDITIONS
from winpool.api.syntax import (
    MAX_VALUE_LENGTH,
    TAINT_EFFECTS,
    is_label_key_allowed,
    is_label_value,
    is_taint_key_allowed,
)
from winpool.objects.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.objects.node import Node

VERSION: Final = 1
MAX_BYTES: Final = 16 * 1024
"""A longer record is not ours: 32 labels and 16 taints of ordinary length take 3 KiB, and a spec whose
record could be longer is not accepted (``fits``)."""

_SHORT: Final = 1024
"""Bytes of an ordinary record: twelve labels and taints."""

_SHORT_KEPT: Final = 16 * 1024
"""Records differ from node to node where they say what stood there before, so that a pass over 5,000 nodes
may meet as many. What was read of one is held once, however many nodes carry it. At most 16 MiB of text."""

_LONG_KEPT: Final = 256
"""Longer ones: at most 4 MiB."""

MAX_GUARD_LENGTH: Final = 64
"""Characters of a guard's identity: a SHA-256 in hexadecimal at most. A longer one is none of ours."""

MAX_UID_LENGTH: Final = 64
"""Characters of a pool's UID, of which a UUID takes 36. A longer one is none: whoever forges records must not
make us remember megabytes."""

_TIME: Final = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z", re.ASCII)
"""How the API server writes a metav1.Time."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode

TaintIdentity = tuple[str, str]
"""Key and effect of a taint."""


@dataclass(frozen=True, slots=True)
class Owned:
    """One label or taint of ours: the value we set, and the value that stood there before, if any.

    ``before_time`` is the timeAdded of a taint that stood there before, as the API server wrote it.
    """

    set: str
    before: str | None = None
    before_time: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What the pool with this UID has put on a node.

    ``annotations`` are the borrowed ones, ``unschedulable`` says that the cordon is ours, and ``conditions``
    are the types of node conditions that we have written, or are about to. ``guard`` is the identity of the
    guard under which it was written, empty where there was none. ``left`` gives no right: it names what an
    earlier record claimed that was not believed, and that stands there still, so that people go on to be
    told.
    ``is_canonical`` says of one that was read whether its text is what ``render`` makes of it.
    """

    pool_uid: str
    labels: Mapping[str, Owned] = field(default_factory=dict)
    taints: Mapping[TaintIdentity, Owned] = field(default_factory=dict)
    annotations: Mapping[str, Owned] = field(default_factory=dict)
    unschedulable: bool = False
    conditions: frozenset[str] = frozenset()
    guard: str = ""
    left: Keys = NO_KEYS
    is_canonical: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that gives no rights. ``why`` is for people."""

    why: str


def render(record: Record) -> str:
    """Return the text of ``record``: the same text for an equal record, so that it can be compared."""
    return _encode(
        {
            "v": VERSION,
            **({"guard": record.guard} if record.guard else {}),
            "pool": record.pool_uid,
            "labels": _written_values(record.labels),
            "taints": [
                {
                    "key": key,
                    "effect": effect,
                    "value": own.set,
                    "before": own.before,
                    **({"beforeTimeAdded": own.before_time} if own.before_time else {}),
                }
                for (key, effect), own in sorted(record.taints.items())
            ],
            # What a room may never set is not written, so that records stay as they are without that room.
            **({"annotations": _written_values(record.annotations)} if record.annotations else {}),
            **({"unschedulable": True} if record.unschedulable else {}),
            **({"conditions": sorted(record.conditions)} if record.conditions else {}),
            **({"left": _written_keys(record.left)} if record.left else {}),
        }
    ).decode()


def _written_values(owned: Mapping[str, Owned]) -> dict[str, dict[str, str | None]]:
    return {key: {"set": own.set, "before": own.before} for key, own in owned.items()}


def _written_keys(keys: Keys) -> dict[str, list[str] | bool]:
    return {
        "labels": sorted(keys.labels),
        "taints": [":".join(each) for each in sorted(keys.taints)],
        **({"annotations": sorted(keys.annotations)} if keys.annotations else {}),
        **({"unschedulable": True} if keys.unschedulable else {}),
    }


def render_first_fitting(*choices: Record) -> str:
    """Return the text of the first of ``choices`` that fits MAX_BYTES; of the last, if none does."""
    text = ""
    for record in choices:
        text = render(record)
        if len(text) <= MAX_BYTES:
            break
    return text


def fits(*, labels: Mapping[str, str], taints: Mapping[TaintIdentity, str]) -> bool:
    """Whether the record of these fits MAX_BYTES on any node, whatever stood there before."""
    longest = "x" * MAX_VALUE_LENGTH
    largest = Record(
        pool_uid="x"
        * 36,  # a UUID, https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#uids
        guard="x" * MAX_GUARD_LENGTH,
        annotations={key: Owned(set=longest, before=longest) for key in BORROWED_ANNOTATIONS},
        unschedulable=True,
        conditions=frozenset(CONDITIONS),
        labels={key: Owned(set=value, before=longest) for key, value in labels.items()},
        taints={
            identity: Owned(set=value, before=longest, before_time="2026-01-01T00:00:00Z")
            for identity, value in taints.items()
        },
    )
    return len(render(largest)) <= MAX_BYTES


def parse(text: str) -> Record | Unreadable:
    """Read a record, or say why it cannot be read. Never raises.

    An entry that names a key or a value which no pool could have set is left out, or whoever can
    annotate a node could have us delete ``kubernetes.io/os``.
    """
    return _parse_short(text) if len(text) <= _SHORT else _parse_long(text)


def record_of(node: Node) -> Record | Unreadable | None:
    """Return the ownership record on ``node``; None where there is none."""
    text = node.annotations.get(APPLIED_ANNOTATION)
    return None if text is None else parse(text)


def _parse(text: str) -> Record | Unreadable:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        return Unreadable(f"it is longer than {MAX_BYTES} bytes")
    found = _read(text)
    if isinstance(found, Record):
        return replace(found, is_canonical=render(found) == text)
    return found


_parse_short: Final = lru_cache(maxsize=_SHORT_KEPT)(_parse)
_parse_long: Final = lru_cache(maxsize=_LONG_KEPT)(_parse)


def _read(text: str) -> Record | Unreadable:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return Unreadable("it is not JSON")
    if not isinstance(content, dict):
        return Unreadable("it is not a JSON object")
    if content.get("v") != VERSION or isinstance(content.get("v"), bool):
        return Unreadable(f"its version 'v' must be {VERSION}")
    uid, labels, taints = content.get("pool"), content.get("labels", {}), content.get("taints", [])
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID_LENGTH or not uid.isascii():
        return Unreadable("'pool' must be the UID of a pool")
    if not isinstance(labels, dict) or not isinstance(taints, list):
        return Unreadable("'labels' must be an object and 'taints' a list")
    return Record(
        pool_uid=uid,
        labels=_read_labels(labels),
        taints=_read_taints(taints),
        annotations=_read_annotations(content.get("annotations")),
        unschedulable=content.get("unschedulable") is True,
        conditions=_read_conditions(content.get("conditions")),
        guard=_read_guard(content.get("guard")),
        left=_read_left(content.get("left")),
    )


def _read_left(left: object) -> Keys:
    if not isinstance(left, dict):
        return NO_KEYS
    labels, taints, annotations = left.get("labels"), left.get("taints"), left.get("annotations")
    split = (
        [text.rpartition(":") for text in taints if isinstance(text, str)] if isinstance(taints, list) else []
    )
    return Keys(
        frozenset(
            key
            for key in (labels if isinstance(labels, list) else [])
            if _is_text(key) and is_label_key_allowed(key)
        ),
        frozenset(
            (key, effect) for key, _, effect in split if is_taint_key_allowed(key) and effect in TAINT_EFFECTS
        ),
        frozenset(
            key for key in BORROWED_ANNOTATIONS if isinstance(annotations, list) and key in annotations
        ),
        unschedulable=left.get("unschedulable") is True,
    )


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def _read_guard(guard: object) -> str:
    """Read the name of the guard. One that cannot be a guard's is none, which gives fewer rights."""
    if isinstance(guard, str) and guard.isascii() and len(guard) <= MAX_GUARD_LENGTH:
        return guard
    return ""


def _read_annotations(annotations: object) -> dict[str, Owned]:
    """Read the borrowed ones. They may have any value, but what we take off has to be what we set."""
    if not isinstance(annotations, dict):
        return {}
    return {
        key: Owned(set=entry["set"], before=entry.get("before"))
        for key, entry in annotations.items()
        if key in BORROWED_ANNOTATIONS and isinstance(entry, dict) and _is_text(entry.get("set"))
        if entry.get("before") is None or _is_text(entry["before"])
    }


def _read_conditions(types: object) -> frozenset[str]:
    return frozenset(each for each in CONDITIONS if isinstance(types, list) and each in types)


def _read_labels(labels: Mapping[str, Any]) -> dict[str, Owned]:
    return {
        key: owned
        for key, entry in labels.items()
        if is_label_key_allowed(key) and isinstance(entry, dict)
        if (owned := _owned(entry.get("set"), entry.get("before"))) is not None
    }


def _read_taints(taints: list[Any]) -> dict[TaintIdentity, Owned]:
    read: dict[TaintIdentity, Owned] = {}
    for entry in taints:
        if not isinstance(entry, dict):
            continue
        key, effect = entry.get("key"), entry.get("effect")
        owned = _owned(entry.get("value"), entry.get("before"), entry.get("beforeTimeAdded"))
        if owned and isinstance(key, str) and is_taint_key_allowed(key) and effect in TAINT_EFFECTS:
            read[key, effect] = owned
    return read


def _owned(value: object, before: object, before_time: object = None) -> Owned | None:
    if not isinstance(value, str) or not is_label_value(value):
        return None
    if before is None:
        return Owned(set=value)
    if isinstance(before, str) and is_label_value(before):
        return Owned(set=value, before=before, before_time=before_time if _is_time(before_time) else None)
    return None


def _is_time(text: object) -> TypeGuard[str]:
    """Whether the API server will take ``text`` as a time: one that it refused would hold up the release."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
