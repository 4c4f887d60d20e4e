"""The files that say which values the chart has: ``values.yaml``, its schema, and a page of the docs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from release.value import Value
from release.values import GROUPS
from winpool.api.crd import text_of
from winpool.api.text import table

HEADER: Final = "# Generated from tests/release/values.py and deploy. Do not edit; run: make generate\n"
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
WIDTH: Final = 110
"""Columns of a line, as in the rest of the repository."""
INDENT: Final = 2

Schema = dict[str, Any]


def values_yaml(values: Sequence[Value]) -> str:
    """Return the defaults, each below a comment that says what it means."""
    return HEADER + "".join(f"\n{''.join(_block(top, members))}" for top, members in grouped(values))


def schema_json(values: Sequence[Value]) -> str:
    """Return what values may be, so that Helm refuses others by their name."""
    properties: Schema = {}
    for top, members in grouped(values):
        if top in GROUPS:
            inner = {_leaf(each): _described(each) for each in members}
            properties[top] = {"description": GROUPS[top], **_closed(inner)}
        else:
            (properties[top],) = map(_described, members)
    # A chart that has this one as a dependency gives it its own global values, and Helm checks them here.
    properties["global"] = {"description": "Values of a parent chart. Not used.", "type": "object"}
    schema = {"$schema": DRAFT, "title": "Values of the Helm chart of winpool", **_closed(properties)}
    return json.dumps(schema, indent=INDENT, ensure_ascii=False) + "\n"


def page(values: Sequence[Value]) -> str:
    """Return the reference page."""
    rows = ((f"`{each.path}`", f"`{json.dumps(each.default)}`", each.text) for each in values)
    return (
        "# Values of the Helm chart\n\n"
        "Generated from `tests/release/values.py` and `deploy`. Do not edit; run: `make generate`\n\n"
        "Helm refuses a value that is not in this table, or of another type. How to set values: "
        "[Helm](../helm.md#set-values).\n\n"
        f"{table(('Value', 'Default', 'Meaning'), rows)}"
    )


def grouped(values: Sequence[Value]) -> Iterable[tuple[str, tuple[Value, ...]]]:
    """Yield the name before the dot with its values, in their order."""
    for top, members in groupby(values, key=lambda each: each.path.partition(".")[0]):
        yield top, tuple(members)


def _block(top: str, members: tuple[Value, ...]) -> Iterable[str]:
    if top not in GROUPS:
        (only,) = members
        yield from _lines(only, name=top, depth=0)
        return
    yield _comment(GROUPS[top], depth=0)
    yield f"{top}:\n"
    for each in members:
        yield from _lines(each, name=_leaf(each), depth=1)


def _lines(value: Value, *, name: str, depth: int) -> Iterable[str]:
    yield _comment(value.text, depth=depth)
    yield textwrap.indent(text_of({name: value.default}), " " * INDENT * depth)


def _comment(text: str, *, depth: int) -> str:
    mark = " " * INDENT * depth + "# "
    return textwrap.fill(text, WIDTH, initial_indent=mark, subsequent_indent=mark) + "\n"


def _leaf(value: Value) -> str:
    return value.path.partition(".")[2]


def _described(value: Value) -> Schema:
    return {"description": value.text, **value.schema}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}
