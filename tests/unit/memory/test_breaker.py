"""How much of a pool may be in trouble, and how many nodes may evict at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.features.memory.overview import is_systemic, max_evicting_nodes

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
