"""What is counted of a storm, and what is wanted of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.storm import Storm, count_storm, storm_figures, storm_targets
from bench.targets import missed
from bench.trail import read

SAMPLE = Path(__file__).with_name("audit-sample.jsonl")
NODES = 5000


def a_storm(**counts: int) -> Storm:
    storm = Storm(
        seconds=100.0,
        node_changes=3 * NODES,
        node_patches=NODES,
        events_created=4,
        events_patched=2,
        status_writes=40,
    )
    return replace(storm, **counts)


def verdicts(storm: Storm, *, series: tuple[int, int] = (100, 104)) -> list[str]:
    return missed(storm_targets(storm_figures(storm, nodes=NODES, series=series)))


def test_a_storm_is_counted_from_the_audit_log() -> None:
    """The sample has a cold start of five nodes and two drifts made by hand."""
    records = list(read(SAMPLE, start=0, end=SAMPLE.stat().st_size))
    storm = count_storm(records, seconds=3.0)
    refused = [each for each in records if each.code >= 300 and each.resource == "nodes"]
    assert refused, "the sample has a conflict, which changed nothing"
    assert asdict(storm) == {
        "seconds": 3.0,
        "node_changes": 4,
        "node_patches": 6,
        "events_created": 1,
        "events_patched": 0,
        "status_writes": 1,
    }


def test_a_storm_that_is_as_wanted_misses_nothing() -> None:
    assert verdicts(a_storm()) == []


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("node_changes", 3 * NODES - 1),
        ("node_patches", NODES + 1),
        ("events_created", 121),
        ("events_patched", 5000),
        ("status_writes", 106),
    ],
)
def test_what_grows_with_nodes_is_told(name: str, count: int) -> None:
    assert verdicts(a_storm(**{name: count})) == [name]


def test_series_for_each_node_are_told() -> None:
    assert verdicts(a_storm(), series=(100, 100 + NODES)) == ["metric_series_after"]
