"""What the bench of the fence makes of its samples."""

from __future__ import annotations

import pytest

from bench.fence import (
    KUBELET,
    OPERATOR,
    WITH,
    WITHOUT,
    Samples,
    fence_figures,
    fence_rows,
    fence_targets,
    turns,
)
from bench.report import as_line
from bench.targets import missed


def samples(*, kubelet: float = 1.1, refused: int = 0) -> Samples:
    """Return three rounds in which a report with the fence costs so many times what it costs without."""
    found = Samples(refused=refused, writes=12)
    for base in (0.010, 0.030, 0.020):
        found.add(KUBELET, WITH, base * kubelet)
        found.add(KUBELET, WITHOUT, base)
        found.add(OPERATOR, WITH, 3 * base)
        found.add(OPERATOR, WITHOUT, base)
    return found


def test_the_turns_alternate_so_that_neither_is_always_first() -> None:
    assert turns(2) == [WITH, WITHOUT, WITHOUT, WITH]
    assert [turns(5).count(turn) for turn in (WITH, WITHOUT)] == [5, 5]


def test_the_figures_are_medians_and_the_table_has_the_spread() -> None:
    figures = fence_figures(samples(), labels=7, rounds=3)
    assert figures["operator_with_cpu_seconds"] == pytest.approx(0.060)
    assert figures["operator_ratio"] == pytest.approx(3)
    assert figures["kubelet_ratio"] == pytest.approx(1.1)
    assert (figures["labels"], figures["writes"]) == (7, 12)
    assert "kubelet_with_cpu_seconds_rounds" in as_line(figures)
    rows = {(who, turn): spread for who, turn, *spread in fence_rows(samples())}
    assert rows[KUBELET, WITHOUT] == pytest.approx([20, 10, 30])


def test_writes_too_cheap_to_be_measured_have_no_ratio() -> None:
    found = Samples()
    for who in (KUBELET, OPERATOR):
        for turn in (WITH, WITHOUT):
            found.add(who, turn, 0.0)
    figures = fence_figures(found, labels=1, rounds=1)
    assert figures["kubelet_ratio"] is None
    assert missed(fence_targets(figures)) == []


@pytest.mark.parametrize(
    ("found", "names"),
    [(samples(), []), (samples(kubelet=2.5), ["kubelet_ratio"]), (samples(refused=1), ["refused"])],
)
def test_what_is_missed(found: Samples, names: list[str]) -> None:
    assert missed(fence_targets(fence_figures(found, labels=1, rounds=3))) == names
