"""Keeps the memory of a node: its samples, what the detector has made of them, and what a pass reads.

The detector (``features/memory/detector.py``) makes each ``NodePressure`` from the one before and a
``MemorySample``. What is not known now is None, and has no level: nothing is evicted for it (P4). Times are
seconds on the monotonic clock of the operator, amounts are bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import force_setattr, replace

LARGEST: Final = 2**53
"""Amounts and times from here on are unknown. Windows Server 2025 supports 4 PiB of memory (2^52 bytes), and
a float holds every whole number up to here. Garbage is usually far above: 2^63, 2^64-1.
https://learn.microsoft.com/windows/win32/memory/memory-limits-for-windows-releases"""

HOT_ETA_SECONDS: Final = 1800.0
"""Exhausted in less than half an hour is polled often, before it becomes a Warning."""

PROXY_OVERHEAD_BYTES: Final = 1.5 * 2**30
"""What kernel and shared memory take of the kubelet's ``availableBytes`` where no exporter has shown it."""


def is_amount(value: float) -> bool:
    """Whether ``value`` is an amount or a rate that a machine can have."""
    return 0 <= value < LARGEST


def is_time(value: float) -> bool:
    """Whether ``value`` can be a number of seconds on a clock."""
    return -LARGEST < value < LARGEST


class Axis(StrEnum):
    """The two ways in which a Windows node runs out of memory. Each happens without the other.

    A StrEnum for its hash, which for other Enums is computed in Python: each sample takes it dozens of times.
    """

    COMMIT = "Commit"
    """Nothing more can be committed: allocations fail, also while RAM is free."""
    PHYSICAL = "Physical"
    """RAM is short: the node pages, and does little else."""


class Level(IntEnum):
    """How bad it is. Unknown is no level."""

    NORMAL = 0
    WARNING = 1
    """Reported, nothing else."""
    PROXY_ONLY = 2
    """Signalled. Nothing is evicted for an estimate, unless its kubelet answers late as well."""
    SOFT = 3
    """Signalled, and evicted after a grace."""
    HARD = 4
    """Signalled and evicted as soon as two samples agree."""


RAISED: Final = (Level.WARNING, Level.PROXY_ONLY, Level.SOFT, Level.HARD)


class Guard(Enum):
    """Why an eviction on this node cannot be expected to help. Each is reported as UnattributedMemory."""

    OUTSIDE_SHARE = "OutsideShare"
    """Too much is committed outside pods."""
    OUTSIDE_GROWTH = "OutsideGrowth"
    """More than half of the growth is outside pods."""
    INEFFECTIVE = "Ineffective"
    """A pod was evicted, and less than half of its memory came back."""
    BLIND = "Blind"
    """A pod was evicted, the pressure has not ended, and it is not known whether its memory came back."""


class Hold(Enum):
    """What keeps the operator from evicting a pod for an axis now. The first that is true."""

    UNKNOWN = "unknown"
    """There is no fresh sample of it."""
    NO_PRESSURE = "no pressure"
    ESTIMATE = "estimate"
    """Only the kubelet's estimate shows pressure, and it answers in time."""
    SETTLING = "settling"
    """An eviction is under way, or its memory is not back yet."""
    UNATTRIBUTED = "unattributed"
    """The memory is not that of pods: see ``NodePressure.guard``."""
    GRACE = "grace"
    """It has not lasted long enough, or it is no longer over the line."""
    STEADY = "steady"
    """Much is committed, and it is neither exhausted soon nor below ``hardHeadroom``: reported, no more."""
    AGE = "age"
    """The two samples that an eviction needs are too old, or are not two."""
    RECOVERING = "recovering"
    """It improves by itself."""


_AMOUNTS: Final = (
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
    "age",
    "answer_seconds",
)


