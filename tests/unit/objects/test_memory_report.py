"""What /memory reports of a node, whatever numbers its samples have."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.memory import BOTH, GIB, PROMETHEUS, Watched, committed
from harness.watched_memory import (
    AT,
    COMMIT,
    HEALTHY,
    MONOTONIC,
    PHYSICAL,
    healthy,
    unknown,
)
from harness.watched_memory import committed as committed_view
from winpool.model import memory_report
from winpool.model.memory_report import (
    PROBLEM_CHARACTERS,
    MemoryReport,
    NodeReport,
    SeenNode,
    report_of,
    worst_first,
)
from winpool.model.pressure import NO_SAMPLES, Axis, AxisPressure, Guard, Hold, Level, NodePressure, Reading


def reported(view: NodePressure, *, problem: str = "", now: datetime = AT) -> NodeReport:
    (node,) = report_of([SeenNode("w1", "win-2022", view, problem)], monotonic=MONOTONIC, now=now).nodes
    return node


def as_json(view: NodePressure, **given: Any) -> Any:
    return json.loads(msgspec.json.encode(reported(view, **given)))


def with_commit(**changes: Any) -> NodePressure:
    return replace(HEALTHY, axes={Axis.COMMIT: replace(COMMIT, **changes), Axis.PHYSICAL: PHYSICAL})


def test_a_node_is_reported_with_the_names_of_json() -> None:
    view = replace(
        committed_view(Level.SOFT, left=2, seconds_left=128.04), guard=Guard.OUTSIDE_SHARE, outside_pods=9.4
    )
    assert as_json(view) == {
        "node": "w1",
        "pool": "win-2022",
        "level": "Soft",
        "axis": "Commit",
        "since": "2026-11-23T11:59:00Z",
        "ageSeconds": 4.0,
        "source": "Kubelet",
        "commit": {
            "level": "Soft",
            "used": 22 * GIB,
            "ceiling": 24 * GIB,
            "usedPercent": 91.7,
            "trendBytesPerSecond": round(2 * GIB / 128.04, 1),
            "secondsLeft": 128.0,
        },
        "physical": {
            "level": "Normal",
            "available": 8 * GIB,
            "total": 16 * GIB,
            "availablePercent": 50.0,
        },
        "paging": {"readsPerSecond": 20.0, "writesPerSecond": 3.0},
        "outsidePods": 9,
        "guard": "OutsideShare",
        "hold": "Grace",
    }


def test_the_numbers_are_those_that_the_detector_has_seen() -> None:
    node = Watched(BOTH, source=PROMETHEUS)
    for gib in (20.0, 20.3, 20.6, 20.9, 21.2):
        view = node.poll(**committed(gib, physical_available=2 * GIB, hard_reads_per_second=400))
    (found,) = report_of([SeenNode("w1", "a", view)], monotonic=node.now, now=AT).nodes
    assert found.commit is not None
    assert found.commit.trend_bytes_per_second == pytest.approx(0.03 * GIB, rel=0.01)
    assert found.commit.seconds_left == pytest.approx(2.8 / 0.03, rel=0.01)
    assert (found.source, found.paging) == (
        PROMETHEUS,
        memory_report.PagingReport(reads_per_second=400.0),
    )


@pytest.mark.parametrize(
    ("seconds_left", "trend"), [(math.inf, 0.0), (None, None), (math.nan, None), (0.0, None)]
)
def test_a_trend_that_does_not_grow_is_0_and_one_that_is_not_known_is_absent(
    seconds_left: float | None, trend: float | None
) -> None:
    commit = reported(with_commit(seconds_left=seconds_left)).commit
    assert commit is not None
    assert commit.trend_bytes_per_second == trend
    assert commit.seconds_left == (0.0 if seconds_left == 0 else None)


def test_a_node_whose_samples_are_too_old_has_no_level_and_shows_how_old_they_are() -> None:
    found = as_json(unknown())
    assert (found["level"], found["ageSeconds"], found["hold"]) == (None, 400.0, "Unknown")
    assert not {"axis", "since"} & set(found)
    assert found["commit"]["level"] is None


def test_a_node_that_was_never_sampled_has_its_problem_and_nothing_else() -> None:
    assert as_json(NO_SAMPLES, problem="Its kubelet refuses the token.") == {
        "node": "w1",
        "pool": "win-2022",
        "level": None,
        "problem": "Its kubelet refuses the token.",
    }
    assert len(reported(NO_SAMPLES, problem="x" * 10_000).problem) == PROBLEM_CHARACTERS


def test_the_source_and_age_are_those_of_the_worst_axis() -> None:
    physical = replace(PHYSICAL, level=Level.HARD, held=Level.HARD, since=MONOTONIC - 7)
    found = reported(replace(HEALTHY, axes={Axis.COMMIT: COMMIT, Axis.PHYSICAL: physical}))
    assert (found.level, found.axis, found.source) == ("Hard", "Physical", "Prometheus/main")
    assert found.since == AT - timedelta(seconds=7)


def test_a_zone_of_the_clock_does_not_change_the_times() -> None:
    view = committed_view(Level.SOFT, left=2)
    zone = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC).astimezone().tzinfo
    assert as_json(view, now=AT.astimezone(zone)) == as_json(view)


def test_the_worst_comes_first_and_unknown_before_normal() -> None:
    views = {
        "soft": committed_view(Level.SOFT, left=2),
        "well": HEALTHY,
        "hard-late": committed_view(Level.HARD, left=0.5, seconds_left=90),
        "lost": unknown(),
        "hard-soon": committed_view(Level.HARD, left=0.5, seconds_left=30),
        "warned": committed_view(Level.WARNING, left=4),
        "fuller": with_commit(reading=Reading(Axis.COMMIT, left=8 * GIB, whole=24 * GIB)),
    }
    nodes = [SeenNode(name, "a", view) for name, view in views.items()]
    found = report_of(nodes, monotonic=MONOTONIC, now=AT).nodes
    assert [each.node for each in found] == [
        *("hard-soon", "hard-late", "soft", "warned", "lost", "fuller", "well")
    ]


def test_of_too_many_nodes_the_healthiest_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_report, "MOST_NODES", 3)
    nodes = (*healthy(5).nodes, SeenNode("bad", "a", committed_view(Level.HARD, left=0.5)))
    found = report_of(nodes, monotonic=MONOTONIC, now=AT)
    assert (len(found.nodes), found.nodes[0].node, found.left_out) == (3, "bad", 3)


numbers = st.one_of(st.floats(), st.floats(0, 2**53), st.sampled_from([0.0, -1.0, 2.0**63, 1e308]))
moments = st.one_of(st.none(), st.floats(-1e15, 1e15), st.floats(0, 1e4))


@st.composite
def axis_views(draw: st.DrawFn, axis: Axis) -> AxisPressure:
    reads, writes = draw(st.one_of(st.none(), numbers)), draw(st.one_of(st.none(), numbers))
    reading = Reading(axis, draw(numbers), draw(numbers), reads, writes, is_estimate=draw(st.booleans()))
    return AxisPressure(
        axis=axis,
        level=draw(st.one_of(st.none(), st.sampled_from(Level))),
        held=draw(st.sampled_from(Level)),
        since=draw(moments),
        ready_since=draw(moments),
        sampled_at=draw(moments),
        source=draw(st.text(max_size=5)),
        reading=draw(st.one_of(st.none(), st.just(reading))),
        seconds_left=draw(st.one_of(st.none(), numbers)),
        missing=0.0,
        hold=draw(st.one_of(st.none(), st.sampled_from(Hold))),
    )


views = st.builds(
    NodePressure,
    axes=st.fixed_dictionaries({axis: axis_views(axis) for axis in Axis}),
    guard=st.one_of(st.none(), st.sampled_from(Guard)),
    is_signalled=st.none(),
    outside_pods=st.one_of(st.none(), numbers),
)


@given(st.lists(views, max_size=4))
def test_any_numbers_give_a_report_that_can_be_written_and_read(found: list[NodePressure]) -> None:
    """What is no number is left out: JSON has neither infinity nor NaN."""
    nodes = [SeenNode(f"w{number}", "a", view) for number, view in enumerate(found)]
    report = report_of(nodes, monotonic=MONOTONIC, now=AT)
    text = msgspec.json.encode(report)
    assert msgspec.json.decode(text, type=MemoryReport) == report
    assert {each.node for each in report.nodes} == {each.name for each in nodes}

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_does_not_depend_on_the_order_in_which_nodes_are_known(names: list[str]) -> None:
    levels = {"a": Level.HARD, "b": Level.SOFT, "c": Level.HARD, "d": Level.SOFT}
    nodes = [SeenNode(name, "p", committed_view(levels[name], left=1)) for name in names]
    found = report_of(nodes, monotonic=MONOTONIC, now=AT).nodes
    assert [each.node for each in found] == ["a", "c", "b", "d"]
    assert worst_first(reversed(found)) == list(found)
