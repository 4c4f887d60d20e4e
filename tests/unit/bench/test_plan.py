"""The bench of the plan: pools at rest whose nodes are all due, and what it wants of the figures."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench import __main__ as command
from bench.plan import Times, plan_figures, plan_targets
from bench.plan_fleet import FULL, PODS, plan_fleet
from bench.targets import missed, told
from winpool.decide import decide
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.feature import upgrade
from winpool.ownership.members import divide

TIMES = Times(*(((0.4, 0.3),) * 6), reference=(0.01, 0.02))


@pytest.fixture
def handlers_stay() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("times", "planned", "differ", "expected"),
    [
        (TIMES, 5000, 0, []),
        (TIMES, 4999, 0, ["planned_nodes"]),
        (TIMES, 5000, 1, ["plans_that_differ"]),
        (replace(TIMES, one_pool=(0.6, 0.51)), 5000, 0, ["one_pool_cpu_seconds"]),
        (replace(TIMES, one_pool=(0.6, 0.49)), 5000, 0, []),
        (replace(TIMES, pools=(2.1,)), 5000, 0, ["pools_cpu_seconds"]),
        (replace(TIMES, plugin=(2.1,)), 5000, 0, ["pools_plugin_cpu_seconds"]),
    ],
)
def test_what_is_missed_fails_the_run(times: Times, planned: int, differ: int, expected: list[str]) -> None:
    figures = plan_figures(times, nodes=5000, pools=100)
    wanted = plan_targets(figures | {"planned_nodes": planned, "plans_that_differ": differ})
    assert missed(wanted) == expected
    assert told(wanted)["missed_counts"] == expected


def test_a_full_pool_that_takes_long_fails_nothing() -> None:
    figures = plan_figures(replace(TIMES, full_pool=(9.0,)), nodes=5000, pools=100)
    wanted = told(plan_targets(figures | {"planned_nodes": 5000, "plans_that_differ": 0}))
    assert wanted == {"missed": ["full_pool_cpu_seconds"], "missed_counts": []}


def test_figures_are_the_lowest_of_the_rounds_and_by_the_reference() -> None:
    figures = plan_figures(replace(TIMES, one_pool=(0.7, 0.2, 0.9)), nodes=100, pools=2)
    assert (figures["one_pool_cpu_seconds"], figures["one_pool_by_reference"]) == (0.2, pytest.approx(20))
    assert figures["pods"] == 100 * PODS


@pytest.mark.parametrize(("used", "unfit"), [(0.7, False), (FULL, True)], ids=["room", "full"])
def test_the_pools_are_at_rest_with_all_nodes_due_and_all_pods_known(used: float, unfit: bool) -> None:
    fleet = plan_fleet(pools=2, nodes=40, used=used)
    assert fleet.nodes == 80
    for snapshot in fleet.snapshots:
        assert decide(snapshot).writes.patches == ()
        overview = upgrade(snapshot, divide(snapshot), AllowedActions.ACT).overview
        assert overview is not None
        assert overview.is_open
        assert len(overview.due) == 40
        fits = [each.fit for each in overview.due if each.fit is not None]
        assert len(fits) == 40
        # What does not fit in a full pool may fit on nodes of the other one, which is not known.
        assert all(fit.unknown is unfit and not fit.unfit for fit in fits)


def test_the_only_pool_of_a_full_fleet_has_no_room_at_all() -> None:
    (snapshot,) = plan_fleet(pools=1, nodes=10, used=FULL).snapshots
    overview = upgrade(snapshot, divide(snapshot), AllowedActions.ACT).overview
    assert overview is not None
    assert [each.fit.unfit for each in overview.due if each.fit] == [PODS] * 10


@pytest.mark.usefixtures("handlers_stay")
def test_the_bench_runs_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "--nodes", "20", "--rounds", "1"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (figures["planned_nodes"], figures["plans_that_differ"], figures["missed"]) == (20, 0, [])