class MemorySample(msgspec.Struct, frozen=True):
    """What ``source`` reported of a node at one time. Values of several sources are in several samples.

    Unknown is None, and so becomes every number that no machine can have: NaN, infinity, 2^53 and more, and
    negative ones. What a source means by 0 is for its parser to say.

    ``source`` is a name from ``DetectorSettings.sources``. ``arrived_at`` is when it arrived, on the
    operator's clock. ``taken_at`` is the time that the sample has itself: the kubelet's ``memory.time``, or
    ``timestamp()`` of the series. It may be on any clock and is compared only with others of its source.
    ``interval_seconds`` is after how long the next one is due: the longer of our interval and that of the
    scrapes that we read. ``next_seconds`` is that where it is longer from now on, since its node is no longer
    hot, or late. ``age`` is how many seconds old the sample was when it arrived, as Prometheus says,
    by one clock; None for a kubelet, and where the two clocks of a federation differ so that it is negative.
    ``answer_seconds`` is how long the kubelet took to answer, and ``is_late``: much longer than usual.
    ``is_first``: there was nothing to compare ``taken_at`` with, so the sample is no evidence.
    """

    source: str = ""
    arrived_at: float = 0.0
    taken_at: float | None = None
    interval_seconds: float = 0.0
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
    next_seconds: float = 0.0
    answer_seconds: float | None = None
    is_late: bool = False
    is_first: bool = False

    def __post_init__(self) -> None:
        """Make unknown what no machine can have."""
        for name in _AMOUNTS:
            value = getattr(self, name)
            if value is not None and not 0 <= value < LARGEST:
                force_setattr(self, name, None)
        if self.taken_at is not None and not is_time(self.taken_at):
            force_setattr(self, "taken_at", None)

    def arrived(
        self,
        *,
        source: str,
        at: float,
        interval: float,
        ram: int | None,
        seconds: float | None = None,
        following: float = 0.0,
    ) -> MemorySample:
        """Return it as it arrived, ``seconds`` after a kubelet was asked, ``following`` before the next.

        ``ram`` is that of the node, for a source that does not report it.
        """
        return replace(
            self,
            source=source,
            arrived_at=at,
            interval_seconds=interval,
            physical_total=ram if self.physical_total is None else self.physical_total,
            answer_seconds=seconds,
            next_seconds=following,
        )

    @property
    def measured_at(self) -> float:
        """When it was measured, on the operator's clock: as old as its source says, else on arrival."""
        return self.arrived_at if self.age is None else self.arrived_at - self.age

    @property
    def measured_after(self) -> float:
        """When a kubelet was asked for it, and when another source measured it.

        Kubelets on Windows measure every 10 s, so it may be that much older
        (k8s.io/kubernetes, pkg/kubelet/winstats, perfCounterUpdatePeriod).
        """
        return self.measured_at - (self.answer_seconds or 0.0)


class Reading(msgspec.Struct, frozen=True):
    """How much is ``left`` of the ``whole`` of an axis ``at`` a time, and the rates that belong to it.

    On COMMIT the whole is the ceiling, what can be committed at most. On PHYSICAL it is RAM. ``is_estimate``:
    what is left is derived from the kubelet's ``availableBytes``; ``is_paging``: that kubelet has answered
    late besides, and more is committed than there is RAM. ``taken_at`` is the time of its sample, by
    the clock of the source: for people, since it stays the same however often it is written.
    """

    axis: Axis
    left: float
    whole: float
    hard_reads_per_second: float | None = None
    write_out_per_second: float | None = None
    repurposed_per_second: float | None = None
    is_estimate: bool = False
    is_paging: bool = False
    at: float = 0.0
    taken_at: float | None = None

    @property
    def used(self) -> float:
        """What is used of it, in bytes."""
        return self.whole - self.left


class Latch(msgspec.Struct, frozen=True):
    """The history of one line of an axis.

    ``since`` is when the level was reached, None while it is not. ``over_seconds`` is for how long every
    sample has been over the line, None where the last was not; ``over_samples`` is how many were, one after
    the other. ``clear_seconds`` is for how long every sample has been clear of it.
    """

    since: float | None = None
    over_seconds: float | None = None
    over_samples: int = 0
    clear_seconds: float | None = None


UNLATCHED: Final = Latch()
NOTHING_LATCHED: Final[Mapping[Level, Latch]] = MappingProxyType(dict.fromkeys(RAISED, UNLATCHED))
"""The lines of an axis that is over none of them: one object for all healthy nodes."""


class HighWater(msgspec.Struct, frozen=True):
    """The most of an axis in each three minutes of the last hour: used on COMMIT, page reads on PHYSICAL.

    ``began`` is when that was first known, ``newest`` how many stretches after it the last of the ``marks``
    is. One without a sample has 0.
    """

    began: float
    newest: int
    marks: tuple[float, ...]


class AxisPressure(msgspec.Struct, frozen=True):
    """One axis of a node.

    What is known at one moment (``detector.known_at``): ``level`` is None where it is unknown; ``held`` is
    then the last one, of which what is on the node stays. ``since`` is when the level was reached, None at
    Normal. ``missing`` are the bytes that must become free for the axis to be clear of Soft and Hard.
    ``hold`` is None where an eviction is right.

    What the samples have shown: ``reading`` is the last one, of ``source``, measured at ``sampled_at`` and
    fresh for ``fresh_seconds``. ``sampled_at`` is None before the first one, and after the clock of a node
    was set back. ``points`` are the trend of that source, ``seconds_left`` is where it leads on COMMIT.
    ``high_water`` is what has been before; None where that is not known. ``looked_at`` is when it was
    last measured, or its kubelet asked. While it is over no line, any source that shows that counts.
    ``ready_since``: each reading from then on has shown that it has lasted long enough for an eviction; None
    where the last has not.
    """

    axis: Axis
    level: Level | None = None
    held: Level = Level.NORMAL
    since: float | None = None
    ready_since: float | None = None
    sampled_at: float | None = None
    source: str = ""
    reading: Reading | None = None
    seconds_left: float | None = None
    missing: float = 0.0
    hold: Hold | None = Hold.UNKNOWN
    fresh_seconds: float = 0.0
    points: tuple[Reading, ...] = ()
    latches: Mapping[Level, Latch] = msgspec.field(default_factory=lambda: NOTHING_LATCHED)
    high_water: HighWater | None = None
    looked_at: float | None = None


