"""Reading meta/v1 Status, the API server's answer for failures.

Any bytes can be read: an answer that is not a Status must not hide the failure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.cluster.wire import BROKEN

DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""The cause of a 429 to an eviction. k8s.io/api: policy/v1 DisruptionBudgetCause."""

_SUCCESS: Final = "Success"


class StatusObject(msgspec.Struct):
    """The part that is read of each. ``details`` is decoded only when it is needed."""

    kind: str = ""
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    details: msgspec.Raw = msgspec.Raw(b"null")


class Cause(msgspec.Struct):
    """The part of StatusCause that is read. Its type is called ``reason`` in JSON."""

    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None


def status_object(body: bytes | bytearray) -> StatusObject:
    """Read a Status; an empty one where the bytes are not a Status."""
    try:
        told = msgspec.json.decode(body, type=StatusObject)
    except BROKEN:
        return StatusObject()
    return told if told.kind == "Status" else StatusObject()


def is_success(body: bytes | bytearray) -> bool:
    """Whether ``body`` is the Status of a request that was carried out."""
    return status_object(body).status == _SUCCESS


def cause_of(told: StatusObject, reason: str) -> Cause | None:
    """Return the cause of that type, None where there is none that can be read."""
    try:
        details = msgspec.json.decode(told.details, type=_Details | None)
    except BROKEN:
        return None
    causes = (details.causes if details else None) or ()
    return next((cause for cause in causes if cause.reason == reason), None)
