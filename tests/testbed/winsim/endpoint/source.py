"""Where the numbers of a node's memory come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from testbed.memory.reading import MemoryReading, PodReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.winsim.endpoint.tenants import Tenants
    from testbed.winsim.machines import Machine

MIB: Final = 1024 * 1024
# What Windows Server and the node's agents take of an idle machine, roughly; the detector's default overhead
# (memory-pressure, "osOverheadBytes") is the same.
_SYSTEM_COMMIT: Final = 1800 * MIB
_SYSTEM_WORKING_SET: Final = 1200 * MIB
_POOL_NONPAGED: Final = 180 * MIB
_POOL_PAGED: Final = 260 * MIB
_POD_COMMIT: Final = 256 * MIB
_POD_WORKING_SET: Final = 160 * MIB
_MODIFIED: Final = 40 * MIB
# The fixed page file of AKS (Azure/AgentBaker, configfunc.ps1).
_PAGE_FILE: Final = 8096 * MIB
# A few mapped files are read on any machine.
_READS_PER_SECOND: Final = 2.0
_PAGES_PER_READ: Final = 4
_PAGES_WRITTEN_PER_SECOND: Final = 0.5


class MemorySource(Protocol):
    """Tells how the memory of a node stands."""

    def reading(self, node: str, now: float) -> MemoryReading:
        """Return the memory of a node at a time, in seconds since the epoch.

        It is asked of one node with times that never go back.
        """


class SteadySource:
    """Machines on which nothing happens: every pod takes the same, and only the counters move."""

    def __init__(self, machines: Mapping[str, Machine], tenants: Tenants) -> None:
        self._machines = machines
        self._tenants = tenants

    def reading(self, node: str, now: float) -> MemoryReading:
        """Return what a calm machine reads with the pods that run on it."""
        physical = self._machines[node].hardware.memory_ki * 1024
        pods = tuple(
            PodReading(
                namespace=each.namespace,
                name=each.name,
                uid=each.uid,
                commit_bytes=_POD_COMMIT,
                private_working_set_bytes=_POD_WORKING_SET,
            )
            for each in self._tenants.on(node).values()
        )
        working_set = _SYSTEM_WORKING_SET + _POD_WORKING_SET * len(pods)
        commit_limit = physical + _PAGE_FILE
        return MemoryReading(
            time=now,
            physical_total_bytes=physical,
            available_bytes=max(0, physical - working_set - _POOL_NONPAGED - _MODIFIED),
            private_working_set_bytes=min(physical, working_set),
            commit_total_bytes=min(commit_limit, _SYSTEM_COMMIT + _POD_COMMIT * len(pods)),
            commit_limit_bytes=commit_limit,
            pool_nonpaged_bytes=_POOL_NONPAGED,
            pool_paged_bytes=_POOL_PAGED,
            page_file_limit_bytes=_PAGE_FILE,
            page_file_free_bytes=_PAGE_FILE,
            modified_page_list_bytes=_MODIFIED,
            page_reads_total=int(now * _READS_PER_SECOND),
            pages_read_total=int(now * _READS_PER_SECOND) * _PAGES_PER_READ,
            pages_written_total=int(now * _PAGES_WRITTEN_PER_SECOND),
            transition_pages_repurposed_total=0,
            pods=pods,
        )
