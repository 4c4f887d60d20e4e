"""The numbers of the detector: what a pool sets of the lines of memory pressure, with the operator's values.

Most lines are those that Microsoft's field engineers use (PAL, Performance Analysis of Logs): commit 80 and
90 %, RAM 10 and 5 %, 1000 reads a second. https://github.com/clinthuffman/PAL
What no pool sets stands beside what uses it, in ``levels.py`` and ``detector.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from winpool.api.memory_pressure import MemoryPressure, PageFileType
from winpool.api.quantity import GIB, bytes_of

FRESH_INTERVALS: Final = 2.5
"""A sample is fresh for so many intervals of its source: one that is missed, and one that is late."""
FRESH_SECONDS: Final = 120.0
"""No sample is fresh for longer, whatever its interval. A node can go from calm to exhausted in less."""
EVIDENCE_SECONDS: Final = 45.0
"""An eviction needs two samples that are no older: both are of the interval for nodes under pressure (10 s),
or of an exporter that is scraped every 15 or 30 s."""
EVIDENCE_SAMPLES: Final = 2
"""One sample can be an outlier."""
SETTLE_SECONDS: Final = 60.0
"""After a pod is gone so long, and two samples, until its memory counts as returned. It is longer than
``EVIDENCE_SECONDS``, so what was measured before is no evidence for the next eviction."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """The page file of the nodes, which decides how much can be committed at most.

    ``max_bytes`` is None only where the type is Unknown. One that is SystemManaged is extended by Windows at
    90 % of the commit limit.
    """

    type: PageFileType = PageFileType.UNKNOWN
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CommitLines:
    """The lines of the axis COMMIT."""

    warning_used_percent: float = 80.0
    soft_used_percent: float = 90.0
    """Where Windows begins to extend a page file that it manages."""
    hard_headroom_bytes: int = GIB
    """Twice the kubelet's own threshold of 500Mi, so that the graceful way comes first."""
    hard_eta_seconds: float = 120.0
    """Hard also above Soft if it is exhausted in less: a pod with the usual grace of 30 s, and its eviction,
    still fit in."""


@dataclass(frozen=True, slots=True)
class PhysicalLines:
    """The lines of the axis PHYSICAL. Little memory alone is no harm: Soft and Hard need paging as well."""

    warning_available_percent: float = 15.0
    soft_available_percent: float = 10.0
    hard_available_percent: float = 5.0
    soft_reads_per_second: float = 300.0
    hard_reads_per_second: float = 1000.0


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """What a pool sets of the detector, with the operator's values for what it does not set.

    ``sources`` are names, the preferred first: a value is taken of the first source that has a fresh one.
    ``soft_grace_seconds`` is how long Soft lasts before a pod is evicted; 90 s is the example of the
    kubelet's documentation. ``clear_after_seconds`` is how long a node has to be clear of a line before its
    level is lowered; 300 s is the kubelet's ``evictionPressureTransitionPeriod``.
    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
    """

    sources: tuple[str, ...] = ("Kubelet",)
    page_file: PageFile = field(default_factory=PageFile)
    commit: CommitLines = field(default_factory=CommitLines)
    physical: PhysicalLines = field(default_factory=PhysicalLines)
    soft_grace_seconds: float = 90.0
    clear_after_seconds: float = 300.0


def settings_of(pressure: MemoryPressure) -> DetectorSettings:
    """Return the numbers of the detector for nodes of a pool with this ``memoryPressure``."""
    page_file, commit, physical = pressure.page_file, pressure.commit, pressure.physical
    return DetectorSettings(
        sources=tuple(each.name for each in pressure.sources),
        page_file=PageFile() if page_file is None else PageFile(page_file.type, page_file.max_bytes),
        commit=CommitLines()
        if commit is None
        else CommitLines(
            warning_used_percent=float(commit.warning_used_percent),
            soft_used_percent=float(commit.soft_used_percent),
            hard_headroom_bytes=bytes_of(commit.hard_headroom),
            hard_eta_seconds=float(commit.hard_eta_seconds),
        ),
        physical=PhysicalLines()
        if physical is None
        else PhysicalLines(
            warning_available_percent=float(physical.warning_available_percent),
            soft_available_percent=float(physical.soft_available_percent),
            hard_available_percent=float(physical.hard_available_percent),
            soft_reads_per_second=float(physical.soft_reads_per_second),
            hard_reads_per_second=float(physical.hard_reads_per_second),
        ),
        soft_grace_seconds=float(pressure.grace_seconds),
        clear_after_seconds=float(pressure.clear_seconds),
    )
