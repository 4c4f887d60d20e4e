"""The reference page of the API, generated from the models: ``python -m gen.api_reference``.

``docs/reference/api.md`` holds what this prints; a test compares them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

from gen.condition_table import rows_of
from winpool.api.conditions import STATES, ConditionType
from winpool.api.crd import COLUMNS, SELECTABLE_FIELDS, Schema, schema
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import NORMAL, IssueReason
from winpool.api.keys import API_VERSION, CATEGORY, KIND, SHORT_NAME
from winpool.api.model import VALIDATIONS, docstrings
from winpool.api.text import table

FILE: Final = "docs/reference/api.md"
"""Where the result stands, from the root of the repository."""

COMMAND: Final = f"python -m gen.api_reference > {FILE}"

HEADER: Final = f"<!-- Generated from the models in operator/winpool/api. Do not edit; run: {COMMAND} -->\n"


def fields(node: Schema, *, path: str) -> Iterator[tuple[str, Schema, bool]]:
    """Yield path, schema and whether it is required, for every field below ``node``, depth first."""
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here, child, name in node.get("required", ())
        yield from fields(child, path=here)
        if "items" in child:
            yield from fields(child["items"], path=f"{here}[]")


def _type(node: Schema) -> str:
    match node:
        case {"enum": values}:
            return " or ".join(f"`{value}`" for value in values)
        case {"items": items}:
            return f"list of {_plural(items)}"
        case {"additionalProperties": values}:
            return f"map of {_plural(values)}"
        case {"format": "date-time"}:
            return "time (RFC 3339)"
        case {"x-kubernetes-int-or-string": True}:
            return "integer or string"
    return str(node["type"])


def _plural(node: Schema) -> str:
    return f"{node['type']}s"


def _limits(node: Schema) -> str:
    said = {
        "pattern": "`{}`",
        "maxLength": "at most {} characters",
        "minimum": "from {}",
        "maximum": "to {}",
        "maxItems": "at most {}",
        "maxProperties": "at most {}",
        "x-kubernetes-list-map-keys": "one per {}",
    }
    # Beside a rule the schema's length is only a wide backstop: the rule says what is allowed.
    keys = node.keys() - {"maxLength"} if VALIDATIONS in node else node.keys()
    return ", ".join(text.format(_words(node[key])) for key, text in said.items() if key in keys)


def _words(value: Any) -> str:
    return " and ".join(value) if isinstance(value, list) else str(value)


def in_line(value: Any) -> str:
    """Return a value of a field as a manifest has it on one line."""
    if not isinstance(value, list | dict):
        return str(value)
    return yaml.safe_dump(value, sort_keys=False, width=math.inf, default_flow_style=True).strip()


def _default(node: Schema, *, required: bool) -> str:
    if required:
        return "*required*"
    return f"`{in_line(node['default'])}`" if "default" in node and node.get("type") != "object" else ""


def _field_table(node: Schema, *, path: str) -> str:
    return table(
        ("Field", "Type", "Default", "Limits", "Meaning"),
        (
            (
                f"`{at}`",
                _type(child),
                _default(child, required=required),
                _limits(child),
                child["description"],
            )
            for at, child, required in fields(node, path=path)
        ),
    )


def rules(node: Schema, *, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and sentence of every rule of ``node`` and below it."""
    for rule in node.get(VALIDATIONS, ()):
        yield f"{path}{rule.get('fieldPath', '')}".removeprefix("."), rule["message"]
    for name, child in node.get("properties", {}).items():
        yield from rules(child, path=f"{path}.{name}")
    for inner, brackets in (("items", "[]"), ("additionalProperties", "[*]")):
        if inner in node:
            yield from rules(node[inner], path=f"{path}{brackets}")


def _rule_table(node: Schema) -> str:
    return table(
        ("Field", "What the API server says"), ((f"`{at}`", text) for at, text in rules(node, path=""))
    )


def _column_table() -> str:
    return table(
        ("Column", "Shows", "Meaning"),
        (
            (
                column["name"].upper() + (" (`-o wide`)" if column.get("priority") else ""),
                f"`{column['jsonPath']}`",
                column["description"],
            )
            for column in COLUMNS
        ),
    )


def _conditions() -> str:
    true_means = docstrings(ConditionType)
    return "\n".join(
        f"### {each}\n\n{true_means[each.name]} ({each.polarity}.)\n\n"
        + table(
            ("Status", "Reason", "When"),
            ((status, f"`{reason}`", when) for status, reason, when in rows_of(each)),
        )
        for each in ConditionType
    )


def _issues() -> str:
    meanings = docstrings(IssueReason)
    return table(
        ("Reason", "Type", "Meaning"),
        (
            (f"`{reason}`", "Normal" if reason in NORMAL else "Warning", meanings[reason.name])
            for reason in IssueReason
        ),
    )


def _events(regarding: Regarding) -> str:
    meanings = docstrings(EventReason)
    return table(
        ("Reason", "Type", "Action", "Meaning"),
        (
            (f"`{reason}`", reason.type, f"`{reason.action}`", meanings[reason.name])
            for reason in EventReason
            if reason.regarding is regarding
        ),
    )


def render() -> str:
    """Return the page: Markdown with a header that says where it comes from."""
    pool = schema()
    spec, status = pool["properties"]["spec"], pool["properties"]["status"]
    selectable = " and ".join(f"`{path.removeprefix('.')}`" for path in SELECTABLE_FIELDS)
    sections = (
        HEADER,
        f"# {KIND}\n",
        f"{pool['description']} API version `{API_VERSION}`, cluster-scoped, short name `{SHORT_NAME}`, "
        f"category `{CATEGORY}`.\n",
        "## Spec\n",
        _field_table(spec, path="spec"),
        "## Rules\n",
        "What the API server refuses at `kubectl apply`, and the operator in an object that is older than "
        "the rule. `[]` stands for an index, `[*]` for a key.\n",
        _rule_table(pool),
        "## Status\n",
        _field_table(status, path="status"),
        "## Reasons of issues\n",
        "The worst first, as in `status.issues`: one entry per reason and cause.\n",
        _issues(),
        "## kubectl get\n",
        f"Field selectors: {selectable}.\n",
        "STATE is the worst that is true of the pool, in this order, with the meanings in the table of "
        f"[Ready](#ready): {', '.join(STATES)}.\n",
        _column_table(),
        "## Conditions\n",
        _conditions(),
        "## Events of a pool\n",
        _events(Regarding.POOL),
        "## Events of nodes\n",
        f"Up to {NODES_WITH_OWN_EVENTS} nodes that share a cause get an event each. Where more nodes share "
        "it, their pool gets one event with the same reason, which counts the nodes and names the first.\n",
        _events(Regarding.NODE),
    )
    return "\n".join(sections)


def main() -> None:
    """Print the page."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
