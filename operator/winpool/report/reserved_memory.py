"""What is to be said of the reserved memory of a pool's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.contract.reserved_memory import (
    LOW_FIX,
    TOO_LARGE_FIX,
    ReservedVerdict,
    is_low,
    low_message,
    mismatch_fix,
)
from winpool.ownership.membership import Claim
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.api.v1alpha1 import ReservedMemory
    from winpool.contract.reserved_memory import Reserved
    from winpool.objects.pool import Pool
    from winpool.report.assessment import Assessment

MISMATCHES = (ReservedVerdict.RESERVES_LESS, ReservedVerdict.RESERVES_MORE)


def reserved_findings(pool: Pool, assessed: Sequence[Assessment]) -> Iterator[Finding]:
    """Yield what nodes hold back that the pool does not declare, those alike in one."""
    memory = pool.spec.reserved_memory if pool.spec and not pool.deleting else None
    if memory is None:
        return
    alike: dict[int, tuple[Reserved, list[str]]] = {}
    for each in assessed:
        if each.reserved is not None:
            alike.setdefault(id(each.reserved), (each.reserved, []))[1].append(each.node.name)
    for reserved, names in alike.values():
        yield from _of_alike(pool.name, memory, reserved, names)
    first = next((each.node.name for each in assessed if each.claim is Claim.OURS), None)
    if first is not None and is_low(memory.declared_bytes):
        yield Finding(IssueReason.RESERVED_MEMORY_LOW, [first], low_message(memory), LOW_FIX)


def _of_alike(
    pool: str, memory: ReservedMemory, reserved: Reserved, names: Sequence[str]
) -> Iterator[Finding]:
    if reserved.is_too_large:
        yield Finding(
            IssueReason.RESERVED_MEMORY_TOO_LARGE, names, reserved.too_large_message(memory), TOO_LARGE_FIX
        )
    if reserved.verdict in MISMATCHES:
        yield Finding(
            IssueReason.RESERVED_MEMORY_MISMATCH, names, reserved.message(memory), mismatch_fix(pool)
        )
