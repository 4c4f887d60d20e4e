"""What a source reports about the memory of a node. None is unknown, and never 0.

All amounts are in bytes. Which of them can be trusted, and for what, is in the docstring of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """``node.memory`` of the Summary API. ``time`` is the kubelet's own time of the measurement.

    ``committed`` is all memory that Windows has promised to processes (``usageBytes``, the counter Committed
    Bytes); it can be more than the machine has. ``working_set`` is the sum of the private working sets.
    ``available`` is computed: the RAM minus ``working_set``. It ignores shared memory, the kernel and the
    cache, so it is an upper bound.
    """

    time: datetime
    committed: int | None
    available: int | None
    working_set: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMemory:
    """The system container ``windows-global-commit-memory``, which kubelets from 1.31 on report.

    ``limit`` is what Windows can promise now: RAM and page file. It changes when the page file grows.
    """

    time: datetime
    committed: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemory:
    """The memory of a pod. ``time`` is the kubelet's own time of the measurement, None where it is unknown.

    ``working_set`` is the sum of the private working sets of its containers. ``committed`` is unknown by
    default: only kubelets with the feature gate PodAndContainerStatsFromCRI report it.
    """

    uid: str
    namespace: str
    name: str
    time: datetime | None
    working_set: int | None
    committed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSample:
    """What the kubelet of a node reports. ``pods`` is None where they were not asked for.

    A pod that is missing in ``pods`` is unknown: HostProcess pods have no statistics.
    """

    node: str
    memory: MachineMemory | None
    commit: CommitMemory | None
    pods: tuple[PodMemory, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSample:
    """What windows_exporter measures on a node, as Prometheus has stored it.

    ``time`` is when Prometheus has scraped it, in seconds since 1970 by the clock of Prometheus. ``age`` is
    how many seconds before the query that was, by the same clock; negative where the two clocks of a
    federation differ. ``available`` is standby, free and zeroed memory. Rates are per second.
    """

    node: str
    time: float
    age: float
    committed: int | None
    commit_limit: int | None
    available: int | None
    physical: int | None
    pool_nonpaged: int | None
    page_reads: float | None
    pages_written: float | None
    pages_repurposed: float | None