class Growth(msgspec.Struct, frozen=True):
    """How commit has grown in the last ten minutes, all of one source.

    ``splits`` are times, with what was committed and how much of it outside pods. ``is_of_pods``: they come
    from the commit of pods. Otherwise what is outside is the non-paged pool alone. ``raised`` are the guards
    whose lines were crossed, and of which the node is not clear.
    """

    source: str = ""
    is_of_pods: bool = False
    splits: tuple[tuple[float, float, float], ...] = ()
    raised: frozenset[Guard] = frozenset()

    @property
    def last_at(self) -> float:
        """When the last split was measured; minus infinity where there is none."""
        return self.splits[-1][0] if self.splits else float("-inf")


NO_GROWTH: Final = Growth()


class EvictedPod(msgspec.Struct, frozen=True):
    """A pod whose eviction has not settled: its memory is not back yet, or has not had the time to come back.

    ``share`` is what the pod was measured to have, in bytes; None where unknown. ``highest`` is the most that
    the node had committed since the eviction, and ``fell`` by how much it was less at any time after that:
    what the pod gave back, whatever others have taken before and after. ``gone_at`` is when its UID was gone,
    None while it is there, and ``samples`` how many fresh ones were measured after that. One that is never
    gone, Stuck, keeps the next from beginning.
    """

    uid: str
    share: float | None
    highest: float | None
    fell: float = 0.0
    gone_at: float | None = None
    samples: int = 0


NOTHING_MEASURED: Final[Mapping[Axis, AxisPressure]] = MappingProxyType(
    {axis: AxisPressure(axis) for axis in Axis}
)


class NodePressure(msgspec.Struct, frozen=True):
    """The memory of a node: what is known of it at one moment, and what its samples have shown.

    ``guard`` is why evictions cannot be expected to help, at Soft and above or where a late kubelet is
    evidence. ``is_signalled`` says whether condition and taint are to be on the node, None where they stay
    as they are. ``outside_pods`` are the bytes that are committed outside pods, as far as that is known.

    The rest is the detector's, and none of it is kept for longer than it is fresh: ``sources`` has the last
    sample of each source, ``seen_at`` is when the last one of any arrived. ``overhead`` is what the kubelet's
    ``availableBytes`` does not count: the operator's own value, or what an exporter has shown on this node.
    ``usual_seconds`` is what its kubelet takes to answer while RAM is not short, None where that is unknown.
    ``evicted`` are pods whose evictions have not settled; ``ineffective`` and ``unmeasured`` is how many have
    settled since the node was last calm, without an effect or without a known one. ``signal_since`` is when
    ``is_signalled`` changed, ``calm_since`` since when no line that is signalled is held, None while one is,
    both as of the sample measured at ``signal_at``. ``returns`` is how often it came back within an hour.
    """

    axes: Mapping[Axis, AxisPressure] = msgspec.field(default_factory=lambda: NOTHING_MEASURED)
    guard: Guard | None = None
    is_signalled: bool | None = None
    outside_pods: float | None = None
    sources: Mapping[str, MemorySample] = msgspec.field(default_factory=dict)
    seen_at: float | None = None
    overhead: float = PROXY_OVERHEAD_BYTES
    usual_seconds: float | None = None
    growth: Growth = NO_GROWTH
    evicted: tuple[EvictedPod, ...] = ()
    unmeasured: int = 0
    ineffective: int = 0
    signal_since: float | None = None
    calm_since: float | None = None
    signal_at: float | None = None
    returns: int = 0

    @property
    def level(self) -> Level | None:
        """The level of the worst axis; None where none is known, or one that was worse no longer is."""
        known = max((each.level for each in self.axes.values() if each.level is not None), default=None)
        lost = max((each.held for each in self.axes.values() if each.level is None), default=Level.NORMAL)
        return None if known is None or lost > known else known

    @property
    def worst(self) -> AxisPressure | None:
        """The axis with that level; COMMIT where both have it, since allocations fail there."""
        level = self.level
        if level is None:
            return None
        return next(self.axes[axis] for axis in Axis if self.axes[axis].level is level)

    @property
    def committed(self) -> float | None:
        """What the node had committed by the last sample that says it, in bytes."""
        reading = self.axes[Axis.COMMIT].reading
        return None if reading is None else reading.used

    @property
    def evictable(self) -> tuple[AxisPressure, ...]:
        """The axes for which an eviction is right now, the worst first."""
        ready = [self.axes[axis] for axis in Axis if self.axes[axis].hold is None]
        return tuple(sorted(ready, key=lambda each: -(each.level or Level.NORMAL)))

    @property
    def priority(self) -> float:
        """How soon the node is to be polled: 0, or up to 1 the nearer it is to the end of its memory.

        It is above 0 at Warning and above, and where memory is exhausted in half an hour.
        """
        axes = self.axes.values()
        left = [each.seconds_left for each in axes if each.seconds_left is not None]
        is_soon = any(
            each.level is not None and each.seconds_left is not None and each.seconds_left < HOT_ETA_SECONDS
            for each in axes
        )
        held = max(each.held for each in axes)
        if held < Level.WARNING and not is_soon:
            return 0.0
        return (held + max(0.0, 1 - min(left, default=HOT_ETA_SECONDS) / HOT_ETA_SECONDS)) / len(Level)

    @property
    def is_hot(self) -> bool:
        """Whether the node is to be polled often."""
        return self.priority > 0

    def without_evidence(self) -> NodePressure:
        """Return only what is known at its moment, for those who keep it."""
        axes = {
            axis: replace(
                each,
                points=(),
                latches=NOTHING_LATCHED,
                fresh_seconds=0.0,
                high_water=None,
                looked_at=None,
            )
            for axis, each in self.axes.items()
        }
        return NodePressure(axes, self.guard, self.is_signalled, self.outside_pods, returns=self.returns)


