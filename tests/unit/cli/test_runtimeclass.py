"""The RuntimeClass that fits a pool."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import yaml

from winpool.api.spec import WindowsNodePoolSpec
from winpool.cli.join_config import dumped
from winpool.cli.runtimeclass import HANDLER, class_of, handler_of
from winpool.features.audit.cluster import Host

SMALLEST: dict[str, Any] = {"nodeSelector": {"matchLabels": {"agentpool": "a"}}, "os": {"version": "2022"}}


def a_spec(**more: Any) -> WindowsNodePoolSpec:
    return WindowsNodePoolSpec.model_validate(SMALLEST | more)


def a_node(name: str, handlers: Collection[str] | None) -> Host:
    return Host(names=(name,), handlers=None if handlers is None else dict.fromkeys(handlers, False))


def test_it_selects_the_build_and_tolerates_the_taints() -> None:
    taints = [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "y", "value": "1e3", "effect": "NoExecute"},
        {"key": "example.com/new", "effect": "PreferNoSchedule"},
    ]
    text = dumped(class_of(a_spec(taints=taints), build=20348, handler=HANDLER))
    assert yaml.safe_load(text) == {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "windows-2022"},
        "handler": "runhcs-wcow-process",
        "scheduling": {
            "nodeSelector": {
                "kubernetes.io/os": "windows",
                "node.kubernetes.io/windows-build": "10.0.20348",
            },
            "tolerations": [
                {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
                {"key": "y", "operator": "Equal", "value": "1e3", "effect": "NoExecute"},
                {"key": "example.com/new", "operator": "Equal", "value": "", "effect": "PreferNoSchedule"},
            ],
        },
    }
    assert '"y"' in text, "kubectl takes y for a boolean"
    assert '"1e3"' in text, "and 1e3 for a number"


def test_without_taints_and_a_known_build_it_selects_windows_alone() -> None:
    found = class_of(a_spec(os={"version": "23H2"}), build=None, handler=HANDLER)
    assert found["metadata"] == {"name": "windows-23h2"}
    assert found["scheduling"] == {"nodeSelector": {"kubernetes.io/os": "windows"}}


@pytest.mark.parametrize(
    ("nodes", "handler", "says"),
    [
        ({"w1": ["", HANDLER, "a"], "w2": [HANDLER]}, HANDLER, ""),
        ({}, HANDLER, "the pool has no nodes yet"),
        ({"w2": None, "w1": [""], "w3": [HANDLER]}, HANDLER, "w1 does not report its runtime handlers"),
        ({"w1": ["b", "a"], "w2": ["a", "b", HANDLER]}, "a", "do not have the handler runhcs-wcow-process"),
        ({"w1": ["a"], "w2": ["b"]}, HANDLER, "no runtime handler in common"),
    ],
)
def test_the_handler_is_one_that_all_nodes_have(
    nodes: dict[str, list[str] | None], handler: str, says: str
) -> None:
    found, problem = handler_of([a_node(name, handlers) for name, handlers in nodes.items()])
    assert found == handler
    assert says in problem
    assert bool(problem) is bool(says)
