"""Compares what the kubelets of a pool reserve of the memory of their nodes with what the pool declares.

A kubelet on Windows sets Allocatable to Capacity less ``systemReserved``, ``kubeReserved`` and the hard
eviction threshold for memory, and does nothing else with them. So the difference that a node reports is
what its kubelet was started with (kubernetes/kubernetes pkg/kubelet/cm/container_manager_windows.go).
Machines of a kind report the same, so each pair of capacity and allocatable is judged once in a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from winpool.api.issues import IssueReason
from winpool.api.quantity import GIB, KIB, exact, rounded
from winpool.api.spec import OnMismatch, ReservedMemory
from winpool.features.feature import Finding
from winpool.model.node import Node, NodeMemory

PAGE_BYTES: Final = 4 * KIB
"""A page of memory on Windows. Nodes report whole pages or kibibytes, so that two roundings of one amount are
less than a page apart."""

PRACTICE_BYTES: Final = 2 * GIB
"""The least that is good practice to reserve on a Windows node.
https://kubernetes.io/docs/concepts/configuration/windows-resource-management/#resource-reservation"""


class ReservedVerdict(StrEnum):
    """How what a kubelet reserves compares with what the pool declares."""

    MATCHES = "Matches"
    RESERVES_LESS = "ReservesLess"
    RESERVES_MORE = "ReservesMore"
    UNKNOWN = "Unknown"


MISMATCHES: Final = (ReservedVerdict.RESERVES_LESS, ReservedVerdict.RESERVES_MORE)


class Reserved(msgspec.Struct, frozen=True):
    """What a node reserves, in bytes, and how that compares.

    ``actual`` is None where capacity or allocatable is not known. ``is_too_large`` says that more than
    half of the node is declared, which only its capacity decides.
    """

    verdict: ReservedVerdict
    capacity: int | None
    actual: int | None
    is_too_large: bool


def judge_reserved(*, declared: int, capacity: int | None, allocatable: int | None) -> Reserved:
    """Compare what a node reports with what its pool declares, all in bytes; None is not known.

    Numbers that no kubelet reports (no memory at all, or more allocatable than there is) count as not known.
    """
    if capacity is None or capacity <= 0:
        return Reserved(ReservedVerdict.UNKNOWN, None, None, is_too_large=False)
    is_too_large = declared * 2 > capacity
    if allocatable is None or not 0 <= allocatable <= capacity:
        return Reserved(ReservedVerdict.UNKNOWN, capacity, None, is_too_large=is_too_large)
    actual = capacity - allocatable
    # A kubelet that is to reserve more than the node has reports no allocatable memory.
    verdict = _compared(actual, min(declared, capacity))
    return Reserved(verdict, capacity, actual, is_too_large=is_too_large)


def _compared(actual: int, wanted: int) -> ReservedVerdict:
    if abs(actual - wanted) <= PAGE_BYTES:
        return ReservedVerdict.MATCHES
    return ReservedVerdict.RESERVES_LESS if actual < wanted else ReservedVerdict.RESERVES_MORE


def mismatch_message(judged: Iterable[Reserved], memory: ReservedMemory) -> str:
    """Say what the kubelets of these nodes reserve and what the pool declares."""
    amounts = [each.actual for each in judged if each.actual is not None]
    reserved = _span(amounts, rounded) if len({*map(rounded, amounts)}) > 1 else _span(amounts, exact)
    return f"The kubelets reserve {reserved} of memory, but the pool declares {memory.told}."


def too_large_message(judged: Iterable[Reserved], memory: ReservedMemory) -> str:
    """Say that the pool declares more than half of each of these nodes."""
    whole = _span([each.capacity for each in judged if each.capacity is not None], rounded)
    return f"The pool declares {memory.told}, more than half of the memory of these nodes ({whole})."


def _span(amounts: Collection[int], write: Callable[[int], str]) -> str:
    least, most = write(min(amounts, default=0)), write(max(amounts, default=0))
    return least if least == most else f"{least} to {most}"


def too_large_everywhere(judged: Iterable[Reserved], memory: ReservedMemory) -> str:
    """Say that the pool declares more than half of every node whose capacity is known, of at least one.

    Empty where that is not so. It names the capacity of the largest node.
    """
    known = [each for each in judged if each.capacity is not None]
    if not known or not all(each.is_too_large for each in known):
        return ""
    return (
        f"spec.reservedMemory declares {memory.told}, more than half of every node whose memory is known. "
        f"The largest node has {rounded(max(each.capacity or 0 for each in known))}."
    )


def reserved_findings(pool: str, memory: ReservedMemory, found: Mapping[str, Reserved]) -> Iterator[Finding]:
    """Yield what the kubelets of ``pool`` reserve that it does not declare; ``found`` is by the node's name.

    Machines of one kind differ by some bytes, so one finding is about all nodes, with the least and the most.
    """
    if large := {name: each for name, each in found.items() if each.is_too_large}:
        yield Finding(
            IssueReason.RESERVED_MEMORY_TOO_LARGE,
            tuple(large),
            too_large_message(large.values(), memory),
            "Lower spec.reservedMemory, or use machines with more memory. Pods would get less than half of "
            "the memory.",
            "too large",
        )
    if wrong := {name: each for name, each in found.items() if each.verdict in MISMATCHES}:
        yield Finding(
            IssueReason.RESERVED_MEMORY_MISMATCH,
            tuple(wrong),
            mismatch_message(wrong.values(), memory),
            f"Restart the kubelet with the settings that `kubectl winpool join-config {pool}` prints, or "
            "replace the node. Or declare in spec.reservedMemory what the kubelets reserve.",
            "mismatch",
        )
    yield from low_findings(memory)


def low_findings(memory: ReservedMemory) -> Iterator[Finding]:
    """Yield that a pool declares little for Windows, by what it declares alone.

    What is below evictionHard is not for Windows: the kubelet evicts pods to keep it free. A node reports
    only the sum, so of a node the part without evictionHard is not known.
    """
    if memory.for_windows_bytes < PRACTICE_BYTES:
        yield Finding(
            IssueReason.RESERVED_MEMORY_LOW,
            (),
            f"The pool declares {memory.told}. Without evictionHard, which is a threshold and does not "
            f"count, that is {exact(memory.for_windows_bytes)}: less than the {exact(PRACTICE_BYTES)} that "
            "is good practice on Windows nodes.",
            "Raise spec.reservedMemory.systemReserved until it and kubeReserved are at least 2Gi together, "
            "and start the kubelets with the same settings.",
            "low",
        )


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