NO_SAMPLES: Final = NodePressure()


class PodUsage(msgspec.Struct, frozen=True):
    """The memory of a pod, in bytes, and by how much it grew since its node was calm; None where unknown.

    ``working_set`` is the sum of the private working sets of its containers. ``commit`` is unknown by
    default: only kubelets with the feature gate PodAndContainerStatsFromCRI report it.
    """

    commit: float | None = None
    working_set: float | None = None
    commit_growth: float | None = None
    working_set_growth: float | None = None


NO_USAGE: Final = PodUsage()


def commit_of_all(pods: Collection[PodUsage]) -> float | None:
    """Return what all pods of a node have committed; None where that of one is unknown, or there are none.

    A node without any pod has no agents either, so its list is rather not complete.
    """
    amounts = [each.commit for each in pods if each.commit is not None]
    return sum(amounts) if amounts and len(amounts) == len(pods) else None


class UsageSinceCalm(msgspec.Struct, frozen=True):
    """What the ``pods`` of a node use, by their UIDs, with their growth since it was calm.

    ``grown`` is how much more the node has committed than then, None where that is unknown.
    """

    pods: Mapping[str, PodUsage] = msgspec.field(default_factory=dict)
    grown: float | None = None


class Capability(msgspec.Struct, frozen=True):
    """How many nodes have it, and of how many that is not known. Of all others it is known that they do not.

    Unknown is never counted as no.
    """

    have: int
    unknown: int


class Capabilities(msgspec.Struct, frozen=True):
    """What the sources of so many ``nodes`` can tell.

    ``commit_limit`` and ``pod_commit`` are of kubelets; pods are listed where the pool evicts. ``paging`` is
    of windows_exporter. ``kubelet_eviction``: the kubelet itself evicts pods when memory runs out.
    """

    nodes: int
    commit_limit: Capability
    pod_commit: Capability
    paging: Capability
    kubelet_eviction: Capability


class KnownMemory(msgspec.Struct, frozen=True):
    """What is known of the memory of the nodes of a pool, by the UIDs of the nodes.

    ``told`` is what was known when the level, the guard or the signal of a node last changed: what people
    read, so that no report changes with every sample. ``views`` is what is known at ``read_at``, the moment
    of the snapshot: what evictions are decided on. ``problems`` are the sentences about nodes and data
    sources that give no samples, without names of nodes. ``pods`` are those of nodes under pressure where the
    pool evicts; a node whose last list of them is not fresh has none. ``data_sources`` are the names in the
    operator's settings, None where those are not known. ``forbidden`` says which right the operator lacks to
    poll kubelets, empty where it lacks none. ``capabilities`` are what people read: renewed rarely, and None
    until most is known after a start.
    """

    told: Mapping[str, NodePressure] = msgspec.field(default_factory=dict)
    views: Mapping[str, NodePressure] = msgspec.field(default_factory=dict)
    problems: Mapping[str, str] = msgspec.field(default_factory=dict)
    pods: Mapping[str, UsageSinceCalm] = msgspec.field(default_factory=dict)
    read_at: float = 0.0
    data_sources: frozenset[str] | None = None
    forbidden: str = ""
    capabilities: Capabilities | None = None


NOTHING_KNOWN: Final = KnownMemory()
