"""What a machine would report about its memory at one moment: the figures of Windows' performance counters.

An endpoint (a kubelet, an exporter) is built on exactly these names. What only a test may know, such as
denied allocations and time lost to paging, is in ``testbed.memory.truth`` and never here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """Which pod it is."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading(PodIdentity):
    """The memory of one pod's processes."""

    commit_bytes: int
    private_working_set_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """The memory of a machine.

    Counters that end in ``_total`` count from the start of the machine and never fall.
    """

    time: float
    """When the figures were taken, on the caller's clock. They are taken once a second, so this is up to a
    second before the moment that was asked for."""
    physical_total_bytes: int
    available_bytes: int
    """Standby, free and zeroed pages."""
    private_working_set_bytes: int
    """Of all processes; without the kernel, shared pages and the page lists."""
    commit_total_bytes: int
    commit_limit_bytes: int
    pool_nonpaged_bytes: int
    pool_paged_bytes: int
    page_file_limit_bytes: int
    """The size that the page file has now."""
    page_file_free_bytes: int
    modified_page_list_bytes: int
    page_reads_total: int
    """Read operations that hard faults caused, from the page file and from mapped files."""
    pages_read_total: int
    pages_written_total: int
    transition_pages_repurposed_total: int
    """Standby pages that were given to something else."""
    pods: tuple[PodReading, ...]
    """In the order in which the pods started."""
