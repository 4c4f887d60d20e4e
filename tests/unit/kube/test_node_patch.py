"""What is sent to a node: its resourceVersion, what changes, and every taint of everybody."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from winpool.kube.writer import encode_node_patch
from winpool.model.node import Node, NodePatch, Taint

W1 = Node("w1", "u1", "7", {}, {}, (), unschedulable=False, ready="True")
FOREIGN = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute", time_added="2026-11-01T12:00:00Z")
OURS = Taint(key="os", effect="NoSchedule", value="windows")


def sent(
    *,
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    taints: tuple[Taint, ...] | None = None,
    unschedulable: bool | None = None,
) -> object:
    patch = NodePatch(W1, labels or {}, annotations or {}, taints, unschedulable)
    return json.loads(encode_node_patch(patch))


def test_everything_in_one_patch() -> None:
    assert sent(
        labels={"winpool.dev/pool": "p", "old": None},
        annotations={"winpool.dev/applied": "{}"},
        taints=(FOREIGN, OURS),
    ) == {
        "metadata": {
            "resourceVersion": "7",
            "labels": {"winpool.dev/pool": "p", "old": None},
            "annotations": {"winpool.dev/applied": "{}"},
        },
        "spec": {
            "taints": [
                {
                    "key": "node.kubernetes.io/unreachable",
                    "effect": "NoExecute",
                    "timeAdded": "2026-11-01T12:00:00Z",
                },
                {"key": "os", "effect": "NoSchedule", "value": "windows"},
            ]
        },
    }


def test_what_does_not_change_is_not_sent() -> None:
    assert sent(labels={"a": "b"}) == {"metadata": {"resourceVersion": "7", "labels": {"a": "b"}}}


def test_no_taints_is_not_the_same_as_taints_untouched() -> None:
    assert sent(taints=()) == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": []}}


def test_a_cordon_goes_in_the_same_patch_and_comes_off_as_kubectl_takes_it_off() -> None:
    metadata = {"resourceVersion": "7"}
    assert sent(unschedulable=True) == {"metadata": metadata, "spec": {"unschedulable": True}}
    assert sent(unschedulable=False) == {"metadata": metadata, "spec": {"unschedulable": None}}
    both = {"taints": [], "unschedulable": True}
    assert sent(taints=(), unschedulable=True) == {"metadata": metadata, "spec": both}


def test_a_patch_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the patch of node w1 changes nothing"):
        sent()
