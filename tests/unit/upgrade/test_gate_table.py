"""The table of gates: complete, in order, and in sentences that a page can print."""

from __future__ import annotations

import pytest

from winpool.api.upgrade import NEVER_OVERRIDDEN, Gate
from winpool.features.upgrade.gates.table import (
    GATES,
    NODE_GATES,
    POOL_GATES,
    NodeGate,
    PoolGate,
)
from winpool.features.upgrade.records import OPEN_WHEN_UNKNOWN


def test_each_gate_has_one_line_in_order() -> None:
    assert [each.gate for each in GATES] == list(Gate)


def test_each_gate_is_of_the_pool_or_of_a_node() -> None:
    assert {each.gate for each in POOL_GATES} | {each.gate for each in NODE_GATES} == set(Gate)
    assert len(POOL_GATES) + len(NODE_GATES) == len(Gate)


@pytest.mark.parametrize("row", GATES, ids=lambda row: row.gate)
def test_the_texts_are_sentences(row: PoolGate | NodeGate) -> None:
    for text in (row.meaning, row.opens):
        assert text.endswith(".")
        assert text[0] == "`" or text[0].isupper()
        assert "|" not in text, "it would end the cell of a table"


def test_no_two_gates_have_one_function() -> None:
    assert len({each.judge for each in GATES}) == len(GATES)


def test_what_no_override_opens_says_so() -> None:
    for each in GATES:
        assert ("No override" in each.meaning) == (each.gate in NEVER_OVERRIDDEN)


def test_two_gates_are_open_when_unknown() -> None:
    assert OPEN_WHEN_UNKNOWN == (Gate.CAPACITY, Gate.IMAGES)
