"""What a source reports, as a sample of the detector; and what a pool sets, as its numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.memory import GIB, RAM, a_sample, committed
from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, a_watched_node, a_watching_pool
from winpool.api.memory_pressure import CommitThresholds, PageFile, PageFileType, PhysicalThresholds
from winpool.controllers.watched_nodes import Series, WatchedNode, wanted_by
from winpool.features.memory.levels import read
from winpool.features.memory.settings import UNKNOWN_PAGE_FILE, DetectorSettings, settings_of
from winpool.model.pressure import Axis, MemorySample, PodUsage

KUBELET = MemorySample(taken_at=1e9, commit_total=12 * GIB, commit_limit=24 * GIB, proxy_available=5 * GIB)
EXPORTER = MemorySample(taken_at=1e9, age=12.0, commit_total=12 * GIB, physical_total=16 * GIB)


def a_watched(mode: str) -> WatchedNode:
    """Return a node that a pool of that mode watches, of which nothing is known yet."""
    wanted = wanted_by(a_watching_pool(mode=mode))
    assert wanted is not None
    return WatchedNode(a_watched_node(0), wanted, 0.0)


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
        learns_reads=False,
        soft_grace_seconds=45.0,
        clear_after_seconds=600.0,
    )


@pytest.mark.parametrize("mode", ["Observe", "Signal", "Evict"])
def test_pods_are_listed_where_the_pool_evicts_of_a_calm_node_every_five_minutes(mode: str) -> None:
    node = a_watched(mode)
    evicts = mode == "Evict"
    assert node.lists_pods(0.0) is evicts
    node.took(a_sample(0.0, **committed(12)))
    node.listed({}, at=0.0)
    assert not node.lists_pods(299.0)
    assert node.lists_pods(300.0) is evicts
    node.priority = 0.5
    assert node.lists_pods(10.0) is evicts, "a hot node: with each sample"


def test_a_list_is_that_of_a_calm_node_only_if_it_was_calm_before_the_sample_and_after_it() -> None:
    node, at = a_watched("Evict"), 0.0

    def sampled(used: float) -> tuple[float, float | None]:
        """Return when the base was listed, and how many GiB the node had committed then."""
        nonlocal at
        at += 10.0
        node.took(a_sample(at, **committed(used)))
        node.listed({"a": PodUsage(used * GIB, GIB)}, at=at)
        node.update(at)
        [base] = node.pods.bases
        return base.at, None if base.committed is None else base.committed / GIB

    assert [sampled(12), sampled(13), sampled(12)] == [(10, None), (20, 13), (30, 12)]
    assert [sampled(20), sampled(20)] == [(30, 12), (30, 12)], "a list of pods under pressure is none"
    while node.is_hot:
        assert sampled(12) == (30, 12)
    assert sampled(12) == (at, 12)


@pytest.mark.parametrize("taken_at", [20.0, None], ids=["frozen", "without its own time"])
def test_a_list_that_came_with_a_sample_that_says_nothing_says_nothing(taken_at: float | None) -> None:
    node = a_watched("Evict")
    for at in (10.0, 20.0):
        node.took(a_sample(at, **committed(12)))
        node.listed({"a": PodUsage(GIB, GIB)}, at=at)
    before = node.pods
    node.took(replace(a_sample(30.0, **committed(12)), taken_at=taken_at))
    node.listed({"a": PodUsage(4 * GIB, GIB)}, at=30.0)
    assert node.pods == before
