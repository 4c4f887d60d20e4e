"""What a source reports, as a sample of the detector; and what a pool sets, as its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.memory import GIB, RAM, a_sample, committed
from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, a_watched_node, a_watching_pool
from winpool.api.memory_pressure import CommitThresholds, PageFile, PageFileType, PhysicalThresholds
from winpool.controllers.watched_nodes import NO_PODS, PodHistory, Series, WatchedNode, wanted_by
from winpool.features.memory.samples import read
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
        soft_grace_seconds=45.0,
        clear_after_seconds=600.0,
    )


def listed(history: PodHistory, *, at: float, is_calm: bool, **used: float) -> PodHistory:
    """Return the history with a list of pods: what each has committed, in GiB, and half of it in RAM."""
    pods = {name: PodUsage(gib * GIB, gib * GIB / 2) for name, gib in used.items()}
    return history.listed(pods, at=at, is_calm=is_calm)


def grown(history: PodHistory, *, now: float) -> dict[str, float | None]:
    """Return by how many GiB each pod has grown, by what it has committed."""
    usage = history.usage(now=now)
    assert all(each.commit_growth == 2 * (each.working_set_growth or 0) for each in usage.values())
    return {
        name: None if each.commit_growth is None else each.commit_growth / GIB for name, each in usage.items()
    }


def test_the_growth_of_a_pod_is_that_since_its_node_was_calm_however_long_ago_that_is() -> None:
    calm = listed(NO_PODS, at=0.0, is_calm=True, a=1, b=4)
    assert grown(calm, now=0.0) == {"a": 0, "b": 0}
    hot = listed(calm, at=10.0, is_calm=False, a=2, b=4)
    assert grown(hot, now=10.0) == {"a": 1, "b": 0}
    hot = listed(hot, at=7200.0, is_calm=False, a=8, b=3.5)
    assert grown(hot, now=7200.0) == {"a": 7, "b": -0.5}


def test_the_list_that_growth_begins_with_is_replaced_only_while_the_node_is_calm() -> None:
    first = listed(NO_PODS, at=0.0, is_calm=True, a=1)
    assert listed(first, at=300.0, is_calm=True, a=2).base == (300.0, {"a": PodUsage(2 * GIB, GIB)})
    hot = first
    for turn in range(1, 100):
        hot = listed(hot, at=300.0 * turn, is_calm=False, a=1 + turn)
        assert hot.base == first.base
    assert grown(listed(hot, at=30000.0, is_calm=True, a=100), now=30000.0) == {"a": 0}


def test_where_the_node_was_not_calm_since_the_start_growth_begins_with_the_first_list() -> None:
    history = listed(NO_PODS, at=0.0, is_calm=False, a=4)
    assert grown(history, now=0.0) == {"a": 0}
    assert grown(listed(history, at=10.0, is_calm=False, a=5), now=10.0) == {"a": 1}


def test_the_pods_of_a_calm_node_are_due_after_five_minutes() -> None:
    assert NO_PODS.is_due(now=0.0)
    history = listed(NO_PODS, at=100.0, is_calm=True, a=1)
    assert not history.is_due(now=399.9)
    assert history.is_due(now=400.0)


def test_a_pod_that_started_since_the_node_was_calm_has_grown_by_all_that_it_has() -> None:
    calm = listed(NO_PODS, at=0.0, is_calm=True, old=1)
    assert grown(listed(calm, at=60.0, is_calm=False, new=3), now=60.0) == {"new": 3}


def test_growth_is_unknown_where_what_the_pod_uses_or_used_is() -> None:
    before = {"a": PodUsage(None, GIB), "b": PodUsage(GIB, None), "c": PodUsage(GIB, GIB)}
    now = {"a": PodUsage(GIB, GIB), "b": PodUsage(GIB, GIB), "c": PodUsage(), "new": PodUsage(None, GIB)}
    usage = NO_PODS.listed(before, at=0.0, is_calm=True).listed(now, at=10.0, is_calm=False).usage(now=10.0)
    assert {name: (each.commit_growth, each.working_set_growth) for name, each in usage.items()} == {
        "a": (None, 0),
        "b": (0, None),
        "c": (None, None),
        "new": (None, GIB),
    }


def test_a_list_of_pods_that_is_too_old_says_nothing() -> None:
    history = listed(NO_PODS, at=100.0, is_calm=True, a=1)
    assert history.usage(now=145.0) != {}
    assert history.usage(now=145.1) == {}
    history = listed(history, at=200.0, is_calm=False, a=1)
    assert history.usage(now=245.0) != {}, "that of the calm node may be older"


@pytest.mark.parametrize("mode", ["Observe", "Signal", "Evict"])
def test_pods_are_listed_where_the_pool_evicts_of_a_calm_node_every_five_minutes(mode: str) -> None:
    node = a_watched(mode)
    evicts = mode == "Evict"
    assert node.lists_pods(0.0) is evicts
    node.listed({}, at=0.0)
    assert not node.lists_pods(299.0)
    assert node.lists_pods(300.0) is evicts
    node.priority = 0.5
    assert node.lists_pods(10.0) is evicts, "a hot node: with each sample"


def test_a_list_is_that_of_a_calm_node_only_if_it_was_calm_before_the_sample_and_after_it() -> None:
    node, at = a_watched("Evict"), 0.0

    def sampled(used: float) -> float | None:
        nonlocal at
        at += 10.0
        sample = a_sample(at, **committed(used))
        node.took(sample)
        node.listed({"a": PodUsage(used * GIB, GIB)}, at=at)
        node.update(at)
        return None if node.pods.base is None else node.pods.base[0]

    assert [sampled(12), sampled(12), sampled(12)] == [10, 20, 30]
    assert [sampled(20), sampled(20)] == [30, 30], "a list of pods under pressure is none of a calm node"
    while node.is_hot:
        assert sampled(12) == 30
    assert sampled(12) == at
