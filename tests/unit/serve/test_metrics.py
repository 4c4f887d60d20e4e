"""The metrics: documented, well named, and as many as there are pools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gen.metrics_reference import render
from harness.builders import NOON, a_node, a_pool, a_snapshot, unreadable, with_status
from harness.memory_worlds import watching
from harness.upgrade_views import ONE_DUE
from harness.views import HARD, a_view
from winpool.api.conditions import ConditionType
from winpool.api.matrix import Verdict
from winpool.api.spec import Mode
from winpool.api.status import (
    MAX_BUILDS,
    MAX_HISTORY,
    Build,
    Condition,
    HistoryEntry,
    HistoryResult,
    WindowsNodePoolStatus,
)
from winpool.controllers.services import ControlStats
from winpool.decide import decide
from winpool.features.upgrade.records import UpgradeResult
from winpool.model.node import Node, NodeVersions
from winpool.model.pool import Pool
from winpool.model.pressure import Axis, Level
from winpool.serve import definitions
from winpool.serve.definitions import (
    DEFINITIONS,
    Definition,
)
from winpool.serve.metrics import BUILDS_SHOWN, MAX_SERIES_PER_POOL, WinpoolCollector
from winpool.status.pods import WorkloadFigures
from winpool.status.status import Figures, upgrade_figures

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"

Served = dict[str, dict[tuple[str, ...], float]]

_LABELS = {each.name: each.labels for each in DEFINITIONS}


def _scrape(*pools: Pool, stats: ControlStats | None = None) -> Served:
    registry = CollectorRegistry()
    figures = stats.figures if stats else {}
    registry.register(
        WinpoolCollector(pools, figures=figures, numbers={definitions.RECONCILES: {("Success",): 3.0}})
    )
    return {
        family.name: {
            tuple(sample.labels[label] for label in _LABELS[family.name]): sample.value
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }


def _series(served: Served) -> int:
    return sum(map(len, served.values()))


def _of_pool(served: Served, name: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the series that are labelled with that pool, by metric."""
    found = {
        metric: [labels for labels in series if labels[:1] == (name,)]
        for metric, series in served.items()
        if "pool" in _LABELS[metric]
    }
    return {metric: series for metric, series in found.items() if series}


def test_the_reference_page_is_the_table_of_metrics() -> None:
    assert PAGE.read_text() == render(), "run: make generate"


def test_every_documented_metric_is_served_and_nothing_else() -> None:
    assert {each.name for each in DEFINITIONS} == set(_scrape())


def test_every_definition_is_in_the_table() -> None:
    found = [each for each in vars(definitions).values() if isinstance(each, Definition)]
    assert sorted(found, key=str) == sorted(DEFINITIONS, key=str)


def test_names_are_of_base_units_and_without_a_counters_suffix() -> None:
    for each in DEFINITIONS:
        assert each.name.startswith("winpool_")
        assert not each.name.endswith("_total"), "the client adds it"
        said_twice = set(each.labels) & set(each.name.removeprefix("winpool_").split("_"))
        assert not said_twice - {"status", "build", "mode", "level", "gate"}, (
            "these are what the metric is about"
        )
        assert each.help.endswith(".")


OPEN: Final = {"pool", "build", "os_version", "source", "version"}
"""Labels whose values are names and versions."""

KUBERNETES: Final = {"verb", "resource", "code"}
"""Labels that Kubernetes' own metrics have too, with the values that they have there."""


def test_every_label_declares_its_values_in_camel_case_or_is_a_name_a_version_or_of_kubernetes() -> None:
    for each in DEFINITIONS:
        assert each.values.keys() == {*each.labels} - OPEN - KUBERNETES, each.name
        for values in each.values.values():
            assert values
            assert not [value for value in values if not re.fullmatch("[A-Z][A-Za-z]+", value)], each.name


def test_what_is_about_a_pool_names_it_first() -> None:
    assert not [each.name for each in DEFINITIONS if "pool" in each.labels[1:]]


