"""What an API server says where it refuses: a Status, or the line of a watch that carries one."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import responses
from typing import Any, Final

REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The reason that goes with an HTTP status (k8s.io/apimachinery, ``meta/v1.StatusReason``)."""


def status_object(
    code: int, *, reason: str | None = None, message: str | None = None, retry_after: int | None = None
) -> dict[str, Any]:
    """Return a ``v1.Status`` of failure; reason and message are by default what goes with the code.

    ``retry_after`` is in seconds, as in the details that come with the header of that name.
    """
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message or f"{phrase(code)} (by the fault proxy)",
        "reason": reason or REASONS.get(code, ""),
        "code": code,
    }
    if retry_after is not None:
        status["details"] = {"retryAfterSeconds": retry_after}
    return status


def phrase(code: int) -> str:
    """Return the words of HTTP for a status; empty for one that HTTP does not know."""
    return responses.get(code, "")


def error_line(code: int = 410, *, reason: str | None = None, message: str | None = None) -> bytes:
    """Return the line by which a watch says that it cannot go on; by default: its version is too old."""
    status = status_object(code, reason=reason, message=message)
    return line_of({"type": "ERROR", "object": status})


def bookmark_line(resource_version: str, *, kind: str, api_version: str = "v1") -> bytes:
    """Return a line that says no more than how far the watch has come."""
    metadata = {"resourceVersion": resource_version}
    return line_of(
        {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}}
    )


def line_of(event: Any) -> bytes:
    """Return anything as a line of a watch."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def event(*types: str, name: str | None = None) -> Callable[[bytes], bool]:
    """Return a test for lines: whether it is an event of one of these types, of the object of this name.

    What is not given may be anything; what is no JSON object is no event.
    """

    def test(line: bytes) -> bool:
        try:
            seen = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(seen, dict) or (types and seen.get("type") not in types):
            return False
        return name is None or _name_in(seen) == name

    return test


def _name_in(seen: Any) -> object:
    for key in ("object", "metadata", "name"):
        seen = seen.get(key) if isinstance(seen, dict) else None
    return seen
