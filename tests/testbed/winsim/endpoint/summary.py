"""``/stats/summary`` of a Windows node. Pure.

Follows the kubelet at v1.37.1: ``summary.go`` and ``summary_sys_containers_windows.go`` in
``pkg/kubelet/server/stats``, ``cri_stats_provider.go`` and ``helper.go`` in ``pkg/kubelet/stats``, and
``pkg/kubelet/winstats``. Numbers about anything but memory are invented and plausible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from testbed.winsim.endpoint import stats
from testbed.winsim.endpoint.podstats import pod_stats
from testbed.winsim.endpoint.scene import moment
from testbed.winsim.nodestatus import minor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from testbed.winsim.endpoint.scene import Scene

COMMIT_CONTAINER: Final = "windows-global-commit-memory"
PODS_CONTAINER: Final = "pods"
COMMIT_CONTAINER_SINCE: Final = 31
"""The minor from which kubelets report it (kubernetes/kubernetes#122922)."""
# A calm machine: a fortieth of its CPUs.
_NANO_CORES_PER_CPU: Final = 25_000_000
_RX_PER_SECOND: Final = 20_000
_TX_PER_SECOND: Final = 30_000
_DISK_USED_PERCENT: Final = 35


def summary(
    scene: Scene, *, only_cpu_and_memory: bool = False, further: Sequence[stats.Pod] = ()
) -> stats.Summary:
    """Compose what a kubelet answers, with ``?only_cpu_and_memory=true`` or without.

    The ``further`` pods are appended, and counted nowhere.
    """
    pods = tuple(
        pod_stats(scene, reading, tenant, only_cpu_and_memory=only_cpu_and_memory)
        for reading in scene.current.pods
        if (tenant := scene.tenants.get(reading.uid)) is not None
        and not _is_missing(scene, tenant.host_process)
    )
    node = stats.Node(
        node_name=scene.called,
        system_containers=_system_containers(scene, pods),
        start_time=moment(scene.kubelet_started if only_cpu_and_memory else scene.booted),
        cpu=_cpu(scene),
        memory=_memory(scene),
    )
    whole = node if only_cpu_and_memory else _with_the_rest(node, scene)
    return stats.Summary(node=whole, pods=(*pods, *further))


def _is_missing(scene: Scene, host_process: bool) -> bool:
    """A sandbox of host processes has no stats in the CRI."""
    return scene.stats_from_cri and host_process


def _cpu(scene: Scene) -> stats.Cpu:
    """The total starts at 0 with the kubelet, as its perf counter client does."""
    rate = _NANO_CORES_PER_CPU * scene.machine.hardware.cpus
    at = scene.counters.time
    return stats.Cpu(
        time=moment(at),
        usage_nano_cores=rate,
        usage_core_nano_seconds=int(rate * max(0.0, at - scene.kubelet_started)),
    )


def _memory(scene: Scene) -> stats.Memory:
    """``usageBytes`` is the commit of the whole machine; ``availableBytes`` is computed, an upper bound."""
    counters = scene.counters
    return stats.Memory(
        time=moment(counters.time),
        available_bytes=max(0, counters.physical_total_bytes - counters.private_working_set_bytes),
        usage_bytes=counters.commit_total_bytes,
        working_set_bytes=counters.private_working_set_bytes,
        rss_bytes=0,
        page_faults=0,
        major_page_faults=0,
    )


def _system_containers(scene: Scene, pods: tuple[stats.Pod, ...]) -> tuple[stats.Container, ...]:
    if minor_of(scene.machine) < COMMIT_CONTAINER_SINCE:
        return (_pods(scene, pods),)
    return _pods(scene, pods), _commit(scene)


def _pods(scene: Scene, pods: tuple[stats.Pod, ...]) -> stats.Container:
    """Sums that are zero are left out, and times of nothing are null; its own start is always now."""
    now = moment(scene.now)
    cpus = [each.cpu for each in pods if each.cpu is not None]
    memories = [each.memory for each in pods if each.memory is not None]

    def total(of: Callable[[stats.Memory], int | None]) -> int | None:
        return sum(of(each) or 0 for each in memories) or None

    return stats.Container(
        name=PODS_CONTAINER,
        start_time=now,
        cpu=stats.Cpu(
            time=now if cpus else None,
            usage_nano_cores=sum(each.usage_nano_cores or 0 for each in cpus) or None,
            usage_core_nano_seconds=sum(each.usage_core_nano_seconds or 0 for each in cpus) or None,
        ),
        memory=stats.Memory(
            time=now if memories else None,
            available_bytes=total(lambda each: each.available_bytes),
            usage_bytes=total(lambda each: each.usage_bytes),
            working_set_bytes=total(lambda each: each.working_set_bytes),
        ),
    )


def _commit(scene: Scene) -> stats.Container:
    """Windows is asked at the moment of the answer: this time advances where that of counters does not."""
    now, current = moment(scene.now), scene.current
    return stats.Container(
        name=COMMIT_CONTAINER,
        start_time=now,
        memory=stats.Memory(
            time=now,
            available_bytes=max(0, current.commit_limit_bytes - current.commit_total_bytes),
            usage_bytes=current.commit_total_bytes,
        ),
    )


def _with_the_rest(node: stats.Node, scene: Scene) -> stats.Node:
    at = moment(scene.counters.time)
    alive = max(0.0, scene.counters.time - scene.booted)
    received, sent = int(_RX_PER_SECOND * alive), int(_TX_PER_SECOND * alive)
    capacity = scene.machine.hardware.disk_ki * 1024
    used = capacity * _DISK_USED_PERCENT // 100
    disk = stats.Disk(
        time=moment(scene.now), available_bytes=capacity - used, capacity_bytes=capacity, used_bytes=used
    )
    return msgspec.structs.replace(
        node,
        network=stats.Network(
            time=at,
            name="Ethernet",
            rx_bytes=received,
            tx_bytes=sent,
            interfaces=(stats.Interface("Ethernet", received, sent),),
        ),
        fs=disk,
        runtime=stats.Runtime(container_fs=disk, image_fs=disk),
    )
