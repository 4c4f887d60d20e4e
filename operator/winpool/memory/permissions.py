"""Which right is missing to watch the memory of a pool, or to evict, as the condition Accepted reports it.

The operator learns it from what it is refused, and never asks beforehand: in a cluster where nothing is
missing, that costs no request. Kubelets are polled from the first pass on, so it is known within seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.memory_pressure import MemoryMode, SourceType

if TYPE_CHECKING:
    from winpool.snapshot import Snapshot


def missing_permission(snapshot: Snapshot) -> str:
    """Return the sentence with the rule that is missing, empty where none is.

    It is reported, and stops no writes. Without samples nothing is known of the nodes, and that must not
    remove the taints of those that are under pressure (P4). Without the right to choose a pod, or to evict
    it, nothing is evicted, and the operator tries again.
    """
    spec = snapshot.pool.spec
    block = None if spec is None else spec.memory_pressure
    if block is None:
        return ""
    polls = any(each.type is SourceType.KUBELET for each in block.sources)
    if polls and snapshot.memory.forbidden:
        return snapshot.memory.forbidden
    return snapshot.evictions.forbidden if block.mode is MemoryMode.EVICT else ""
