"""What nodes hold back against what their pool declares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.api.issues import IssueReason
from winpool.api.quantity import GIB, KIB, MIB
from winpool.api.spec import ReservedMemory
from winpool.features.reserved_memory import (
    PAGE_BYTES,
    PRACTICE_BYTES,
    ReservedVerdict,
    judge_reserved,
    mismatch_message,
    reserved_findings,
    too_large_everywhere,
    too_large_message,
)

MEMORY = ReservedMemory()
DECLARED = MEMORY.declared_bytes
CAPACITY = 16776756 * KIB
"""A machine of 16 GiB as Windows reports it."""

SIZES = st.integers(min_value=0, max_value=2**50)
MAYBE = st.none() | SIZES


@pytest.mark.parametrize(
    ("off", "verdict"),
    [
        (0, ReservedVerdict.MATCHES),
        (PAGE_BYTES, ReservedVerdict.MATCHES),
        (-PAGE_BYTES, ReservedVerdict.MATCHES),
        (PAGE_BYTES + 1, ReservedVerdict.RESERVES_MORE),
        (-PAGE_BYTES - 1, ReservedVerdict.RESERVES_LESS),
        (-DECLARED, ReservedVerdict.RESERVES_LESS),
        (8 * GIB, ReservedVerdict.RESERVES_MORE),
    ],
)
def test_equal_within_a_page_is_equal(off: int, verdict: ReservedVerdict) -> None:
    found = judge_reserved(declared=DECLARED, capacity=CAPACITY, allocatable=CAPACITY - DECLARED - off)
    assert (found.verdict, found.actual) == (verdict, DECLARED + off)
    assert not found.is_too_large


@pytest.mark.parametrize(
    ("capacity", "allocatable"),
    [
        *((None, None), (None, 1), (CAPACITY, None), (0, 0), (-1, 0)),
        *((CAPACITY, CAPACITY + 1), (CAPACITY, -1)),
    ],
)
def test_what_is_not_known_is_not_judged(capacity: int | None, allocatable: int | None) -> None:
    found = judge_reserved(declared=DECLARED, capacity=capacity, allocatable=allocatable)
    assert (found.verdict, found.actual) == (ReservedVerdict.UNKNOWN, None)
    assert not found.is_too_large


def test_more_than_half_is_too_large_also_where_allocatable_is_not_known() -> None:
    half = judge_reserved(declared=DECLARED, capacity=2 * DECLARED, allocatable=None)
    over = judge_reserved(declared=DECLARED, capacity=2 * DECLARED - 1, allocatable=None)
    assert (half.is_too_large, over.is_too_large) == (False, True)
    assert over.verdict is ReservedVerdict.UNKNOWN


def test_a_node_that_is_smaller_than_what_is_declared_holds_back_all_it_has() -> None:
    """The kubelet's Allocatable ends at 0, so that the node can do no better."""
    found = judge_reserved(declared=DECLARED, capacity=GIB, allocatable=0)
    assert (found.verdict, found.actual, found.is_too_large) == (ReservedVerdict.MATCHES, GIB, True)


@given(SIZES, MAYBE, MAYBE)
def test_a_verdict_follows_from_the_numbers(
    declared: int, capacity: int | None, allocatable: int | None
) -> None:
    found = judge_reserved(declared=declared, capacity=capacity, allocatable=allocatable)
    assert (found.verdict is ReservedVerdict.UNKNOWN) == (found.actual is None)
    if found.actual is not None:
        assert capacity is not None
        assert allocatable is not None
        assert found.actual == capacity - allocatable >= 0
        wanted = min(declared, capacity)
        assert (found.verdict is ReservedVerdict.MATCHES) == (abs(found.actual - wanted) <= 4096)
        assert (found.verdict is ReservedVerdict.RESERVES_LESS) == (found.actual < wanted - 4096)
    assert found.is_too_large == (bool(capacity) and declared > (capacity or 0) / 2)


