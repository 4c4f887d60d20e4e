"""Whether a WindowsNodePool would be taken, asked of the schema and of the Python twin of every CEL rule."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from winpool.api.crd import schema as crd_schema
from winpool.api.fields import KEY_SYNTAX, VALUE_SYNTAX
from winpool.api.model import describe
from winpool.api.model import path as field_of
from winpool.api.v1alpha1 import WindowsNodePool
from winpool.cli.structural import Fault, faults, unknown_fields, without_nulls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from winpool.api.crd import Schema

_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_ANY: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
_METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), _TEXT),
        **dict.fromkeys(("labels", "annotations"), _TEXTS),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"), _ANY),
        **dict.fromkeys(("finalizers", "generation", "managedFields", "ownerReferences"), _ANY),
    },
}
"""Of metadata a CRD says the name only; the rest is Kubernetes' own ObjectMeta."""

_GENERATED: Final = "xxxxx"
"""What the API server appends to generateName, in kind: five letters or digits."""


def judge(pool: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return what is wrong with ``pool``, in the words of the API server as far as it has some.

    It says more than the API server does, which looks no further where fields are unknown, and does
    not ask its rules where a type is wrong. ``status`` is not looked at, as in a create.
    """
    schema = _schema()
    unknown = tuple(unknown_fields(pool, schema))
    content = without_nulls({key: value for key, value in pool.items() if key != "status"})
    of_form = tuple(faults(content, schema))
    of_metadata = tuple(_of_metadata(content.get("metadata", {})))
    of_rules = tuple(_of_rules(content, known=bool(unknown or of_form or of_metadata)))
    return (*unknown, *of_metadata, *of_form, *of_rules)


@cache
def _schema() -> Schema:
    schema = crd_schema()
    return {**schema, "properties": {**schema["properties"], "metadata": _METADATA}}


def _of_metadata(metadata: Any) -> Iterator[Fault]:
    if not isinstance(metadata, dict):
        return
    if not metadata.get("name") and not metadata.get("generateName"):
        field = "metadata.name"
        yield Fault(("metadata", "name"), field, "Required value: name or generateName is required")
    for name in ("labels", "annotations"):
        entries = metadata.get(name)
        if not isinstance(entries, dict):
            continue
        for key, value in entries.items():
            at, field = ("metadata", name, key), f"metadata.{name}"
            # Of annotations the API server looks at the key in lower case, and at no value.
            if not KEY_SYNTAX.holds(key if name == "labels" else key.lower()):
                yield Fault(at, field, f"Invalid value: {_quoted(key)}: {KEY_SYNTAX.message}")
            if name == "labels" and isinstance(value, str) and not VALUE_SYNTAX.holds(value):
                yield Fault(at, field, f"Invalid value: {_quoted(value)}: {VALUE_SYNTAX.message}")


def _of_rules(content: Mapping[str, Any], *, known: bool) -> Iterator[Fault]:
    """Ask the twins. What else the models refuse the schema has said, if it said anything (``known``)."""
    metadata = content.get("metadata")
    if isinstance(metadata, dict) and not metadata.get("name") and metadata.get("generateName"):
        content = {**content, "metadata": {**metadata, "name": f"{metadata['generateName']}{_GENERATED}"}}
    try:
        WindowsNodePool.model_validate(content)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            if fault["type"] == "rule":
                yield _broken(fault["loc"], fault["ctx"], fault["input"])
            elif not known:
                for problem in describe(error):
                    field, _, sentence = problem.partition(": ")
                    yield Fault((), field, sentence)
                return


def _broken(loc: tuple[int | str, ...], ctx: Mapping[str, str], value: Any) -> Fault:
    below = tuple(part for part in ctx["at"].split(".") if part)
    # The API server quotes the value where the rule is about one text or number, and is silent about
    # larger ones.
    quoted = f"{_quoted(value)}: " if isinstance(value, str | int) and not below else ""
    field = f"{field_of(loc)}{ctx['at']}".removeprefix(".")
    return Fault((*loc, *below), field, f"Invalid value: {quoted}{ctx['message']}")


def _quoted(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)
