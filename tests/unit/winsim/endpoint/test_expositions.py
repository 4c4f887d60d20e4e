"""Metrics of simulated kubelets and exporters, as Prometheus reads them."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testbed.winsim.endpoint.expositions import exporter_metrics, resource_metrics
from testbed.winsim.endpoint.summary import summary
from unit.winsim.endpoint.scenes import GIB, NOW, a_reading, a_scene, a_tenant

Samples = dict[tuple[str, str], tuple[float, float | None]]


def read(text: bytes, *, label: str = "container") -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            at = None if sample.timestamp is None else float(str(sample.timestamp))
            found[sample.name, sample.labels.get(label, "")] = (sample.value, at)
    return found


def test_resource_metrics_have_the_kubelets_names_and_the_time_of_the_counters() -> None:
    found = read(resource_metrics(summary(a_scene(), only_cpu_and_memory=True), at=NOW - 5))
    assert found["node_memory_working_set_bytes", ""] == (float(9 * GIB), NOW - 5)
    assert found["node_cpu_usage_seconds_total", ""] == (360.0, NOW - 5)
    assert found["pod_memory_working_set_bytes", ""] == (float(2 * GIB + 1), NOW - 5)
    assert found["container_memory_working_set_bytes", "app"] == (float(GIB + 1), NOW - 5)
    assert found["container_memory_working_set_bytes", "proxy"] == (float(GIB), NOW - 5)
    assert found["resource_scrape_error", ""] == (0.0, None)
    assert not any("commit" in name for name, _ in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("windows_memory_available_bytes", 5 * GIB),
        ("windows_memory_physical_total_bytes", 16 * GIB),
        ("windows_memory_committed_bytes", 18 * GIB),
        ("windows_memory_commit_limit", 24 * GIB),
        ("windows_memory_swap_page_reads_total", 100),
        ("windows_memory_swap_pages_read_total", 400),
        ("windows_memory_swap_pages_written_total", 50),
        ("windows_memory_swap_page_operations_total", 450),
        ("windows_memory_modified_page_list_bytes", GIB // 8),
        ("windows_memory_transition_pages_repurposed_total", 7),
        ("windows_memory_pool_nonpaged_bytes", GIB),
        ("windows_memory_pool_paged_bytes", 2 * GIB),
        ("windows_pagefile_limit_bytes", 8 * GIB),
        ("windows_pagefile_free_bytes", 6 * GIB),
    ],
)
def test_the_exporter_has_every_name_of_memory_and_page_file(name: str, value: int) -> None:
    found = read(exporter_metrics(a_reading(), tenants={}, containers=False))
    assert found[name, ""] == (value, None)


def test_the_container_collector_is_there_only_where_it_is_on_and_sees_host_processes() -> None:
    scene = a_scene(tenants={"uid-shop": a_tenant(host_process=True)})
    on = exporter_metrics(scene.counters, tenants=scene.tenants, containers=True)
    found = read(on)
    assert found["windows_container_memory_usage_commit_bytes", "app"][0] == 1.5 * GIB
    private = "windows_container_memory_usage_private_working_set_bytes"
    assert found[private, "app"][0] + found[private, "proxy"][0] == 2 * GIB + 1
    assert b'hostprocess="true"' in on
    assert read(on, label="collector")["windows_exporter_collector_success", "container"] == (1, None)
    off = exporter_metrics(scene.counters, tenants=scene.tenants, containers=False)
    assert b"container" not in off
