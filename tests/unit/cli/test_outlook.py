"""What ``validate`` says of the release that a pool asks for."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from harness.builders import a_spec
from winpool.cli.outlook import outlook
from winpool.support.matrix import built_in

TODAY = date(2026, 11, 21)
END_OF_2022 = date(2031, 10, 14)


def said(version: str, *rows: dict[str, Any], today: date = TODAY) -> str:
    spec = a_spec(more={"os": {"version": version}, "supportMatrix": list(rows)})
    return outlook(spec, matrix=built_in(), today=today)


def test_it_tells_the_verdict_with_each_minor_that_is_maintained() -> None:
    assert said("2022") == (
        "Windows Server 2022: Supported with Kubernetes 1.35 and 1.36 and 1.37; supported until 2031-10-14; "
        f"data from {built_in().as_of}"
    )


def test_a_release_that_was_dropped_is_told_before_any_node_runs_it() -> None:
    assert "Unsupported with Kubernetes 1.35 and 1.36 and 1.37" in said("20H2")
    assert "Warned with Kubernetes 1.35 and 1.36, Unknown with Kubernetes 1.37" in said("2019")


def test_rows_of_the_pool_are_heard() -> None:
    row = {"osVersion": "2019", "kubernetesVersions": {"max": "1.35"}, "verdict": "Allow"}
    assert "Supported with Kubernetes 1.35, Unsupported with Kubernetes 1.36 and 1.37" in said("2019", row)
    assert "; supported until 2027-01-31; " in said(
        "2022", {"osVersion": "2022", "endOfSupport": "2027-01-31"}
    )


def test_a_release_that_shares_its_build_is_told_as_its_nodes_would_be_judged() -> None:
    row = {"osVersion": "2019", "verdict": "Allow"}
    title = "Windows Server 1809, judged as 2019, which has the same build: "
    assert said("1809", row) == title + said("2019", row).removeprefix("Windows Server 2019: ")
    assert "supported until 2029-01-09" in said("1809", row)


@pytest.mark.parametrize(
    ("after", "ending"),
    [(0, "; supported until 2031-10-14"), (1, "; support ended on 2031-10-14")],
)
def test_the_last_day_is_one_of_support(after: int, ending: str) -> None:
    found, _, age = said("2022", today=END_OF_2022 + timedelta(days=after)).rpartition("; ")
    assert found.endswith(ending)
    assert age == f"data from {built_in().as_of}"


def test_a_release_that_nobody_knows_is_a_warning_with_the_ones_that_are_known() -> None:
    found = said("2023")
    assert found.startswith("warning: spec.os.version is 2023")
    assert "2022" in found
    assert "supportMatrix" in found


def test_a_release_that_only_a_row_knows_is_told_as_the_row_has_it() -> None:
    named = {"osVersion": "2028", "build": "10.0.30000"}
    assert "Windows Server 2028: Unknown with Kubernetes" in said("2028", named)
    assert "; end of support unknown; " in said("2028", named)
    row = {**named, "verdict": "Allow", "endOfSupport": "2038-01-12"}
    assert "Supported with Kubernetes 1.35 and 1.36 and 1.37; supported until 2038-01-12" in said("2028", row)
