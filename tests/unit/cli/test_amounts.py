"""Amounts in a few letters, whatever numbers they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory import GIB, MIB
from winpool.cli.counts import amount, percent, rate, seconds

ANY = st.one_of(st.none(), st.floats(), st.integers(-(2**70), 2**70).map(float))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1000, "1000"),
        (1024, "1.0Ki"),
        (512 * MIB, "512Mi"),
        (9.5 * GIB, "9.5Gi"),
        (9.96 * GIB, "10Gi"),
        (24 * GIB, "24Gi"),
        (1023.9 * MIB, "1.0Gi"),
        (-2 * GIB, "-2.0Gi"),
        (2.0**80, ">1023Pi"),
        (math.inf, "-"),
        (None, "-"),
    ],
)
def test_bytes_are_written_as_quantities(value: float | None, shown: str) -> None:
    assert amount(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2 * MIB, "+120Mi/min"), (0, "0"), (-5 * MIB, "0"), (1e308, "-"), (math.nan, "-"), (None, "-")],
)
def test_a_trend_is_growth_in_a_minute(value: float | None, shown: str) -> None:
    assert rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(99.96, "99%"), (100.0, "100%"), (0.4, "0%"), (-0.1, "<0%"), (1e300, ">999%"), (None, "-")],
)
def test_a_hundred_percent_means_all_of_it(value: float | None, shown: str) -> None:
    assert percent(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(4.9, "4s"), (840, "14m"), (0, "0s"), (-3, "0s"), (1e300, "99y"), (math.inf, "-"), (None, "-")],
)
def test_spans_are_written_as_kubectl_writes_ages(value: float | None, shown: str) -> None:
    assert seconds(value) == shown


@given(ANY)
def test_any_number_takes_a_few_letters(value: float | None) -> None:
    assert [len(each(value)) <= 12 for each in (amount, rate, percent, seconds)] == [True] * 4
