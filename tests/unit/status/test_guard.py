"""What a pool says of the guard, and of labels that its nodes could get by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    a_node,
    a_pool,
    a_snapshot,
    by_name,
    deleted,
    with_guard,
    with_status,
)
from winpool.api.status import MAX_ISSUES, Issue
from winpool.decide import Decision, decide
from winpool.model.pool import Pool

GONE = "there is no ValidatingAdmissionPolicy winpool-guard"
REASONS = ("GuardNotInForce", "SelectorOpenToKubelets")
TRUSTED = {"node-restriction.kubernetes.io/zone": "a"}


def decided(
    pool: Pool, nodes: Nodes | None = None, *, problem: str = "", minutes: int = 0, **more: Any
) -> Decision:
    taken = a_snapshot(pool, nodes or by_name(a_node()), now=NOON + minutes * MINUTE, **more)
    return decide(with_guard(taken, identity="" if problem else "abc", problem=problem))


def of_pool(found: Decision) -> list[Issue]:
    of_guard = [issue for issue in found.status.issues if issue.reason in REASONS]
    assert {issue.node_count for issue in of_guard} <= {0}
    return of_guard


def events(found: Decision) -> list[str]:
    return [each.reason for each in found.pool_events if each.reason.startswith("Guard")]


def test_a_guard_in_force_is_not_spoken_of() -> None:
    found = decided(a_pool())
    assert of_pool(found) == []
    assert events(found) == []


def test_one_that_is_not_is_one_issue_without_a_node_and_one_event() -> None:
    pool = a_pool()
    first = decided(pool, by_name(a_node()), problem=GONE)
    [issue] = of_pool(first)
    assert issue.reason == "GuardNotInForce"
    assert GONE in issue.message
    assert issue.nodes == ()
    assert events(first) == ["GuardMissing"]

    pool = with_status(pool, first.status)
    second = decided(pool, problem="another reason", minutes=5)
    [issue] = of_pool(second)
    assert (issue.since, events(second)) == (NOON, [])

    pool = with_status(pool, second.status)
    assert (of_pool(decided(pool)), events(decided(pool))) == ([], ["GuardRestored"])


def test_it_is_said_however_much_is_wrong_with_the_nodes() -> None:
    kernels = [replace(SUPPORTED, kernel=f"10.0.{30000 + n}.1") for n in range(2 * MAX_ISSUES)]
    nodes = by_name(*(a_node(f"w{n}", versions=each) for n, each in enumerate(kernels)))
    found = decided(a_pool(labels=TRUSTED), nodes, problem=GONE)
    assert len(found.status.issues) == MAX_ISSUES
    assert found.status.issue_count == 2 * MAX_ISSUES + 2
    assert [issue.reason for issue in of_pool(found)] == ["GuardNotInForce", "SelectorOpenToKubelets"]


def test_a_pool_that_is_being_deleted_says_neither() -> None:
    assert of_pool(decided(deleted(a_pool(labels=TRUSTED)), problem=GONE)) == []


@pytest.mark.parametrize("label", ["node-restriction.kubernetes.io/a", "x.node-restriction.kubernetes.io/a",
                                   "node-role.kubernetes.io/windows"])  # fmt: skip
@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"agentpool": "red"}},
        {"matchLabels": {"kubernetes.io/os": "windows", "topology.kubernetes.io/zone": "a"}},
        {"matchExpressions": [{"key": "node.kubernetes.io/windows-build", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "node-role.kubernetes.io/a", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "node-role.kubernetes.io/a", "operator": "NotIn", "values": ["x"]}]},
    ],
    ids=str,
)
def test_trusted_labels_for_nodes_that_select_themselves_are_told_of(
    label: str, selector: dict[str, Any]
) -> None:
    [issue] = of_pool(decided(a_pool(labels={label: "x"}, selector=selector)))
    assert issue.reason == "SelectorOpenToKubelets"
    assert label in issue.message


@pytest.mark.parametrize(
    "more",
    [
        {"matchLabels": {"agentpool": "red", **TRUSTED}},
        {"matchExpressions": [{"key": "node-role.kubernetes.io/a", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "cloud.k8s.io/a", "operator": "In", "values": ["x"]}]},
    ],
    ids=str,
)
def test_not_where_a_node_needs_a_label_that_its_kubelet_cannot_write(more: dict[str, Any]) -> None:
    assert of_pool(decided(a_pool(labels={"node-role.kubernetes.io/windows": ""}, selector=more))) == []


def test_nor_where_the_labels_are_not_of_that_kind() -> None:
    labels = {"team": "a", "node.kubernetes.io/exclude-from-external-load-balancers": ""}
    assert of_pool(decided(a_pool(labels=labels))) == []
