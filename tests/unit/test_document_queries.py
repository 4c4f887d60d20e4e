"""What the pages ask of a pool by jsonpath or columns is in its schema: a typing error prints nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from harness.documents import ROOT, documents
from harness.every import every

_JSONPATH = re.compile(r"jsonpath='([^']*)'")
_COLUMNS = re.compile(r"custom-columns='?([^' ]*)'?")
_EXPRESSION = re.compile(r'\{("(?:[^"\\]|\\.)*"|[^{}]*)\}')
_STEP = re.compile(r"\.((?:\\.|[^.\[\]\\])+)|\[(\?\(@\.(\w+)==\"[^\"]*\"\)|\*|\d+)\]")

METADATA = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("name", "creationTimestamp", "deletionTimestamp")},
        "generation": {"type": "integer"},
        "finalizers": {"type": "array", "items": {"type": "string"}},
    },
}
"""What Kubernetes itself has there, as far as the pages ask for it."""

Schema = dict[str, Any]


@cache
def pool_schema() -> Schema:
    definition = yaml.safe_load((ROOT / "crds" / "windowsnodepools.winpool.dev.yaml").read_text())
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {**schema, "properties": {**schema["properties"], "metadata": METADATA}}


def asks_for_pools(command: str) -> bool:
    return re.search(r"^kubectl (get wnp|wait .*wnp/)", command) is not None


def asks_for_one(command: str) -> bool:
    return re.search(r"^kubectl (get wnp [a-z]|wait )", command) is not None


def templates_of(command: str) -> Iterator[str]:
    for columns in _COLUMNS.findall(command):
        yield from (f"{{{column.partition(':')[2]}}}" for column in columns.split(","))
    yield from _JSONPATH.findall(command)


def unknown_in(template: str, schema: Schema) -> list[str]:
    """Return the expressions of a template that ask for what the schema has not."""
    unknown, stack = [], [schema]
    for expression in _EXPRESSION.findall(template):
        if expression.startswith('"'):
            continue
        if expression == "end":
            stack.pop()
            continue
        path = expression.removeprefix("range ")
        found = walk(path, stack[-1])
        if found is None:
            unknown.append(expression)
        if path != expression:
            stack.append(found or {})
    return unknown


def walk(path: str, schema: Schema) -> Schema | None:
    """Follow a path; None where it leads nowhere."""
    at = 0
    here: Schema | None = schema
    while here is not None and at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return None
        at = step.end()
        name, _, filtered = step.groups()
        if name is not None:
            here = here.get("properties", {}).get(name.replace("\\", ""))
        else:
            here = here.get("items")
            if here is not None and filtered and filtered not in here.get("properties", {}):
                return None
    return here


COMMANDS = [
    command
    for document in documents()
    for command in document.commands
    if asks_for_pools(command) and list(templates_of(command))
]


@every("command", sorted(set(COMMANDS)))
def test_what_a_page_asks_of_a_pool_is_in_its_schema(command: str) -> None:
    pool = pool_schema()
    pools = {"type": "object", "properties": {"items": {"type": "array", "items": pool}}}
    columns = bool(_COLUMNS.search(command))  # they ask each object, also where there are several
    schema = pool if columns or asks_for_one(command) else pools
    for template in templates_of(command):
        assert unknown_in(template, schema) == []


def test_no_query_of_the_pages_is_passed_over() -> None:
    query = re.compile(r"\bwnp\b.*(jsonpath|columns)|(jsonpath|columns).*\bwnp\b")
    typed = {command for document in documents() for command in document.commands}
    asking = {command for command in typed if query.search(command)}
    assert asking
    assert asking == set(COMMANDS)


@pytest.mark.parametrize(
    ("template", "unknown"),
    [
        ("{.status.issues[*].reason}", []),
        ("{.status.issues[*].raeson}", [".status.issues[*].raeson"]),
        ('{range .status.issues[?(@.reason=="X")]}{.nodeCount}{"\\t"}{end}', []),
        ('{.status.issues[?(@.raeson=="X")].nodes}', ['.status.issues[?(@.raeson=="X")].nodes']),
        ("{range .status.isues[*]}{.nodes}{end}", ["range .status.isues[*]", ".nodes"]),
        ("{.status.issues[0].nodes[0].name}", [".status.issues[0].nodes[0].name"]),
        ("{range .status.builds[*]}{.build}{end}{.build}", [".build"]),
        ("{.status issues}", [".status issues"]),
    ],
)
def test_a_typing_error_is_found(template: str, unknown: list[str]) -> None:
    assert unknown_in(template, pool_schema()) == unknown
