"""The ownership record: what on a node is ours, and the values from before.

It is in the annotation ``winpool.dev/applied`` and is written in the same PATCH as the labels,
annotations, taints and the cordon that it names, so the operator never makes the two disagree. Conditions are
written after it names them, and are gone before it omits them. But every client that may annotate a node can
write a record. How it is read: ``reading``; what a readable one permits: ``rights``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.node_keys import CONDITIONS, RECORDED_ANNOTATIONS
from winpool.api.syntax import (
    MAX_VALUE_LENGTH,
)
from winpool.objects.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@dataclass(frozen=True, slots=True)
class Owned:
    """One label or taint of ours: the value we set, and the value from before, if any.

    ``before_time`` is the timeAdded of a taint from before, as the API server wrote it.
    """

    set: str
    before: str | None = None
    before_time: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
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
    labels: Mapping[str, Owned] = field(default_factory=dict)
    taints: Mapping[TaintIdentity, Owned] = field(default_factory=dict)
    annotations: Mapping[str, Owned] = field(default_factory=dict)
    unschedulable: bool = False
    conditions: frozenset[str] = frozenset()
    guard: str = ""
    left: Keys = NO_KEYS
    lost: Keys = NO_KEYS
    is_canonical: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unreadable:
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
            # An empty part is not written, so that records do not change while no room sets that part.
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
