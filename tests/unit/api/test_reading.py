"""Reading a pool: what the operator makes of it, and what it says where it cannot."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from cluster.admission import tables
from harness.every import every
from winpool.api.matrix import KubernetesVersions, MatrixRow, RowVerdict
from winpool.api.model import MAX_PROBLEMS, InvalidSpecError
from winpool.api.selector import NodeSelector, SelectorOperator
from winpool.api.spec import Mode, ObjectMeta, PoolTaint, WindowsNodePool
from winpool.api.status import WindowsNodePoolStatus

POOL: dict[str, Any] = {
    "apiVersion": "winpool.dev/v1alpha1",
    "kind": "WindowsNodePool",
    "metadata": {
        "name": "win-2022",
        "uid": "0d8b",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-10-01T08:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeSelector": {
            "matchLabels": {"agentpool": "win22"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        },
        "os": {"version": "2022"},
        "labels": {"team": "payments"},
        "taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "x", "effect": "NoSchedule"},
        ],
    },
    "status": {"observedGeneration": -1},
}


def pool_with(**spec: Any) -> dict[str, Any]:
    pool = copy.deepcopy(POOL)
    pool["spec"].update(spec)
    return pool


def problems_of(pool: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidSpecError) as caught:
        WindowsNodePool.from_object(pool)
    return caught.value.problems


def test_every_part_is_read() -> None:
    pool = WindowsNodePool.from_object(POOL)
    assert pool.metadata == ObjectMeta(
        name="win-2022",
        uid="0d8b",
        resource_version="7",
        generation=3,
        creation_timestamp=datetime(2026, 10, 1, 8, tzinfo=UTC),
    )
    assert pool.spec.mode is Mode.ACTIVE
    assert pool.spec.os.version == "2022"
    assert pool.spec.labels == {"team": "payments"}
    assert pool.spec.taints == (
        PoolTaint(key="os", value="windows", effect="NoSchedule"),
        PoolTaint(key="x", effect="NoSchedule"),
    )
    assert [taint.identity for taint in pool.spec.taints] == [("os", "NoSchedule"), ("x", "NoSchedule")]
    assert pool.spec.node_selector.match_expressions[0].operator is SelectorOperator.IN
    assert pool.spec.node_selector.label_keys == {"agentpool", "tier"}
    assert pool.status == WindowsNodePoolStatus()


def test_what_was_read_cannot_be_changed() -> None:
    spec: Any = WindowsNodePool.from_object(POOL).spec
    with pytest.raises(ValidationError, match="frozen"):
        spec.mode = Mode.PAUSED


def test_what_the_operator_does_not_go_by_changes_nothing() -> None:
    other = copy.deepcopy(POOL)
    other["metadata"]["managedFields"] = []
    assert WindowsNodePool.from_object(other) == WindowsNodePool.from_object(POOL)


def test_fields_of_a_newer_version_are_ignored() -> None:
    newer = pool_with(imagePull={"policy": "Before"})
    assert WindowsNodePool.from_object(newer) == WindowsNodePool.from_object(POOL)


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"observedGeneration": "x"},
        {"plan": {"totalNodes": 1, "steps": [{"node": "n", "action": "Drain"}]}},
    ],
)
def test_a_status_that_cannot_be_read_counts_as_not_written(status: Any) -> None:
    pool = WindowsNodePool.from_object({**POOL, "status": status})
    assert pool.status == WindowsNodePoolStatus()


def test_every_fault_has_its_sentence_and_its_path() -> None:
    pool = pool_with(
        nodeSelector={},
        mode="Observe",
        os={},
        labels={"team": "a b", "kubernetes.io/os": "windows"},
        taints=[{"key": "os", "value": 1, "effect": "NoRun"}, "os=windows"],
    )
    assert problems_of(pool) == (
        "spec.nodeSelector: must name at least one label in `matchLabels` or `matchExpressions`; "
        "to select all Windows nodes, write matchLabels: {kubernetes.io/os: windows}",
        "spec.mode: must be 'Active', 'DryRun' or 'Paused'",
        "spec.os.version: must be given",
        "spec.labels[team]: must be empty or at most 63 letters, digits, '-', '_' and '.', "
        "beginning and ending with a letter or digit",
        "spec.taints[0].value: must be a string. Put a number or a boolean in quotes",
        "spec.taints[0].effect: must be 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
        "spec.taints[1]: must be an object",
    )


def test_a_missing_spec_is_said() -> None:
    assert problems_of({"metadata": POOL["metadata"]}) == (
        "spec.nodeSelector: must be given",
        "spec.os: must be given",
    )


def test_a_spec_of_another_type_is_said() -> None:
    assert problems_of({**POOL, "spec": ["x"]}) == ("spec: must be an object",)
    assert problems_of(pool_with(labels=["x"], taints={"a": "b"})) == (
        "spec.labels: must be a map",
        "spec.taints: must be a list",
    )


def test_sentences_are_few_and_the_rest_is_counted() -> None:
    taints = [{"key": f"winpool.dev/{number}", "effect": "NoSchedule"} for number in range(MAX_PROBLEMS + 2)]
    problems = problems_of(pool_with(taints=taints))
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == "there are 2 more faults"


def test_lengths_are_said() -> None:
    taints = [{"key": f"k{number}", "effect": "NoSchedule"} for number in range(17)]
    assert problems_of(pool_with(taints=taints)) == ("spec.taints: must have at most 16 entries",)
    assert problems_of(pool_with(os={"version": "2" * 65})) == (
        "spec.os.version: must have at most 64 characters",
    )


def test_revisions_and_rows_of_the_support_matrix_are_read() -> None:
    row = {
        "osVersion": "2022",
        "kubernetesVersions": {"min": "1.30", "max": "1.36"},
        "minRevision": 681,
        "endOfSupport": "2031-10-14",
        "verdict": "Warn",
        "reason": "ours",
    }
    os = {"version": "2022", "targetRevision": 4052, "minRevision": 681}
    other = {"osVersion": "2019", "verdict": "Deny"}
    spec = WindowsNodePool.from_object(pool_with(os=os, supportMatrix=[other, row])).spec
    assert (spec.os.target_revision, spec.os.min_revision) == (4052, 681)
    assert spec.own_row == MatrixRow(
        os_version="2022",
        kubernetes_versions=KubernetesVersions(min="1.30", max="1.36"),
        min_revision=681,
        end_of_support="2031-10-14",
        verdict=RowVerdict.WARN,
        reason="ours",
    )
    denied, _ = spec.support_matrix
    assert (denied.verdict, denied.end_of_support, denied.min_revision, denied.reason) == (
        "Deny",
        None,
        None,
        "",
    )


def test_without_rows_nothing_is_said_of_any_release() -> None:
    spec = WindowsNodePool.from_object(POOL).spec
    assert (spec.support_matrix, spec.own_row) == ((), None)
    assert (spec.os.target_revision, spec.os.min_revision) == (None, None)


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        (-1, "must be at least 0"),
        (2**31, "must be at most 2147483647"),
        ("681", "must be a whole number, without quotes"),
        (681.5, "must be a whole number, without quotes"),
        (True, "must be a whole number, without quotes"),
    ],
)
def test_a_revision_that_is_none_is_said(revision: Any, sentence: str) -> None:
    assert problems_of(pool_with(os={"version": "2022", "minRevision": revision})) == (
        f"spec.os.minRevision: {sentence}",
    )


def test_metadata_can_be_read_where_the_spec_cannot() -> None:
    broken = pool_with(nodeSelector={})
    broken["metadata"] |= {
        "deletionTimestamp": "2026-10-02T08:00:00Z",
        "finalizers": ["winpool.dev/release-nodes"],
    }
    meta = ObjectMeta.from_object(broken)
    assert meta.name == "win-2022"
    assert meta.deletion_timestamp == datetime(2026, 10, 2, 8, tzinfo=UTC)
    assert meta.finalizers == ("winpool.dev/release-nodes",)


def test_an_object_without_metadata_is_said() -> None:
    with pytest.raises(InvalidSpecError, match=r"^metadata[.]name: must be given[.]$"):
        ObjectMeta.from_object({})


def test_models_can_be_built_by_their_python_names() -> None:
    assert NodeSelector(match_labels={"a": "b"}).match_labels == {"a": "b"}
    with pytest.raises(ValidationError, match="must name at least one label"):
        NodeSelector()


@every("case", tables.accepted(), ids=lambda case: case.name)
def test_the_operator_reads_what_the_api_server_accepts(case: tables.Accepted) -> None:
    assert WindowsNodePool.from_object(case.manifest).metadata.name == case.manifest["metadata"]["name"]


@every("case", tables.refused("rule"), ids=lambda case: case.name)
def test_the_operator_says_what_the_rules_of_the_api_server_say(case: tables.Refused) -> None:
    problems = problems_of(case.manifest)
    assert len(problems) == 1, "one fault, one sentence"
    assert problems[0].startswith(f"{case.field}: ")
    assert case.error in problems[0]


def test_tables_have_different_names() -> None:
    manifests = [
        *(case.manifest for case in tables.accepted()),
        *(case.manifest for case in tables.refused()),
    ]
    names = [manifest["metadata"]["name"] for manifest in manifests]
    assert len(names) == len(set(names))
