"""What an event says about an object, and the Event object (events.k8s.io/v1) for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from winpool.api.keys import REPORTING_CONTROLLER
from winpool.api.text import printable

if TYPE_CHECKING:
    from datetime import datetime

NAMESPACE: Final = "default"
"""The namespace of events of cluster-scoped objects: ``regarding.namespace`` must be empty so that
kubectl describe finds them, and then the API server accepts them only here and in kube-system."""

NOTE_BYTES: Final = 1024
REASON_BYTES: Final = 128
"""What the API server accepts, in bytes of UTF-8 (k8s.io/kubernetes: pkg/apis/core/validation/events.go)."""

_NAME_LIMIT: Final = 230
"""Of the 253 characters of a name, those for the object's own name, before our suffix."""

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """What happened to which object.

    ``uid`` is the object's real one: otherwise ``kubectl describe`` would not show the event.
    ``reason`` says why, ``action`` what was done or tried, both in CamelCase and at most 128
    bytes; ``note`` is for people, is made printable and cut at 1024 bytes.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two records the same event: object, reason, action, and note.

        The note is part of it, since it cannot be changed in an Event that exists: the event of a restored
        label must not count as a repetition of the event of a taint that was restored a moment before.
        """
        return (self.uid, self.reason, self.action, self.note)


@dataclass(slots=True)
class Series:
    """One Event object and how often it happened.

    ``written`` is the count that the API server knows, 0 before it has the object. ``due`` and
    ``last_recorded`` are monotonic seconds.
    """

    record: EventRecord
    first_time: datetime
    last_time: datetime
    last_recorded: float
    count: int = 1
    written: int = 0
    due: float = 0.0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Give the object its name."""
        self.name = event_name(self.record, self.first_time)

    def begin_anew(self, now: datetime) -> None:
        """Continue as a new object: the old one is gone (events live for an hour)."""
        self.first_time, self.count, self.written = now, 1, 0
        self.name = event_name(self.record, now)

    def encode(self, *, reporting_instance: str) -> bytes:
        """Write the Event to be created. It starts without a series, which needs a count of 2."""
        record = self.record
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "eventTime": micro_time(self.first_time),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": truncate(reporting_instance, REASON_BYTES),
            "type": record.type,
            "reason": truncate(record.reason, REASON_BYTES),
            "action": truncate(record.action, REASON_BYTES),
            "note": truncate(printable(record.note), NOTE_BYTES),
            "regarding": {
                "apiVersion": record.api_version,
                "kind": record.kind,
                "name": record.name,
                "uid": record.uid,
            },
        }
        return _encode(body)

    def encode_repetition(self) -> bytes:
        """Write the merge patch with the count; nothing else may change."""
        series = {"count": self.count, "lastObservedTime": micro_time(self.last_time)}
        return _encode({"series": series})


def event_name(record: EventRecord, time: datetime) -> str:
    """Name an event after its object and its content, so that sending it twice cannot make two events."""
    identity = "\n".join((*record.key, time.isoformat()))
    digest = hashlib.sha256(identity.encode(errors="backslashreplace")).hexdigest()[:16]
    return f"{record.name[:_NAME_LIMIT].rstrip('.-')}.{digest}"


def micro_time(time: datetime) -> str:
    """Write a time as meta/v1 MicroTime."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def truncate(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` bytes of UTF-8, at a character, with an ellipsis where it was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"
