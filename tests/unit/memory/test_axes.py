"""Levels by their numbers: what each axis needs, and what it does not claim."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.memory import (
    BOTH,
    CEILING,
    EXPORTER_ONLY,
    GIB,
    KUBELET,
    PROMETHEUS,
    RAM,
    Watched,
    a_sample,
    available,
    committed,
)
from winpool.api.memory_pressure import PageFile, PageFileType
from winpool.features.memory.detector import step_at
from winpool.features.memory.settings import UNKNOWN_PAGE_FILE, DetectorSettings
from winpool.model.pressure import Axis, Hold, Level

FIXED = PageFile(type=PageFileType.FIXED, max_size=8 * GIB)
OWN_LINES = replace(EXPORTER_ONLY, learns_reads=False)
"""Of a pool that gives the lines of page reads: the default ones."""
MANAGED = PageFile(type=PageFileType.SYSTEM_MANAGED, max_size=16 * GIB)


def level_of(axis: Axis, settings: DetectorSettings, source: str, **values: Any) -> Level | None:
    node = Watched(settings, source)
    node.start(**values)
    node.poll(**values)
    return node.axis(axis).level


@pytest.mark.parametrize(
    ("used", "level"),
    [
        (19.1, Level.NORMAL),
        (19.3, Level.WARNING),
        (21.5, Level.WARNING),
        (21.7, Level.SOFT),
        (23.0, Level.SOFT),
        (23.1, Level.HARD),
        (24.0, Level.HARD),
        (25.0, Level.HARD),
    ],
)
def test_commit_goes_by_what_is_left_below_the_ceiling(used: float, level: Level) -> None:
    assert level_of(Axis.COMMIT, BOTH, KUBELET, **committed(used)) is level


def test_on_a_large_machine_hard_begins_at_three_percent() -> None:
    values = {"commit_limit": 200 * GIB, "commit_total": 195 * GIB}
    assert level_of(Axis.COMMIT, BOTH, KUBELET, **values) is Level.HARD


@pytest.mark.parametrize(
    ("free", "reads", "written", "level"),
    [
        (2.5, 0, 0, Level.NORMAL),
        (2.3, 0, 0, Level.WARNING),
        (0.1, 0, 0, Level.WARNING),
        (1.5, 400, 0, Level.WARNING),
        (1.5, 200, 500, Level.WARNING),
        (1.5, 400, 500, Level.SOFT),
        (1.5, 5000, 500, Level.SOFT),
        (0.7, 900, 0, Level.WARNING),
        (0.7, 1100, 0, Level.HARD),
        (0.7, None, 500, Level.WARNING),
        (1.5, 400, None, Level.WARNING),
        (3.0, 5000, 5000, Level.NORMAL),
        (16.0, 0, 0, Level.NORMAL),
        (16.1, 0, 0, None),
    ],
    ids=str,
)
def test_physical_needs_paging_as_well_as_little_memory(
    free: float, reads: float | None, written: float | None, level: Level | None
) -> None:
    values = available(free, hard_reads_per_second=reads, write_out_per_second=written)
    assert level_of(Axis.PHYSICAL, OWN_LINES, PROMETHEUS, **values) is level


@pytest.mark.parametrize(
    ("free", "reads", "written", "level"),
    [
        (0.7, 26, 60, Level.HARD),
        (0.7, 25, 500, Level.WARNING),
        (0.7, 55, 49, Level.WARNING),
        (0.7, 900, 0, Level.WARNING),
        (1.5, 55, 110, Level.SOFT),
        (1.5, 55, 90, Level.WARNING),
        (3.0, 55, 500, Level.NORMAL),
    ],
    ids=str,
)
def test_without_lines_of_the_pool_less_is_enough_on_a_disk_that_has_read_no_more(
    free: float, reads: float, written: float, level: Level
) -> None:
    """Reads that go with no pages written out are those of a program that starts, or of files."""
    values = available(free, hard_reads_per_second=reads, write_out_per_second=written)
    assert level_of(Axis.PHYSICAL, EXPORTER_ONLY, PROMETHEUS, **values) is level


@pytest.mark.parametrize(
    ("free", "reads", "level"),
    [
        (0.7, 401, Level.HARD),
        (0.7, 399, Level.SOFT),
        (1.5, 201, Level.SOFT),
        (1.5, 199, Level.WARNING),
    ],
    ids=str,
)
def test_what_a_disk_has_read_in_the_last_hour_shows_what_it_can_do(
    free: float, reads: float, level: Level
) -> None:
    """It has read 800 pages a second, of which a half is Hard and a quarter Soft."""
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(2, **available(8, hard_reads_per_second=800, write_out_per_second=0))
    node.polls(300, **available(8, hard_reads_per_second=10, write_out_per_second=0))
    node.poll(**available(free, hard_reads_per_second=reads, write_out_per_second=200))
    assert node.physical() is level


def test_what_a_disk_has_read_before_the_last_hour_is_forgotten() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(2, **available(8, hard_reads_per_second=800, write_out_per_second=0))
    node.polls(370, **available(8, hard_reads_per_second=10, write_out_per_second=0))
    node.poll(**available(0.7, hard_reads_per_second=200, write_out_per_second=200))
    assert node.physical() is Level.HARD


@pytest.mark.parametrize(("rise", "level"), [(10, Level.WARNING), (60, Level.SOFT)])
def test_a_standby_list_that_is_consumed_faster_counts_as_written_out(rise: int, level: Level) -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    for number in range(5):
        values = available(1.5, hard_reads_per_second=400, repurposed_per_second=1000 + rise * number)
        node.poll(**values)
    assert node.physical() is level


@pytest.mark.parametrize(
    ("page_file", "limit", "ram", "whole"),
    [
        (UNKNOWN_PAGE_FILE, CEILING, RAM, CEILING),
        (UNKNOWN_PAGE_FILE, None, RAM, None),
        (FIXED, 23 * GIB, RAM, 23 * GIB),
        (FIXED, None, RAM, 24 * GIB),
        (FIXED, 23 * GIB, None, 23 * GIB),
        (FIXED, None, None, None),
        (MANAGED, CEILING, RAM, 32 * GIB),
        (MANAGED, 33 * GIB, RAM, 33 * GIB),
        (MANAGED, None, RAM, 32 * GIB),
        (MANAGED, CEILING, None, None),
        (UNKNOWN_PAGE_FILE, 0, RAM, None),
    ],
    ids=str,
)
def test_the_ceiling_depends_on_what_is_known_of_the_page_file(
    page_file: PageFile, limit: float | None, ram: float | None, whole: float | None
) -> None:
    node = Watched(DetectorSettings(page_file=page_file))
    node.polls(2, commit_total=10 * GIB, commit_limit=limit, physical_total=ram)
    axis = node.axis(Axis.COMMIT)
    assert (axis.reading.whole if axis.reading else None) == whole
    assert (axis.level is None) == (whole is None)


def test_an_old_kubelet_with_an_unknown_page_file_leaves_commit_unknown() -> None:
    """Kubelets before 1.31 report what is committed, and no limit."""
    node = Watched()
    node.polls(10, commit_total=20 * GIB, physical_total=RAM, proxy_available=10 * GIB)
    assert node.commit() is None
    assert node.view().level is Level.NORMAL
    assert node.view().evictable == ()


def test_the_estimate_alone_signals_after_a_minute_and_never_evicts() -> None:
    node = Watched()
    values = {"physical_total": RAM, "proxy_available": 1.9 * GIB}
    node.start(**values)
    assert node.polls(6, **values).is_signalled is None
    view = node.poll(**values)
    assert view.is_signalled is True
    assert view.level is Level.PROXY_ONLY
    assert node.polls(60, **values).evictable == ()


LATE = {"physical_total": RAM, "proxy_available": 1.9 * GIB, "commit_total": 20 * GIB, "answer_seconds": 8.0}
"""Of a kubelet that has to read itself back from the disk."""
PROMPT = LATE | {"answer_seconds": 1.0}
AT_REST = PROMPT | {"proxy_available": 12 * GIB}
IDLE = available(10, hard_reads_per_second=0, commit_total=20 * GIB)


def test_an_estimate_evicts_where_the_kubelet_is_late_and_more_is_committed_than_there_is_ram() -> None:
    node = Watched()
    node.polls(5, **AT_REST)
    node.polls(9, **LATE)
    assert node.physical_hold() is Hold.GRACE
    assert node.poll(**LATE).level is Level.PROXY_ONLY
    assert node.physical_hold() is None
    node.poll(**PROMPT)
    assert node.physical_hold() is Hold.ESTIMATE


@pytest.mark.parametrize(
    ("usual", "late"),
    [
        (1.0, LATE | {"commit_total": RAM}),
        (1.0, LATE | {"answer_seconds": 4.9}),
        (2.1, LATE),
        (1.0, LATE | {"answer_seconds": None}),
        (1.0, LATE | {"proxy_available": 2.1 * GIB}),
        (None, LATE),
    ],
    ids=[
        "commit fits into RAM",
        "fast enough",
        "usual there",
        "unknown",
        "enough is left",
        "never seen before",
    ],
)
def test_each_part_of_that_evidence_is_needed(usual: float | None, late: dict[str, float | None]) -> None:
    node = Watched()
    node.polls(5, **AT_REST | {"answer_seconds": usual})
    assert node.polls(30, **late).evictable == ()


def test_a_kubelet_that_is_late_where_ram_is_not_short_is_so_for_another_reason() -> None:
    """The network, or the CPU. It counts again once the kubelet has long answered in time."""
    node = Watched()
    node.polls(5, **AT_REST)
    node.poll(**AT_REST | {"answer_seconds": 8.0})
    assert node.polls(30, **LATE).evictable == ()
    node.polls(31, **AT_REST)
    node.poll(**AT_REST)
    assert node.polls(9, **LATE).evictable == ()
    node.polls(60, **AT_REST)
    assert node.polls(10, **LATE).evictable != ()


def test_a_kubelet_that_is_late_where_an_exporter_measures_that_ram_is_short_is_late_for_that() -> None:
    node = Watched(BOTH)
    node.polls(5, **AT_REST)
    node.poll(source=PROMETHEUS, age=0.0, **available(0.5, hard_reads_per_second=3000))
    node.poll(**LATE | {"proxy_available": 4 * GIB})
    node.polls(10, **LATE)
    assert node.physical() is Level.HARD


def test_a_kubelet_that_takes_about_as_long_as_late_is_does_not_become_late_with_each_answer() -> None:
    node = Watched()
    node.polls(5, **AT_REST)
    levels = [node.poll(**LATE | {"answer_seconds": 4.9 + number % 2 / 5}) for number in range(40)]
    assert len({each.axes[Axis.PHYSICAL].hold for each in levels[12:]}) == 1


def test_memory_outside_pods_guards_against_that_evidence_too() -> None:
    node = Watched()
    outside = {"pods_commit": 2 * GIB, "commit_limit": CEILING}
    node.polls(5, **AT_REST | outside)
    node.polls(30, **LATE | outside)
    assert node.physical_hold() is Hold.UNATTRIBUTED


def test_what_an_exporter_has_measured_lasts_while_the_kubelet_shows_that_the_node_pages() -> None:
    """The node pages so much that Prometheus can no longer scrape it."""
    node = Watched(BOTH)
    node.polls(5, **AT_REST)
    for _ in range(3):
        node.poll(source=PROMETHEUS, **available(0.5, hard_reads_per_second=3000))
    node.polls(2, **LATE)
    assert node.physical() is Level.HARD
    node.polls(4, **PROMPT)
    assert node.physical() is None
    node.polls(2, **LATE)
    assert (node.physical(), node.axis(Axis.PHYSICAL).held) == (Level.PROXY_ONLY, Level.HARD)


def test_what_an_exporter_that_is_scraped_every_minute_has_measured_lasts_too() -> None:
    """Its sample counts for two minutes, and the kubelet speaks after that."""
    node = Watched(BOTH)
    node.polls(5, **AT_REST)
    node.poll(source=PROMETHEUS, interval=60, age=0.0, **available(0.5, hard_reads_per_second=3000))
    for _ in range(10):
        node.poll(after=15, **LATE)
    assert (node.physical(), node.physical_hold()) == (Level.HARD, None)


def test_what_an_exporter_measured_long_ago_is_not_what_a_late_kubelet_shows() -> None:
    node = Watched(BOTH)
    node.polls(5, **AT_REST)
    node.poll(source=PROMETHEUS, **available(0.5, hard_reads_per_second=3000))
    node.poll(after=146, **LATE)
    node.polls(2, **LATE)
    assert (node.physical(), node.physical_hold()) == (Level.PROXY_ONLY, Hold.GRACE)


def test_hard_that_an_exporter_has_seen_once_is_confirmed_by_late_kubelets() -> None:
    """The node pages so much that Prometheus has lost every scrape since."""
    node = Watched(BOTH)
    node.polls(5, **AT_REST)
    node.poll(source=PROMETHEUS, age=0.0, **available(0.5, hard_reads_per_second=3000))
    node.poll(after=26, **LATE)
    assert node.physical_hold() is Hold.GRACE
    node.poll(**LATE)
    assert node.physical() is Level.HARD
    assert node.physical_hold() is None


def test_of_a_node_that_is_no_longer_hot_the_exporter_is_read_more_often_and_ends_its_level() -> None:
    """The sample that ends it counts for as long as that of a calm node, and was read as often as before."""
    node = Watched(BOTH)
    for number in range(100):
        is_hot = node.view().is_hot
        used = 21 if number < 10 else 12
        sample = a_sample(node.now + 10, **committed(used))
        node.state = step_at(node.state, sample, BOTH, was_hot=is_hot, cold_interval=60)
        node.now += 10
        if number % 3 == 0:
            node.poll(
                source=PROMETHEUS, after=0, interval=30, taken_at=node.now - 8, age=8.0, **committed(used)
            )
        if number > 10 and not node.view().is_hot:
            break
    assert 40 <= number <= 45
    assert node.commit() is Level.NORMAL


def test_a_kubelet_shows_that_a_node_is_calm_before_it_is_scraped_again() -> None:
    node = Watched(BOTH)
    node.poll(source=PROMETHEUS, interval=30, age=0.0, **IDLE)
    measured = node.axis(Axis.PHYSICAL).looked_at
    node.polls(2, **AT_REST)
    assert node.axis(Axis.PHYSICAL).source == PROMETHEUS
    assert (measured, node.axis(Axis.PHYSICAL).looked_at) == (1010.0, 1029.0), "when the kubelet was asked"
    node.poll(**PROMPT)
    assert node.axis(Axis.PHYSICAL).looked_at == 1029.0


@pytest.mark.parametrize(
    ("commit", "is_seen"),
    [(20, True), (27.5, True), (27.7, False), (None, False)],
    ids=["as before", "enough left", "too little left", "unknown"],
)
def test_what_the_node_has_committed_since_may_be_memory_that_the_estimate_does_not_count(
    commit: float | None, is_seen: bool
) -> None:
    """Of kernel and shared memory. 10 GiB were left, and a Warning begins at 2.4."""
    node = Watched(BOTH)
    node.poll(source=PROMETHEUS, interval=30, age=0.0, **IDLE)
    node.polls(2, **AT_REST | {"commit_total": None if commit is None else commit * GIB})
    assert (node.axis(Axis.PHYSICAL).looked_at == 1029.0) is is_seen


def test_the_estimate_is_corrected_by_what_an_exporter_has_shown() -> None:
    """With 3 GiB of the kernel, 3.2 GiB by the kubelet are 0.2; with the operator's own 1.5 they are 1.7."""
    node = Watched(BOTH)
    kubelet = {"physical_total": RAM, "proxy_available": 13 * GIB}
    for _ in range(40):
        node.poll(**kubelet)
        node.poll(source=PROMETHEUS, **available(10))
    for _ in range(5):
        node.poll(**kubelet | {"proxy_available": 3.2 * GIB})
    assert node.physical() is Level.PROXY_ONLY


