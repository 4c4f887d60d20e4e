"""What a source reports, as a sample of the detector; and what a pool sets, as its numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.memory import GIB, RAM
from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, a_watching_pool
from winpool.controllers.memory_sources import NO_PODS, listed, of_exporter, of_kubelet
from winpool.controllers.watched_nodes import Series, wanted_by
from winpool.features.memory.samples import MemorySample, read
from winpool.features.memory.settings import (
    CommitLines,
    DetectorSettings,
    PageFile,
    PageFilePolicy,
    PhysicalLines,
    settings_of,
)
from winpool.kubelet.samples import CommitMemory, ExporterSample, KubeletSample, MachineMemory, PodMemory
from winpool.model.pressure import Axis, PodUsage

TIME = datetime(2026, 11, 1, 12, tzinfo=UTC)
MACHINE = MachineMemory(time=TIME, committed=13 * GIB, available=5 * GIB, working_set=GIB)
COMMIT = CommitMemory(time=TIME, committed=12 * GIB, limit=24 * GIB)
EXPORTER = ExporterSample(
    node="w1",
    time=TIME.timestamp(),
    age=12.0,
    committed=12 * GIB,
    commit_limit=24 * GIB,
    available=3 * GIB,
    physical=16 * GIB,
    pool_nonpaged=GIB,
    page_reads=400.0,
    pages_written=200.0,
    pages_repurposed=100.0,
)


def a_pod(uid: str, *, commit: int | None = None, working_set: int | None = GIB) -> PodMemory:
    return PodMemory(
        uid=uid, namespace="shop", name=uid, time=TIME, working_set=working_set, committed=commit
    )


def polled(told: KubeletSample, *, capacity: int | None = RAM) -> MemorySample:
    return of_kubelet(told, source="Kubelet", arrived_at=100.0, interval=60.0, capacity=capacity)


def a_summary(**parts: object) -> KubeletSample:
    return replace(KubeletSample(node="w1", memory=MACHINE, commit=COMMIT), **parts)  # type: ignore[arg-type]


def test_the_commit_container_is_believed_and_ram_is_the_capacity_of_the_node() -> None:
    assert polled(a_summary()) == MemorySample(
        "Kubelet",
        arrived_at=100.0,
        taken_at=TIME.timestamp(),
        interval_seconds=60.0,
        commit_total=12 * GIB,
        commit_limit=24 * GIB,
        physical_total=RAM,
        proxy_available=5 * GIB,
    )


@pytest.mark.parametrize(
    ("page_file", "whole"),
    [(PageFile(), None), (PageFile(PageFilePolicy.FIXED, 8 * GIB), 24 * GIB)],
)
def test_without_the_container_the_ceiling_is_known_only_with_the_page_file(
    page_file: PageFile, whole: int | None
) -> None:
    sample = polled(a_summary(commit=None))
    assert (sample.commit_total, sample.commit_limit) == (13 * GIB, None)
    reading = read(Axis.COMMIT, sample, page_file=page_file, overhead=0)
    assert (None if reading is None else reading.whole) == whole


def test_a_part_that_stands_still_makes_all_of_it_old() -> None:
    older = TIME - timedelta(seconds=60)
    for parts in ({"memory": replace(MACHINE, time=older)}, {"commit": replace(COMMIT, time=older)}):
        assert polled(a_summary(**parts)).taken_at == older.timestamp()


def test_what_a_kubelet_does_not_say_is_unknown() -> None:
    empty = polled(a_summary(memory=None, commit=None), capacity=None)
    assert (empty.taken_at, empty.commit_total, empty.proxy_available, empty.physical_total) == (None,) * 4
    assert polled(a_summary(memory=None)).taken_at == TIME.timestamp()


@pytest.mark.parametrize(
    ("pods", "commit"),
    [
        (None, None),
        ((), None),
        ((a_pod("a", commit=GIB), a_pod("b", commit=2 * GIB)), 3 * GIB),
        ((a_pod("a", commit=GIB), a_pod("b")), None),
    ],
)
def test_what_all_pods_have_committed_is_known_only_if_it_is_of_each(
    pods: tuple[PodMemory, ...] | None, commit: int | None
) -> None:
    assert polled(a_summary(pods=pods)).pods_commit == commit


def test_a_sample_of_prometheus_is_as_old_as_prometheus_says() -> None:
    sample = of_exporter(
        EXPORTER, source="Prometheus/main", arrived_at=100.0, interval=30.0, capacity=15 * GIB
    )
    assert sample.measured_at == 88.0
    assert sample == MemorySample(
        "Prometheus/main",
        arrived_at=100.0,
        taken_at=TIME.timestamp(),
        interval_seconds=30.0,
        commit_total=12 * GIB,
        commit_limit=24 * GIB,
        physical_total=16 * GIB,
        physical_available=3 * GIB,
        hard_reads_per_second=400.0,
        write_out_per_second=200.0,
        repurposed_per_second=100.0,
        pool_nonpaged=GIB,
        age=12.0,
    )


def test_an_exporter_that_does_not_say_how_much_ram_there_is_has_that_of_the_node() -> None:
    told = replace(EXPORTER, physical=None)
    sample = of_exporter(told, source="x", arrived_at=0.0, interval=30.0, capacity=15 * GIB)
    assert sample.physical_total == 15 * GIB


def test_a_pool_that_sets_nothing_has_the_operators_own_numbers() -> None:
    wanted = wanted_by(a_watching_pool())
    assert wanted is not None
    assert wanted.settings == DetectorSettings()
    assert (wanted.evicts, wanted.sources) == (False, {"Kubelet": None})


def test_all_that_a_pool_can_set_reaches_the_detector() -> None:
    pool = a_watching_pool(
        mode="Evict",
        sources=[PROMETHEUS_SOURCE, KUBELET_SOURCE],
        pageFile={"type": "SystemManaged", "maxSize": "24Gi"},
        commit={
            "warningUsedPercent": 70,
            "softUsedPercent": 85,
            "hardHeadroom": "2Gi",
            "hardEtaSeconds": 60,
        },
        physical={
            "warningAvailablePercent": 20,
            "softAvailablePercent": 12,
            "hardAvailablePercent": 6,
            "softReadsPerSecond": 200,
            "hardReadsPerSecond": 900,
        },
        softGraceSeconds=45,
        clearAfterSeconds=600,
    )
    wanted = wanted_by(pool)
    assert wanted is not None
    assert wanted.evicts
    assert wanted.sources == {"Prometheus/main": Series("main", "node"), "Kubelet": None}
    assert wanted.kubelet == "Kubelet"
    assert pool.spec is not None
    assert pool.spec.memory_pressure is not None
    assert wanted.settings == settings_of(pool.spec.memory_pressure)
    assert wanted.settings == DetectorSettings(
        sources=("Prometheus/main", "Kubelet"),
        page_file=PageFile(PageFilePolicy.SYSTEM_MANAGED, 24 * GIB),
        commit=CommitLines(70.0, 85.0, 2 * GIB, 60.0),
        physical=PhysicalLines(20.0, 12.0, 6.0, 200.0, 900.0),
        soft_grace_seconds=45.0,
        clear_after_seconds=600.0,
    )


def test_the_growth_of_a_pod_is_that_of_two_minutes_once_half_a_minute_is_known() -> None:
    history = NO_PODS
    for turn in range(30):
        history = listed(history, (a_pod("a", commit=(turn + 1) * GIB), a_pod("b")), at=10.0 * turn)
        assert len(history.lists) <= 6
        usage = history.usage(now=10.0 * turn)
        if turn < 3:
            assert usage["a"].commit_growth is None
        else:
            assert usage["a"].commit_growth == pytest.approx(12 * GIB)
    assert usage["b"] == PodUsage(working_set=GIB, working_set_growth=0)


def test_a_list_of_pods_that_is_too_old_says_nothing() -> None:
    history = listed(NO_PODS, (a_pod("a"),), at=100.0)
    assert history.usage(now=145.0) != {}
    assert history.usage(now=145.1) == {}


def test_a_pod_that_is_new_has_no_growth() -> None:
    history = listed(NO_PODS, (), at=0.0)
    history = listed(history, (a_pod("a", commit=GIB),), at=60.0)
    assert history.usage(now=60.0)["a"] == PodUsage(commit=GIB, working_set=GIB)
