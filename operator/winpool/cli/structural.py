"""The structural schema of the CRD, asked without an API server, in the words of the API server.

Only what our schemas use is understood: ``winpool.api.crd`` lets nothing else into them, and a
test holds the two together. Rules in CEL are not evaluated here: their Python twins are asked by
``judge``. Words: k8s.io/kube-openapi pkg/validation and k8s.io/apiextensions-apiserver, of Kubernetes
1.36 and 1.37 alike.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from winpool.cli.manifests import Path

Schema = dict[str, Any]

UNKNOWN: Final = "unknown field"
"""How the sentence about a field begins that the schema does not have."""

_INT_OR_STRING: Final = "integer,string"
"""What the API server calls the type of a field that may be either."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at ``path``. ``field`` is the API server's name of it; ``wants`` the type it misses."""

    path: Path
    field: str
    sentence: str
    wants: str = ""


def without_nulls(value: Any) -> Any:
    """Drop the fields that are null, as the API server does; entries of lists stay."""
    match value:
        case dict():
            return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
        case list():
            return [without_nulls(inner) for inner in value]
    return value


def unknown_fields(value: Any, schema: Schema, *, path: Path = ()) -> Iterator[Fault]:
    """Yield what strict decoding refuses: fields that the schema does not have, wherever they are."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    match value:
        case dict() if "additionalProperties" in schema:
            for key, inner in value.items():
                yield from unknown_fields(inner, schema["additionalProperties"], path=(*path, key))
        case dict():
            known = schema.get("properties", {})
            for key, inner in value.items():
                if key in known:
                    yield from unknown_fields(inner, known[key], path=(*path, key))
                else:
                    yield _unknown((*path, key), known)
        case list():
            for index, inner in enumerate(value):
                yield from unknown_fields(inner, schema.get("items", {}), path=(*path, index))


def _unknown(path: Path, known: Mapping[str, Schema]) -> Fault:
    field = dotted(path)
    near = difflib.get_close_matches(str(path[-1]), known, n=1)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    return Fault(path, field, f'{UNKNOWN} "{field}"{meant}')


def faults(value: Any, schema: Schema, *, path: Path = ()) -> Iterator[Fault]:
    """Yield what the schema refuses in ``value``, from which the nulls are gone."""
    if wrong := _wrong_type(value, schema, path):
        yield wrong
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(_quoted(each) for each in schema["enum"])
        yield _fault(path, f"Unsupported value: {_quoted(value)}: supported values: {allowed}")
    match value:
        case str():
            yield from _lengths(
                len(value), schema.get("maxLength"), path, "Too long: may not be more than {} bytes"
            )
        case bool():
            pass
        case int():
            yield from _bounds(value, schema, path)
        case list():
            yield from _of_list(value, schema, path)
        case dict():
            yield from _of_map(value, schema, path)


def _of_list(value: list[Any], schema: Schema, path: Path) -> Iterator[Fault]:
    too_many = f"Too many: {len(value)}: must have at most {{}} items"
    yield from _lengths(len(value), schema.get("maxItems"), path, too_many)
    for index, inner in enumerate(value):
        yield from faults(inner, schema.get("items", {}), path=(*path, index))
    keys = sorted(schema.get("x-kubernetes-list-map-keys", ()))
    seen: set[str] = set()
    for index, inner in enumerate(value):
        if not keys or not isinstance(inner, dict):
            continue
        identity = {key: inner[key] for key in keys if key in inner}
        told = json.dumps(identity, separators=(",", ":"), ensure_ascii=False)
        if told in seen:
            yield _fault((*path, index), f"Duplicate value: {told}")
        seen.add(told)


def _of_map(value: dict[str, Any], schema: Schema, path: Path) -> Iterator[Fault]:
    too_many = f"Too many: {len(value)}: must have at most {{}} items"
    yield from _lengths(len(value), schema.get("maxProperties"), path, too_many)
    for name in schema.get("required", ()):
        if name not in value:
            yield _fault((*path, name), "Required value")
    for key, inner in value.items():
        below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        if below is not None:
            yield from faults(inner, below, path=(*path, key))


def _lengths(size: int, limit: int | None, path: Path, sentence: str) -> Iterator[Fault]:
    if limit is not None and size > limit:
        yield _fault(path, sentence.format(limit))


def _bounds(value: int, schema: Schema, path: Path) -> Iterator[Fault]:
    said = f"Invalid value: {value}: {dotted(path)} in body should be"
    if value < schema.get("minimum", value):
        yield _fault(path, f"{said} greater than or equal to {schema['minimum']}")
    if value > schema.get("maximum", value):
        yield _fault(path, f"{said} less than or equal to {schema['maximum']}")


def _wrong_type(value: Any, schema: Schema, path: Path) -> Fault | None:
    found = type_of(value)
    if schema.get("x-kubernetes-int-or-string"):
        expected, wants = _INT_OR_STRING, ""
    else:
        expected = wants = schema.get("type", "")
    if not expected or found in expected.split(","):
        return None
    # Of a fraction or a boolean for an integer Kubernetes says something stranger since 1.36.
    sentence = f'Invalid value: "{found}": {dotted(path)} in body must be of type {expected}: "{found}"'
    return Fault(path, dotted(path), sentence, wants=wants)


def type_of(value: Any) -> str:
    """Return the name that JSON schema has for the type of ``value``."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def dotted(path: Path) -> str:
    """Return ``("spec", "taints", 0, "key")`` as ``spec.taints[0].key``; keys of maps get points too."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _fault(path: Path, sentence: str) -> Fault:
    return Fault(path, dotted(path), sentence)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
