"""The shape of each workload: what its processes want, by the time since the start and a seed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.machine_memory import Script, script, workload
from testbed.memory.demand import Demand, noise, seed_of
from testbed.memory.pages import GIB, MIB

SEEDS = st.integers(0, 2**64 - 1)


def wants(given: Script, elapsed: float, *, seed: int = 0) -> Demand:
    return workload(given).demand(elapsed, seed=seed)


def commits(given: Script, elapsed: float, *, seed: int = 0) -> int:
    return wants(given, elapsed, seed=seed).commit_bytes


@given(elapsed=st.floats(0, 1e7), seed=SEEDS)
def test_a_steady_one_wants_the_same_for_ever(elapsed: float, seed: int) -> None:
    found = wants(script("steady", "1.5Gi"), elapsed, seed=seed)
    assert (found.commit_bytes, found.active) == (3 * GIB // 2, 0.5)
    assert found.touched == pytest.approx(0.8)
    assert found.until == float("inf")


@given(elapsed=st.floats(0, 1e5), seed=SEEDS)
def test_jitter_stays_within_its_percentage_and_holds_as_long_as_it_says(elapsed: float, seed: int) -> None:
    fields = {"workload": "steady", "commit": "1Gi", "jitterPercent": 10}
    found = wants(fields, elapsed, seed=seed)
    assert abs(found.commit_bytes - GIB) <= GIB / 10
    assert wants(fields, (elapsed + found.until) / 2, seed=seed) == found
    assert found.until > elapsed


def test_jitter_differs_between_seeds_and_from_one_stretch_to_the_next() -> None:
    fields = {"workload": "steady", "commit": "1Gi", "jitterPercent": 10}
    assert len({commits(fields, 0, seed=seed) for seed in range(20)}) == 20
    assert len({commits(fields, 15 * number) for number in range(20)}) == 20


def test_a_leak_grows_by_the_minute_from_its_time_on_up_to_its_maximum() -> None:
    fields = {
        "workload": "leak",
        "commit": "2Gi",
        "growthPerMinute": "200Mi",
        "afterSeconds": 30,
        "maximum": "3Gi",
    }
    assert [commits(fields, at) for at in (0, 29, 30)] == [2 * GIB] * 3
    assert commits(fields, 90) == 2 * GIB + 200 * MIB
    assert commits(fields, 150) == 2 * GIB + 400 * MIB
    assert commits(fields, 10_000) == 3 * GIB


def test_what_a_leak_adds_is_written_to_in_full() -> None:
    leak = script("leak", "1Gi", growthPerMinute="48Mi", touchedPercent=50)
    found = wants(leak, 64 * 60)
    assert found.commit_bytes == 4 * GIB
    assert found.touched == pytest.approx(3.5 / 4)


def test_a_burst_rises_on_its_ramp_stays_and_falls_at_once() -> None:
    fields = {
        "workload": "burst",
        "commit": "1Gi",
        "burst": "4Gi",
        "afterSeconds": 100,
        "lastsSeconds": 60,
        "rampSeconds": 10,
    }
    assert [commits(fields, at) // MIB for at in (99, 100, 105, 110, 159.9, 160, 1e6)] == [
        *(1024, 1024, 3072, 5120, 5120, 1024, 1024)
    ]


@given(seed=SEEDS)
def test_a_repeated_burst_comes_once_in_every_stretch_at_a_moment_of_its_seed(seed: int) -> None:
    fields = {
        "workload": "burst",
        "commit": "1Gi",
        "burst": "1Gi",
        "everySeconds": 100,
        "lastsSeconds": 10,
        "rampSeconds": 0,
    }
    made = workload(fields)
    for stretch in range(3):
        times = [100 * stretch + tenth / 10 for tenth in range(1000)]
        at = [made.demand(time, seed=seed).commit_bytes for time in times]
        high = [number for number, size in enumerate(at) if size == 2 * GIB]
        assert 99 <= len(high) <= 101
        assert high[-1] - high[0] == len(high) - 1


@given(seed=SEEDS)
def test_a_sawtooth_rises_to_its_peak_and_falls_at_once(seed: int) -> None:
    fields = {"workload": "sawtooth", "commit": "1Gi", "peak": "3Gi", "periodSeconds": 100}
    at = [commits(fields, second, seed=seed) for second in range(300)]
    steps = [later - earlier for earlier, later in pairwise(at)]
    falls = [number for number, step in enumerate(steps) if step < 0]
    assert 2 <= len(falls) <= 3
    assert all(later - earlier == 100 for earlier, later in pairwise(falls))
    assert min(at) >= GIB
    assert 3 * GIB * 0.97 <= max(at) <= 3 * GIB


def test_pods_of_one_kind_do_not_collect_garbage_together() -> None:
    fields = {"workload": "sawtooth", "commit": "1Gi", "peak": "3Gi"}
    assert len({commits(fields, 0, seed=seed) for seed in range(10)}) == 10


def test_a_hog_commits_much_on_its_ramp_and_writes_to_little() -> None:
    fields = {"workload": "hog", "commit": "20Gi", "rampSeconds": 40}
    assert [commits(fields, at) // GIB for at in (0, 10, 40, 1e6)] == [0, 5, 20, 20]
    assert wants(fields, 100).touched == 0.05


def test_a_page_storm_uses_all_it_has_while_it_lasts() -> None:
    fields = {"workload": "pageStorm", "commit": "8Gi", "afterSeconds": 60, "lastsSeconds": 30}
    before, during, after = (wants(fields, at) for at in (59, 60, 90))
    assert before == wants(fields, 0)
    assert (before.touched, before.active, before.use_seconds) == (0.8, 0.5, 10)
    assert (during.touched, during.active, during.use_seconds) == (1.0, 1.0, 2)
    assert (after.active, after.use_seconds, after.until) == (0.5, 10, float("inf"))


def test_an_os_leak_grows_outside_of_its_pod() -> None:
    fields = {"workload": "osLeak", "growthPerMinute": "100Mi", "afterSeconds": 60}
    assert [wants(fields, at).outside_bytes // MIB for at in (60, 120, 720)] == [0, 100, 1100]
    assert {commits(fields, at) for at in (0, 60, 720)} == {64 * MIB}


SCRIPTS = [
    script("steady", "1Gi", jitterPercent=5),
    script("leak", "1Gi", growthPerMinute="10Mi", afterSeconds=7, jitterPercent=5),
    script("burst", "1Gi", burst="1Gi", everySeconds=90, lastsSeconds=20, afterSeconds=5),
    script("burst", "1Gi", burst="1Gi", afterSeconds=30),
    script("sawtooth", "1Gi", peak="2Gi"),
    script("hog", "9Gi"),
    script("pageStorm", "1Gi", afterSeconds=9, lastsSeconds=9),
    script("osLeak", growthPerMinute="1Mi", afterSeconds=20),
]


@pytest.mark.parametrize("given_script", SCRIPTS, ids=lambda given: str(given["workload"]))
@given(elapsed=st.floats(0, 1000), ahead=st.floats(0, 1), seed=SEEDS)
def test_nothing_changes_before_the_time_that_a_demand_names(
    given_script: Script, elapsed: float, ahead: float, seed: int
) -> None:
    """The machine skips until then without asking again."""
    made = workload(given_script)
    found = made.demand(elapsed, seed=seed)
    end = min(found.until, elapsed + 1000)
    later = elapsed + ahead * (end - elapsed)
    if later < found.until:
        assert made.demand(later, seed=seed) == found


@given(seed=SEEDS, numbers=st.lists(st.integers(0, 10**6), min_size=1))
def test_noise_is_a_function_of_seed_and_place(seed: int, numbers: list[int]) -> None:
    found = [noise(seed, number) for number in numbers]
    assert all(0 <= each < 1 for each in found)
    assert found == [noise(seed, number) for number in numbers]


def test_a_seed_is_the_same_in_every_process() -> None:
    """Python's own hash of a text is not."""
    assert seed_of(0, "shop", "p0") == 6771503269307133096
