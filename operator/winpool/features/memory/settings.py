"""Which right is missing to watch the memory of a pool, or to evict, as the condition Accepted reports it.

The operator learns it from what it is refused, and never asks beforehand: in a cluster where nothing is
missing, that costs no request. Kubelets are polled from the first pass on, so it is known within seconds.

The numbers of the detector: what a pool may set, with the operator's own values, and what is fixed.

Most lines are those that Microsoft's field engineers use (PAL, Performance Analysis of Logs): commit 80 and
90 %, RAM 10 and 5 %, 1000 reads a second. https://github.com/clinthuffman/PAL

What a pool has set of the detector, as the detector reads it, with the operator's values for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from winpool.api.memory_pressure import (
    CommitThresholds,
    MemoryMode,
    MemoryPressure,
    PhysicalThresholds,
    SourceType,
)
from winpool.api.memory_pressure import PageFile as DeclaredPageFile
from winpool.api.quantity import GIB, MIB, bytes_of
from winpool.model.snapshot import Snapshot

# Freshness.

FRESH_INTERVALS: Final = 2.5
"""A sample is fresh for so many intervals of its source: one that is missed, and one that is late."""
FRESH_SECONDS: Final = 120.0
"""No sample is fresh for longer, whatever its interval. A node can go from calm to exhausted in less."""
EVIDENCE_SECONDS: Final = 45.0
"""An eviction needs two samples that are no older: both are of the interval for nodes under pressure (10 s),
or of an exporter that is scraped every 15 or 30 s."""
EVIDENCE_SAMPLES: Final = 2
"""One sample can be an outlier."""

# The trend.

SLOPE_SECONDS: Final = 180.0
"""The trend is that of the last three minutes, so that a garbage collection within them does not turn it."""
SLOPE_SAMPLES: Final = 5
"""It is of so many samples at least, however far apart they are."""
SLOPE_MIN_SAMPLES: Final = 4
"""With fewer there is no trend: the median of three slopes still follows a single outlier."""
SLOPE_MIN_SECONDS: Final = 20.0
"""Nor is there one over less time: over a few seconds, the noise of a workload is steep. It is less than the
30 s that four samples of a hot node take, so that a poll that comes early costs no sample."""
MAX_POINTS: Final = 32
"""So many points are kept at most, whatever the interval (P7): three minutes have 18 at 10 s."""
WARNING_ETA_SECONDS: Final = 900.0
"""Exhausted in less than a quarter of an hour is a Warning: time for a person to act."""
TREND_SAMPLES: Final = 2
TREND_REMAINING: Final = 0.85
"""Nothing is evicted while what is missing has fallen below this share of what it was in one of the last two
samples: it recovers by itself. The figure is ``fast_fall_ratio`` of Meta's oomd.
https://github.com/facebookincubator/oomd/blob/main/docs/core_plugins.md"""

# The lines that no pool sets.

HARD_HEADROOM_SHARE: Final = 0.03
"""Hard begins at this share of the ceiling where it is more than ``hard_headroom_bytes``: on a large machine
1 GiB is gone in a moment."""
SOFT_WRITE_OUT_PER_SECOND: Final = 100.0
"""Reads alone may be those of mapped files. Pages that are also written out show that memory is short."""
REPURPOSED_RISE_PER_SECOND: Final = 100.0
"""So does the standby list, if so many more pages a second are consumed than at the beginning of the trend:
the same line, for memory that need not be written before it is given to someone else."""
PROXY_PERCENT: Final = 3.0
"""The proxy is an estimate that errs on the high side. Where it says so little, there is less."""
PROXY_OVERHEAD_BYTES: Final = 1.5 * GIB
"""What kernel and shared memory take of the proxy where no exporter has shown it."""
PROXY_LEARNING: Final = 0.1
"""So much of a new difference between proxy and measurement is believed: the two are of different times."""

# Hysteresis.

COMMIT_CLEAR_BYTES: Final = 512 * MIB
COMMIT_CLEAR_SHARE: Final = 0.02
"""Commit is clear of a line with the larger of the two above it: more than a single process start takes."""
PHYSICAL_CLEAR_PERCENT: Final = 5.0
"""Physical memory is clear of a line so many points of a percent above it: the distance between two lines."""
SOFT_SIGNAL_SECONDS: Final = 30.0
"""Soft is signalled after so long, three samples of a hot node: a taint for one outlier would be noise."""
PROXY_SIGNAL_SECONDS: Final = 60.0
"""The proxy has to say so for twice as long as a measurement."""
FLIP_SECONDS: Final = 60.0
"""The signal changes at most so often, whatever ``clear_after_seconds`` is: each change is a write to the
node, and the scheduler acts on it."""

