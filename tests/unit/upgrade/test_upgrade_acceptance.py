"""What of ``spec.upgrade`` the operator refuses, since CEL cannot: each with its field and its fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.builders import NOON, a_spec
from winpool.features.judge import rows_of
from winpool.features.upgrade.feature import unusable
from winpool.support.matrix import built_in
from winpool.support.rows import layered

NIGHTLY = {"schedule": "0 22 * * *", "durationSeconds": 3600}
FOREVER = {"start": "2000-01-01T00:00:00Z", "end": "2999-12-31T00:00:00Z"}


def said(
    upgrade: Mapping[str, Any] | None = None, *, os: str = "2022", more: Mapping[str, Any] | None = None
) -> str:
    spec = a_spec(more={"os": {"version": os}, "upgrade": dict(upgrade or {}), **(more or {})})
    assert spec.upgrade is not None
    layers = layered(built_in(), (), rows_of(spec.support_matrix))
    return next(unusable(spec.upgrade, spec.os, layers=layers, now=NOON), "")


@pytest.mark.parametrize(
    "upgrade",
    [
        {},
        {"maintenanceWindows": [NIGHTLY, {**NIGHTLY, "timeZone": "Europe/Berlin"}]},
        {
            "maintenanceWindows": [NIGHTLY],
            "maintenanceExclusions": [{**FOREVER, "end": "2030-01-01T00:00:00Z"}],
        },
        {"maintenanceExclusions": [{**FOREVER, "start": "2030-01-01T00:00:00Z"}]},
        {"maintenanceWindows": [{**NIGHTLY, "schedule": "0 0 29 2 *"}]},
    ],
)
def test_what_opens_at_some_time_is_accepted(upgrade: Mapping[str, Any]) -> None:
    assert said(upgrade) == ""


@pytest.mark.parametrize(
    ("window", "field", "fix"),
    [
        ({"timeZone": "Middle/Earth"}, "timeZone: 'Middle/Earth' is no time zone", "such as Europe/Berlin"),
        ({"timeZone": "localtime"}, "timeZone: 'localtime' is no time zone", "such as Europe/Berlin"),
        ({"schedule": "0 25 * * *"}, "schedule: '0 25 * * *' cannot be read", "Write minute, hour"),
        ({"schedule": "0 0 31 2 *"}, "schedule: '0 0 31 2 *' cannot be read", "Write minute, hour"),
    ],
)
def test_a_window_that_cannot_be_used_is_refused_by_its_place(
    window: Mapping[str, Any], field: str, fix: str
) -> None:
    found = said({"maintenanceWindows": [NIGHTLY, {**NIGHTLY, **window}]})
    assert found.startswith(f"spec.upgrade.maintenanceWindows[1].{field}")
    assert fix in found


@pytest.mark.parametrize("windows", [[], [NIGHTLY]])
def test_exclusions_that_leave_no_window_are_refused(windows: list[Any]) -> None:
    found = said({"maintenanceWindows": windows, "maintenanceExclusions": [FOREVER]})
    assert found.startswith("spec.upgrade.maintenanceExclusions: they cover every maintenance window")
    assert "spec.upgrade.pauseRequests" in found


def test_a_release_that_is_not_known_is_refused() -> None:
    found = said(os="2028")
    assert found.startswith("spec.os.version is 2028, but the support matrix has no such release")
    assert "Correct spec.os.version to one of" in found


def test_a_release_that_a_row_names_is_accepted() -> None:
    assert said(os="2028", more={"supportMatrix": [{"osVersion": "2028", "build": "10.0.30000"}]}) == ""


def test_a_release_that_shares_its_build_is_accepted() -> None:
    assert said(os="1809") == ""
