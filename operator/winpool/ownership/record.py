"""The ownership record of a node: which keys on it are ours, the values from before, and how it is read.

It is in the annotation ``winpool.dev/applied`` and is written in the same PATCH as the labels,
annotations, taints and the cordon that it names, so the operator never makes the two disagree. Conditions are
written after it names them, and are gone before it omits them. But every client that may annotate a node can
write a record, so it is read with care; what a readable one permits: ``trust``.

A record can only give the right to change keys that a pool could have set, and a record that cannot be read
gives no right at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeGuard

import msgspec
from msgspec.structs import replace

from winpool.api.fields import MAX_VALUE_LENGTH, is_label_key_allowed, is_label_value, is_taint_key_allowed
from winpool.api.keys import APPLIED_ANNOTATION, CONDITIONS, RECORDED_ANNOTATIONS, TAINT_EFFECTS
from winpool.model.node import NO_KEYS, Keys, Node

VERSION: Final = 1
MAX_BYTES: Final = 16 * 1024
"""A longer record is not ours: 32 labels and 16 taints of ordinary length take 3 KiB, and a spec whose
record could be longer is not accepted (``fits``)."""

MAX_GUARD_LENGTH: Final = 64
"""Characters of a guard's identity: at most a SHA-256 in hexadecimal. A longer one is not ours."""

