"""Which fields a CRD lacks that is older than the operator, and how a status becomes one without them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.api.crd import (
    ITEMS,
    PARTS,
    VALUES,
    FieldPath,
    definition,
    lacking_fields,
    name_of,
    schema,
    without_fields,
)
from winpool.api.status import WindowsNodePoolStatus

Schema = dict[str, Any]

SHIPPED: Final = schema()


def fields_of(node: Schema, at: FieldPath = ()) -> Iterator[FieldPath]:
    for name, child in node.get("properties", {}).items():
        yield (*at, name)
        yield from fields_of(child, (*at, name))
    for key, step in (("items", ITEMS), ("additionalProperties", VALUES)):
        if key in node:
            yield from fields_of(node[key], (*at, step))


FIELDS: Final = tuple(path for path in fields_of(SHIPPED) if path[0] in PARTS)


def at(node: Schema, path: FieldPath) -> Schema:
    """Return the schema at ``path``."""
    for step in path:
        match step:
            case "[]":
                node = node["items"]
            case "*":
                node = node["additionalProperties"]
            case name:
                node = node["properties"][name]
    return node


def crd_without(*paths: FieldPath) -> Schema:
    """Return the spec of the shipped CRD without these fields."""
    spec: Schema = deepcopy(definition()["spec"])
    for path in sorted(paths, reverse=True):  # what is within another first
        del at(openapi(spec), path[:-1])["properties"][path[-1]]
    return spec


def openapi(spec: Schema) -> Schema:
    found: Schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def lacks(spec: Any) -> list[str]:
    return [name_of(path) for path in lacking_fields(spec)]


def test_a_crd_from_before_memory_pressure_lacks_its_block_and_its_count() -> None:
    older = crd_without(("spec", "memoryPressure"), ("status", "pressuredNodes"))
    assert lacks(older) == ["spec.memoryPressure", "status.pressuredNodes"]
    status = {"status": WindowsNodePoolStatus(observed_generation=1).to_object()}
    reported = without_fields(status, lacking_fields(older))["status"]
    assert status["status"].keys() - reported.keys() == {"pressuredNodes"}


def test_the_shipped_crd_lacks_nothing() -> None:
    assert lacks(definition()["spec"]) == []


@pytest.mark.slow
@given(removed=st.sets(st.sampled_from(FIELDS), min_size=1, max_size=5))
def test_each_field_that_is_gone_is_named_but_what_was_in_another_that_is(removed: set[FieldPath]) -> None:
    named = {path for path in removed if not any(path[:n] in removed for n in range(len(path)))}
    outermost = sorted(path for path in removed if path in named)
    found = lacking_fields(crd_without(*outermost))
    assert sorted(found) == outermost


@given(
    removed=st.sets(st.sampled_from([path for path in FIELDS if len(path) == 2]), min_size=2), data=st.data()
)
def test_the_order_is_the_same_whatever_the_order_of_the_schema(
    removed: set[FieldPath], data: st.DataObject
) -> None:
    older = crd_without(*removed)
    for part in PARTS:
        served = openapi(older)["properties"][part]
        served["properties"] = dict(data.draw(st.permutations(list(served["properties"].items()))))
    assert list(lacking_fields(older)) == sorted(removed)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("spec", "reservedMemory"), "spec.reservedMemory"),
        (("spec", "reservedMemory", "onMismatch"), "spec.reservedMemory.onMismatch"),
        (("status", "issues", ITEMS, "fix"), "status.issues[].fix"),
        (("status",), "status"),
    ],
)
def test_a_field_is_named_as_the_api_server_does(path: FieldPath, name: str) -> None:
    assert path in FIELDS or path == ("status",)
    assert lacks(crd_without(path)) == [name]


def test_values_of_a_map_that_may_have_none_are_named() -> None:
    spec = deepcopy(definition()["spec"])
    del at(openapi(spec), ("spec", "labels"))["additionalProperties"]
    assert lacks(spec) == ["spec.labels.*"]


def test_texts_limits_and_rules_are_not_compared() -> None:
    spec = deepcopy(definition()["spec"])
    for path in FIELDS:
        field = at(openapi(spec), path)
        for key in field.keys() - {"type", "properties", "items", "additionalProperties"}:
            del field[key]
    assert lacks(spec) == []


def test_a_field_that_takes_anything_lacks_nothing() -> None:
    spec = deepcopy(definition()["spec"])
    taking = at(openapi(spec), ("status",))
    taking["properties"] = {}
    taking["x-kubernetes-preserve-unknown-fields"] = True
    assert lacks(spec) == []
    del taking["x-kubernetes-preserve-unknown-fields"]
    assert "status.conditions" in lacks(spec)


def test_only_our_version_of_the_api_counts() -> None:
    older, ours = crd_without(("spec", "labels")), definition()["spec"]
    older["versions"][0]["name"] = "v1alpha0"
    assert lacks({"versions": [*older["versions"], *ours["versions"]]}) == []
    assert lacks(older) == [], "a CRD without our version serves none of our pools"


@pytest.mark.parametrize("spec", [{}, {"versions": None}, {"versions": [None, 3, {}]}])
def test_a_crd_that_is_none_lacks_nothing(spec: Any) -> None:
    assert lacks(spec) == []


@pytest.mark.parametrize("schema_of_it", [None, 3, {}, {"openAPIV3Schema": []}])
def test_one_without_a_schema_lacks_all(schema_of_it: Any) -> None:
    spec = deepcopy(definition()["spec"])
    spec["versions"][0]["schema"] = schema_of_it
    assert lacks(spec) == ["spec", "status"]


def test_a_value_loses_exactly_the_fields_that_are_lacking() -> None:
    value = {
        "status": {
            "nodes": 0,
            "plan": {"totalNodes": 1},
            "issues": [{"reason": "A", "fix": "x"}, {"reason": "B"}],
            "nodeTemplate": {"labels": {"fix": "kept", "a": "b"}},
        }
    }
    paths = [("status", "plan"), ("status", "issues", ITEMS, "fix"), ("spec", "labels")]
    assert without_fields(value, paths) == {
        "status": {
            "nodes": 0,
            "issues": [{"reason": "A"}, {"reason": "B"}],
            "nodeTemplate": {"labels": {"fix": "kept", "a": "b"}},
        }
    }
    template = ("status", "nodeTemplate", "labels", VALUES)
    assert without_fields(value, [template])["status"]["nodeTemplate"] == {"labels": {}}
    assert without_fields(value, []) == value


def any_of(node: Schema) -> Any:
    """Return a value that has all fields of the schema."""
    if "properties" in node:
        return {name: any_of(child) for name, child in node["properties"].items()}
    if "items" in node:
        return [any_of(node["items"])] * 2
    return {"a": any_of(node["additionalProperties"])} if "additionalProperties" in node else 0


@pytest.mark.slow
@given(removed=st.sets(st.sampled_from(FIELDS), max_size=5))
def test_an_older_crd_has_all_fields_of_a_value_without_those_that_it_lacks(removed: set[FieldPath]) -> None:
    outermost = [path for path in removed if not any(path[:n] in removed for n in range(len(path)))]
    older = openapi(crd_without(*outermost))
    pruned = without_fields(any_of(SHIPPED), lacking_fields(crd_without(*outermost)))
    assert {part: pruned[part] for part in PARTS if part in pruned} == {
        part: any_of(older["properties"][part]) for part in PARTS if part in older["properties"]
    }
