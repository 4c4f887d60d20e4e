"""Where pods request very many different amounts, nodes are counted for rounded ones: to the safe side."""

from __future__ import annotations

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import a_node
from winpool.features.upgrade import capacity as rounding
from winpool.features.upgrade.capacity import (
    EXACT,
    GRIDS,
    CapacityJudge,
    EligibleNodes,
    Fit,
    FreeCapacity,
    grid_of,
    rounded_down,
    rounded_up,
)
from winpool.model.node import Allocatable, NodeMemory
from winpool.model.pods import PodShape, Requests, Workload

amounts = st.integers(0, 2**64)
NODES: Final = 30


@given(amounts, st.sampled_from(GRIDS))
def test_an_amount_is_between_what_it_is_rounded_to(amount: int, bits: int) -> None:
    low, high = rounded_down(amount, bits), rounded_up(amount, bits)
    assert low <= amount <= high
    assert high <= 2 * amount
    assert low > amount // 2 or amount == 0
    for each in (low, high):
        assert (rounded_down(each, bits), rounded_up(each, bits)) == (each, each)
    if bits == EXACT:
        assert low == high == amount


@pytest.mark.parametrize(("different", "bits"), [(1, EXACT), (10, EXACT), (11, 3), (1000, 3)], ids=str)
def test_requests_are_rounded_only_where_there_are_many(
    different: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "MOST_COUNTED", 1000)
    capacities: list[FreeCapacity] = [(number, 1000, 2**30, 10) for number in range(100)]
    eligible = EligibleNodes(capacities, capacities)
    # All between 512 and 639: one amount of the grid of three bits.
    assert (
        grid_of([(eligible, 512 + number % 128, number // 128 and 512) for number in range(different)])
        == bits
    )


def judgements(*, most: int, monkeypatch: pytest.MonkeyPatch, share: float) -> list[Fit]:
    """Return the judgements of a pool in which no two pods request the same."""
    monkeypatch.setattr(rounding, "MOST_COUNTED", most)
    chance = random.Random(18)
    nodes, workloads = [], {}
    for number in range(NODES):
        moving = tuple(
            (PodShape(Requests(chance.randint(50, 1000), chance.randint(1, 999), 1)), 1) for _ in range(20)
        )
        cpu = sum(shape.requests.cpu_milli for shape, _ in moving)
        memory = sum(shape.requests.memory for shape, _ in moving)
        node = a_node(f"w{number}")
        workloads[node.name] = Workload(used=Requests(cpu, memory, 20), moving=moving)
        allocatable = Allocatable(int(cpu / share), 110)
        nodes.append(
            replace(node, allocatable=allocatable, memory=NodeMemory(allocatable=int(memory / share)))
        )
    judge = CapacityJudge(nodes=nodes, workloads=workloads, build_of=lambda _: "10.0.20348")
    return [judge.judge(node) for node in nodes]


@pytest.mark.parametrize("share", [0.7, 0.9, 0.95, 0.98, 1.0])
@pytest.mark.parametrize("most", [15_000, 10], ids=["three bits", "one bit"])
def test_rounding_loses_certainty_and_never_contradicts(
    share: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = judgements(most=10**9, monkeypatch=monkeypatch, share=share)
    rough = judgements(most=most, monkeypatch=monkeypatch, share=share)
    for one, other in zip(exact, rough, strict=True):
        assert other.unfit <= one.unfit
        assert other.unknown or bool(other.unfit) == bool(one.unfit)


def test_a_pod_that_fits_only_if_it_is_rounded_down_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "MOST_COUNTED", 0)
    shape = PodShape(Requests(700, 700, 1))
    nodes = [
        replace(
            a_node(f"w{number}"),
            allocatable=Allocatable(cpu_milli=600, pods=110),
            memory=NodeMemory(allocatable=600),
        )
        for number in range(NODES)
    ]
    workloads = {node.name: Workload() for node in nodes} | {"w0": Workload(moving=((shape, 5),))}
    judge = CapacityJudge(nodes=nodes, workloads=workloads, build_of=lambda _: "10.0.20348")
    assert judge.judge(nodes[0]) == Fit(unknown=True)
