"""A sample: what one source reports of the memory of one node at one time.

Each value is as old as its sample, and has its source: values of several sources are in several samples.
Unknown is None, and so is every number that no machine can have: NaN, infinity, 2^63 and negative ones. What
a source means by 0 is for its parser to say, which leaves out a zero that means missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

LARGEST: Final = float(2**53)
"""Larger amounts and times are unknown. Windows Server 2025 supports 4 PiB of memory (2^52 bytes), and a
float holds every whole number up to here. Garbage is usually far above: 2^63, 2^64-1.
https://learn.microsoft.com/windows/win32/memory/memory-limits-for-windows-releases"""

_VALUES: Final = (
    "commit_total",
    "commit_limit",
    "physical_total",
    "physical_available",
    "proxy_available",
    "hard_reads_per_second",
    "write_out_per_second",
    "repurposed_per_second",
    "pool_nonpaged",
    "pods_commit",
)


@dataclass(frozen=True, slots=True)
class MemorySample:
    """What ``source`` reported of a node. Amounts are in bytes.

    ``source`` is a name from ``DetectorSettings.sources``. ``arrived_at`` is when it arrived, on the
    operator's clock. ``taken_at`` is the time that the sample has itself: the kubelet's ``memory.time``, or
    ``timestamp()`` of the series. It may be on any clock and is compared only with others of its source.
    ``interval_seconds`` is after how long the next one is due: the longer of our interval and that of the
    scrapes that we read.
    ``age`` is how many seconds old the sample was when it arrived, as its source itself says: Prometheus
    does, by one clock. It is None for a kubelet, which says nothing of the kind, and where the source says
    something that cannot be.
    """

    source: str
    arrived_at: float
    taken_at: float | None
    interval_seconds: float
    commit_total: float | None = None
    """Memory that the kernel has promised to all processes and itself."""
    commit_limit: float | None = None
    """What it can promise without extending the page file."""
    physical_total: float | None = None
    """RAM."""
    physical_available: float | None = None
    """RAM that is standby, free or zeroed. Only an exporter knows it."""
    proxy_available: float | None = None
    """The kubelet's ``availableBytes``: RAM without the private working sets. An upper bound of what is
    available, since it counts neither kernel nor shared memory."""
    hard_reads_per_second: float | None = None
    """Read operations that resolve page faults. They include reads of mapped files."""
    write_out_per_second: float | None = None
    """Pages written to the page file."""
    repurposed_per_second: float | None = None
    """Pages of the standby list that are given to someone else."""
    pool_nonpaged: float | None = None
    """Kernel memory that is never paged."""
    pods_commit: float | None = None
    """What all pods have committed together; None where any pod's is unknown."""
    age: float | None = None

    @property
    def measured_at(self) -> float:
        """When it was measured, on the operator's clock: as old as its source says, else on arrival."""
        return self.arrived_at if self.age is None else self.arrived_at - self.age


def is_amount(value: float) -> bool:
    """Whether ``value`` is an amount or a rate that a machine can have."""
    return 0 <= value < LARGEST


def is_time(value: float) -> bool:
    """Whether ``value`` can be a number of seconds on a clock."""
    return -LARGEST < value < LARGEST


def cleaned(sample: MemorySample) -> MemorySample:
    """Return ``sample`` without the numbers that cannot be: they are unknown."""
    changes: dict[str, Any] = {}
    for name in _VALUES:
        value = getattr(sample, name)
        if value is not None and not is_amount(value):
            changes[name] = None
    if sample.taken_at is not None and not is_time(sample.taken_at):
        changes["taken_at"] = None
    if sample.age is not None and not is_amount(sample.age):
        # It is negative where the two clocks of a federation differ, and then it proves nothing.
        changes["age"] = None
    return replace(sample, **changes) if changes else sample
