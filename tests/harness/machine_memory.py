"""Simulated machines with pods whose processes follow a script, for tests of the memory model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from testbed.memory.hardware import FixedPageFile, Hardware, PageFile
from testbed.memory.machine import Machine
from testbed.memory.pages import GIB, MIB
from testbed.memory.parsing import parse_workload
from testbed.memory.reading import MemoryReading, PodIdentity, PodReading
from testbed.memory.truth import GroundTruth
from testbed.memory.workloads import Workload

Script = Mapping[str, Any]

AKS_PAGE_FILE: Final = FixedPageFile(size_bytes=8096 * MIB)
AKS: Final = Hardware(ram_bytes=16 * GIB, page_file=AKS_PAGE_FILE)
"""A node of 16 GiB as AKS sets it up (Azure/AgentBaker, staging/cse/windows/configfunc.ps1)."""

COUNTERS: Final = (
    "page_reads_total",
    "pages_read_total",
    "pages_written_total",
    "transition_pages_repurposed_total",
)


def script(workload: str, commit: str | None = None, **fields: Any) -> Script:
    """Return a workload as people write it."""
    given = {} if commit is None else {"commit": commit}
    return {"workload": workload, **given, **fields}


def workload(given: Script) -> Workload:
    """Read a workload by way of its text."""
    return parse_workload(json.dumps(given), where="script")


def pod(name: str) -> PodIdentity:
    """Return a pod whose UID follows from its name."""
    return PodIdentity(namespace="shop", name=name, uid=f"uid-{name}")


def machine(
    scripts: Iterable[Script] = (), *, hardware: Hardware = AKS, started_at: float = 0.0, seed: int = 0
) -> Machine:
    """Return a machine with a pod for each script, called p0, p1 and so on, all started with it."""
    made = Machine(hardware, started_at=started_at, seed=seed)
    for number, given in enumerate(scripts):
        made.start(pod(f"p{number}"), workload(given), at=started_at)
    return made


def hardware(*, ram: int, page_file: PageFile) -> Hardware:
    """Return hardware with so many bytes of RAM."""
    return Hardware(ram_bytes=ram, page_file=page_file)


def pod_in(reading: MemoryReading, name: str) -> PodReading:
    """Return what a reading says of a pod."""
    return next(each for each in reading.pods if each.name == name)


def harm(truth: GroundTruth) -> tuple[bool, bool]:
    """Return whether allocations were denied, and whether the machine thrashed."""
    return truth.allocations_denied > 0, truth.seconds_thrashing > 0


def counters(reading: MemoryReading) -> tuple[int, ...]:
    """Return what may only rise."""
    return tuple(getattr(reading, name) for name in COUNTERS)
