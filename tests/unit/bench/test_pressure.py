"""The bench of memory pressure: what is drawn, what happens in a world, and how contenders compare."""

from __future__ import annotations

from dataclasses import asdict, replace
from io import StringIO
from math import isnan
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.errors import BenchError
from bench.pressure.amounts import Draw, Size
from bench.pressure.figures import healthy_share, mean_of, page, rows_of
from bench.pressure.race import Result, race
from bench.pressure.run import PressureOptions, run_pressure
from bench.pressure.scene import GRACE_SECONDS, HELD_OUT, Family, families, family_at, scene_of
from bench.pressure.world import World
from bench.report import Report
from harness.documents import ROOT
from testbed.memory.pages import GIB

KIB = 1024
GIB_32 = 32 * GIB


def a_family(**more: Any) -> Family:
    """Return a family of one kind of machine: 32 GiB with a fixed page file, half committed, and a leak."""
    given: dict[str, Any] = {
        "name": "leak",
        "about": "A pod leaks.",
        "seconds": 2400,
        "machine": {"ram": "32Gi", "pageFile": "aks", "readsPerSecond": 4000},
        "base": {"commit": "50% ceiling", "resident": "40% ram"},
        "pods": [
            {
                "role": "culprit",
                "workload": {
                    "workload": "leak",
                    "commit": "2Gi",
                    "growthPerMinute": "5% left",
                    "afterSeconds": 300,
                },
            }
        ],
    }
    return Family.model_validate(given | more)


@pytest.mark.parametrize(
    ("written", "low", "high"),
    [
        ("120", 120, 120),
        ("2..10", 2, 10),
        ("200..20000 log", 200, 20000),
        ("50% ram", GIB_32 / 2, GIB_32 / 2),
        ("1..2Gi", GIB, 2 * GIB),
        (["1Gi", "2..3Gi"], GIB, 3 * GIB),
        (7, 7, 7),
    ],
)
def test_an_amount_is_drawn_from_what_is_written(written: Any, low: float, high: float) -> None:
    draw = Draw(Random(1), {"ram": GIB_32})
    drawn = [draw.number(written) for _ in range(50)]
    assert low <= min(drawn) <= max(drawn) <= high
    assert low == high or len(set(drawn)) > 1


def test_memory_is_drawn_as_a_size_and_a_number_as_a_number() -> None:
    draw = Draw(Random(1), {"ram": GIB_32})
    assert draw.values({"commit": "50% ram", "periodSeconds": "60", "workload": "steady"}) == {
        "commit": "16384.000Mi",
        "periodSeconds": 60,
        "workload": "steady",
    }
    assert draw.values({"fileReadsPerSecond": "7.6"}) == {"fileReadsPerSecond": 8}
    assert isinstance(draw.value("1Gi"), Size)


def test_what_is_no_amount_is_refused_where_one_has_to_be() -> None:
    with pytest.raises(ValueError, match="much"):
        Draw(Random(1), {}).number("much")


@pytest.mark.parametrize("family", [*families(), *families(HELD_OUT)], ids=lambda family: family.name)
def test_a_seed_makes_the_same_machine_and_another_seed_another(family: Family) -> None:
    assert scene_of(family, 1) == scene_of(family, 1)
    assert scene_of(family, 1) != scene_of(family, 2)


def test_a_plateau_keeps_what_it_says_free() -> None:
    base = {"commit": "99% ceiling", "resident": "40% ram", "keepsFree": 2.0, "jitterPercent": 0}
    scene = scene_of(a_family(pods=[], base=base), 1)
    world = World(scene)
    world.step(60)
    reading = world.reading()
    assert reading.commit_limit_bytes - reading.commit_total_bytes == pytest.approx(2 * 1.2 * GIB, rel=0.02)


def test_a_field_of_a_family_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("about: x\nseconds: 5\nbase: {commit: 1Gi, resident: 1Gi}\nhealty: true\n")
    with pytest.raises(ValueError, match="healty"):
        family_at(path)


def test_an_eviction_takes_the_memory_of_the_pod_once_it_has_ended() -> None:
    world = World(scene_of(a_family(), 1))
    world.step(600)
    before = world.reading().commit_total_bytes
    (culprit,) = (each for each in world.pods() if each.is_culprit)
    assert world.evict(culprit, by_api=True)
    assert culprit in world.pods(), "it has a grace"
    world.step(600 + 31)
    assert culprit not in world.pods()
    assert world.reading().commit_total_bytes < before - 2 * GIB