# Attribution, and what evictions achieve.

GROWTH_SECONDS: Final = 600.0
"""Growth is that of the last ten minutes."""
GROWTH_SPACING_SECONDS: Final = 120.0
"""The points of it are so far apart at least: six for each node of a large cluster, not sixty (P7). So the
oldest is at least eight minutes old."""
GROWTH_FLOOR: Final = 0.01
"""A smaller share of what is committed is no growth: what is half of a noise says nothing."""
GROWTH_FLOOR_CLEAR: Final = 0.005
"""Growth that was one has ended below this share."""
OUTSIDE_GROWTH_SHARE: Final = 0.5
"""Where more of the growth is outside pods, evicting pods does not end it."""
OUTSIDE_GROWTH_CLEAR: Final = 0.4
"""Most of the growth was outside pods, and is again that of pods below this share of it. The distance is more
than samples vary: each change of a guard is a write to the node and one to the pool."""
OUTSIDE_SHARE: Final = 0.35
"""Windows and its agents commit 2 to 4 GiB. More than this share of the ceiling outside pods is a leak."""
OUTSIDE_SHARE_CLEAR: Final = 0.30
"""Below this share it is one no longer. A process that starts or ends is less than the distance."""
SETTLE_SECONDS: Final = 60.0
"""After a pod is gone so long, and two samples, until its memory counts as returned. It is longer than
``EVIDENCE_SECONDS``, so what was measured before is no evidence for the next eviction."""
SETTLE_SAMPLES: Final = 2
EFFECTIVE_SHARE: Final = 0.5
"""An eviction was effective if commit fell by this share of what the pod had."""
MAX_INEFFECTIVE: Final = 2
"""After so many ineffective evictions the memory is not where the numbers say. The first may be bad luck."""
MAX_BLIND_EVICTIONS: Final = 2
"""So many evictions at most where no pod's commit is known: only their effect shows whose memory it is."""
CALM_SECONDS: Final = 3600.0
"""Evictions are forgotten after so long without pressure. If they helped for less, the cause is there."""


class PageFilePolicy(Enum):
    """What is known of the page file. It decides how much can be committed at most."""

    UNKNOWN = "Unknown"
    FIXED = "Fixed"
    SYSTEM_MANAGED = "SystemManaged"
    """Windows extends it at 90 % of the commit limit."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """The page file of the nodes. ``max_bytes`` is None only where the policy is Unknown."""

    policy: PageFilePolicy = PageFilePolicy.UNKNOWN
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
    return DetectorSettings(
        sources=tuple(each.name for each in pressure.sources),
        page_file=_page_file(pressure.page_file),
        commit=_commit(pressure.commit),
        physical=_physical(pressure.physical),
        soft_grace_seconds=float(pressure.grace_seconds),
        clear_after_seconds=float(pressure.clear_seconds),
    )


def _page_file(declared: DeclaredPageFile | None) -> PageFile:
    if declared is None:
        return PageFile()
    return PageFile(PageFilePolicy(declared.type.value), declared.max_bytes)


def _commit(declared: CommitThresholds | None) -> CommitLines:
    if declared is None:
        return CommitLines()
    return CommitLines(
        warning_used_percent=float(declared.warning_used_percent),
        soft_used_percent=float(declared.soft_used_percent),
        hard_headroom_bytes=bytes_of(declared.hard_headroom),
        hard_eta_seconds=float(declared.hard_eta_seconds),
    )


def _physical(declared: PhysicalThresholds | None) -> PhysicalLines:
    if declared is None:
        return PhysicalLines()
    return PhysicalLines(
        warning_available_percent=float(declared.warning_available_percent),
        soft_available_percent=float(declared.soft_available_percent),
        hard_available_percent=float(declared.hard_available_percent),
        soft_reads_per_second=float(declared.soft_reads_per_second),
        hard_reads_per_second=float(declared.hard_reads_per_second),
    )


def missing_permission(snapshot: Snapshot) -> str:
    """Return the sentence with the rule that is missing, empty where none is.

    It is reported, and stops no writes. Without samples nothing is known of the nodes, and that must not
    remove the taints of those that are under pressure (P4). Without the right to choose a pod, or to evict
    it, nothing is evicted, and the operator tries again.
    """
    spec = snapshot.pool.spec
    block = None if spec is None else spec.memory_pressure
    if block is None:
        return ""
    polls = any(each.type is SourceType.KUBELET for each in block.sources)
    if polls and snapshot.memory.forbidden:
        return snapshot.memory.forbidden
    return snapshot.evictions.forbidden if block.mode is MemoryMode.EVICT else ""
