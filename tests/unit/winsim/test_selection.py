"""Which nodes a verb gets: by number, part, name; the same seed draws the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.winsim.durations import parse_duration
from testbed.winsim.selection import Selection, choose, parse_selection

NAMES = [f"win-w{number:02d}" for number in range(1, 41)]


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        (3, Selection(count=3)),
        ("3", Selection(count=3)),
        ("10%", Selection(percent=10)),
        ("0.5%", Selection(percent=0.5)),
        ("all", Selection()),
        ("win-w01", Selection(names=("win-w01",))),
        (["b", "a"], Selection(names=("b", "a"))),
    ],
)
def test_a_selection_is_a_number_a_part_names_or_all(given: Any, selection: Selection) -> None:
    assert parse_selection(given) == selection


@pytest.mark.parametrize("given", [0, -1, True, "", "10 %", "Win", [], [3], 1.5, None, {"a": 1}])
def test_anything_else_is_refused_with_what_is_allowed(given: Any) -> None:
    with pytest.raises(ValueError, match="a list of names, or all"):
        parse_selection(given)


@pytest.mark.parametrize("given", ["0%", "101%"])
def test_a_part_lies_between_nothing_and_everything(given: str) -> None:
    with pytest.raises(ValueError, match="more than 0%, at most 100%"):
        parse_selection(given)


@pytest.mark.parametrize(
    ("given", "size"), [("10%", 4), ("99%", 39), ("100%", 40), ("1%", 1), ("all", 40), (7, 7)]
)
def test_a_part_is_rounded_down_but_never_to_nothing(given: Any, size: int) -> None:
    assert len(choose(NAMES, selection=parse_selection(given), seed=1)) == size


def test_a_part_of_nothing_is_nothing() -> None:
    assert choose([], selection=Selection(percent=50), seed=1) == ()
    assert choose([], selection=Selection(), seed=1) == ()


@given(seed=st.one_of(st.integers(), st.text()), order=st.permutations(NAMES), count=st.integers(1, 40))
def test_the_same_seed_draws_the_same_nodes_in_whatever_order_they_come(
    seed: object, order: list[str], count: int
) -> None:
    selection = Selection(count=count)
    drawn = choose(order, selection=selection, seed=seed)
    assert drawn == choose(NAMES, selection=selection, seed=seed)
    assert len(set(drawn)) == count
    assert set(drawn) <= set(NAMES)


def test_another_seed_draws_others() -> None:
    drawn = {choose(NAMES, selection=Selection(count=3), seed=seed) for seed in range(20)}
    assert len(drawn) > 15


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="41 nodes are asked for, and there are 40 to choose from"):
        choose(NAMES, selection=Selection(count=41), seed=1)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("5s", 5), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), (7, 7), (0.5, 0.5), ("0s", 0)],
)
def test_a_length_of_time_is_written_as_people_do(given: Any, seconds: float) -> None:
    assert parse_duration(given) == pytest.approx(seconds)


@pytest.mark.parametrize("given", ["5", "5 s", "s", "-1s", -1, True, None, "1d", ""])
def test_what_is_no_length_of_time_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="is not a length of time such as 5s, 1m30s"):
        parse_duration(given)
