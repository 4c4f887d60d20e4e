"""What is wanted of winpool by the bench of memory pressure, and whether the results of a run are so."""

from __future__ import annotations

from typing import Any

import pytest

from bench.pressure.figures import rows_of
from bench.pressure.race import Result
from bench.pressure.targets import targets_of
from bench.targets import Target
from unit.bench.test_pressure import a_family


def run(contender: str, family: str = "slow-leak", *, seed: int = 1, harm: int = 0, **more: Any) -> Result:
    counts = {"evictions": 0, "innocent": 0} | more
    return Result(family, contender, seed, 3600, thrashing=harm, denied=0, **counts)


def targets(*results: Result, max_pods: int = 3, **more: Any) -> dict[str, Target]:
    names = dict.fromkeys(each.family for each in results)
    rows = rows_of([a_family(name=name, **more) for name in names], results)
    return {each.name: each for each in targets_of(rows, max_pods=max_pods)}


@pytest.mark.parametrize(
    ("figure", "met", "missed"),
    [
        ("innocent", run("kubelets"), run("kubelets", innocent=1)),
        ("harm_above_kubelets_seconds", run("kubelets", harm=101), run("kubelets", harm=102)),
        ("harm_of_no_one", run("exporter-first", harm=1000), run("exporter-first", harm=1001)),
        ("evictions_of_oracle", run("kubelets", evictions=1), run("kubelets", evictions=2)),
        ("flips_an_hour", run("kubelets", flips=2), run("kubelets", flips=3)),
        (
            "beside_harm_above_kubelet_seconds",
            run("both + kubelet", harm=101),
            run("both + kubelet", harm=102),
        ),
        ("beside_innocent_above_kubelet", run("both + kubelet"), run("both + kubelet", innocent=1)),
        ("beside_harm_of_kubelet", run("both + kubelet", harm=50), run("both + kubelet", harm=51)),
        ("false_unattributed_runs", run("kubelets"), run("kubelets", unattributed=1.0)),
        ("against_a_budget", run("kubelets"), run("kubelets", violations=1)),
        ("stale", run("kubelets"), run("kubelets", stale=1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_figure_is_met_up_to_its_line(figure: str, met: Result, missed: Result) -> None:
    rivals = (
        run("no one", harm=4000),
        run("kubelet hard", harm=100),
        run("kubelet soft", harm=200),
        run("oracle", evictions=1),
    )
    assert targets(met, *rivals)[figure].met is True
    assert targets(missed, *rivals)[figure].met is False


def test_a_healthy_machine_in_a_hundred_may_lose_a_pod() -> None:
    calm = [run("kubelets", seed=seed) for seed in range(99)]
    one, two = run("kubelets", seed=99, evictions=1), run("kubelets", seed=98, evictions=1)
    assert targets(*calm, one, healthy=True)["healthy_evicting_runs"].met is True
    assert targets(*calm[:-1], one, two, healthy=True)["healthy_evicting_runs"].met is False


def test_who_cannot_see_the_culprit_is_to_evict_no_other() -> None:
    """And its harm has no line."""
    blind = run("kubelets", harm=1000, innocent=1)
    found = targets(blind, run("kubelet hard", harm=1), helps="exporter")
    assert found["innocent_where_no_eviction_helps"].met is False
    assert found["harm_above_kubelets_seconds"].met is None
    assert targets(run("both"), helps="exporter")["innocent"].met is True


def test_many_small_pods_count_where_ten_may_be_evicted() -> None:
    few = run("kubelets", "small-growers", innocent=1)
    assert targets(few)["innocent"].met is None
    assert targets(few, max_pods=10)["innocent"].met is False


def test_of_machines_that_a_rival_was_not_on_the_difference_says_nothing() -> None:
    rival, same, other = run("kubelet hard"), run("kubelets"), run("kubelets", seed=2, harm=900)
    assert targets(rival, same, other)["harm_above_kubelets_seconds"].value == 0.0
