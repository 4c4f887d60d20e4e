"""Families of machines, and one machine of a family: its hardware, its pods, and what they will do.

A family is a file in ``families/``. Its fields are below; the amounts are those of ``amounts.py``. A seed
makes a ``Scene`` of it, always the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bench.pressure.amounts import Draw
from testbed.memory.demand import Demand, seed_of
from testbed.memory.hardware import (
    Disk,
    FixedPageFile,
    Hardware,
    OsFootprint,
    PageFile,
    SystemManagedPageFile,
)
from testbed.memory.pages import GIB, MIB
from testbed.memory.parsing import workload_of
from testbed.memory.reading import PodIdentity
from testbed.memory.workloads import OsLeak, Workload

FAMILIES: Final = Path(__file__).parent / "families"
HELD_OUT: Final = Path(__file__).parent / "heldout"
"""Families that someone wrote who had not seen how the detector decides. No design is made with them."""

NAMESPACE: Final = "shop"
OUTSIDE: Final = "windows"
"""The namespace of processes that are in no pod."""

AKS_PAGE_FILE_BYTES: Final = 8096 * MIB
"""Azure/AgentBaker, staging/cse/windows/configfunc.ps1."""


class PageFiles(StrEnum):
    """What a machine has, and what the pool of the operator says of it."""

    SMALL = "small"
    """Fixed, a tenth to half of RAM."""
    AKS = "aks"
    """Fixed, 8,096 MiB."""
    LARGE = "large"
    """Fixed, once or twice RAM."""
    MANAGED = "managed"
    """Windows extends it to once to three times RAM, and the pool says so."""
    UNDECLARED = "undeclared"
    """The same, and the pool does not say so."""
    MANAGED_SMALL = "managedSmall"
    """Windows may extend it to a quarter or half of RAM, as on a small volume, and the pool says so."""
    UNDECLARED_SMALL = "undeclaredSmall"
    """The same, and the pool does not say so."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class Pods(_Part):
    """Pods that do the same, each drawn for itself."""

    role: Literal["culprit", "bystander"] = "bystander"
    """Culprits are those whose eviction ends the harm. An eviction of any other pod hits an innocent one."""
    count: Any = 1
    workload: dict[str, Any]
    owner: Any = "ReplicaSet"
    """ReplicaSet, Job or DaemonSet. The operator evicts no pods of a DaemonSet; the kubelet does."""
    begins: Any = 0
    """Seconds since the start of the machine."""
    ends: Any = None
    """When it ends by itself; absent: never."""
    request: Any = "0Mi"
    outside: bool = False
    """Processes of Windows that are in no pod, such as a backup."""


class Base(_Part):
    """What Windows and its steady pods have: together ``commit`` of the ceiling, and ``resident`` of RAM."""

    commit: Any
    resident: Any
    pods: Any = "4..8"
    request: Any = "0Mi"
    jitter_percent: Any = "0..2"
    file_reads_per_second: Any = 0
    keeps_free: float = 0.0
    """So many times the operator's ``hardHeadroom`` stays uncommitted, whatever ``commit`` says."""


class MachineOf(_Part):
    """The hardware."""

    ram: Any = Field(default_factory=lambda: ["8Gi", "16Gi", "32Gi", "64Gi", "128Gi"])
    page_file: Any = Field(default_factory=lambda: [each.value for each in PageFiles])
    reads_per_second: Any = "200..20000 log"


class Source(StrEnum):
    """What the operator reads."""

    KUBELET = "kubelet"
    EXPORTER = "exporter"


class FaultKind(StrEnum):
    """How a source is at fault."""

    FROZEN = "frozen"
    """A kubelet answers with its last sample again. An exporter is gone, and Prometheus keeps its last values
    for the five minutes that it looks back."""
    SILENT = "silent"
    """A kubelet does not answer. Prometheus cannot scrape an exporter, and knows nothing of it."""
    ABSURD = "absurd"
    """The numbers of an answer are missing, 0 or 2**63, all of them alike."""
    SLOW = "slow"
    """The network to a kubelet is slow, and its node is not."""


class Fault(_Part):
    """A source that is at fault for a while, in seconds since the start of the machine."""

    source: Source
    kind: FaultKind
    begins: Any
    ends: Any


