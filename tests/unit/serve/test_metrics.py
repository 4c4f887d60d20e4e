"""The metrics: documented, well named, and as many as there are pools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from harness.builders import a_pool
from winpool.api.v1alpha1 import Build, Condition, Verdict, WindowsNodePoolStatus
from winpool.serve import metrics
from winpool.serve.reference import render
from winpool.snapshot import Pool

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


_LABELS = {each.name: each.labels for each in metrics.DEFINITIONS}


class _Sources:
    def __init__(self, *pools: Pool) -> None:
        self._pools = pools

    def pools(self) -> Collection[Pool]:
        return self._pools

    def numbers(self) -> Mapping[metrics.Definition, Mapping[metrics.Labels, float]]:
        return {metrics.RECONCILES: {("success",): 3.0}}


def _scrape(*pools: Pool) -> dict[str, dict[tuple[str, ...], float]]:
    registry = CollectorRegistry()
    registry.register(metrics.WinpoolCollector(_Sources(*pools), is_ready=lambda: True))
    return {
        family.name: {
            tuple(sample.labels[label] for label in _LABELS[family.name]): sample.value
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }


def test_the_reference_page_is_the_table_of_metrics() -> None:
    assert PAGE.read_text() == render(), "run: make generate"


def test_every_documented_metric_is_served_and_nothing_else() -> None:
    assert {each.name for each in metrics.DEFINITIONS} == set(_scrape())


def test_names_are_of_base_units_and_without_a_counters_suffix() -> None:
    for each in metrics.DEFINITIONS:
        assert each.name.startswith("winpool_")
        assert not each.name.endswith("_total"), "the client adds it"
        assert not set(each.labels) & set(each.name.removeprefix("winpool_").split("_")) - {"status", "build"}
        assert each.help.endswith(".")


def test_a_pool_is_served_as_its_status_tells_it() -> None:
    condition = Condition.model_validate(
        {
            "type": "Ready",
            "status": "True",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "UpToDate",
            "message": "12 nodes",
        }
    )
    status = WindowsNodePoolStatus(
        observed_generation=3, nodes=12, ready_nodes=11, up_to_date_nodes=10, conditions=(condition,)
    )
    pool = a_pool(name="win", status=status, generation=5)
    served = _scrape(pool)
    assert served["winpool_nodes"]["win", "selected"] == 12
    assert served["winpool_nodes"]["win", "ready"] == 11
    assert served["winpool_nodes"]["win", "up_to_date"] == 10
    assert served["winpool_observed_generation_lag"] == {("win",): 2}
    assert served["winpool_status_condition"] == {
        ("win", "Ready", "True"): 1,
        ("win", "Ready", "False"): 0,
        ("win", "Ready", "Unknown"): 0,
    }
    assert served["winpool_status_condition_last_transition_timestamp_seconds"] == {
        ("win", "Ready"): 1767323045
    }


def a_build(build: str, nodes: int, *, os_version: str | None = None, end: str | None = None) -> Build:
    return Build(
        build=build, nodes=nodes, os_version=os_version, verdict=Verdict.SUPPORTED, end_of_support=end
    )


def test_nodes_are_counted_by_build_and_the_rest_together() -> None:
    builds = [a_build("10.0.20348", 40, os_version="2022"), a_build("Unknown", 30)]
    builds += [a_build(f"10.0.{number}", 1) for number in range(12)]
    # Two nodes run builds for which there was no room in the status.
    served = _scrape(a_pool(name="win", status=WindowsNodePoolStatus(nodes=84, builds=tuple(builds))))
    series = served["winpool_nodes_by_build"]
    assert series["win", "10.0.20348", "2022"] == 40
    assert series["win", "Unknown", ""] == 30
    assert series["win", "other", ""] == 6
    assert len(series) == metrics.BUILDS_SHOWN + 1
    assert sum(series.values()) == 84


def test_an_end_of_support_is_the_end_of_that_day_as_the_pool_has_it() -> None:
    pools = [
        a_pool(name=f"p{number}", status=WindowsNodePoolStatus(builds=(build,)))
        for number, build in enumerate(
            (
                a_build("10.0.20348", 1, os_version="2022", end="2031-10-14"),
                a_build("10.0.20348", 1, os_version="2022", end="2027-04-01"),
                a_build("10.0.26100", 1, os_version="2025", end="somebody's joke"),
            )
        )
    ]
    served = _scrape(*pools)["winpool_os_support_end_timestamp_seconds"]
    assert served == {
        ("p0", "2022"): datetime(2031, 10, 15, tzinfo=UTC).timestamp(),
        ("p1", "2022"): datetime(2027, 4, 2, tzinfo=UTC).timestamp(),
    }


def test_a_pool_that_is_gone_leaves_no_series() -> None:
    assert "winpool_nodes" in _scrape()
    assert _scrape()["winpool_nodes"] == {}


def test_the_number_of_series_grows_with_pools_and_not_with_nodes() -> None:
    small = a_pool(name="a", status=WindowsNodePoolStatus(nodes=1))
    large = a_pool(name="a", status=WindowsNodePoolStatus(nodes=5000))
    assert {k: len(v) for k, v in _scrape(small).items()} == {k: len(v) for k, v in _scrape(large).items()}
