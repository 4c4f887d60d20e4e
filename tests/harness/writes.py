"""What the API server makes of writes to nodes: ours, and those of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType

from msgspec.structs import replace

from harness.builders import Nodes, a_snapshot, a_taint, with_status
from winpool.api.fields import is_key, is_label_value
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL, PREFIX
from winpool.decide import FEATURES, Decision, decide
from winpool.features.feature import Feature
from winpool.model.node import Node, NodePatch, Taint
from winpool.model.pool import Pool
from winpool.model.survey import Survey


def patched(node: Node, patch: NodePatch | None) -> Node:
    """Return ``node`` as the API server keeps it after ``patch``: a JSON merge patch, and its validation.

    Asserts what the API server would refuse: a resourceVersion that is not the node's, a taint
    twice, a label that is none.
    """
    if patch is None:
        return node
    assert (patch.node.uid, patch.node.resource_version) == (node.uid, node.resource_version), "409"
    taints = node.taints if patch.taints is None else patch.taints
    assert len({taint.identity for taint in taints}) == len(taints), f"422: a taint twice: {taints}"
    assert all(map(is_label_value, (taint.value for taint in taints))), f"422: {taints}"
    labels = _merged(node.labels, patch.labels)
    assert all(map(is_key, labels)), f"422: {labels}"
    assert all(map(is_label_value, labels.values())), f"422: {labels}"
    return replace(
        node,
        resource_version=str(int(node.resource_version) + 1),
        labels=labels,
        annotations=_merged(node.annotations, patch.annotations),
        taints=taints,
        unschedulable=node.unschedulable if patch.unschedulable is None else patch.unschedulable,
    )


def _merged(old: Mapping[str, str], new: Mapping[str, str | None]) -> dict[str, str]:
    merged = {key: value for key, value in old.items() if new.get(key, value) is not None}
    return merged | {key: value for key, value in new.items() if value is not None}


def acted(decision: Decision, nodes: Nodes) -> Nodes:
    """Return the nodes after all patches of ``decision``, of which there must be one per node at most."""
    names = [patch.node.name for patch in decision.writes.patches]
    assert len(set(names)) == len(names), f"two patches for one node: {names}"
    return nodes | {
        patch.node.name: patched(nodes[patch.node.name], patch) for patch in decision.writes.patches
    }


def relabelled(node: Node, **labels: str | None) -> Node:
    """Return ``node`` after somebody else's ``kubectl label``; None removes."""
    return patched(node, NodePatch(node=node, labels=labels, annotations={}, taints=None))


def retainted(node: Node, *taints: Taint | str) -> Node:
    """Return ``node`` after somebody else wrote its whole list of taints."""
    whole = tuple(a_taint(taint) if isinstance(taint, str) else taint for taint in taints)
    return patched(node, NodePatch(node=node, labels={}, annotations={}, taints=whole))


def carries_ours(node: Node) -> bool:
    """Whether anything under our own prefix that a pool puts on a node is there."""
    return POOL_LABEL in node.labels or APPLIED_ANNOTATION in node.annotations


def foreign_labels(node: Node) -> dict[str, str]:
    """Return the labels that are not under our own prefix."""
    return {key: value for key, value in node.labels.items() if not key.startswith(PREFIX)}


def settled(
    pool: Pool,
    nodes: Nodes,
    *,
    survey: Survey | EllipsisType | None = ...,
    features: Sequence[Feature] = FEATURES,
) -> tuple[Pool, Nodes]:
    """Return the pool and the nodes after one pass that was performed whole."""
    decision = decide(a_snapshot(pool, nodes, survey=survey), features)
    finalizers = pool.finalizers if decision.writes.finalizers is None else decision.writes.finalizers
    return with_status(replace(pool, finalizers=finalizers), decision.status), acted(decision, nodes)


def nothing_is_written(decision: Decision) -> bool:
    return (decision.writes.patches, decision.writes.finalizers, dict(decision.node_events)) == ((), None, {})
