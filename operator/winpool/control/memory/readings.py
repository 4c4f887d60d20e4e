"""What a source reports of a node, as a sample of the detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.samples import MemorySample

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.kubelet.samples import ExporterSample, KubeletSample, PodMemory


def of_kubelet(
    told: KubeletSample, *, source: str, arrived_at: float, interval: float, capacity: int | None
) -> MemorySample:
    """Return the sample of a kubelet. ``capacity`` is the RAM of the node in bytes, None where unknown.

    A kubelet before 1.31 has no commit container. It reports what is committed, and not the limit.
    """
    memory, commit = told.memory, told.commit
    committed = memory.committed if commit is None and memory is not None else None
    return MemorySample(
        source,
        arrived_at=arrived_at,
        taken_at=_own_time(told),
        interval_seconds=interval,
        commit_total=committed if commit is None else commit.committed,
        commit_limit=None if commit is None else commit.limit,
        physical_total=capacity,
        proxy_available=None if memory is None else memory.available,
        pods_commit=None if told.pods is None else _sum_of(told.pods),
    )


def of_exporter(
    told: ExporterSample, *, source: str, arrived_at: float, interval: float, capacity: int | None
) -> MemorySample:
    """Return the sample of a windows_exporter. ``capacity`` is the RAM of the node, for one that lacks it."""
    return MemorySample(
        source,
        arrived_at=arrived_at,
        taken_at=told.time,
        interval_seconds=interval,
        age=told.age,
        commit_total=told.committed,
        commit_limit=told.commit_limit,
        physical_total=capacity if told.physical is None else told.physical,
        physical_available=told.available,
        hard_reads_per_second=told.page_reads,
        write_out_per_second=told.pages_written,
        repurposed_per_second=told.pages_repurposed,
        pool_nonpaged=told.pool_nonpaged,
    )


def _own_time(told: KubeletSample) -> float | None:
    """Return the time of the older part: the sample is fresh only if both parts have advanced."""
    times: list[datetime] = [part.time for part in (told.memory, told.commit) if part is not None]
    return min(times).timestamp() if times else None


def _sum_of(pods: tuple[PodMemory, ...]) -> float | None:
    """Return what all pods have committed; None where that of one is unknown, or there are none.

    A node without any pod has no agents either, so its list is rather not complete.
    """
    amounts = [pod.committed for pod in pods if pod.committed is not None]
    return float(sum(amounts)) if amounts and len(amounts) == len(pods) else None
