"""What a node carries, in a form that tests compare."""

from __future__ import annotations

import json
from typing import Any, Final

from winpool.api.keys import APPLIED_ANNOTATION, OS_REVISION_LABEL, OS_VERSION_LABEL, POOL_LABEL

Object = dict[str, Any]

FOLLOW_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The taints of a node that is not Ready, or that nothing is heard of."""


def labels_of(node: Object) -> dict[str, str]:
    """Return the labels of a node."""
    return dict(node["metadata"].get("labels", {}))


def told_labels(node: Object, *, pool: str) -> dict[str, str]:
    """Return what a pool tells on each of its nodes; those of a fleet run Windows Server 2022."""
    revision = node["status"]["nodeInfo"]["kernelVersion"].removeprefix("10.0.20348.")
    return {POOL_LABEL: pool, OS_VERSION_LABEL: "2022", OS_REVISION_LABEL: revision}


def annotations_of(node: Object) -> dict[str, str]:
    """Return the annotations of a node."""
    return dict(node["metadata"].get("annotations", {}))


def taints_of(node: Object) -> set[str]:
    """Return the taints of a node in kubectl's words: key=value:Effect."""
    return {f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in node["spec"].get("taints", [])}


def wanted_taints(node: Object) -> list[Object]:
    """Return the taints of a node but those that follow its Ready condition; their order means nothing.

    The node lifecycle controller puts them on and takes them off, with a view of the node that may be old: a
    node that it last saw before it was Ready gets one, and loses it again, though the node is Ready by then.
    That they outlive what the operator writes is a test of its own (``test_neighbours.py``).
    """
    taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] not in FOLLOW_READY]
    return sorted(taints, key=lambda taint: (taint["key"], taint["effect"]))


def wanted_spec(node: Object) -> Object:
    """Return the spec of a node, as somebody wants it."""
    return {**node.get("spec", {}), "taints": wanted_taints(node)}


def carried(node: Object) -> Object:
    """Return all that an operator could have written to a node, whole, as far as somebody wants it."""
    return {
        "labels": labels_of(node),
        "annotations": annotations_of(node),
        "taints": wanted_taints(node),
        "unschedulable": node["spec"].get("unschedulable", False),
        "finalizers": node["metadata"].get("finalizers", []),
        "ownerReferences": node["metadata"].get("ownerReferences", []),
    }


def record_of(node: Object) -> Object:
    """Return the ownership record of a node, parsed."""
    parsed: Object = json.loads(annotations_of(node)[APPLIED_ANNOTATION])
    return parsed


def is_settled(node: Object) -> bool:
    """Whether the node is Ready and the control plane is done with what it puts on a new node."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    untainted = not any(taint.startswith("node.kubernetes.io/not-ready") for taint in taints_of(node))
    return ready and untainted and "node.alpha.kubernetes.io/ttl" in annotations_of(node)