def test_a_pool_is_served_as_its_status_tells_it() -> None:
    status = WindowsNodePoolStatus(
        observed_generation=3,
        nodes=12,
        ready_nodes=11,
        up_to_date_nodes=10,
        misplaced_pods=4,
        conditions=(a_condition("Ready"),),
    )
    served = _scrape(a_pool(name="win", status=status, generation=5))
    assert served["winpool_nodes"]["win", "Selected"] == 12
    assert served["winpool_nodes"]["win", "Ready"] == 11
    assert served["winpool_nodes"]["win", "UpToDate"] == 10
    assert served["winpool_misplaced_pods"] == {("win",): 4}
    assert served["winpool_observed_generation_lag"] == {("win",): 2}
    assert served["winpool_status_condition"] == {
        ("win", "Ready", "True"): 1,
        ("win", "Ready", "False"): 0,
        ("win", "Ready", "Unknown"): 0,
    }
    assert served["winpool_status_condition_last_transition_timestamp_seconds"] == {
        ("win", "Ready"): NOON.timestamp()
    }


def a_condition(type_: str) -> Condition:
    return Condition(
        type=type_,
        status="True",
        observed_generation=3,
        last_transition_time=NOON,
        reason="Because",
        message="12 nodes",
    )


@pytest.mark.parametrize("mode", Mode)
def test_of_the_modes_the_one_of_the_spec_is_1(mode: Mode) -> None:
    served = _scrape(a_pool(name="win", mode=mode))["winpool_mode"]
    assert served == {("win", each.value): float(each is mode) for each in Mode}


def test_a_spec_that_cannot_be_read_has_no_mode() -> None:
    served = _scrape(unreadable(a_pool(name="win")))["winpool_mode"]
    assert served == {("win", each.value): 0 for each in Mode}


def test_figures_are_served_as_the_last_pass_had_them() -> None:
    stats = ControlStats()
    stats.figures["win"] = Figures(taint_missing=9)
    figures = Figures(reserved_memory_mismatched=1, taint_missing=2, overlapping=3, upgrade_due=4)
    stats.figures["win"] = figures
    served = _scrape(a_pool(name="win"), stats=stats)
    assert served["winpool_reserved_memory_mismatched_nodes"] == {("win",): 1}
    assert served["winpool_taint_missing_nodes"] == {("win",): 2}
    assert served["winpool_overlapping_nodes"] == {("win",): 3}
    assert served["winpool_nodes"]["win", "UpgradeDue"] == 4


def test_what_no_pass_has_counted_is_not_served_as_0() -> None:
    stats = ControlStats()
    stats.figures["other"] = Figures()
    served = _scrape(a_pool(name="win"), a_pool(name="other"), stats=stats)
    assert served["winpool_taint_missing_nodes"] == {("other",): 0}


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
    assert series["win", "Other", ""] == 6
    assert len(series) == BUILDS_SHOWN + 1
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


def the_worst(name: str) -> Pool:
    """Return a pool that fills its status: as many builds and conditions as there can be."""
    builds = tuple(
        a_build(f"10.0.{number}", 1, os_version=f"release {number}", end="2031-10-14")
        for number in range(MAX_BUILDS)
    )
    conditions = tuple(map(a_condition, ConditionType))
    entry = HistoryEntry(target="2022", start_time=NOON, nodes=5000, result=HistoryResult.IN_PROGRESS)
    status = WindowsNodePoolStatus(
        nodes=5000, builds=builds, conditions=conditions, history=(entry,) * MAX_HISTORY
    )
    return a_pool(name, status=status)


WATCHED: Final = Figures(
    overlapping=1,
    memory_levels={(axis, level): 0 for axis in Axis for level in (*Level, None)},
    is_memory_systemic=False,
    upgrades=upgrade_figures((UpgradeResult(overview=ONE_DUE),)),
    workloads=WorkloadFigures(0, 0, 0),
)
"""Of a pool that watches memory, and asks for upgrades."""


def test_a_pool_that_is_gone_leaves_no_series() -> None:
    stats = ControlStats()
    stats.figures["gone"] = WATCHED
    before = _of_pool(_scrape(the_worst("gone"), stats=stats), "gone")
    assert before.keys() == {each.name for each in DEFINITIONS if "pool" in each.labels}

    assert not _of_pool(_scrape(stats=stats), "gone"), "also where a pass ended after its pool"
    del stats.figures["gone"]
    again = _scrape(a_pool(name="gone"), stats=stats)
    assert not again["winpool_overlapping_nodes"], "a pool of the same name begins anew"


