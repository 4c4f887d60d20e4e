"""Gives the detector its numbers: what a pool sets of the lines of pressure, else the operator's values.

Most lines are those that Microsoft's field engineers use (PAL, Performance Analysis of Logs): commit 80 and
90 %, RAM 10 and 5 %, 1000 reads a second. https://github.com/clinthuffman/PAL
What no pool sets stands beside what uses it, in ``levels.py`` and ``detector.py``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.api.memory_pressure import (
    CommitThresholds,
    MemoryPressure,
    PageFile,
    PageFileType,
    PhysicalThresholds,
)

FRESH_INTERVALS: Final = 2.5
"""A sample is fresh for so many intervals of its source: one that is missed, and one that is late."""
FRESH_SECONDS: Final = 120.0
"""No sample is fresh for longer, whatever its interval. A node can go from calm to exhausted in less."""
EVIDENCE_SECONDS: Final = 55.0
"""An eviction needs two samples that are no older: both are of the interval for nodes under pressure (10 s),
or of an exporter that is scraped every 15 or 30 s, the last of them read up to 10 s later."""
EVIDENCE_SAMPLES: Final = 2
"""One sample can be an outlier."""
EVIDENCE_APART_SECONDS: Final = 5.0
"""So are two of the same moment, of two sources. It is half of the interval for nodes under pressure."""
LATE_SECONDS: Final = 5.0
"""A kubelet on Windows takes two seconds. Where it pages, it takes as long as hundreds of reads."""
PROXY_PERCENT: Final = 3.0
"""The kubelet's figure is an estimate that errs on the high side. Where it says so little, there is less."""
SETTLE_SECONDS: Final = 60.0
"""After a pod is gone so long, and two samples, until its memory counts as returned. It is longer than
``EVIDENCE_SECONDS``, so what was measured before is no evidence for the next eviction."""


UNKNOWN_PAGE_FILE: Final = PageFile(type=PageFileType.UNKNOWN)

COMMIT: Final = CommitThresholds(
    warning_used_percent=80, soft_used_percent=90, hard_headroom="1Gi", hard_eta_seconds=60
)
"""At 90 % Windows begins to extend a page file that it manages. 1Gi is twice the kubelet's own threshold of
500Mi, so that the graceful way comes first. A second sample (10 s), the list of pods and the intent (5 s) and
a pod with the usual grace of 30 s fit into 60 s. What takes longer is not known to end so."""

PHYSICAL: Final = PhysicalThresholds(
    warning_available_percent=15,
    soft_available_percent=10,
    hard_available_percent=5,
    soft_reads_per_second=300,
    hard_reads_per_second=1000,
)


class DetectorSettings(msgspec.Struct, frozen=True):
    """What a pool sets of the detector, with the operator's values for what it does not set.

    ``sources`` are names, the preferred first: a value is taken of the first source that has a fresh one.
    ``learns_reads``: the pool gives no lines for page reads, so they are also judged by what the disk can do.
    ``soft_grace_seconds`` is how long Soft lasts before a pod is evicted; 90 s is the example of the
    kubelet's documentation. ``clear_after_seconds`` is how long a node has to be clear of a line before its
    level is lowered; 300 s is the kubelet's ``evictionPressureTransitionPeriod``.
    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
    """

    sources: tuple[str, ...] = ("Kubelet",)
    page_file: PageFile = UNKNOWN_PAGE_FILE
    commit: CommitThresholds = COMMIT
    physical: PhysicalThresholds = PHYSICAL
    learns_reads: bool = True
    soft_grace_seconds: float = 90.0
    clear_after_seconds: float = 300.0


def settings_of(pressure: MemoryPressure) -> DetectorSettings:
    """Return the numbers of the detector for nodes of a pool with this ``memoryPressure``."""
    return DetectorSettings(
        sources=tuple(each.name for each in pressure.sources),
        page_file=pressure.page_file or UNKNOWN_PAGE_FILE,
        commit=pressure.commit or COMMIT,
        physical=pressure.physical or PHYSICAL,
        learns_reads=pressure.physical is None,
        soft_grace_seconds=float(pressure.soft_grace_seconds),
        clear_after_seconds=float(pressure.clear_after_seconds),
    )
