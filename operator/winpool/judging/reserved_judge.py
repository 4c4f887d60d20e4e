"""The judgement of the reserved memory of each node of a pool, for one pass.

Machines of a kind report the same, so each pair of capacity and allocatable is judged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.v1alpha1 import OnMismatch
from winpool.judging.reserved_memory import ReservedVerdict, judge_reserved

if TYPE_CHECKING:
    from winpool.api.v1alpha1 import ReservedMemory
    from winpool.judging.reserved_memory import Reserved
    from winpool.objects.node import Node, NodeMemory


class ReservedMemoryJudge:
    """Judges against ``memory``; None where the pool declares nothing."""

    def __init__(self, memory: ReservedMemory | None) -> None:
        self._declared = memory.declared_bytes if memory else 0
        self._is_off = memory is None
        self._taints = memory is not None and memory.on_mismatch is OnMismatch.TAINT
        self._found: dict[NodeMemory, Reserved] = {}

    def judge(self, node: Node) -> Reserved | None:
        """Return how the node's reserved memory compares; None where nothing is declared."""
        if self._is_off:
            return None
        found = self._found.get(node.memory)
        if found is None:
            found = self._found[node.memory] = judge_reserved(
                declared=self._declared, capacity=node.memory.capacity, allocatable=node.memory.allocatable
            )
        return found

    def taint(self, reserved: Reserved | None) -> bool | None:
        """Return whether the node is to have the mismatch taint; None where that is not known (P4)."""
        if reserved is None or not self._taints:
            return False
        if reserved.verdict is ReservedVerdict.UNKNOWN:
            return None
        return reserved.verdict is not ReservedVerdict.MATCHES
