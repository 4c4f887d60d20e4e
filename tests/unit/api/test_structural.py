"""What every node of the CRD's schema must have, and what an API server would refuse.

The API server's own verdict comes with the testbed; this one comes in a second and names the field.
Sources: KEP-2335 (structural schemas), Kubernetes API conventions (validation), KEP-2876 (the cost of CEL).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from cluster.admission.tables import SMALLEST
from gen.api_reference import in_line
from harness.every import Decorator, every
from winpool.api.crd import COLUMNS, SELECTABLE_FIELDS, schema
from winpool.api.model import MAP_FIELDS, VALIDATIONS
from winpool.api.quantity import INT_OR_STRING
from winpool.api.spec import WindowsNodePoolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Node = dict[str, Any]

BY_KUBERNETES = ("apiVersion", "kind", "metadata")
"""Fields whose content the API server knows by itself."""

FORBIDDEN = {
    *("$ref", "$defs", "definitions", "dependencies", "deprecated", "discriminator", "id", "title"),
    *("patternProperties", "readOnly", "writeOnly", "xml", "uniqueItems", "nullable", "const", "prefixItems"),
    *("anyOf", "oneOf", "allOf", "not", "exclusiveMinimum", "exclusiveMaximum"),
}


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path or "(root)", node
    for name, child in node.get("properties", {}).items():
        if path or name not in BY_KUBERNETES:
            yield from walk(child, f"{path}.{name}")
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from walk(node["additionalProperties"], f"{path}[*]")


ALL = dict(walk(schema()))


def values_of(value: Any) -> Iterator[Any]:
    """Yield a value and all that is in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from values_of(each)


def nodes(holds: Callable[[Node], bool] = lambda _: True) -> Decorator:
    """Run a test for every node of the schema for which ``holds``."""
    return every("node", [pytest.param(node, id=path) for path, node in ALL.items() if holds(node)])


every_rule = every(
    ("node", "rule"),
    [
        pytest.param(node, rule, id=f"{path}-{index}")
        for path, node in ALL.items()
        for index, rule in enumerate(node.get(VALIDATIONS, ()))
    ],
)


@nodes()
def test_node_says_nothing_that_a_crd_cannot(node: Node) -> None:
    assert node.keys() & FORBIDDEN == set()
    assert node.get("type") in {"object", "array", "string", "integer"} or node[INT_OR_STRING]
    # The one union that there is has a name of its own, and no type.
    assert ("type" in node) != (INT_OR_STRING in node)
    assert not ("properties" in node and "additionalProperties" in node)


@nodes()
def test_node_is_bounded(node: Node) -> None:
    match node.get("type"):
        case None:
            # Its length cannot be bounded where its type is open, so a rule has to.
            assert node[VALIDATIONS]
        case "string":
            assert node.keys() & {"maxLength", "enum"} or node.get("format") == "date-time"
        case "integer":
            # 2**63 - 1 is refused as a bound, and beyond 2**53 - 1 JavaScript loses digits.
            assert -(2**53) < node["minimum"] <= node["maximum"] < 2**53
        case "array":
            assert node["maxItems"] > 0
        case "object":
            assert "properties" in node or node["maxProperties"] > 0


@every(
    ("path", "node"),
    [pytest.param(path, node, id=path) for path, node in ALL.items() if path[-1] != "]"],
)
def test_field_is_described(path: str, node: Node) -> None:
    description = node["description"]
    assert re.fullmatch(r"[A-Z].*[.]", description), f"{path}: a sentence, please"
    if "default" in node and node.get("type") != "object":
        default = in_line(node["default"])
        assert f"default {default}" in description, f"{path}: kubectl explain does not show defaults"
    if "enum" in node:
        assert all(value in description for value in node["enum"])


@nodes(lambda node: node.get("type") == "array")
def test_list_says_how_it_is_merged(node: Node) -> None:
    kind = node["x-kubernetes-list-type"]
    assert kind in {"atomic", "map"}
    # Nobody would own a defaulted item, so server-side apply could not take it away again.
    assert "default" not in node or kind == "atomic"
    if kind == "map":
        keys = node["x-kubernetes-list-map-keys"]
        items = node["items"]
        assert all(key in items["required"] or "default" in items["properties"][key] for key in keys)


@nodes(lambda node: "required" in node)
def test_required_field_exists_and_has_no_default(node: Node) -> None:
    assert all("default" not in node["properties"][name] for name in node["required"])


@nodes(lambda node: node.get("default") is not None)
def test_default_of_an_object_is_written_out_from_its_fields(node: Node) -> None:
    if node.get("type") == "object":
        inner = {name: child["default"] for name, child in node["properties"].items() if "default" in child}
        assert node["default"] == inner != {}


@nodes(lambda node: "default" in node)
def test_default_has_no_null(node: Node) -> None:
    """In a CRD null is a value: the API server would refuse the default, or store the null."""
    assert not [value for value in values_of(node["default"]) if value is None]


@pytest.mark.parametrize("path", [".spec.memoryPressure", ".spec.reservedMemory", ".spec.upgrade"])
def test_defaults_alone_are_a_block_that_the_operator_reads(path: str) -> None:
    """What the API server stores for an empty block is what Python makes of it."""
    name = path.rpartition(".")[2]
    stored = {key: child["default"] for key, child in ALL[path]["properties"].items() if "default" in child}
    assert stored
    empty, full = (WindowsNodePoolSpec.model_validate({**SMALLEST, name: block}) for block in ({}, stored))
    assert empty == full


@nodes(lambda node: "pattern" in node)
def test_pattern_is_one_that_re2_reads(node: Node) -> None:
    assert "(?" not in node["pattern"]
    assert "\\" not in node["pattern"]


@every_rule
def test_rule_has_a_sentence_for_people(node: Node, rule: dict[str, str]) -> None:
    assert re.match(r"must |a key (must|is) |label `[^`]+` must ", rule["message"])
    assert "\n" not in rule["message"]
    assert len(rule["message"]) <= 400


@every_rule
def test_rule_points_at_a_field_that_exists(node: Node, rule: dict[str, str]) -> None:
    here = node
    for name in filter(None, rule.get("fieldPath", "").split(".")):
        here = here["properties"][name]
    assert here.keys() & {"type", INT_OR_STRING}


def test_rules_stand_in_the_spec_or_at_the_root_only() -> None:
    """A rule on the status would let a fault of ours block every report."""
    assert {path.split(".")[1] for path, node in ALL.items() if node.get(VALIDATIONS) and "." in path} == {
        "spec"
    }


def test_paths_in_errors_know_every_map() -> None:
    maps = {path.rpartition(".")[2] for path, node in ALL.items() if "additionalProperties" in node}
    assert maps == MAP_FIELDS


def test_status_before_the_first_look_says_so() -> None:
    assert schema()["properties"]["status"]["default"] == {"observedGeneration": -1}


def test_titles_of_columns_fit_kubectl() -> None:
    names = [column["name"] for column in COLUMNS]
    assert names[-1] == "Age"
    assert not any(" " in name for name in names)
    assert all(column["description"] for column in COLUMNS)


def test_selectable_fields_are_plain_strings() -> None:
    for path in SELECTABLE_FIELDS:
        node = schema()
        for name in path.strip(".").split("."):
            node = node["properties"][name]
        assert node["type"] == "string"
