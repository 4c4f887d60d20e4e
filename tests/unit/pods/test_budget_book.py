"""Which pods the API server would not evict: as it decides, and cheap for very many of both."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.pods import a_pod
from winpool.model.budgets import (
    _SETS_KEPT,
    MOST_COMPARED,
    MOST_TERMS,
    Budget,
    BudgetIndex,
    Requirement,
)
from winpool.model.pods import Block, BlockedBy, Pod

WEB = {"app": "web"}
NONE_LEFT = Budget("shop", "web", labels=WEB, allowed=0)


def block(pod: Pod, *budgets: Budget) -> Block | None:
    return BudgetIndex(budgets).block_of(pod)


def why(pod: Pod, *budgets: Budget) -> BlockedBy | None:
    found = block(pod, *budgets)
    return None if found is None else found.why


def test_a_budget_that_permits_nothing_blocks_its_pods_alone() -> None:
    assert block(a_pod("shop/web-1", labels=WEB), NONE_LEFT) == Block(
        "shop/web-1", BlockedBy.NONE_ALLOWED, ("web",)
    )
    assert why(a_pod("shop/web-1", labels=WEB), replace(NONE_LEFT, allowed=1)) is None
    assert why(a_pod("shop/db-1", labels={"app": "db"}), NONE_LEFT) is None
    assert why(a_pod("bank/web-1", labels=WEB), NONE_LEFT) is None
    assert why(a_pod("shop/web-1", labels=WEB)) is None


def test_more_than_one_budget_blocks_whatever_they_permit() -> None:
    budgets = [replace(NONE_LEFT, name=f"b{number}", allowed=5) for number in range(9, 0, -1)]
    assert block(a_pod(labels=WEB), *budgets) == Block(
        "shop/web-1", BlockedBy.SEVERAL_BUDGETS, ("b1", "b2", "b3")
    )


@pytest.mark.parametrize(
    ("is_ready", "lets_unready_go", "expected"),
    [
        (True, True, BlockedBy.NONE_ALLOWED),
        (False, True, None),
        (False, False, BlockedBy.NONE_ALLOWED),
    ],
)
def test_a_pod_that_is_not_ready_goes_where_its_budget_says_so(
    is_ready: bool, lets_unready_go: bool, expected: BlockedBy | None
) -> None:
    budget = replace(NONE_LEFT, lets_unready_go=lets_unready_go)
    assert why(a_pod(labels=WEB, is_ready=is_ready), budget) is expected


def test_that_helps_no_pod_with_two_budgets() -> None:
    budget = replace(NONE_LEFT, lets_unready_go=True)
    pod = a_pod(labels=WEB, is_ready=False)
    assert why(pod, budget, replace(budget, name="other")) is BlockedBy.SEVERAL_BUDGETS


def test_a_pending_pod_goes_whatever_the_budgets_say() -> None:
    pod = a_pod(labels=WEB, is_ready=False, is_pending=True)
    assert why(pod, NONE_LEFT, replace(NONE_LEFT, name="other")) is None


def test_in_a_namespace_with_too_many_budgets_it_is_not_found_out() -> None:
    many = [Budget("shop", f"b{number}", labels={"app": f"a{number}"}) for number in range(MOST_TERMS)]
    assert block(a_pod("shop/web-1"), *many) == Block("shop/web-1", BlockedBy.UNREADABLE)
    assert why(a_pod("bank/web-1"), *many) is None


KEYS, VALUES = ("app", "tier"), ("a", "b")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
BUDGETS = st.lists(
    st.builds(
        Budget,
        namespace=st.sampled_from(["shop", "bank"]),
        name=st.sampled_from(["x", "y", "z"]),
        selects=st.booleans(),
        labels=LABELS,
        requirements=st.sampled_from(
            [(), (Requirement("app", "Exists"),), (Requirement("tier", "NotIn", frozenset("a")),)]
        ),
        allowed=st.integers(0, 1),
        lets_unready_go=st.booleans(),
    ),
    max_size=6,
)
PODS = st.lists(
    st.builds(
        a_pod,
        st.sampled_from(["shop/a", "bank/b"]),
        labels=LABELS,
        is_ready=st.booleans(),
        is_pending=st.sampled_from([False, False, True]),
    ),
    max_size=6,
)


def modelled(pod: Pod, budgets: Sequence[Budget]) -> BlockedBy | None:
    """Say the same by comparing everything with everything, in the order of the API server."""
    if pod.is_pending:
        return None
    own = [each for each in budgets if each.is_about(pod)]
    if len(own) > 1:
        return BlockedBy.SEVERAL_BUDGETS
    if not own or (own[0].lets_unready_go and not pod.is_ready):
        return None
    return None if own[0].allowed > 0 else BlockedBy.NONE_ALLOWED


@given(BUDGETS, PODS)
def test_it_is_what_a_comparison_of_all_with_all_says(budgets: list[Budget], pods: list[Pod]) -> None:
    book = BudgetIndex(budgets)
    for pod in pods:
        found = book.block_of(pod)
        assert (None if found is None else found.why) is modelled(pod, budgets)


def test_a_budget_for_each_of_two_thousand_workloads_is_compared_with_its_own_pods_alone() -> None:
    compared: list[str] = []

    class Counted(Budget, frozen=True):
        def is_about(self, pod: Pod) -> bool:
            compared.append(self.name)
            return super().is_about(pod)

    common = {"part-of": "shop"}
    budgets = [
        Counted("shop", f"b{number}", labels={**common, "app": f"a{number}"}) for number in range(1600)
    ]
    book = BudgetIndex(budgets)
    for number in range(1600):
        for _ in range(3):
            pod = a_pod(f"shop/{number}", labels={**common, "app": f"a{number}"})
            assert book.block_of(pod) == Block(pod.full_name, BlockedBy.NONE_ALLOWED, (f"b{number}",))
    assert compared == [f"b{number}" for number in range(1600)]


@pytest.mark.slow
def test_who_makes_very_many_budgets_and_labels_costs_a_moment_and_the_answer() -> None:
    """Two thousand budgets for all pods, and as many pods with labels of their own: eight million terms."""
    budgets = [
        Budget("shop", f"b{number}", requirements=(Requirement("x", "DoesNotExist"),))
        for number in range(2000)
    ]
    book = BudgetIndex([*budgets, replace(NONE_LEFT, namespace="bank")])
    began = time.process_time()
    found = [book.block_of(a_pod(f"shop/{number}", labels={"n": str(number)})) for number in range(2000)]
    assert time.process_time() - began < 5
    ways = [each.why for each in found if each is not None]
    assert len(ways) == 2000, "none of them counts as one that can be evicted"
    assert ways.count(BlockedBy.SEVERAL_BUDGETS) == MOST_COMPARED // 4000 + 1
    assert ways[-1] is BlockedBy.UNREADABLE
    pod = a_pod("bank/web-1", labels=WEB)
    assert book.block_of(pod) == Block("bank/web-1", BlockedBy.NONE_ALLOWED, ("web",)), (
        "others are not concerned"
    )


def test_pods_with_giant_labels_are_compared_and_not_remembered() -> None:
    book = BudgetIndex([NONE_LEFT])
    for number in range(20):
        labels = {**WEB, **{f"key-{number}-{each}": "x" * 63 for each in range(2000)}}
        assert book.block_of(a_pod(labels=labels)) is not None
    assert not book._remembered


def test_few_sets_of_labels_are_remembered() -> None:
    book = BudgetIndex([NONE_LEFT])
    for number in range(5000):
        book.block_of(a_pod(labels={**WEB, "n": str(number)}))
    assert len(book._remembered) == _SETS_KEPT
