"""What a new node of a pool will carry, as an autoscaler that starts from zero is told."""

from __future__ import annotations

from typing import Any

from harness.builders import a_pool, a_snapshot
from winpool.decide import decide
from winpool.model.pool import Pool


def template(pool: Pool) -> dict[str, Any]:
    return dict(decide(a_snapshot(pool, [])).status.to_object().get("nodeTemplate", {}))


def test_it_has_what_the_selector_asks_for_and_what_the_pool_puts_on_a_node() -> None:
    pool = a_pool(labels={"team": "a"}, taints=["os=windows:NoSchedule"])
    found = template(pool)
    assert found["labels"] == {
        "agentpool": "red",
        "kubernetes.io/os": "windows",
        "node.kubernetes.io/windows-build": "10.0.20348",
        "team": "a",
        "winpool.dev/os-version": "2022",
        "winpool.dev/pool": "pool",
    }
    assert found["taints"] == [{"key": "os", "value": "windows", "effect": "NoSchedule"}]


def test_it_leaves_open_what_the_selector_leaves_open() -> None:
    either = {"key": "size", "operator": "In", "values": ["small", "large"]}
    only = {"key": "zone", "operator": "In", "values": ["a"]}
    there = {"key": "gpu", "operator": "Exists"}
    labels = template(a_pool(selector={"matchExpressions": [either, only, there]}))["labels"]
    assert labels["zone"] == "a"
    assert labels.keys().isdisjoint({"size", "gpu"})


def test_startup_taints_are_not_in_it_since_they_come_off_again() -> None:
    taint = {"key": "example.com/starting", "effect": "NoSchedule"}
    assert template(a_pool(more={"startupTaints": [taint]}))["taints"] == []


def test_of_a_release_that_nobody_knows_it_claims_no_build() -> None:
    labels = template(a_pool(more={"os": {"version": "2098"}}))["labels"]
    assert labels.keys().isdisjoint({"winpool.dev/os-version", "node.kubernetes.io/windows-build"})


def test_of_a_release_that_a_row_names_it_claims_the_build() -> None:
    row = {"osVersion": "2028", "build": "10.0.30000"}
    labels = template(a_pool(more={"os": {"version": "2028"}, "supportMatrix": [row]}))["labels"]
    assert labels["winpool.dev/os-version"] == "2028"
    assert labels["node.kubernetes.io/windows-build"] == "10.0.30000"


def test_there_is_none_while_the_spec_is_not_accepted_or_the_pool_goes() -> None:
    assert template(a_pool(refusal="spec.os: must be given")) == {}
    assert template(a_pool(deleting=True, finalizers=("winpool.dev/release-nodes",))) == {}
