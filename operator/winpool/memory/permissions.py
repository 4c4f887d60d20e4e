"""Which right the operator lacks to watch the memory of a pool, as the condition Accepted reports it.

The operator learns it from what it is refused, and never asks beforehand: in a cluster where nothing is
missing, that costs no request. Kubelets are polled from the first pass on, so it is known within seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.memory_pressure import SourceType

if TYPE_CHECKING:
    from winpool.snapshot import Snapshot


def missing_permission(snapshot: Snapshot) -> str:
    """Return the sentence with the rule that is missing, empty where none is.

    It is reported, and stops no writes. Without samples nothing is known of the nodes, and that must not
    remove the taints of those that are under pressure (P4).
    """
    spec = snapshot.pool.spec
    block = None if spec is None else spec.memory_pressure
    if block is None or all(each.type is not SourceType.KUBELET for each in block.sources):
        return ""
    return snapshot.memory.forbidden
