"""What a source reports, as a sample of the detector; and what a pool sets, as its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.memory import GIB, RAM
from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, a_watching_pool
from winpool.api.memory_pressure import CommitThresholds, PageFile, PageFileType, PhysicalThresholds
from winpool.controllers.watched_nodes import NO_PODS, Series, wanted_by
from winpool.features.memory.samples import read
from winpool.features.memory.settings import UNKNOWN_PAGE_FILE, DetectorSettings, settings_of
from winpool.model.pressure import Axis, MemorySample, PodUsage

KUBELET = MemorySample(taken_at=1e9, commit_total=12 * GIB, commit_limit=24 * GIB, proxy_available=5 * GIB)
EXPORTER = MemorySample(taken_at=1e9, age=12.0, commit_total=12 * GIB, physical_total=16 * GIB)


def test_ram_is_the_capacity_of_the_node_where_the_source_does_not_say_it() -> None:
    assert KUBELET.arrived(source="Kubelet", at=100.0, interval=60.0, ram=RAM) == MemorySample(
        "Kubelet",
        arrived_at=100.0,
        taken_at=1e9,
        interval_seconds=60.0,
        commit_total=12 * GIB,
        commit_limit=24 * GIB,
        physical_total=RAM,
        proxy_available=5 * GIB,
    )
    told = EXPORTER.arrived(source="x", at=0.0, interval=30.0, ram=15 * GIB)
    assert told.physical_total == 16 * GIB
    assert KUBELET.arrived(source="x", at=0.0, interval=30.0, ram=None).physical_total is None


@pytest.mark.parametrize(
    ("page_file", "whole"),
    [(UNKNOWN_PAGE_FILE, None), (PageFile(type=PageFileType.FIXED, max_size=8 * GIB), 24 * GIB)],
)
def test_without_the_container_the_ceiling_is_known_only_with_the_page_file(
    page_file: PageFile, whole: int | None
) -> None:
    sample = replace(KUBELET, commit_limit=None, physical_total=RAM)
    reading = read(Axis.COMMIT, sample, page_file=page_file, overhead=0)
    assert (None if reading is None else reading.whole) == whole


def test_a_sample_of_prometheus_is_as_old_as_prometheus_says() -> None:
    assert EXPORTER.arrived(source="Prometheus/main", at=100.0, interval=30.0, ram=RAM).measured_at == 88.0


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
        page_file=PageFile(type=PageFileType.SYSTEM_MANAGED, max_size="24Gi"),
        commit=CommitThresholds(
            warning_used_percent=70, soft_used_percent=85, hard_headroom="2Gi", hard_eta_seconds=60
        ),
        physical=PhysicalThresholds(
            warning_available_percent=20,
            soft_available_percent=12,
            hard_available_percent=6,
            soft_reads_per_second=200,
            hard_reads_per_second=900,
        ),
        soft_grace_seconds=45.0,
        clear_after_seconds=600.0,
    )


def test_the_growth_of_a_pod_is_that_of_two_minutes_once_half_a_minute_is_known() -> None:
    history = NO_PODS
    for turn in range(30):
        history = history.listed(
            {"a": PodUsage((turn + 1) * GIB, GIB), "b": PodUsage(None, GIB)}, at=10.0 * turn
        )
        assert len(history.lists) <= 6
        usage = history.usage(now=10.0 * turn)
        if turn < 3:
            assert usage["a"].commit_growth is None
        else:
            assert usage["a"].commit_growth == pytest.approx(12 * GIB)
    assert usage["b"] == PodUsage(working_set=GIB, working_set_growth=0)


def test_a_list_of_pods_that_is_too_old_says_nothing() -> None:
    history = NO_PODS.listed({"a": PodUsage(None, GIB)}, at=100.0)
    assert history.usage(now=145.0) != {}
    assert history.usage(now=145.1) == {}


def test_a_pod_that_is_new_has_no_growth() -> None:
    history = NO_PODS.listed({}, at=0.0).listed({"a": PodUsage(GIB, GIB)}, at=60.0)
    assert history.usage(now=60.0)["a"] == PodUsage(commit=GIB, working_set=GIB)
