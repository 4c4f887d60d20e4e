"""What is reported, and what is not stopped, where a right to watch memory is missing."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool
from harness.house import House
from harness.views import SOFT, STALE, all_of
from winpool.api.conditions import ConditionType, Reason
from winpool.api.keys import MEMORY_PRESSURE_TAINT
from winpool.decide import FEATURES, decide
from winpool.model.pressure import KnownMemory

RULE: Final = "winpool may not create serviceaccounts/token. Add the rule {…}."
PROMETHEUS: Final = {"type": "Prometheus", "prometheus": {"dataSource": "main"}}
KUBELET: Final = {"type": "Kubelet"}


def accepted(block: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return what Accepted says of a pool with that block, while the rule is missing."""
    pool = a_pool(more={"memoryPressure": block} if block is not None else None)
    house = House(pool, {"w1": a_node("w1")}, features=FEATURES)
    house.memory = KnownMemory(forbidden=RULE)
    condition = decide(house.snapshot(), FEATURES).status.condition(ConditionType.ACCEPTED)
    assert condition is not None
    return condition.status, condition.reason, condition.message


@pytest.mark.parametrize(
    "block", [{}, {"mode": "Observe"}, {"sources": [PROMETHEUS, KUBELET]}, {"mode": "Evict"}]
)
def test_a_pool_that_reads_kubelets_says_which_rule_is_missing(block: dict[str, Any]) -> None:
    assert accepted(block) == ("False", Reason.MISSING_PERMISSION, RULE)


@pytest.mark.parametrize("block", [None, {"sources": [PROMETHEUS]}])
def test_a_pool_that_reads_no_kubelet_needs_no_token(block: dict[str, Any] | None) -> None:
    assert accepted(block)[0] == "True"


def test_a_right_that_is_taken_away_takes_no_taint_off() -> None:
    house = House(
        a_pool(more={"memoryPressure": {"mode": "Signal"}}), {"w1": a_node("w1")}, features=FEATURES
    )
    house.memory = all_of(("w1",), SOFT)
    house.settle()
    assert MEMORY_PRESSURE_TAINT in {each.key for each in house.nodes["w1"].taints}
    stale = all_of(("w1",), STALE)
    house.memory = replace(stale, forbidden=RULE)
    house.settle()
    assert MEMORY_PRESSURE_TAINT in {each.key for each in house.nodes["w1"].taints}
