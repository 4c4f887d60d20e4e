"""Medians, orders, targets and the last line: what is made of what was measured."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections import Counter
from dataclasses import replace

import pytest

from bench.cold import Rounds
from bench.contenders import Cold
from bench.counting import Burst
from bench.errors import BenchError
from bench.figures import cold_figures, life_figures, pod_figures, pod_targets, targets
from bench.life import Life, PassCost, Restart, Steady
from bench.pods import NO_PODS, PodSetup
from bench.report import Report, as_line, layout, shown
from bench.rounds import farthest, middle, order, percentile, ratios
from bench.sampling import Usage, parse_memory
from bench.scraping import PodPasses
from bench.targets import at_least, at_most, exactly, missed

NODES = 1000
NAMED = {
    "nodes", "seconds", "node_patches", "node_conflicts", "node_gets", "other_writes",
    "operator_nodes_per_second", "loader_nodes_per_second", "ratio_rounds", "operator_cpu_seconds",
    "operator_peak_rss_bytes", "steady_seconds", "steady_writes", "steady_gets", "steady_lists",
    "steady_watches", "steady_cpu_fraction", "restart_ready_seconds", "restart_writes", "edit_node_patches",
    "drift_repair_p99_seconds", "drift_repairs", "pass_cpu_seconds",
    "two_rooms_ratio",
}  # fmt: skip
"""What every last line of ``make bench-contract`` has at least."""


def a_burst(*, seconds: float = 4.0) -> Burst:
    return Burst(
        node_patches=NODES,
        node_conflicts=0,
        node_failures=0,
        node_gets=0,
        other_writes=6,
        foreign_writes=3,
        seconds=seconds,
        busy_seconds=31 * seconds,
    )


def a_cold(*, seconds: float = 4.0, peak: int | None = None) -> Cold:
    return Cold(a_burst(seconds=seconds), 0.5, Usage({"apiserver": 4.0}, 5.0), 5.0, peak)


def some_rounds(*, operator: tuple[float, ...] = (4.0, 5.0, 4.5)) -> Rounds:
    return Rounds(
        operator=[a_cold(seconds=seconds, peak=90_000_000) for seconds in operator],
        loader=[a_cold(seconds=seconds) for seconds in (3.6, 3.9, 4.2)],
        released=[a_burst() for _ in operator],
    )


def a_life() -> Life:
    return Life(
        cold=a_cold(peak=95_000_000),
        edit=a_burst(),
        steady=Steady(
            seconds=600.0,
            verbs=Counter(list=3, watch=3),
            requests={"list nodes": 1, "list windowsnodepools": 2, "watch nodes": 3},
            cpu_fraction=0.01,
            fractions={"operator": 0.01, "apiserver": 0.3},
            rss_bytes=90_000_000,
            heartbeats=2000,
        ),
        restart=Restart(1.2, 0, 0, {"list nodes": 2}),
        repairs=[0.05, 0.06, 0.07],
        drifts=3,
        cost=PassCost(0.08, 0.04, 1.2),
        peak_rss_bytes=94_000_000,
        passes=PodPasses(passes=4.0, errors=0.0, seconds=10.0, pods_seen=150_000.0),
        api_server_peak_rss_bytes=3_000_000_000,
    )


def test_rounds_alternate() -> None:
    flat = list(itertools.chain.from_iterable(order(5)))
    assert flat[:6] == ["operator", "loader", "loader", "operator", "operator", "loader"]
    assert (flat.count("operator"), flat.count("loader")) == (5, 5)


def test_ratios_are_taken_within_a_round() -> None:
    assert ratios([90, 40], [100, 50]) == [0.9, 0.8]
    with pytest.raises(ValueError, match="zip"):
        ratios([90], [100, 50])


@pytest.mark.parametrize(("values", "expected"), [([3], 3), ([1, 9, 2], 2), ([1, 2, 3, 10], 2.5)])
def test_the_middle_is_the_median(values: list[float], expected: float) -> None:
    assert middle(values) == expected


def test_nothing_has_no_middle() -> None:
    assert math.isnan(middle([]))
    assert math.isnan(percentile([], 0.99))


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_of_counts_the_worst_round_is_told() -> None:
    assert farthest([1000, 1001, 998], wanted=1000) == 998
    assert farthest([0, 2, 1], wanted=0) == 2


def test_the_figures_have_every_name_that_is_asked_for() -> None:
    done, life = some_rounds(), a_life()
    figures = {"nodes": NODES, **cold_figures(done, nodes=NODES), **life_figures(life, done)}
    assert figures.keys() >= NAMED
    assert json.loads(as_line(figures))["operator_peak_rss_bytes"] == 95_000_000


def test_rates_are_medians_and_ratios_stay_round_by_round() -> None:
    figures = cold_figures(some_rounds(), nodes=NODES)
    assert figures["operator_nodes_per_second"] == pytest.approx(NODES / 4.5)
    assert figures["loader_nodes_per_second"] == pytest.approx(NODES / 3.9)
    assert figures["ratio_rounds"] == pytest.approx([3.6 / 4.0, 3.9 / 5.0, 4.2 / 4.5])
    assert figures["operator_in_flight_rounds"] == pytest.approx([31, 31, 31])


def verdicts(life: Life, done: Rounds) -> list[str]:
    figures = {**cold_figures(done, nodes=NODES), **life_figures(life, done)}
    return missed(targets(figures, done, nodes=NODES))


def test_a_run_that_is_as_wanted_misses_nothing_but_the_pass() -> None:
    assert verdicts(a_life(), some_rounds()) == ["pass_cpu_seconds"]


def with_pods(life: Life, *, interval: int = 200) -> dict[str, object]:
    setup = PodSetup(pods=150_000, seconds=700.0, pod_bytes=4000)
    return {
        "pods": setup.pods,
        **life_figures(life, some_rounds()),
        **pod_figures(life, setup, pass_interval_seconds=interval),
    }


def test_lists_of_pods_are_counted_apart_from_those_of_nodes_and_pools() -> None:
    life = a_life()
    steady = replace(life.steady, verbs=Counter(list=1203), requests={"list nodes": 1, "list pods": 1200})
    figures = with_pods(replace(life, steady=steady))
    assert (figures["steady_lists"], figures["steady_pod_lists"]) == (3, 1200)


def test_what_looking_at_all_pods_took_is_told_for_each_time() -> None:
    figures = with_pods(a_life())
    assert (figures["pod_passes"], figures["pod_pass_errors"], figures["pod_pass_seconds"]) == (4, 0, 2.5)
    assert (figures["pods_seen"], figures["pods_setup_seconds"]) == (150_000, 700.0)
    assert figures["api_server_peak_rss_bytes"] == 3_000_000_000


def test_an_operator_that_tells_nothing_of_passes_is_no_broken_run() -> None:
    life = replace(a_life(), passes=PodPasses(None, None, None, None))
    figures = pod_figures(life, NO_PODS, pass_interval_seconds=600)
    assert json.loads(as_line(figures)) == {
        "pods_setup_seconds": 0.0, "pod_bytes": 0, "api_server_peak_rss_bytes": 3_000_000_000,
        "pod_pass_interval_seconds": 600, "pod_passes": None, "pod_pass_errors": None,
        "pod_pass_seconds": None, "pods_seen": None,
    }  # fmt: skip
    assert [each.met for each in pod_targets(with_pods(life))] == [None, True]


@pytest.mark.parametrize(("lists", "met"), [(1200, True), (1201, False)])
def test_each_pass_may_list_all_pods_once_page_by_page(lists: int, met: bool) -> None:
    """600 s are four passes of 200 s at most, and 150,000 pods are 300 pages."""
    life = a_life()
    steady = replace(life.steady, requests={"list pods": lists})
    found = {each.name: each.met for each in pod_targets(with_pods(replace(life, steady=steady)))}
    assert found == {"pod_passes": True, "steady_pod_lists": met}


def test_memory_is_told_with_two_passes_in_it_at_least() -> None:
    life = replace(a_life(), passes=PodPasses(1.0, 0.0, 1.0, 1.0))
    assert missed(pod_targets(with_pods(life))) == ["pod_passes"]


def test_conflicts_are_allowed_for_what_others_wrote_in_the_same_round() -> None:
    done = some_rounds()
    done.operator[1] = replace(done.operator[1], burst=replace(a_burst(), node_conflicts=3))
    assert "node_conflicts beyond writes by others" not in verdicts(a_life(), done)
    done.operator[1] = replace(done.operator[1], burst=replace(a_burst(), node_conflicts=4))
    assert "node_conflicts beyond writes by others" in verdicts(a_life(), done)


def test_one_bad_round_is_one_too_many() -> None:
    done = some_rounds()
    done.operator[0] = replace(done.operator[0], burst=replace(a_burst(), node_patches=NODES + 1))
    assert "node_patches" in verdicts(a_life(), done)


def test_a_slow_operator_is_told() -> None:
    assert "ratio_median" in verdicts(a_life(), some_rounds(operator=(9.0, 9.0, 9.0)))


def test_targets_say_what_was_wanted() -> None:
    assert (at_most("a", 1, 2).met, at_most("a", 3, 2).met, at_most("a", None, 2).met) == (True, False, None)
    assert (at_least("a", 2, 2).met, at_least("a", 1, 2).met) == (True, False)
    assert (exactly("a", 2, 2).met, exactly("a", 3, 2).met) == (True, False)
    assert missed([at_most("a", 3, 2), at_most("b", None, 2), exactly("c", 2, 2)]) == ["a"]
    assert [each.verdict for each in (at_most("a", 3, 2), at_most("b", None, 2))] == [
        "MISSED",
        "not measured",
    ]


def test_the_last_line_is_one_object_with_rounded_figures() -> None:
    line = as_line(
        {"nodes": 1000, "seconds": 1.23456789, "ratio_rounds": [0.123456789], "sizes": [{"a": 2.0}]}
    )
    assert "\n" not in line
    assert json.loads(line) == {
        "nodes": 1000, "seconds": 1.23457, "ratio_rounds": [0.123457], "sizes": [{"a": 2.0}],
    }  # fmt: skip


def test_what_could_not_be_computed_is_null() -> None:
    assert json.loads(as_line({"seconds": math.nan})) == {"seconds": None}


@pytest.mark.parametrize("name", ["Nodes", "cpu-seconds", "", "cpu__seconds", "_a"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower_snake_case"):
        as_line({name: 1})


def test_a_report_ends_with_the_line() -> None:
    output = io.StringIO()
    report = Report(output=output, monotonic=itertools.count().__next__)
    report.say("begun")
    report.table("Title", ("name", "n"), [("a", 1), ("b", 1000)])
    report.targets([at_most("a", 3, 2)])
    report.result({"nodes": 1})
    lines = output.getvalue().splitlines()
    assert lines[0] == "    1.0 s  begun"
    assert lines[-1] == '{"nodes": 1}'
    assert "  b     1,000" in lines
    assert ["MISSED", "a", "3", "at", "most", "2"] in [line.split() for line in lines]


def test_a_table_stands_in_columns() -> None:
    assert layout(("name", "value"), [("a", 1), ("long name", 1234.5)]) == [
        "name         value",
        "a                1",
        "long name  1,234.5",
    ]


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "-"), (0.123456, "0.123"), (1234567, "1,234,567"), (True, "True")]
)
def test_values_are_shown_for_people(value: object, expected: str) -> None:
    assert shown(value) == expected


def test_memory_is_read_in_bytes() -> None:
    status = "Name:\tpython\nVmHWM:\t  150000 kB\nVmRSS:\t  140000 kB\n"
    assert parse_memory(status, name="VmHWM") == 153_600_000
    with pytest.raises(BenchError, match="VmPeak"):
        parse_memory(status, name="VmPeak")
