"""The sweep of the bench of memory pressure: one number is changed at a time, and for a race only."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from bench.pressure.race import Result, race, race_by
from bench.pressure.sweep import FACTORS, Change, Number, figures_of, numbers
from unit.bench.test_pressure import a_family, a_result
from winpool.api.memory_pressure import MemoryPressure
from winpool.features.memory import detector, levels, settings
from winpool.features.memory.settings import settings_of


def the_number(name: str) -> Number:
    (found,) = (each for each in numbers() if str(each) == name)
    return found


def test_each_number_is_another_one_for_a_race_and_then_as_before() -> None:
    for number in numbers():
        before = number.value
        for factor in FACTORS.values():
            with number.scaled(factor):
                assert number.value != before, number
            assert number.value == before, number


@pytest.mark.parametrize(
    ("name", "lower", "higher"),
    [
        ("commit_soft_used_percent", "87.5", "92.5"),
        ("physical_soft_available_percent", "7.5", "12.5"),
        ("commit_hard_headroom", "805306368", "1342177280"),
        ("DEFAULT_SOFT_GRACE_SECONDS", "68", "112"),
        ("RECORD_SHARE", "0.015", "0.025"),
        ("TREND_SAMPLES", "1", "3"),
        ("DISK_SHARE", "0.1875, 0.375", "0.3125, 0.625"),
    ],
)
def test_a_number_is_a_quarter_lower_and_higher(name: str, lower: str, higher: str) -> None:
    number = the_number(name)
    assert (Change(number, "lower").value, Change(number, "higher").value) == (lower, higher)


def test_what_a_pool_can_set_is_changed_for_a_pool_that_does_not_set_it() -> None:
    with the_number("commit_hard_headroom").scaled(2):
        assert settings_of(MemoryPressure()).commit.hard_headroom == 2**31
    with the_number("DEFAULT_SOFT_GRACE_SECONDS").scaled(2):
        assert settings_of(MemoryPressure()).soft_grace_seconds == 180


def test_a_constant_is_changed_in_each_module_that_imports_it() -> None:
    before = settings.FRESH_SECONDS
    with the_number("FRESH_SECONDS").scaled(2):
        assert 2 * before == settings.FRESH_SECONDS
        assert vars(detector)["FRESH_SECONDS"] == vars(levels)["FRESH_SECONDS"] == 2 * before


def told(results: list[Result]) -> list[dict[str, Any]]:
    """Return all but the lead, which a race of no one has to know."""
    return [asdict(each) | {"lead": None} for each in results]


@pytest.mark.slow
def test_sets_of_numbers_that_race_at_once_do_as_each_does_alone() -> None:
    changes = [Change(), Change(the_number("commit_hard_headroom"), "higher")]
    rules, family = [each.in_force for each in changes], a_family()
    together = [told(each) for each in race_by(rules, family, 3, only=["kubelets"])]
    for change, results in zip(changes, together, strict=True):
        with change.in_force():
            assert results == told(race(family, 3, only=["kubelets"]))
    assert together[0] != together[1]


def test_evictions_are_false_in_healthy_families_and_harm_is_that_of_the_others() -> None:
    results = [
        replace(a_result("kubelets", evictions=2), family="calm", innocent=2),
        replace(a_result("kubelets", denied=10, evictions=3), innocent=1),
        a_result("exporter-first", denied=20, evictions=1),
    ]
    assert figures_of(results, frozenset({"calm"})) == (2, 15, 1)
