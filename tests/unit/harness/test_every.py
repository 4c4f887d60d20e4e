"""A test over a table names every case that fails, and not only the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.every import Faults, every


@every(("number", "square"), [(2, 4), pytest.param(3, 9, id="three")])
def even_squares(tmp_path: Path, number: int, square: int) -> None:
    assert tmp_path.is_dir()
    assert number % 2 == 0
    assert number * number == square


@every("number", range(3), ids=lambda number: f"case {number}")
def no_number(number: int) -> None:
    assert number > 5
    raise ValueError(number)


def test_each_case_that_fails_is_named_with_what_it_says() -> None:
    with pytest.raises(pytest.fail.Exception) as raised:
        no_number()
    assert [line.partition(" (")[0] for line in str(raised.value).splitlines() if "case" in line] == [
        *("case 0", "case 1", "case 2")
    ]
    assert "assert 2 > 5" in str(raised.value)


def test_a_case_with_a_name_has_it_and_fixtures_are_handed_on(tmp_path: Path) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"^three \(line \d+ of .*test_every.py\): assert .*"
    ) as raised:
        even_squares(tmp_path=tmp_path)
    assert "2-4" not in str(raised.value)


def test_any_exception_is_a_fault_and_one_that_ends_the_run_is_none() -> None:
    faults = Faults()
    with faults.of("one"):
        raise LookupError("gone")
    with faults.of("two"):
        pytest.fail("no")
    with pytest.raises(KeyboardInterrupt), faults.of("three"):
        raise KeyboardInterrupt
    with pytest.raises(pytest.fail.Exception, match=r"(?s)^one .*: LookupError: gone\n\ntwo .*: Failed: no$"):
        faults.check()


@every("number", [1, 2])
def test_fixtures_are_those_of_the_rest_of_its_parameters(tmp_path: Path, number: int) -> None:
    assert tmp_path.is_dir()
    assert number


def test_a_table_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="a test of nothing"):
        every("number", [])
