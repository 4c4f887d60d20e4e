"""What a kubelet says about one pod on Windows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.winsim.endpoint import stats
from testbed.winsim.endpoint.scene import moment

if TYPE_CHECKING:
    from testbed.memory.reading import PodReading
    from testbed.winsim.endpoint.scene import Scene
    from testbed.winsim.endpoint.tenants import Tenant

# A container that waits for work: a fiftieth of a CPU.
_NANO_CORES: Final = 20_000_000
_LOG_BYTES: Final = 16_384
_LAYER_BYTES: Final = 41_943_040


def pod_stats(scene: Scene, reading: PodReading, tenant: Tenant, *, only_cpu_and_memory: bool) -> stats.Pod:
    """Compose the stats of a pod.

    By default the kubelet adds up what containers report, and writes 0 for what they do not report:
    ``usageBytes`` of a pod is 0 whatever it has committed. With the gate PodAndContainerStatsFromCRI it is
    the commit, and what is not reported is absent. Host processes read 0 for everything, with a fresh time.
    """
    containers = tuple(
        _container(scene, reading, tenant, index, only_cpu_and_memory=only_cpu_and_memory)
        for index in range(len(tenant.containers))
    )
    now = moment(scene.current.time)
    cores = [each.cpu.usage_nano_cores or 0 for each in containers if each.cpu]
    seconds = [each.cpu.usage_core_nano_seconds or 0 for each in containers if each.cpu]
    return stats.Pod(
        pod_ref=stats.PodRef(name=tenant.name, namespace=tenant.namespace, uid=tenant.uid),
        start_time=moment(tenant.started),
        containers=containers,
        cpu=stats.Cpu(time=now, usage_nano_cores=sum(cores), usage_core_nano_seconds=sum(seconds)),
        memory=_memory(scene, reading, tenant, now=now),
        network=None if only_cpu_and_memory or tenant.host_process else _network(now),
        ephemeral_storage=None
        if only_cpu_and_memory
        else _disk(scene, (_LAYER_BYTES + _LOG_BYTES) * len(containers)),
    )


def _memory(scene: Scene, reading: PodReading, tenant: Tenant, *, now: str) -> stats.Memory:
    working_set = 0 if tenant.host_process else reading.private_working_set_bytes
    if scene.stats_from_cri:
        return stats.Memory(time=now, usage_bytes=reading.commit_bytes, working_set_bytes=working_set)
    return stats.Memory(
        time=now,
        available_bytes=0,
        usage_bytes=0,
        working_set_bytes=working_set,
        rss_bytes=0,
        page_faults=0,
        major_page_faults=0,
    )


def _container(
    scene: Scene, reading: PodReading, tenant: Tenant, index: int, *, only_cpu_and_memory: bool
) -> stats.Container:
    now, started = moment(scene.current.time), moment(tenant.started)
    rate = 0 if tenant.host_process else _NANO_CORES
    total = int(rate * max(0.0, scene.current.time - tenant.started))
    cpu = stats.Cpu(time=now, usage_nano_cores=rate, usage_core_nano_seconds=total)
    memory = _container_memory(scene, reading, tenant, index, now=now, light=only_cpu_and_memory)
    if only_cpu_and_memory:
        return stats.Container(tenant.containers[index], started, cpu=cpu, memory=memory)
    return stats.Container(
        tenant.containers[index],
        started,
        cpu=cpu,
        memory=memory,
        rootfs=_disk(scene, _LAYER_BYTES),
        logs=_disk(scene, _LOG_BYTES),
        # The default path of the CRI provider writes zeros here, though Windows has no such thing.
        swap=None if scene.stats_from_cri else stats.Swap(now, 0, 0),
    )


def _container_memory(
    scene: Scene, reading: PodReading, tenant: Tenant, index: int, *, now: str, light: bool
) -> stats.Memory:
    count = len(tenant.containers)
    working_set = 0 if tenant.host_process else share(reading.private_working_set_bytes, index, count)
    if scene.stats_from_cri:
        if light:
            return stats.Memory(now, available_bytes=0, working_set_bytes=working_set, page_faults=0)
        return stats.Memory(
            now, usage_bytes=share(reading.commit_bytes, index, count), working_set_bytes=working_set
        )
    if light:
        return stats.Memory(
            now,
            available_bytes=0,
            usage_bytes=0,
            working_set_bytes=working_set,
            rss_bytes=0,
            page_faults=0,
            major_page_faults=0,
        )
    return stats.Memory(now, working_set_bytes=working_set)


def share(whole: int, index: int, count: int) -> int:
    """Return one container's part of what a pod has; the parts add up to the whole."""
    return whole // count + (whole % count if index == 0 else 0)


def _network(now: str) -> stats.Network:
    return stats.Network(now, "vEthernet", 0, 0, (stats.Interface("vEthernet", 0, 0),))


def _disk(scene: Scene, used: int) -> stats.Disk:
    """Of the host's drive, as container runtimes on Windows report it."""
    capacity = scene.machine.hardware.disk_ki * 1024
    return stats.Disk(
        moment(scene.now), available_bytes=capacity // 2, capacity_bytes=capacity, used_bytes=used
    )
