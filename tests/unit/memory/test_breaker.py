"""How much of a pool may be in trouble, and how many nodes may evict at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.evicting import SAMPLED_AT, a_hot_node, a_view, an_axis
from harness.memory import KUBELET, a_sample
from winpool.features.memory.overview import Breaker, is_systemic, max_evicting_nodes
from winpool.model.pressure import Axis, Hold, Level

FIFTH = "20%"


@pytest.mark.parametrize(
    ("pressured", "unknown", "nodes", "limit", "is_open"),
    [
        (1, 0, 1, FIFTH, False),
        (1, 0, 4, FIFTH, False),
        (2, 0, 4, FIFTH, True),
        (20, 0, 100, FIFTH, False),
        (21, 0, 100, FIFTH, True),
        (2, 0, 6, FIFTH, False),
        (3, 0, 6, FIFTH, True),
        (1, 20, 100, FIFTH, True),
        (1, 19, 100, FIFTH, False),
        (2, 0, 100, 2, False),
        (3, 0, 100, 2, True),
        (1, 0, 100, 0, True),
        (0, 0, 0, FIFTH, False),
    ],
    ids=str,
)
def test_evictions_stop_when_more_nodes_than_the_limit_are_in_trouble(
    pressured: int, unknown: int, nodes: int, limit: int | str, is_open: bool
) -> None:
    found = is_systemic(pressured=pressured, unknown=unknown, nodes=nodes, max_pressured_nodes=limit)
    assert found is is_open


@pytest.mark.parametrize(
    ("late", "is_paging", "is_open"), [(1, True, False), (2, True, True), (2, False, False)], ids=str
)
def test_where_other_kubelets_answer_late_too_that_shows_nothing_of_one_node(
    late: int, is_paging: bool, is_open: bool
) -> None:
    """It is the network, or this process. What an exporter measures is not changed by that."""
    nodes = [a_hot_node(f"w{number}") for number in range(10)]
    calm, slow = (
        replace(
            a_view(commit=Hold.NO_PRESSURE, level=Level.NORMAL),
            sources={KUBELET: a_sample(SAMPLED_AT + seconds, answer_seconds=seconds)},
        )
        for seconds in (1.0, 5.0)
    )
    memory = {node.uid: slow if number < late else calm for number, node in enumerate(nodes)}
    axis = an_axis(Axis.PHYSICAL, hold=None)
    assert axis.reading is not None
    axis = replace(axis, reading=replace(axis.reading, is_paging=is_paging))
    assert Breaker(nodes, memory, "10%").is_open_for(axis) is is_open


@pytest.mark.parametrize(
    ("nodes", "limit", "allowed"),
    [
        (10, "5%", 1),
        (39, "5%", 1),
        (40, "5%", 2),
        (59, "5%", 2),
        (0, "5%", 1),
        (10, 3, 3),
        (10, 0, 1),
    ],
    ids=str,
)
def test_the_nodes_that_may_evict_round_down_and_are_at_least_one(
    nodes: int, limit: int | str, allowed: int
) -> None:
    assert max_evicting_nodes(nodes=nodes, max_nodes=limit) == allowed


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 1000), st.integers(0, 100))
def test_an_unknown_node_counts_like_one_in_trouble(
    pressured: int, unknown: int, nodes: int, percent: int
) -> None:
    limit = f"{percent}%"
    assert is_systemic(
        pressured=pressured, unknown=unknown, nodes=nodes, max_pressured_nodes=limit
    ) is is_systemic(pressured=pressured + unknown, unknown=0, nodes=nodes, max_pressured_nodes=limit)
