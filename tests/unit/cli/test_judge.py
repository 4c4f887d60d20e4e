"""What is judged without an API server, against the tables that the API server is held to.

``tests/cluster/test_admission.py`` runs the same rows through a real one.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admission import tables
from winpool.api.crd import schema as crd_schema
from winpool.cli.judge import judge
from winpool.cli.structural import faults

POOL: dict[str, Any] = {
    "apiVersion": "winpool.dev/v1alpha1",
    "kind": "WindowsNodePool",
    "metadata": {"name": "win-2022"},
    "spec": tables.SMALLEST,
}


def said(pool: dict[str, Any]) -> list[str]:
    return [f"{fault.field}: {fault.sentence}" for fault in judge(pool)]


def with_spec(**spec: Any) -> dict[str, Any]:
    return {**POOL, "spec": {**tables.SMALLEST, **spec}}


def with_metadata(**metadata: Any) -> dict[str, Any]:
    return {**POOL, "metadata": {**POOL["metadata"], **metadata}}


@pytest.mark.parametrize("case", tables.accepted(), ids=lambda case: case.name)
def test_what_the_api_server_takes_is_valid(case: tables.Accepted) -> None:
    assert said(case.manifest) == []


@pytest.mark.parametrize("case", tables.refused("rule"), ids=lambda case: case.name)
def test_a_broken_rule_is_told_in_the_words_of_the_api_server(case: tables.Refused) -> None:
    (found,) = said(case.manifest)
    assert found.startswith(f"{case.field}: Invalid value: ")
    assert case.error in found


@pytest.mark.parametrize("case", tables.refused("schema", "decoder"), ids=lambda case: case.name)
def test_a_fault_of_form_is_told_in_the_words_of_the_api_server(case: tables.Refused) -> None:
    assert [found for found in said(case.manifest) if found.startswith(case.field) and case.error in found]


def test_the_tables_are_large_enough_to_mean_something() -> None:
    assert len(tables.refused()) >= 40
    assert len(tables.accepted()) >= 30
    assert {case.by for case in tables.refused()} == {"rule", "schema", "decoder"}


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (with_spec(os=None), ["spec.os: Required value"]),
        ({**POOL, "spec": None}, ["spec: Required value"]),
        (
            {**POOL, "spec": "x"},
            ['spec: Invalid value: "string": spec in body must be of type object: "string"'],
        ),
        (
            with_spec(mode=3),
            [
                'spec.mode: Invalid value: "integer": spec.mode in body must be of type string: "integer"',
            ],
        ),
        (
            with_spec(taints=[None]),
            ['spec.taints[0]: Invalid value: "null": spec.taints[0] in body must be of type object: "null"'],
        ),
        (with_spec(os={"version": "2" * 65}), ["spec.os.version: Too long: may not be more than 64 bytes"]),
        (
            with_spec(labels={f"k{n}": "v" for n in range(33)}),
            ["spec.labels: Too many: 33: must have at most 32 items"],
        ),
        (with_metadata(name=None), ["metadata.name: Required value: name or generateName is required"]),
        (
            {key: value for key, value in POOL.items() if key != "metadata"},
            ["metadata.name: Required value: name or generateName is required"],
        ),
        (with_metadata(nmae="x"), ['metadata.nmae: unknown field "metadata.nmae"; did you mean `name`?']),
        ({**POOL, "speck": 1}, ['speck: unknown field "speck"; did you mean `spec`?']),
        ({**POOL, "status": {"x": 1}}, ['status.x: unknown field "status.x"']),
    ],
)
def test_other_faults_are_told_as_the_api_server_told_them(pool: dict[str, Any], expected: list[str]) -> None:
    assert said(pool) == expected


@pytest.mark.parametrize(
    "pool",
    [
        with_spec(mode=None, labels=None, taints=None),
        with_spec(labels={"a": None}),
        with_spec(os={"version": "2022", "minRevision": None}),
        with_spec(supportMatrix=[{"osVersion": "2019", "verdict": None, "minRevision": 1}]),
        {**POOL, "status": {"nodes": "of a dump"}},
        with_metadata(name=None, generateName="win-"),
        with_metadata(
            labels={"app.kubernetes.io/managed-by": "Helm"},
            annotations={"Example.com/Note": "any text at all"},
            managedFields=[{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            ownerReferences=[{"kind": "A", "uid": "1"}],
            creationTimestamp=None,
        ),
    ],
)
def test_what_the_api_server_drops_or_ignores_is_no_fault(pool: dict[str, Any]) -> None:
    assert said(pool) == []


@pytest.mark.parametrize(
    ("metadata", "field", "word"),
    [
        ({"name": 2022}, "metadata.name", 'must be of type string: "integer"'),
        ({"name": "Win"}, "metadata.name", "must be at most 63 lowercase letters"),
        ({"name": "a" * 300}, "metadata.name", "at most 253 characters"),
        ({"name": None, "generateName": "X."}, "metadata.name", "must be at most 63 lowercase letters"),
        ({"labels": {"a": 1}}, "metadata.labels.a", 'must be of type string: "integer"'),
        ({"labels": {"a b": "c"}}, "metadata.labels", 'Invalid value: "a b": must be a key'),
        ({"labels": {"a": "c d"}}, "metadata.labels", 'Invalid value: "c d": must be empty or'),
        ({"annotations": {"a b": "c"}}, "metadata.annotations", 'Invalid value: "a b": must be a key'),
        ({"labels": ["a"]}, "metadata.labels", 'must be of type object: "array"'),
    ],
)
def test_metadata_is_looked_at_too(metadata: dict[str, Any], field: str, word: str) -> None:
    (found,) = said(with_metadata(**metadata))
    assert found.startswith(f"{field}: ")
    assert word in found


def test_metadata_that_is_no_map_is_said() -> None:
    (found,) = said({**POOL, "metadata": "x"})
    assert 'must be of type object: "string"' in found


def test_many_faults_are_all_told() -> None:
    pool = with_spec(
        os={"version": "x", "minRevision": -1},
        labels={"team": "a b"},
        taints=[{"key": f"winpool.dev/{number}", "effect": "NoSchedule"} for number in range(12)],
    )
    fields = [line.partition(": ")[0] for line in said(pool)]
    taints = [f"spec.taints[{number}].key" for number in range(12)]
    assert sorted(fields) == sorted(["spec.os.minRevision", "spec.os.version", "spec.labels[team]", *taints])


UNDERSTOOD = {
    "x-kubernetes-int-or-string",
    *("description", "type", "format", "default", "enum", "maxLength", "minimum", "maximum", "maxItems"),
    *("maxProperties", "required", "properties", "additionalProperties", "items"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
}


def test_the_schema_of_the_spec_says_nothing_that_is_not_asked_here() -> None:
    """A keyword that ``structural`` does not know would be a fault that only the API server finds."""

    def walk(node: dict[str, Any]) -> None:
        assert node.keys() <= UNDERSTOOD
        for inner in node.get("properties", {}).values():
            walk(inner)
        for name in ("items", "additionalProperties"):
            if name in node:
                walk(node[name])

    walk(crd_schema()["properties"]["spec"])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["os", "version", "osVersion", "taints", "key", "minRevision", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from(["metadata", "spec", "status"]), ANYTHING)
def test_nothing_crashes(name: str, content: Any) -> None:
    for fault in judge({**POOL, name: content}):
        assert fault.sentence


@given(
    st.sampled_from(["os", "supportMatrix", "labels", "taints", "nodeSelector", "mode"]),
    ANYTHING,
)
def test_what_is_judged_is_left_as_it_is(name: str, content: Any) -> None:
    pool = with_spec(**{name: content})
    before = copy.deepcopy(pool)
    judge(pool)
    assert pool == before


class _Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        _Counted.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_long_list_is_not_compared_entry_by_entry() -> None:
    schema = {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-map-keys": ["key"]}
    _Counted.times = 0
    found = list(faults([*({"key": _Counted(number)} for number in range(200)), {"key": "7"}], schema))
    assert [fault.sentence for fault in found] == ['Duplicate value: {"key":"7"}']
    assert _Counted.times <= 201