class Family(_Part):
    """A kind of history of a machine.

    ``helps`` is who can end the harm by an eviction: ``all`` contenders, those with an ``exporter``, or
    ``none``. ``many``: every node of the pool has it at the same time.
    """

    name: str = ""
    about: str
    healthy: bool = False
    helps: Literal["all", "exporter", "none"] = "all"
    many: bool = False
    seconds: Any
    machine: MachineOf = Field(default_factory=MachineOf)
    base: Base
    pods: tuple[Pods, ...] = ()
    windows: dict[str, Any] | None = None
    """A leak of Windows itself."""
    faults: tuple[Fault, ...] = ()
    restarts: bool = False
    """The operator is restarted when it first sees Hard, and knows nothing of before."""


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod of a scene, or a process ``outside`` of all pods."""

    name: str
    workload: Workload
    owner: str
    is_culprit: bool
    request_bytes: int
    begins: float
    ends: float | None
    outside: bool
    budget_blocks: bool
    stop_seconds: float
    """How long it takes to end, at most its grace."""

    @property
    def identity(self) -> PodIdentity:
        """Return how the machine names it."""
        namespace = OUTSIDE if self.outside else NAMESPACE
        return PodIdentity(namespace=namespace, name=self.name, uid=f"uid-{self.name}")

    @property
    def uid(self) -> str:
        """Its UID."""
        return self.identity.uid

    def demand(self, at: float, *, seed: int) -> Demand:
        """Return what it wants at that time of the machine of a scene with that seed."""
        identity = self.identity
        own = seed_of(seed, identity.namespace, identity.name)
        return self.workload.demand(max(0.0, at - self.begins), seed=own)


@dataclass(frozen=True, slots=True)
class Scene:
    """One machine and its future. ``page_file_bytes`` is what the pool declares; None for nothing."""

    family: Family
    seed: int
    seconds: int
    hardware: Hardware
    declared: Literal["Fixed", "SystemManaged", "Unknown"]
    page_file_bytes: int
    guests: tuple[Guest, ...]
    windows: OsLeak | None
    faults: tuple[Fault, ...]

    def fault(self, source: Source, at: float) -> FaultKind | None:
        """Return how a source is at fault at that time; None where it is not."""
        return next(
            (each.kind for each in self.faults if each.source is source and each.begins <= at < each.ends),
            None,
        )

    @property
    def culprits(self) -> frozenset[str]:
        """The names of the pods whose eviction ends the harm."""
        return frozenset(each.name for each in self.guests if each.is_culprit)


GRACE_SECONDS: Final = 30
_BLOCKED_SHARE: Final = 0.15
"""So many of the innocent pods have a PodDisruptionBudget that permits no eviction."""
_HARD_HEADROOM_BYTES: Final = GIB
_HARD_HEADROOM_SHARE: Final = 0.03


@cache
def family_at(path: Path) -> Family:
    """Read a family; its name is that of the file. Raises ValueError for what is none."""
    return Family.model_validate({**yaml.safe_load(path.read_text()), "name": path.stem})


def families(directory: Path = FAMILIES) -> list[Family]:
    """Return all families of a directory, in the order of their names."""
    return [family_at(path) for path in sorted(directory.glob("*.yaml"))]


def scene_of(family: Family, seed: int) -> Scene:
    """Return the machine that this seed makes of the family."""
    random = Random(seed_of("pressure", family.name, seed))
    draw = Draw(random, {})
    ram = int(draw.number(family.machine.ram))
    kind = PageFiles(draw.value(family.machine.page_file))
    page_file = _page_file(kind, ram, random)
    most = page_file.maximum_bytes_on(ram)
    ceiling = ram + most
    draw.wholes = {"ram": ram, "ceiling": ceiling}
    headroom = max(_HARD_HEADROOM_BYTES, _HARD_HEADROOM_SHARE * ceiling)
    base = min(draw.number(family.base.commit), ceiling - family.base.keeps_free * headroom)
    draw.wholes["left"] = int(ceiling - base)
    footprint = OsFootprint()
    guests = (*_steady(family.base, draw, base, footprint), *_others(family, draw))
    return Scene(
        family=family,
        seed=seed,
        seconds=draw.whole(family.seconds),
        hardware=Hardware(
            ram_bytes=ram,
            page_file=_as_after_a_while(page_file, ram, guests, footprint, seed=seed),
            disk=Disk(reads_per_second=int(draw.number(family.machine.reads_per_second))),
            os=footprint,
        ),
        declared=_declared(kind),
        page_file_bytes=most,
        guests=guests,
        windows=None if family.windows is None else _windows(family.windows, draw),
        faults=tuple(
            each.model_copy(update={"begins": draw.number(each.begins), "ends": draw.number(each.ends)})
            for each in family.faults
        ),
    )


def _as_after_a_while(
    page_file: PageFile, ram: int, guests: Sequence[Guest], footprint: OsFootprint, *, seed: int
) -> PageFile:
    """Return a managed page file as large as it is where all that begins with the scene was there before."""
    if not isinstance(page_file, SystemManagedPageFile):
        return page_file
    there = (each for each in guests if not each.begins)
    had = footprint.committed_bytes + sum(each.demand(0.0, seed=seed).commit_bytes for each in there)
    return replace(page_file, initial_bytes=max(ram // 8, int(had / 0.9) - ram))


def _page_file(kind: PageFiles, ram: int, random: Random) -> PageFile:
    match kind:
        case PageFiles.SMALL:
            return FixedPageFile(size_bytes=int(ram * random.uniform(0.1, 0.5)))
        case PageFiles.AKS:
            return FixedPageFile(size_bytes=AKS_PAGE_FILE_BYTES)
        case PageFiles.LARGE:
            return FixedPageFile(size_bytes=int(ram * random.uniform(1, 2)))
        case PageFiles.MANAGED_SMALL | PageFiles.UNDECLARED_SMALL:
            return SystemManagedPageFile(maximum_bytes=int(ram * random.uniform(0.25, 0.5)))
        case _:
            return SystemManagedPageFile(maximum_bytes=int(ram * random.uniform(1, 3)))


def _declared(kind: PageFiles) -> Literal["Fixed", "SystemManaged", "Unknown"]:
    if kind in (PageFiles.UNDECLARED, PageFiles.UNDECLARED_SMALL):
        return "Unknown"
    return "SystemManaged" if kind in (PageFiles.MANAGED, PageFiles.MANAGED_SMALL) else "Fixed"


def _steady(base: Base, draw: Draw, commit: float, os: OsFootprint) -> Iterator[Guest]:
    """Yield the pods that share what the base leaves beside Windows, in uneven parts."""
    count = draw.whole(base.pods)
    total = max(0.0, commit - os.committed_bytes)
    resident = max(0.0, draw.number(base.resident) - os.resident_bytes)
    touched = min(95.0, max(1.0, 100 * resident / total)) if total else 1.0
    weights = [draw.random.uniform(0.4, 1.6) for _ in range(count)]
    jitter, reads = draw.number(base.jitter_percent), draw.number(base.file_reads_per_second)
    for number, weight in enumerate(weights):
        script = {
            "workload": "steady",
            "commit": f"{max(1.0, total * weight / sum(weights) / MIB):.3f}Mi",
            "touchedPercent": touched,
            "jitterPercent": jitter,
            "fileReadsPerSecond": int(reads / count),
        }
        pods = Pods(workload=script, request=base.request)
        yield _guest(f"steady-{number}", pods, draw)


def _others(family: Family, draw: Draw) -> Iterator[Guest]:
    for group, pods in enumerate(family.pods):
        for number in range(draw.whole(pods.count)):
            yield _guest(f"{pods.workload['workload'].lower()}-{group}-{number}", pods, draw)


def _guest(name: str, pods: Pods, draw: Draw) -> Guest:
    is_culprit = pods.role == "culprit"
    return Guest(
        name=name,
        workload=workload_of(draw.values(pods.workload), where=name),
        owner=str(draw.value(pods.owner)),
        is_culprit=is_culprit,
        request_bytes=int(draw.number(pods.request)),
        begins=draw.number(pods.begins),
        ends=None if pods.ends is None else draw.number(pods.ends),
        outside=pods.outside,
        budget_blocks=not is_culprit and draw.random.random() < _BLOCKED_SHARE,
        stop_seconds=draw.random.uniform(1, GRACE_SECONDS),
    )


def _windows(script: dict[str, Any], draw: Draw) -> OsLeak:
    leak = workload_of({"workload": "osLeak", **draw.values(script)}, where="windows")
    assert isinstance(leak, OsLeak), "that is its name"
    return leak