def test_a_pool_adds_as_many_series_as_the_page_says_and_never_more() -> None:
    stats = ControlStats()
    stats.figures["worst"] = WATCHED
    added = _series(_scrape(the_worst("worst"), stats=stats)) - _series(_scrape())
    assert added == MAX_SERIES_PER_POOL
    assert f" {added} series " in PAGE.read_text()


def test_series_of_pools_have_all_values_that_are_declared_and_no_other() -> None:
    stats = ControlStats()
    stats.figures["worst"] = WATCHED
    served = _scrape(the_worst("worst"), stats=stats)
    for each in DEFINITIONS:
        if "pool" in each.labels:
            seen = {label: {labels[i] for labels in served[each.name]} for i, label in enumerate(each.labels)}
            assert {label: seen[label] for label in each.values} == {
                label: {*values} for label, values in each.values.items()
            }, each.name


BUILDS = ("10.0.17763.1", "10.0.20348.1", "10.0.26100.1", "")
"""So few that the smallest pool of these tests has them all."""


def nodes_in_trouble(number: int, *, builds: tuple[str, ...]) -> Iterator[Node]:
    """Yield nodes that differ in whatever could be told of a node."""
    for index in range(number):
        yield a_node(
            f"w{index}",
            labels={"winpool.dev/pool": f"another-{index}"},
            taints=[f"taint-{index}=value:NoSchedule"],
            ready=("True", "False", "Unknown")[index % 3],
            unschedulable=index % 2 == 0,
            versions=NodeVersions(kernel=builds[index % len(builds)], kubelet=f"v1.{index}.0", runtime="odd"),
        )


def reported(name: str, nodes: Iterator[Node]) -> Pool:
    """Return the pool with the status that the operator writes on it when it sees these nodes."""
    pool = a_pool(name, labels={"team": "payments"}, taints=["os=windows:NoSchedule"])
    return with_status(pool, decide(a_snapshot(pool, nodes)).status)


def test_a_pool_that_watches_memory_counts_nodes_by_axis_and_level_and_another_does_not() -> None:
    memory = ("winpool_nodes_by_memory_level", "winpool_memory_systemic_pressure")
    stats = ControlStats()
    shared = watching({"w1": HARD, "w2": a_view(None)})
    decision = decide(shared)
    stats.figures["pool"] = decision.figures
    served = _scrape(with_status(shared.pool, decision.status), stats=stats)
    levels = {labels[1:]: value for labels, value in served[memory[0]].items() if value}
    assert levels == {
        ("Commit", "Normal"): 4,
        ("Commit", "Hard"): 1,
        ("Commit", "Unknown"): 1,
        ("Physical", "Normal"): 6,
    }
    assert served[memory[1]] == {("pool",): 0}
    assert served["winpool_nodes"]["pool", "Pressured"] == 1

    stats.figures["pool"] = decide(a_snapshot(a_pool())).figures
    bare = _scrape(a_pool(), stats=stats)
    assert not any(bare[name] for name in memory)


@pytest.mark.slow
def test_the_number_of_series_grows_with_pools_and_not_with_nodes() -> None:
    counts: dict[int, list[int]] = {}
    for nodes in (10, 5000):
        pool = reported("p0", nodes_in_trouble(nodes, builds=BUILDS))
        stats = ControlStats()
        for number in range(3):
            trouble = Figures(reserved_memory_mismatched=nodes, taint_missing=nodes, overlapping=nodes)
            stats.figures[f"p{number}"] = trouble
        pools = [replace(pool, name=f"p{number}") for number in range(3)]
        counts[nodes] = [_series(_scrape(*pools[:number], stats=stats)) for number in range(4)]
    none, one, two, three = counts[5000]
    assert counts[10] == counts[5000]
    assert three - two == two - one == one - none > 0


@pytest.mark.slow
def test_nodes_that_run_a_build_each_do_not_make_a_series_each() -> None:
    builds = tuple(f"10.0.{number}.1" for number in range(5000))
    pool = reported("odd", nodes_in_trouble(5000, builds=builds))
    assert len(_scrape(pool)["winpool_nodes_by_build"]) == BUILDS_SHOWN + 1
    assert _series(_scrape(pool)) - _series(_scrape()) <= MAX_SERIES_PER_POOL