def test_nothing_is_learnt_of_the_estimate_while_memory_is_short() -> None:
    node = Watched(BOTH)
    before = node.state.overhead
    for _ in range(10):
        node.poll(physical_total=RAM, proxy_available=12 * GIB)
        node.poll(source=PROMETHEUS, **available(0.5, hard_reads_per_second=3000))
    assert node.physical() is Level.HARD
    assert node.state.overhead == before


def test_an_estimate_does_not_end_what_was_measured() -> None:
    """Private working sets are trimmed while memory is short, so the kubelet then reports more available."""
    node = Watched(BOTH)
    paging = available(0.5, hard_reads_per_second=3000)
    for _ in range(5):
        node.poll(source=PROMETHEUS, **paging)
    assert node.physical() is Level.HARD
    node.polls(60, physical_total=RAM, proxy_available=12 * GIB)
    assert node.physical() is None
    assert node.view().level is None
    assert node.view().is_signalled is True
    assert node.view().evictable == ()


def test_each_axis_is_read_from_the_first_source_that_has_it() -> None:
    node = Watched(BOTH)  # both are read equally often
    for _ in range(3):
        node.poll(**committed(10, proxy_available=12 * GIB))
        node.poll(source=PROMETHEUS, **committed(11, physical_available=10 * GIB, hard_reads_per_second=0))
    axes = node.view().axes
    assert {axis: axes[axis].source for axis in Axis} == {Axis.COMMIT: KUBELET, Axis.PHYSICAL: PROMETHEUS}
    reading = axes[Axis.COMMIT].reading
    assert reading is not None
    assert reading.used == 10 * GIB


