"""One node and one pool's wishes: what is put on, and what is taken off again."""

from __future__ import annotations

from collections.abc import Mapping

from harness.builders import GUARDED, a_taint
from harness.strategies import LABEL_KEYS
from harness.wishes import NOTHING_KNOWN, Own, Wanted, conform, release
from harness.writes import patched
from winpool.model.node import Node

UID = "uid-of-pool"


def wanting(
    labels: Mapping[str, str] | None = None, *taints: str, name: str = "pool", uid: str = UID
) -> Wanted:
    listed = {taint.identity: taint.value for taint in map(a_taint, taints)}
    return Wanted(pool_name=name, pool_uid=uid, labels=dict(labels or {}), taints=listed)


def conformed(node: Node, wanted: Wanted, own: Own = NOTHING_KNOWN) -> Node:
    return patched(node, conform(node, wanted=wanted, own=own).patch)


def released(node: Node, *, uid: str = UID, name: str = "pool") -> Node:
    return patched(node, release(node, pool_uid=uid, pool_name=name, rights=GUARDED).patch)


def labels_on(node: Node) -> dict[str, str]:
    """Return the labels that are of interest: neither the pool label nor what ``a_node`` gives."""
    return {key: value for key, value in node.labels.items() if key in LABEL_KEYS}