def test_a_hard_eviction_of_the_kubelet_shortens_the_grace_of_a_pod_that_is_ending() -> None:
    world = World(scene_of(a_family(), 1))
    world.step(600)
    (culprit,) = (each for each in world.pods() if each.is_culprit)
    world.evict(culprit, by_api=True)
    other = world.copy()
    other.evict(culprit, by_api=False, at_once=True)
    assert (len(other.evicted), other.past != world.past) == (1, True)
    for each in (world, other):
        each.step(602)
    assert culprit in world.pods()
    assert culprit not in other.pods()


def test_a_budget_refuses_the_api_and_not_the_kubelet() -> None:
    seeds = (scene_of(a_family(), seed) for seed in range(50))
    scene = next(each for each in seeds if any(guest.budget_blocks for guest in each.guests))
    world = World(scene)
    world.step(60)
    blocked = next(each for each in world.pods() if each.budget_blocks)
    assert not world.evict(blocked, by_api=True)
    assert world.evict(blocked, by_api=False)
    assert [each.violates for each in world.evicted] == [True]


def test_a_copy_of_a_world_has_a_future_of_its_own() -> None:
    world = World(scene_of(a_family(), 1))
    world.step(600)
    other = world.copy()
    (culprit,) = (each for each in other.pods() if each.is_culprit)
    other.evict(culprit, by_api=True)
    world.step(2400)
    other.step(2400)
    assert world.harm.seconds > 0
    assert other.harm.seconds == 0
    assert culprit.uid in {each.uid for each in world.reading().pods}


@pytest.mark.slow
def test_a_race_is_the_same_each_time_and_for_any_company() -> None:
    whole = {each.contender: each for each in race(a_family(), 3)}
    alone = race(a_family(), 3, only=("no one", "kubelets"))
    assert {each.contender for each in alone} == {"no one", "kubelets"}
    for each in alone:
        assert {**asdict(each), "lead": 0} == {**asdict(whole[each.contender]), "lead": 0}
    assert whole["no one"].harm > 0
    assert (whole["oracle"].harm, whole["oracle"].evictions, whole["oracle"].innocent) == (0, 1, 0)
    assert whole["kubelet hard"].evictions > 0
    assert whole["kubelets"].evictions > 0
    assert not isnan(whole["kubelets"].lead)


def raced_by_the_oracle(family: Family) -> tuple[Result, Result]:
    """Return how it ends where no one acts, and with the oracle."""
    idle, oracle = race(family, 1, only=("no one", "oracle"))
    return idle, oracle


def test_the_oracle_evicts_a_pod_whose_harm_begins_with_it() -> None:
    leak = {"workload": "leak", "commit": "110% left", "growthPerMinute": "1Mi"}
    pods = [{"role": "culprit", "begins": 600, "workload": leak}]
    idle, oracle = raced_by_the_oracle(a_family(pods=pods))
    assert idle.harm > 1000
    assert (oracle.evictions, oracle.innocent) == (1, 0)
    assert oracle.harm <= GRACE_SECONDS


def test_the_oracle_evicts_no_pod_that_is_not_the_cause() -> None:
    leak = {"growthPerMinute": "4% left", "afterSeconds": 300, "into": "Processes"}
    idle, oracle = raced_by_the_oracle(a_family(pods=[], windows=leak))
    assert oracle.evictions == 0
    assert oracle.harm == idle.harm > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [each for each in families() if each.healthy], ids=lambda family: family.name
)
def test_a_healthy_family_does_no_harm_where_no_one_acts(family: Family) -> None:
    for seed in range(3):
        (result,) = race(family, seed, only=("no one",))
        assert result.harm == 0, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [each for each in families() if not each.healthy], ids=lambda family: family.name
)
def test_a_harmful_family_does_harm_where_no_one_acts(family: Family) -> None:
    (result,) = race(family, 0, only=("no one",))
    assert result.harm > 0


def test_a_mean_leaves_out_what_is_no_number_and_has_its_interval() -> None:
    found = mean_of([1.0, 3.0, float("nan")])
    assert (found.value, found.count) == (2.0, 2)
    assert found.half == pytest.approx(1.96)
    assert str(mean_of([])) == "-"