MAX_UID_LENGTH: Final = 64
"""Characters of a pool's UID; a UUID has 36. A longer text is not a UID: forged records must not make the
operator remember megabytes."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode

TaintIdentity = tuple[str, str]
"""Key and effect of a taint."""


class Owned(msgspec.Struct, frozen=True):
    """One label or taint of ours: the value we set, and the value from before, if any.

    ``before_time`` is the timeAdded of a taint from before, as the API server wrote it.
    """

    set: str
    before: str | None = None
    before_time: str | None = None


class Record(msgspec.Struct, frozen=True, eq=False):
    """What the pool with this UID has set on a node.

    ``annotations`` are the borrowed ones, ``unschedulable`` says that the cordon is ours, and ``conditions``
    are the types of node conditions that we have written, or are about to. ``guard`` is the identity of the
    guard under which it was written, empty where there was none. ``left`` and ``lost`` give no right, and are
    kept so that the status continues to report them. ``left`` names what an earlier record claimed that was
    not believed, and that is still there. ``lost`` names keys of the pool that were there when an earlier
    record could not be read: it is unknown who had set them, so they stay when the pool is deleted.
    ``is_canonical`` says of one that was read whether its text is what ``render`` makes of it.
    """

    pool_uid: str
    labels: Mapping[str, Owned] = msgspec.field(default_factory=dict)
    taints: Mapping[TaintIdentity, Owned] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, Owned] = msgspec.field(default_factory=dict)
    unschedulable: bool = False
    conditions: frozenset[str] = frozenset()
    guard: str = ""
    left: Keys = NO_KEYS
    lost: Keys = NO_KEYS
    is_canonical: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether they say the same, however they were written."""
        return isinstance(other, Record) and _said(self) == _said(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # it has dicts


_said: Final = attrgetter(*[each for each in Record.__struct_fields__ if each != "is_canonical"])


class Unreadable(msgspec.Struct, frozen=True):
    """A record that gives no rights. ``why`` is a text for people."""

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
            # An empty part is not written, so that records do not change while no feature sets that part.
            **({"annotations": _written_values(record.annotations)} if record.annotations else {}),
            **({"unschedulable": True} if record.unschedulable else {}),
            **({"conditions": sorted(record.conditions)} if record.conditions else {}),
            **({"left": _written_keys(record.left)} if record.left else {}),
            **({"lost": _written_keys(record.lost)} if record.lost else {}),
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
    """Whether the record of these fits MAX_BYTES on any node, with any values from before."""
    longest = "x" * MAX_VALUE_LENGTH
    largest = Record(
        pool_uid="x"
        * 36,  # a UUID, https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#uids
        guard="x" * MAX_GUARD_LENGTH,
        annotations={key: Owned(set=longest, before=longest) for key in RECORDED_ANNOTATIONS},
        unschedulable=True,
        conditions=frozenset(CONDITIONS),
        labels={key: Owned(set=value, before=longest) for key, value in labels.items()},
        taints={
            identity: Owned(set=value, before=longest, before_time="2026-01-01T00:00:00Z")
            for identity, value in taints.items()
        },
    )
    return len(render(largest)) <= MAX_BYTES


_SHORT: Final = 1024
"""Bytes of an ordinary record: twelve labels and taints."""

_SHORT_KEPT: Final = 16 * 1024
"""Records differ from node to node where they have values from before, so a pass over 5,000 nodes may read as
many. The result of each text is kept once, however many nodes have it. At most 16 MiB of text."""

_LONG_KEPT: Final = 256
"""Longer ones: at most 4 MiB."""

_TIME: Final = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z", re.ASCII)
"""How the API server writes a metav1.Time."""


def parse(text: str) -> Record | Unreadable:
    """Read a record, or say why it cannot be read. Never raises.

    An entry that names a key or a value that no pool could have set is left out. Otherwise a client that can
    annotate a node could make the operator delete ``kubernetes.io/os``.
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
    read_labels, read_taints = _read_labels(labels), _read_taints(taints)
    return Record(
        pool_uid=uid,
        labels=read_labels,
        taints=read_taints,
        annotations=_read_annotations(content.get("annotations")),
        unschedulable=content.get("unschedulable") is True,
        conditions=frozenset(each for each in _texts(content.get("conditions")) if each in CONDITIONS),
        guard=_read_guard(content.get("guard")),
        left=_read_keys(content.get("left")),
        lost=_read_keys(content.get("lost")) | _damaged(labels, read_labels, taints, read_taints),
    )


def _damaged(
    labels: Mapping[str, Any],
    read_labels: Mapping[str, Owned],
    taints: list[Any],
    read_taints: Mapping[TaintIdentity, Owned],
) -> Keys:
    """Return the keys of entries of which only the key, one that a pool could have set, can be read."""
    if len(labels) == len(read_labels) and len(taints) == len(read_taints):
        return NO_KEYS  # this is so for nearly every record, and saves time over thousands of them
    named = (_identity_of(entry) for entry in taints)
    return Keys(
        frozenset(key for key in labels if key not in read_labels and is_label_key_allowed(key)),
        frozenset(each for each in named if each and each not in read_taints),
    )


def _read_keys(found: object) -> Keys:
    if not isinstance(found, dict):
        return NO_KEYS
    labels, taints, annotations = (_texts(found.get(part)) for part in ("labels", "taints", "annotations"))
    split = [text.rpartition(":") for text in taints]
    return Keys(
        frozenset(key for key in labels if is_label_key_allowed(key)),
        frozenset(
            (key, effect) for key, _, effect in split if is_taint_key_allowed(key) and effect in TAINT_EFFECTS
        ),
        frozenset(key for key in annotations if key in RECORDED_ANNOTATIONS),
        unschedulable=found.get("unschedulable") is True,
    )


def _texts(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _read_guard(guard: object) -> str:
    """Read the name of the guard. An invalid one counts as no guard, which gives fewer rights."""
    if isinstance(guard, str) and guard.isascii() and len(guard) <= MAX_GUARD_LENGTH:
        return guard
    return ""


def _read_annotations(annotations: object) -> dict[str, Owned]:
    """Read the borrowed ones, which may have any value: only one that still has ours is removed."""
    if not isinstance(annotations, dict):
        return {}
    return {
        key: Owned(set=entry["set"], before=entry.get("before"))
        for key, entry in annotations.items()
        if key in RECORDED_ANNOTATIONS and isinstance(entry, dict) and isinstance(entry.get("set"), str)
        if isinstance(entry.get("before"), str | None)
    }


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
        identity = _identity_of(entry)
        if identity is None:
            continue
        owned = _owned(entry.get("value"), entry.get("before"), entry.get("beforeTimeAdded"))
        if owned:
            read[identity] = owned
    return read


def _identity_of(entry: Any) -> TaintIdentity | None:
    """Return key and effect of a taint that a pool could have set; None where the entry names none."""
    if not isinstance(entry, dict):
        return None
    key, effect = entry.get("key"), entry.get("effect")
    if not isinstance(key, str) or not is_taint_key_allowed(key) or effect not in TAINT_EFFECTS:
        return None
    return key, effect


def _owned(value: object, before: object, before_time: object = None) -> Owned | None:
    if not isinstance(value, str) or not is_label_value(value):
        return None
    if before is None:
        return Owned(set=value)
    if isinstance(before, str) and is_label_value(before):
        return Owned(set=value, before=before, before_time=before_time if _is_time(before_time) else None)
    return None


def _is_time(text: object) -> TypeGuard[str]:
    """Whether the API server accepts ``text`` as a time: one that it refuses would block the release."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
