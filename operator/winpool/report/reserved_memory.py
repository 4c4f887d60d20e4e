"""What is to be said of the reserved memory of a pool's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.judging.reserved_memory import (
    LOW_FIX,
    TOO_LARGE_FIX,
    ReservedVerdict,
    is_low,
    low_message,
    mismatch_fix,
    mismatch_message,
    too_large_message,
)
from winpool.ownership.membership import Claim
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.judging.reserved_memory import Reserved
    from winpool.objects.pool import Pool
    from winpool.report.assessment import Assessment

MISMATCHES = (ReservedVerdict.RESERVES_LESS, ReservedVerdict.RESERVES_MORE)


def reserved_findings(pool: Pool, assessed: Sequence[Assessment]) -> Iterator[Finding]:
    """Yield what kubelets reserve that the pool does not declare.

    Machines of one kind differ by some bytes, so all nodes are told of at once, with the least and the most.
    """
    memory = pool.spec.reserved_memory if pool.spec and not pool.deleting else None
    if memory is None:
        return
    known = [(each.node.name, each.reserved) for each in assessed if each.reserved is not None]
    if large := [each for each in known if each[1].is_too_large]:
        yield Finding(
            IssueReason.RESERVED_MEMORY_TOO_LARGE,
            _names(large),
            too_large_message(_reserved(large), memory),
            TOO_LARGE_FIX,
            cause="too large",
        )
    if wrong := [each for each in known if each[1].verdict in MISMATCHES]:
        yield Finding(
            IssueReason.RESERVED_MEMORY_MISMATCH,
            _names(wrong),
            mismatch_message(_reserved(wrong), memory),
            mismatch_fix(pool.name),
            cause="mismatch",
        )
    if any(each.claim is Claim.OURS for each in assessed) and is_low(memory.declared_bytes):
        yield Finding(IssueReason.RESERVED_MEMORY_LOW, (), low_message(memory), LOW_FIX, cause="low")


def _names(known: Sequence[tuple[str, Reserved]]) -> list[str]:
    return [name for name, _ in known]


def _reserved(known: Sequence[tuple[str, Reserved]]) -> list[Reserved]:
    return [reserved for _, reserved in known]