@pytest.mark.parametrize("order", [(KUBELET, PROMETHEUS), (PROMETHEUS, KUBELET)])
@pytest.mark.parametrize(("interval", "speaks"), [(10.0, KUBELET), (60.0, PROMETHEUS)], ids=["hot", "calm"])
def test_of_two_that_measure_an_axis_the_one_speaks_that_is_read_more_often(
    order: tuple[str, str], interval: float, speaks: str
) -> None:
    """Each axis has its own: the kubelet only estimates what is available."""
    node = Watched(replace(BOTH, sources=order))
    for _ in range(3):
        node.poll(after=10, interval=interval, **committed(10, proxy_available=12 * GIB))
        exporter = committed(11, physical_available=10 * GIB, hard_reads_per_second=0)
        node.poll(source=PROMETHEUS, after=10, interval=30.0, **exporter)
    axes = node.view().axes
    assert {axis: axes[axis].source for axis in Axis} == {Axis.COMMIT: speaks, Axis.PHYSICAL: PROMETHEUS}
    reading = axes[Axis.COMMIT].reading
    assert reading is not None
    assert reading.used == (10 if speaks == KUBELET else 11) * GIB


@pytest.mark.parametrize("order", [(KUBELET, PROMETHEUS), (PROMETHEUS, KUBELET)])
def test_a_measurement_without_rates_shows_no_less_than_the_kubelet_alone(order: tuple[str, str]) -> None:
    """AKS' minimal profile scrapes available bytes of the exporter, and no rates."""
    alone, both = Watched(replace(BOTH, sources=(KUBELET,))), Watched(replace(BOTH, sources=order))
    estimate = {"physical_total": RAM, "proxy_available": 0.02 * RAM}
    for _ in range(40):
        alone.poll(**estimate)
        both.poll(**estimate)
        both.poll(source=PROMETHEUS, after=0.0, **available(1))
    assert alone.physical() is both.physical() is Level.PROXY_ONLY
    assert alone.view().is_signalled is both.view().is_signalled is True


