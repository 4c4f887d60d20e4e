"""Which unit tests are told to be slow: those that take more than a second of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pytest

from durations import WAITED, slow, waited_for_a_core

NAME = "tests/unit/test_one.py::test_it"


def a_report(
    seconds: float,
    *,
    name: str = NAME,
    when: Literal["setup", "call", "teardown"] = "call",
    waited: float | None = None,
    keywords: Mapping[str, int] | None = None,
) -> pytest.TestReport:
    properties: list[tuple[str, object]] = [] if waited is None else [(WAITED, f"{waited:.3f}")]
    return pytest.TestReport(
        nodeid=name, location=(name, 0, name), keywords=dict(keywords or {}), outcome="passed",
        longrepr=None, when=when, duration=seconds, user_properties=properties,
    )  # fmt: skip


def test_the_fixtures_of_a_test_are_part_of_it_and_the_slowest_is_first() -> None:
    reports = [
        *(a_report(0.5, when="setup"), a_report(0.4), a_report(0.3, when="teardown", waited=0.0)),
        a_report(3.0, name="tests/unit/test_two.py::test_it"),
        a_report(0.5, name="tests/unit/test_three.py::test_it"),
    ]
    found = [(f"{seconds:.1f}", name) for seconds, name in slow(reports)]
    assert found == [("3.0", "tests/unit/test_two.py::test_it"), ("1.2", NAME)]


def test_the_time_in_which_others_ran_does_not_count() -> None:
    assert slow([a_report(4.0), a_report(0.0, when="teardown", waited=3.6)]) == []


def test_marked_tests_and_those_with_a_control_plane_are_not_told() -> None:
    assert slow([a_report(2.0, keywords={"slow": 1})]) == []
    assert slow([a_report(90.0, name="tests/cluster/test_one.py::test_it")]) == []


def test_the_kernel_counts_how_long_a_thread_waits() -> None:
    before = waited_for_a_core()
    assert before >= 0
    assert waited_for_a_core() >= before
