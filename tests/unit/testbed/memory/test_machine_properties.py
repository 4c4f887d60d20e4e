"""What holds for every machine, whatever runs on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.machine_memory import Script, counters, pod, workload
from testbed.memory.hardware import Disk, FixedPageFile, Hardware, SystemManagedPageFile
from testbed.memory.machine import Machine
from testbed.memory.pages import GIB, MIB, apportion
from testbed.memory.reading import MemoryReading
from testbed.memory.truth import GroundTruth

SECONDS = 150
"""Long enough for a machine to run out of everything, with the growth that is drawn here."""


@dataclass(frozen=True)
class Life:
    """A pod: what it does, from when, and when its grace is over."""

    script: Script
    begins: float
    ends: float | None


@dataclass(frozen=True)
class Scene:
    hardware: Hardware
    lives: tuple[Life, ...]
    seed: int

    def begin(self, *, started_at: float = 0.0) -> Machine:
        made = Machine(self.hardware, started_at=started_at, seed=self.seed)
        for number, life in enumerate(self.lives):
            made.start(pod(f"p{number}"), workload(life.script), at=started_at + life.begins)
            if life.ends is not None:
                made.stop(f"uid-p{number}", at=started_at + life.ends)
        return made


def sizes(most_mib: int) -> st.SearchStrategy[str]:
    return st.integers(0, most_mib).map(lambda size: f"{size}Mi")


def fields(**each: st.SearchStrategy[Any]) -> st.SearchStrategy[Script]:
    common = {
        "commit": sizes(12 * 1024),
        "touchedPercent": st.integers(0, 100),
        "activePercent": st.integers(0, 100),
        "useSeconds": st.sampled_from([0.1, 1, 10, 600]),
        "fileReadsPerSecond": st.sampled_from([0, 0, 100, 9000]),
        "jitterPercent": st.sampled_from([0, 0, 5, 100]),
    }
    return st.fixed_dictionaries({**common, **each})


TIMES = st.integers(0, SECONDS * 4).map(lambda quarters: quarters / 4)
SCRIPTS = st.one_of(
    fields(workload=st.just("steady")),
    fields(workload=st.just("leak"), growthPerMinute=sizes(20 * 1024), afterSeconds=TIMES),
    fields(
        workload=st.just("burst"),
        burst=sizes(20 * 1024),
        afterSeconds=TIMES,
        rampSeconds=st.integers(0, 20),
        lastsSeconds=st.integers(20, 60),
        everySeconds=st.integers(60, 100),
    ),
    fields(workload=st.just("sawtooth"), commit=sizes(1024), peak=st.just("9Gi"), periodSeconds=st.just(33)),
    fields(workload=st.just("hog"), commit=sizes(60 * 1024), rampSeconds=st.integers(0, 90)),
    fields(workload=st.just("pageStorm"), afterSeconds=TIMES),
    fields(
        workload=st.just("osLeak"),
        growthPerMinute=sizes(20 * 1024),
        into=st.sampled_from(["NonPagedPool", "PagedPool", "Processes"]),
    ),
)
PAGE_FILES = st.one_of(
    st.builds(FixedPageFile, size_bytes=st.sampled_from([0, 64 * MIB, 8096 * MIB])),
    st.builds(SystemManagedPageFile, maximum_bytes=st.sampled_from([None, 0, GIB, 20 * GIB])),
)
HARDWARE = st.builds(
    Hardware,
    ram_bytes=st.sampled_from([3 * GIB, 8 * GIB, 16 * GIB]),
    page_file=PAGE_FILES,
    disk=st.builds(
        Disk,
        reads_per_second=st.sampled_from([100, 4000]),
        pages_per_read=st.integers(1, 16),
        write_bytes_per_second=st.sampled_from([MIB, 200 * MIB]),
    ),
)
SCENES = st.builds(
    Scene,
    hardware=HARDWARE,
    lives=st.lists(st.builds(Life, script=SCRIPTS, begins=TIMES, ends=st.none() | TIMES), max_size=4).map(
        tuple
    ),
    seed=st.integers(0, 3),
)


def bytes_of(reading: MemoryReading) -> list[int]:
    return [
        value
        for name in MemoryReading.__slots__
        if name.endswith(("_bytes", "_total")) and isinstance(value := getattr(reading, name), int)
    ]


@given(scene=SCENES)
def test_figures_are_possible_and_counters_never_fall(scene: Scene) -> None:
    made = scene.begin()
    before = counters(made.reading(0))
    harmed = made.truth(0)
    for second in range(SECONDS + 1):
        found = made.reading(second)
        assert found.commit_total_bytes <= found.commit_limit_bytes
        assert found.commit_limit_bytes == found.physical_total_bytes + found.page_file_limit_bytes
        assert found.page_file_free_bytes <= found.page_file_limit_bytes
        assert min(bytes_of(found)) >= 0
        assert (
            found.available_bytes + found.private_working_set_bytes + found.modified_page_list_bytes
            <= found.physical_total_bytes
        )
        assert all(0 <= each.private_working_set_bytes <= each.commit_bytes for each in found.pods)
        assert sum(each.commit_bytes for each in found.pods) <= found.commit_total_bytes
        assert all(now >= earlier for earlier, now in zip(before, counters(found), strict=True))
        before = counters(found)
        truth = made.truth(second)
        assert 0 <= truth.stall <= 1
        assert truth.seconds_denied <= truth.allocations_denied
        assert never_better(harmed, truth)
        harmed = truth


def never_better(earlier: GroundTruth, later: GroundTruth) -> bool:
    return (
        earlier.allocations_denied <= later.allocations_denied
        and earlier.seconds_thrashing <= later.seconds_thrashing
        and earlier.seconds_lost <= later.seconds_lost
    )


@given(scene=SCENES)
def test_every_page_of_ram_is_somewhere_and_every_promise_has_its_place(scene: Scene) -> None:
    """Looks inside: what a reading leaves out could hide a page that is counted twice."""
    made = scene.begin()
    for second in range(SECONDS + 1):
        made.step(second)
        memory, owners = made._memory, made._owners
        in_use = sum(owner.resident for owner in owners) + memory.modified_list(owners)
        assert memory.free + memory.standby + in_use == memory.total
        assert made._charge.total == sum(owner.commit for owner in owners)
        for owner in owners:
            assert min(owner.dirty, owner.clean, owner.modified, owner.stored, owner.misjudged) >= 0
            assert 0 <= owner.touched <= owner.commit or not owner.is_backed_by_page_file


@given(scene=SCENES, stops=st.lists(st.floats(0, SECONDS), max_size=20))
def test_it_makes_no_difference_how_often_somebody_asks(scene: Scene, stops: list[float]) -> None:
    once, often, seldom = scene.begin(), scene.begin(), scene.begin()
    for second in range(SECONDS):
        often.step(second)
    for moment in sorted(stops):
        seldom.reading(moment)
    expected = once.reading(SECONDS)
    assert often.reading(SECONDS) == expected
    assert seldom.reading(SECONDS) == expected
    assert once.truth(SECONDS) == often.truth(SECONDS) == seldom.truth(SECONDS)


@given(scene=SCENES, started_at=st.integers(0, 2 * 10**9))
def test_shifting_time_changes_nothing_but_the_time(scene: Scene, started_at: int) -> None:
    expected = scene.begin().reading(SECONDS)
    found = scene.begin(started_at=started_at).reading(started_at + SECONDS)
    assert found == replace(expected, time=started_at + SECONDS)


@given(scene=SCENES)
def test_the_same_seed_is_the_same_machine(scene: Scene) -> None:
    assert scene.begin().reading(SECONDS) == scene.begin().reading(SECONDS)


@given(scene=SCENES)
def test_a_pod_has_memory_from_its_start_to_the_end_of_its_grace_and_no_longer(scene: Scene) -> None:
    made = scene.begin()
    for second in range(SECONDS + 1):
        expected = [
            f"uid-p{number}"
            for number, life in enumerate(scene.lives)
            if life.begins <= second and (life.ends is None or second < life.ends)
        ]
        assert [each.uid for each in made.reading(second).pods] == expected


@given(scene=SCENES, longer=st.integers(1, 50))
def test_a_longer_grace_frees_nothing_earlier(scene: Scene, longer: int) -> None:
    ended = [life for life in scene.lives if life.ends is not None]
    if not ended:
        return
    first = min(life.ends for life in ended if life.ends is not None)
    later = tuple(
        replace(life, ends=None if life.ends is None else life.ends + longer) for life in scene.lives
    )
    short, long = scene.begin(), replace(scene, lives=later).begin()
    for second in range(int(first) + 1):
        if second < first:
            assert short.reading(second) == long.reading(second)


@given(weights=st.lists(st.integers(0, 10**9), min_size=1), part=st.floats(0, 1))
def test_parts_add_up_and_none_is_more_than_its_weight(weights: list[int], part: float) -> None:
    total = int(sum(weights) * part)
    parts = apportion(total, weights)
    assert sum(parts) == total
    assert all(0 <= share <= weight for share, weight in zip(parts, weights, strict=True))
