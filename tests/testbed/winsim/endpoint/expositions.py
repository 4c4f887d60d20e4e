"""Metrics as text for Prometheus: ``/metrics/resource`` of a kubelet, and those of windows_exporter. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from testbed.winsim.endpoint.podstats import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from testbed.memory.reading import MemoryReading
    from testbed.winsim.endpoint import stats
    from testbed.winsim.endpoint.tenants import Tenant

_CONTAINER: Final = ("container", "pod", "namespace")
_POD: Final = ("pod", "namespace")
_NANO: Final = 1e9
_PAGE_FILE: Final = r"C:\pagefile.sys"


class _Families(Collector):
    """Metrics that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def resource_metrics(summary: stats.Summary, *, at: float) -> bytes:
    """Write ``/metrics/resource`` (``pkg/kubelet/metrics/collectors/resource_metrics.go`` at v1.37.1).

    Args:
        summary: what the kubelet knows, CPU and memory.
        at: when that was, in seconds since the epoch.

    """
    return generate_latest(_Families(_resource(summary, at)))


def _resource(summary: stats.Summary, at: float) -> Iterator[Metric]:
    for what, labels, parts in (
        ("container", _CONTAINER, _containers(summary)),
        ("pod", _POD, [((pod.pod_ref.name, pod.pod_ref.namespace), pod) for pod in summary.pods]),
        ("node", (), [((), summary.node)]),
    ):
        cpu = CounterMetricFamily(
            f"{what}_cpu_usage_seconds_total",
            f"[STABLE] Cumulative cpu time consumed by the {what} in core-seconds",
            labels=labels,
        )
        memory = GaugeMetricFamily(
            f"{what}_memory_working_set_bytes",
            f"[STABLE] Current working set of the {what} in bytes",
            labels=labels,
        )
        for values, part in parts:
            if part.cpu is not None and part.cpu.usage_core_nano_seconds is not None:
                cpu.add_metric(values, part.cpu.usage_core_nano_seconds / _NANO, timestamp=at)
            if part.memory is not None and part.memory.working_set_bytes is not None:
                memory.add_metric(values, part.memory.working_set_bytes, timestamp=at)
        yield from (cpu, memory)
    yield GaugeMetricFamily(
        "resource_scrape_error",
        "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
        value=0,
    )


def _containers(
    summary: stats.Summary,
) -> list[tuple[Sequence[str], stats.Container | stats.Pod | stats.Node]]:
    return [
        ((container.name, pod.pod_ref.name, pod.pod_ref.namespace), container)
        for pod in summary.pods
        for container in pod.containers
    ]


def exporter_metrics(reading: MemoryReading, *, tenants: Mapping[str, Tenant], containers: bool) -> bytes:
    """Write what windows_exporter says of memory, page file and, where that collector is on, of containers.

    Names: docs/collector.memory.md, collector.pagefile.md and collector.container.md of
    prometheus-community/windows_exporter. It says no times.
    """
    families = [*_machine(reading), *(_of_containers(reading, tenants) if containers else ())]
    collectors = ("memory", "pagefile", *(("container",) if containers else ()))
    success = GaugeMetricFamily(
        "windows_exporter_collector_success", "Whether the collector was successful", labels=["collector"]
    )
    for name in collectors:
        success.add_metric([name], 1)
    return generate_latest(_Families([*families, success]))


def _machine(reading: MemoryReading) -> Iterator[Metric]:
    gauges = {
        "available_bytes": (reading.available_bytes, "Standby, free and zeroed memory"),
        "physical_total_bytes": (reading.physical_total_bytes, "Physical memory"),
        "committed_bytes": (reading.commit_total_bytes, "Committed virtual memory"),
        "commit_limit": (reading.commit_limit_bytes, "What can be committed without extending the page file"),
        "modified_page_list_bytes": (reading.modified_page_list_bytes, "Modified pages"),
        "pool_nonpaged_bytes": (reading.pool_nonpaged_bytes, "Bytes in the non-paged pool"),
        "pool_paged_bytes": (reading.pool_paged_bytes, "Bytes in the paged pool"),
    }
    counters = {
        "swap_page_reads": (reading.page_reads_total, "Disk page reads; an operation counts once"),
        "swap_pages_read": (reading.pages_read_total, "Pages read from disk"),
        "swap_pages_written": (reading.pages_written_total, "Pages written to disk"),
        "swap_page_operations": (
            reading.pages_read_total + reading.pages_written_total,
            "Pages read and written",
        ),
        "transition_pages_repurposed": (
            reading.transition_pages_repurposed_total,
            "Standby pages that were given to another process",
        ),
    }
    for name, (value, text) in gauges.items():
        yield GaugeMetricFamily(f"windows_memory_{name}", text, value=value)
    for name, (value, text) in counters.items():
        yield CounterMetricFamily(f"windows_memory_{name}", text, value=value)
    for name, value in (("limit", reading.page_file_limit_bytes), ("free", reading.page_file_free_bytes)):
        file = GaugeMetricFamily(f"windows_pagefile_{name}_bytes", "Page file", labels=["file"])
        file.add_metric([_PAGE_FILE], value)
        yield file


def _of_containers(reading: MemoryReading, tenants: Mapping[str, Tenant]) -> Iterator[Metric]:
    """Host processes too: the exporter sees their job objects."""
    labels = ["container", "container_id", "hostprocess", "namespace", "pod"]
    commit = GaugeMetricFamily("windows_container_memory_usage_commit_bytes", "Commit", labels=labels)
    private = GaugeMetricFamily(
        "windows_container_memory_usage_private_working_set_bytes", "Private working set", labels=labels
    )
    for pod in reading.pods:
        tenant = tenants.get(pod.uid)
        if tenant is None:
            continue
        for index, name in enumerate(tenant.containers):
            count = len(tenant.containers)
            host = "true" if tenant.host_process else "false"
            values = [name, f"containerd://{pod.uid}-{index}", host, pod.namespace, pod.name]
            commit.add_metric(values, share(pod.commit_bytes, index, count))
            private.add_metric(values, share(pod.private_working_set_bytes, index, count))
    yield from (commit, private)
