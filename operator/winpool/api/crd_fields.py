"""Which fields of a pool the CRD in a cluster lacks: its schema, compared with that of this operator.

An operator that is newer than the CRD writes a status that the API server refuses: a server-side apply with
one field that the schema does not have is answered with 500, which names that field only. What is compared
is which fields there are. Limits, defaults, rules and descriptions are not.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from winpool.api.keys import VERSION

FieldPath = tuple[str, ...]
"""The names from the object down to a field, with ITEMS for the entries of a list and VALUES for those of
a map."""

ITEMS: Final = "[]"
VALUES: Final = "*"

SET_KEYS: Final = ("status", "setKeys")
"""What the status has to hold before a node is written: which keys this pool has ever set."""

PARTS: Final = ("spec", "status")
"""What of a pool is compared: the rest is defined by Kubernetes."""

_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"


def lacking_fields(crd_spec: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[FieldPath, ...]:
    """Return the fields of ``schema`` that a CRD with ``crd_spec`` lacks, in alphabetical order.

    Of a field that is lacking as a whole, what is in it is not named as well. Nothing is lacking where the
    CRD does not have our version of the API at all: then there are no pools to write to.
    """
    for version in _entries(crd_spec.get("versions")):
        if version.get("name") == VERSION:
            served = _inner(_inner(version, "schema"), "openAPIV3Schema")
            ours = {name: part for name, part in _inner(schema, "properties").items() if name in PARTS}
            return tuple(_lacking(served, {"properties": ours}))
    return ()


def name_of(path: FieldPath) -> str:
    """Return a path in the words of the API server, such as ``status.issues[].fix``."""
    return ".".join(path).replace(f".{ITEMS}", ITEMS)


def without_fields(value: Any, paths: Iterable[FieldPath]) -> Any:
    """Return ``value`` without what is at ``paths``."""
    paths = tuple(paths)
    if not paths:
        return value
    match value:
        case dict():
            gone = {path[0] for path in paths if len(path) == 1}
            return {
                name: without_fields(inner, _below(paths, {name, VALUES}))
                for name, inner in value.items()
                if not {name, VALUES} & gone
            }
        case list():
            return [without_fields(inner, _below(paths, {ITEMS})) for inner in value]
    return value


def _lacking(served: Mapping[str, Any], ours: Mapping[str, Any], at: FieldPath = ()) -> Iterator[FieldPath]:
    if served.get(_PRESERVES):
        return
    there = _inner(served, "properties")
    for name, field in sorted(_inner(ours, "properties").items()):
        if name in there:
            yield from _lacking(_inner(there, name), field, (*at, name))
        else:
            yield (*at, name)
    if "items" in ours:
        yield from _lacking(_inner(served, "items"), ours["items"], (*at, ITEMS))
    if "additionalProperties" in ours and served.get("additionalProperties") is not True:
        if served.get("additionalProperties"):
            values = _inner(served, "additionalProperties")
            yield from _lacking(values, ours["additionalProperties"], (*at, VALUES))
        else:
            yield (*at, VALUES)


def _inner(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the part of a schema, an empty one where there is none: others may have written it."""
    inner = schema.get(key)
    return inner if isinstance(inner, dict) else {}


def _entries(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _below(paths: Iterable[FieldPath], steps: set[str]) -> tuple[FieldPath, ...]:
    return tuple(path[1:] for path in paths if len(path) > 1 and path[0] in steps)