def test_another_source_takes_over_when_the_first_is_no_longer_fresh() -> None:
    node = Watched(BOTH)
    for _ in range(3):
        node.poll(**committed(10))
        node.poll(source=PROMETHEUS, **committed(11))
    node.poll(source=PROMETHEUS, **committed(11))
    assert node.axis(Axis.COMMIT).source == KUBELET
    node.poll(source=PROMETHEUS, **committed(11))
    assert node.axis(Axis.COMMIT).source == PROMETHEUS
    assert node.commit() is Level.NORMAL


def test_an_axis_that_is_lost_while_it_was_worse_makes_the_node_unknown() -> None:
    node = Watched(BOTH)
    for _ in range(5):
        node.poll(**committed(22.5))
        node.poll(source=PROMETHEUS, **available(10))
    assert node.view().level is Level.SOFT
    node.polls(13, source=PROMETHEUS, **available(10))
    assert node.physical() is Level.NORMAL
    assert node.view().level is None
    assert node.view().worst is None
    assert node.view().is_hot


@pytest.mark.parametrize(("per_poll", "is_hot"), [(0.0, False), (0.05, False), (0.08, True)])
def test_a_node_is_hot_half_an_hour_before_it_is_exhausted(per_poll: float, is_hot: bool) -> None:
    node = Watched()
    for number in range(6):
        node.poll(**committed(10 + per_poll * number))
    assert node.commit() is Level.NORMAL
    assert node.view().is_hot is is_hot