def test_the_healthy_share_is_of_node_hours() -> None:
    healthy, harmful = a_family(name="calm", healthy=True), a_family()
    runs = (("calm", 3000), ("leak", 1000))
    results = [replace(a_result("no one"), family=name, seconds=seconds) for name, seconds in runs]
    assert healthy_share([healthy, harmful], results) == 0.75
    assert [row.family.name for row in rows_of([healthy, harmful], results)] == ["calm", "leak"]


def a_result(contender: str, *, denied: int = 0, evictions: int = 0) -> Result:
    """Return a run of the leak in which no innocent pod was evicted."""
    return Result(
        family="leak",
        contender=contender,
        seed=1,
        seconds=2400,
        thrashing=0,
        denied=denied,
        evictions=evictions,
        innocent=0,
    )


def cells_of(*results: Result, is_healthy: bool = False) -> list[str]:
    """Return the cells of the family on the page."""
    rows = rows_of([a_family(healthy=is_healthy)], results)
    return page(rows, command="", share=0.0).splitlines()[-1].strip("| ").split(" | ")[1:]


def test_the_page_marks_where_a_rival_of_the_operator_leaves_less_harm() -> None:
    rival, kubelets = a_result("kubelet hard", denied=17, evictions=2), a_result("kubelets", denied=18)
    assert cells_of(rival, kubelets) == ["17 / 2 / 0", "**18 / 0 / 0**"]
    assert cells_of(replace(rival, denied=18), kubelets) == ["18 / 2 / 0", "18 / 0 / 0"]


def test_the_page_does_not_compare_with_the_oracle() -> None:
    cells = cells_of(a_result("kubelets", denied=18), a_result("oracle"))
    assert cells == ["18 / 0 / 0", "0 / 0 / 0"]


def test_the_page_marks_evictions_of_the_operator_on_healthy_machines() -> None:
    results = a_result("RAM line", evictions=1), a_result("kubelets", evictions=1)
    assert cells_of(*results, is_healthy=True) == ["0 / 1 / 0", "**0 / 1 / 0**"]


def test_a_run_writes_the_page_with_its_command_and_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "calm.yaml").write_text(
        "about: x\nhealthy: true\nseconds: 60\nbase: {commit: 50% ceiling, resident: 40% ram}\n"
    )
    options = PressureOptions(range(5, 7), names=("calm",), directory=directory, contenders=("no one",))
    run_pressure(options, report=Report(output=StringIO()))
    written = (tmp_path / ".results" / "bench-pressure-mine.md").read_text()
    assert '`make bench-pressure SEEDS=2 FIRST_SEED=5 FAMILY="calm" FAMILIES=mine WRITE=1`' in written
    assert "seeds 5 to 6" in written
    assert "| `calm` | 0 / 0 / 0 |" in written


def test_the_page_has_a_plot_of_each_family_beside_its_sentence() -> None:
    page_text = (ROOT / "docs" / "reference" / "memory-benchmark-figures.md").read_text()
    for each in families():
        image = f"![Memory and evictions of {each.name}](../memory-benchmark/{each.name}.svg)"
        assert f"`{each.name}`: {each.about}\n\n{image}\n" in page_text


def test_the_plots_are_those_of_the_families_and_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "memory-benchmark").iterdir()}
    assert sizes.keys() == {each.name for each in families()}
    assert max(sizes.values()) <= 30 * KIB
    assert sum(sizes.values()) < 700 * KIB


def test_the_families_of_the_bench_are_healthy_for_most_of_the_time() -> None:
    drawn = [scene_of(each, 1) for each in families()]
    healthy = sum(each.seconds for each in drawn if each.family.healthy)
    assert healthy >= 0.8 * sum(each.seconds for each in drawn)


def test_a_family_that_is_not_there_is_named() -> None:
    options = PressureOptions(seeds=range(1), names=("slow-leek",))
    with pytest.raises(BenchError, match="slow-leek"):
        run_pressure(options, report=Report())


def test_of_many_machines_the_rivals_are_raced_on_the_first_sixty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "calm.yaml").write_text(
        "about: x\nhealthy: true\nseconds: 60\nbase: {commit: 50% ceiling, resident: 40% ram}\n"
    )
    monkeypatch.setattr("bench.pressure.run.RIVALS_SEEDS", 1)
    run_pressure(PressureOptions(range(3), directory=tmp_path / "mine"), report=Report(output=StringIO()))
    written = (tmp_path / ".results" / "bench-pressure-mine.md").read_text()
    assert "3 machines of each family, seeds 0 to 2, 1 of them with the rivals of winpool." in written
