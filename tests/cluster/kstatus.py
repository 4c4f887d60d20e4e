"""What kstatus makes of a custom resource: an own port of its rules, so that tests can ask what a gate asks.

Flux, kpt and whoever else waits by kstatus asks nothing but the object as it stands. The rules are those of
``pkg/kstatus/status`` in kubernetes-sigs/cli-utils: ``generic.go`` (deletion, generation, Reconciling and
Stalled), then ``status.go`` (Ready, which custom resources have in common, and what is left). The rules
for built-in kinds are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Object = Mapping[str, Any]

NOT_READ: Final = "the object could not be read"


class Status(StrEnum):
    """What a gate goes by: it waits while InProgress or Terminating, passes at Current, fails at Failed."""

    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    CURRENT = "Current"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"
    """The object is not of the form that it should have; kstatus gives up on it with an error."""


@dataclass(frozen=True, slots=True)
class Result:
    """A status, and the message that people are shown with it."""

    status: Status
    message: str


class _UnreadableError(Exception):
    """A field has a type that it must not have."""


def compute(obj: Object) -> Status:
    """Return the status of an object as it was read from the API server."""
    return explain(obj).status


def explain(obj: Object) -> Result:
    """Return the status of an object together with its message."""
    try:
        return _generic(obj) or _by_ready(obj) or Result(Status.CURRENT, "Resource is current")
    except _UnreadableError as error:
        return Result(Status.UNKNOWN, f"{NOT_READ}: {error}")


def _generic(obj: Object) -> Result | None:
    """Decide by what all objects have in common; None where that says nothing."""
    if _get(obj, "metadata", "deletionTimestamp", kind=str):
        return Result(Status.TERMINATING, "Resource scheduled for deletion")
    generation = _get(obj, "metadata", "generation", kind=int)
    observed = _get(obj, "status", "observedGeneration", kind=int)
    # One that is ahead is as strange as one that lags; what is absent says nothing.
    if generation is not None and observed is not None and observed != generation:
        name = obj.get("kind", "")
        message = f"{name} generation is {generation}, but latest observed generation is {observed}"
        return Result(Status.IN_PROGRESS, message)
    # The first of the two that is True wins, in the order of the list.
    for condition in _conditions(obj):
        match condition.get("type"), condition.get("status"):
            case "Reconciling", "True":
                return Result(Status.IN_PROGRESS, condition.get("message", ""))
            case "Stalled", "True":
                return Result(Status.FAILED, condition.get("message", ""))
            case _:
                pass
    return None


def _by_ready(obj: Object) -> Result | None:
    """Decide by the condition Ready; None where there is none, or its status is none of the three."""
    for condition in _conditions(obj):
        match condition.get("type"), condition.get("status"):
            case "Ready", "True":
                return Result(Status.CURRENT, "Resource is Ready")
            case "Ready", "False" | "Unknown":
                return Result(Status.IN_PROGRESS, condition.get("message", ""))
            case _:
                pass
    return None


def _conditions(obj: Object) -> list[dict[str, str]]:
    found = _get(obj, "status", "conditions", kind=list) or []
    for condition in found:
        if not isinstance(condition, dict):
            raise _UnreadableError(f"status.conditions has {condition!r}, which is not a condition")
        for name in ("type", "status", "reason", "message"):
            if not isinstance(condition.get(name, ""), str):
                raise _UnreadableError(f"{name} of a condition is {condition[name]!r}, not a text")
    return list(found)


def _get(obj: Object, *path: str, kind: type[Any]) -> Any:
    """Return a field; None where it, or what it would be in, is absent or null.

    Raises:
        _UnreadableError: it has another type, or what it would be in is no map.

    """
    value: Any = obj
    for name in path:
        if not isinstance(value, Mapping):
            raise _UnreadableError(f"{'.'.join(path)}: {value!r} is not a map")
        value = value.get(name)
        if value is None:
            return None
    # In Python a bool is an int; in JSON it is not.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _UnreadableError(f"{'.'.join(path)} is {value!r}")
    return value