@given(st.integers(min_value=1, max_value=2**44), st.integers(min_value=1, max_value=2**46))
def test_a_kubelet_that_was_given_what_is_declared_matches(declared: int, capacity: int) -> None:
    allocatable = max(0, capacity - declared)
    found = judge_reserved(declared=declared, capacity=capacity, allocatable=allocatable)
    assert found.verdict is ReservedVerdict.MATCHES


def test_a_mismatch_is_told_with_both_numbers_and_a_way_out() -> None:
    found = judge_reserved(declared=DECLARED, capacity=CAPACITY, allocatable=CAPACITY - 500 * MIB)
    assert mismatch_message([found, found], MEMORY) == (
        "The kubelets reserve 500Mi of memory, but the pool declares 2548Mi "
        "(systemReserved 2Gi + kubeReserved 0 + evictionHard 500Mi)."
    )
    [finding] = reserved_findings("win-2022", MEMORY, {"w1": found})
    assert (finding.reason, finding.nodes) == (IssueReason.RESERVED_MEMORY_MISMATCH, ("w1",))
    fix = finding.fix
    assert "`kubectl winpool join-config win-2022`" in fix
    assert "replace the node" in fix


def test_numbers_that_differ_never_look_alike() -> None:
    one, other = (
        judge_reserved(declared=DECLARED, capacity=CAPACITY, allocatable=CAPACITY - DECLARED - more * KIB)
        for more in (8, 12)
    )
    assert "reserve 2609160Ki of memory" in mismatch_message([one], MEMORY)
    assert "reserve 2609160Ki to 2609164Ki of memory" in mismatch_message([other, one], MEMORY)


def test_nodes_that_reserve_different_amounts_are_told_with_the_least_and_the_most() -> None:
    found = [
        judge_reserved(declared=DECLARED, capacity=CAPACITY, allocatable=CAPACITY - reserved)
        for reserved in (4 * GIB, 500 * MIB, GIB)
    ]
    assert "reserve 500Mi to 4Gi of memory" in mismatch_message(found, MEMORY)


def test_a_pool_is_too_large_only_where_every_known_node_says_so() -> None:
    small = judge_reserved(declared=DECLARED, capacity=4 * GIB, allocatable=2 * GIB)
    large = judge_reserved(declared=DECLARED, capacity=16 * GIB, allocatable=14 * GIB)
    unknown = judge_reserved(declared=DECLARED, capacity=None, allocatable=None)
    assert too_large_everywhere([small, unknown, small], MEMORY)
    assert not too_large_everywhere([small, large], MEMORY)
    assert not too_large_everywhere([unknown], MEMORY)
    assert not too_large_everywhere([], MEMORY)
    assert too_large_everywhere([small, unknown], MEMORY) == (
        "spec.reservedMemory declares 2548Mi (systemReserved 2Gi + kubeReserved 0 + evictionHard 500Mi), "
        "more than half of every node whose memory is known. The largest node has 4Gi."
    )
    assert too_large_message([small], MEMORY).endswith("more than half of the memory of these nodes (4Gi).")
    assert too_large_message([small, large], MEMORY).endswith("(4Gi to 16Gi).")


def test_less_than_the_practice_is_low() -> None:
    assert PRACTICE_BYTES == 2 * GIB
    enough = ReservedMemory(system_reserved="1536Mi", kube_reserved="512Mi", eviction_hard=0)
    assert not [*reserved_findings("win-2022", enough, {})]
    little = ReservedMemory(system_reserved=1536 * MIB - 1, kube_reserved="512Mi", eviction_hard="4Gi")
    assert [*reserved_findings("win-2022", little, {})], "evictionHard does not count"
    [finding] = reserved_findings("win-2022", ReservedMemory(system_reserved="1Gi"), {})
    assert finding.message == (
        "The pool declares 1524Mi (systemReserved 1Gi + kubeReserved 0 + evictionHard 500Mi). Without "
        "evictionHard, which is a threshold and does not count, that is 1Gi: less than the 2Gi that is good "
        "practice on Windows nodes."
    )
