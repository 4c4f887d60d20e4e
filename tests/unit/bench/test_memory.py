"""Who is hot, slow and hung in ``make bench-memory``, what is counted there, and what is wanted of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.memory import MemoryOptions
from bench.memory_figures import Baseline, memory_figures, memory_targets, most_requests
from bench.memory_fleet import WORKLOAD, grouped, pod, slow_seconds
from bench.memory_looks import Ages, Asking, Connections, Phase, asking, is_own_write
from bench.operator_process import USER
from bench.report import as_line
from bench.sampling import Usage
from bench.scraping import Scrape
from bench.targets import missed, told
from testbed.audit import AuditRecord
from testbed.memory.parsing import parse_workload
from testbed.winsim.replies import Asked
from winpool.kubelet.schedule import DEADLINE_SHARE, HOT_INTERVAL, HOT_POLLS_PER_SECOND, LATE_SECONDS
from winpool.model.memory_report import CommitReport, MemoryReport, NodeReport

NAMES = [f"win-w{number:04d}" for number in range(5000)]
BASE = Baseline(seconds=60, cpu_fraction=0.01, rss_bytes=120_000_000, peak_rss_bytes=124_000_000)


def a_phase(**changes: Any) -> Phase:
    usual = Phase(
        usage=Usage({"operator": 15.0, "apiserver": 40.0}, 100.0),
        asking=Asking(
            requests={"/stats/summary": 10_000, "/configz": 100},
            samples={"Sampled": 10_000},
            poll_seconds=200.0,
            made=8_000,
        ),
        most_of_a_node=1,
        connections=Connections(most=150, most_of_a_node=1),
        ages=Ages(known={"cold": [10.0, 59.0], "hot": [2.0, 9.0], "slow": [66.0]}),
        rss_bytes=180_000_000,
        peak_rss_bytes=190_000_000,
        written={},
        node_writes=0,
        reviews=5_000,
        whole_seconds=220.0,
    )
    return replace(usual, **changes)


def figures_of(steady: Phase | None = None, faulty: Phase | None = None) -> dict[str, Any]:
    counts = {"nodes": 5000, "hot_nodes": 250, "poll_seconds": 60, "hot_poll_seconds": 10}
    return {**counts, **memory_figures(BASE, steady or a_phase(), faulty or a_phase())}


def missed_of(steady: Phase | None = None, faulty: Phase | None = None) -> dict[str, list[str]]:
    return told(memory_targets(figures_of(steady, faulty)))


def test_one_node_in_twenty_is_hot_and_one_slow_and_one_in_a_hundred_hangs_and_none_is_two_of_these() -> None:
    groups = grouped(NAMES)
    assert [len(each) for each in (groups.cold, groups.hot, groups.slow, groups.hung)] == [4450, 250, 250, 50]
    assert groups.cold | groups.hot | groups.slow | groups.hung == set(NAMES)
    assert groups == grouped(NAMES[::-1])
    assert {groups.of(name) for name in groups.hung} == {"hung"}
    few = grouped(NAMES[:12])
    assert [len(each) for each in (few.cold, few.hot, few.slow, few.hung)] == [9, 1, 1, 1]


def test_a_hot_node_has_a_pod_that_its_kubelet_can_read() -> None:
    annotation = pod("win-w0001")["metadata"]["annotations"]["winsim/memory"]
    assert parse_workload(annotation, where="the pod").model_dump(by_alias=True)["commit"] == 19 << 30
    assert json.loads(annotation) == WORKLOAD


@pytest.mark.parametrize("poll_seconds", [60, 10, 2])
def test_a_slow_node_answers_in_time_and_the_hot_are_polled_more_often(poll_seconds: int) -> None:
    assert slow_seconds(poll_seconds=poll_seconds) < DEADLINE_SHARE * poll_seconds
    options = MemoryOptions(nodes=1, steady_seconds=1, poll_seconds=poll_seconds)
    assert 1 <= options.hot_poll_seconds <= poll_seconds / 2
    assert slow_seconds(poll_seconds=60) > LATE_SECONDS


def test_by_default_hot_nodes_are_polled_as_often_as_by_default() -> None:
    assert MemoryOptions(nodes=1, steady_seconds=1, poll_seconds=60).hot_poll_seconds == HOT_INTERVAL


def test_ages_are_by_group_and_a_node_without_a_level_is_unknown() -> None:
    groups, ages = grouped(NAMES[:12]), Ages()
    cold, hot, hung = (min(each) for each in (groups.cold, groups.hot, groups.hung))
    commit = CommitReport(level="Normal", used=1, ceiling=2)
    report = MemoryReport(
        v=1,
        at=datetime.now(UTC),
        nodes=(
            NodeReport(node=cold, pool="p", level="Normal", age_seconds=30.5, commit=commit),
            NodeReport(node=hot, pool="p", level="Warning", age_seconds=4.0, commit=commit),
            NodeReport(node=hung, pool="p", level=None, age_seconds=300.0),
        ),
    )
    ages.note(report, groups)
    ages.note(report, groups)
    assert (ages.of("cold"), ages.of("hot", "hung")) == ([30.5, 30.5], [4.0, 4.0])
    assert ages.unknown == {"hung": 2}


def scraped(sampled: int, timeouts: int, seconds: float) -> Scrape:
    return Scrape.parse(
        "# TYPE winpool_memory_samples counter\n"
        f'winpool_memory_samples_total{{source="Kubelet",result="Sampled"}} {sampled}\n'
        f'winpool_memory_samples_total{{source="Kubelet",result="Timeout"}} {timeouts}\n'
        "# TYPE winpool_memory_poll_seconds histogram\n"
        f'winpool_memory_poll_seconds_sum{{source="Kubelet"}} {seconds}\n'
    )


def test_what_was_asked_is_the_difference_of_two_moments() -> None:
    before = scraped(100, 1, 5.0), Asked(requests={"/stats/summary": 102}, most_of_a_node=1, connections=50)
    after = scraped(300, 1, 9.0), Asked(requests={"/stats/summary": 303}, most_of_a_node=2, connections=80)
    assert asking(before, after) == Asking(
        requests={"/stats/summary": 201}, samples={"Sampled": 200}, poll_seconds=4.0, made=30
    )


def test_what_the_operator_writes_for_the_token_of_the_reader_is_no_write_of_a_steady_fleet() -> None:
    moment = datetime.now(UTC)

    def a_record(**given: Any) -> AuditRecord:
        usual = {"user": USER, "verb": "create", "resource": "serviceaccounts", "subresource": "token"}
        usual |= {"name": "winpool-kubelet-reader", "uri": "/", "namespace": "winpool-system"}
        usual |= {"audit_id": "1", "authenticated_user": USER, "api_group": "", "user_agent": ""}
        usual |= {"stage": "ResponseComplete", **given}
        return AuditRecord(received=moment, completed=moment, code=201, **usual)

    assert not is_own_write(a_record())
    assert is_own_write(a_record(resource="nodes", subresource="", name="w1", verb="patch"))
    assert not is_own_write(a_record(resource="nodes", subresource="", name="w1", verb="patch", user="other"))
    assert not is_own_write(a_record(resource="nodes", subresource="", name="", verb="list"))


def test_the_cost_of_a_sample_is_what_the_operator_used_beyond_that_without_the_block() -> None:
    figures = figures_of()
    assert figures["steady_cpu_fraction"] == 0.15
    assert figures["steady_cpu_seconds_per_sample"] == pytest.approx(0.0014)
    assert figures["steady_polls_per_second"] == 100.0
    assert figures["steady_requests_per_second"] == 101.0
    assert figures["peak_rss_above_bytes"] == 66_000_000
    assert figures["steady_healthy_age_p99_seconds"] == 59.0
    assert figures["steady_hot_age_longest_seconds"] == 9.0
    assert figures["steady_apiserver_cpu_fraction"] == 0.4
    assert as_line(figures)


def test_a_run_that_is_as_wanted_misses_nothing() -> None:
    assert missed_of() == {"missed": [], "missed_counts": []}


def asked(**changes: Any) -> Phase:
    return a_phase(asking=replace(a_phase().asking, **changes))


@pytest.mark.parametrize(
    ("steady", "name"),
    [
        (a_phase(written={"patch nodes": 1}), "steady_writes"),
        (asked(requests={"/stats/summary": 12_000}, samples={"Sampled": 12_000}), "steady_requests"),
        (
            asked(requests={"/stats/summary": 11_100}, samples={"Sampled": 11_100}),
            "steady_requests_per_second",
        ),
        (asked(samples={"Sampled": 9_000}), "steady_uncounted_polls"),
        (a_phase(connections=Connections(most=193, most_of_a_node=1)), "most_connections"),
        (a_phase(connections=Connections(most=150, most_of_a_node=2)), "most_connections_of_a_node"),
    ],
)
def test_a_count_of_the_steady_fleet_that_is_missed_fails_the_run(steady: Phase, name: str) -> None:
    assert name in missed_of(steady=steady)["missed_counts"]


@pytest.mark.parametrize(
    ("faulty", "name"),
    [
        (a_phase(node_writes=1), "faulty_node_writes"),
        (a_phase(written={"patch windowsnodepools/status": 300}), "faulty_writes beyond 5 + seconds"),
        (asked(requests={"/stats/summary": 13_000}, samples={"Timeout": 13_000}), "faulty_requests"),
        (a_phase(most_of_a_node=2), "most_requests_of_a_node"),
    ],
)
def test_a_count_of_the_faulty_fleet_that_is_missed_fails_the_run(faulty: Phase, name: str) -> None:
    assert missed_of(faulty=faulty)["missed_counts"] == [name]


def test_a_healthy_node_that_becomes_unknown_because_of_others_fails_the_run() -> None:
    ages = a_phase().ages
    ages.unknown["hung"] = 100
    assert missed_of(faulty=a_phase(ages=ages))["missed_counts"] == []
    ages.unknown["cold"] = 1
    assert missed_of(faulty=a_phase(ages=ages))["missed_counts"] == ["faulty_healthy_unknown"]


@pytest.mark.parametrize(
    ("steady", "faulty", "name"),
    [
        (a_phase(usage=Usage({"operator": 17.1}, 100.0)), None, "steady_cpu_fraction"),
        (a_phase(peak_rss_bytes=200_000_000), None, "peak_rss_above_bytes"),
        (None, a_phase(ages=Ages(known={"cold": [66.0]})), "faulty_healthy_age_p99_seconds"),
        (asked(samples={"Sampled": 9_999, "Timeout": 1}), None, "steady_failed_polls"),
    ],
)
def test_what_depends_on_the_machine_is_told_and_fails_nothing(
    steady: Phase | None, faulty: Phase | None, name: str
) -> None:
    found = missed_of(steady, faulty)
    assert found == {"missed": [name], "missed_counts": []}


def test_the_intervals_bound_the_requests_also_where_hot_polls_are_at_their_limit() -> None:
    figures = figures_of()
    assert 110 * 100 < most_requests(figures, phase="steady") < 125 * 100
    many = {**figures, "hot_nodes": 1000}
    rate = 4000 / 60 + HOT_POLLS_PER_SECOND
    assert most_requests(many, phase="steady") < 1.12 * rate * 100


def test_every_target_is_of_a_figure_or_says_so() -> None:
    figures = figures_of()
    names = {each.name for each in memory_targets(figures)}
    assert names - figures.keys() == {"faulty_writes beyond 5 + seconds"}
    assert missed(memory_targets(figures)) == []
