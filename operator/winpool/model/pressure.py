"""Memory pressure on a node, as a pass sees it: how bad, since when, and what keeps evictions away.

Samples and the detector are elsewhere (``memory``). What is not known now is None, and has no level. Nothing
is evicted for it (P4). Times are seconds on the monotonic clock of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Final

HOT_ETA_SECONDS: Final = 1800.0
"""Exhausted in less than half an hour is polled often, before it becomes a Warning."""


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
    """Signalled; nothing is evicted for an estimate."""
    SOFT = 3
    """Signalled, and evicted after a grace."""
    HARD = 4
    """Signalled and evicted as soon as two samples agree."""


class Guard(Enum):
    """Why an eviction on this node cannot be expected to help. Each is reported as UnattributedMemory."""

    OUTSIDE_SHARE = "OutsideShare"
    """Too much is committed outside pods."""
    OUTSIDE_GROWTH = "OutsideGrowth"
    """More than half of the growth is outside pods."""
    INEFFECTIVE = "Ineffective"
    """Two pods were evicted, and less than half of their memory came back."""
    BLIND = "Blind"
    """Two pods were evicted, the pressure has not ended, and no pod's commit is known."""


class Hold(Enum):
    """What keeps the operator from evicting a pod for an axis now. The first that is true."""

    UNKNOWN = "unknown"
    """There is no fresh sample of it."""
    NO_PRESSURE = "no pressure"
    ESTIMATE = "estimate"
    """Only the kubelet's estimate shows pressure."""
    SETTLING = "settling"
    """An eviction is under way, or its memory is not back yet."""
    UNATTRIBUTED = "unattributed"
    """The memory is not that of pods: see ``NodeView.guard``."""
    GRACE = "grace"
    """It has not lasted long enough, or it is no longer over the line."""
    AGE = "age"
    """The two samples that an eviction needs are too old, or are not two."""
    RECOVERING = "recovering"
    """It improves by itself."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much is ``left`` of the ``whole`` of an axis, in bytes, and the rates that belong to it.

    On COMMIT the whole is the ceiling, what can be committed at most. On PHYSICAL it is RAM. ``is_estimate``:
    what is left is derived from the kubelet's ``availableBytes``.
    """

    axis: Axis
    left: float
    whole: float
    hard_reads_per_second: float | None = None
    write_out_per_second: float | None = None
    repurposed_per_second: float | None = None
    is_estimate: bool = False

    @property
    def used(self) -> float:
        """What is used of it, in bytes."""
        return self.whole - self.left


@dataclass(frozen=True, slots=True)
class AxisView:
    """One axis of a node.

    ``level`` is None where it is unknown; ``held`` is then the last one, of which what is on the node stays.
    ``since`` is when the level was reached, None at Normal. ``ready_since`` is since when it has lasted long
    enough for an eviction, None where it has not. ``sampled_at`` is when the last sample of it was measured,
    by ``source``. ``missing`` are the bytes that must become free for the axis to be clear of Soft and Hard.
    ``hold`` is None where an eviction is right.
    """

    axis: Axis
    level: Level | None
    held: Level
    since: float | None
    ready_since: float | None
    sampled_at: float | None
    source: str
    reading: Reading | None
    seconds_left: float | None
    missing: float
    hold: Hold | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    ``guard`` is why evictions cannot be expected to help, at Soft and above. ``is_signalled`` says whether
    condition and taint are to be on the node, None where they stay as they are. ``outside_pods`` are the
    bytes that are committed outside pods, as far as that is known.
    """

    axes: Mapping[Axis, AxisView]
    guard: Guard | None
    is_signalled: bool | None
    outside_pods: float | None

    @property
    def level(self) -> Level | None:
        """The level of the worst axis; None where none is known, or one that was worse no longer is."""
        known = max((each.level for each in self.axes.values() if each.level is not None), default=None)
        lost = max((each.held for each in self.axes.values() if each.level is None), default=Level.NORMAL)
        return None if known is None or lost > known else known

    @property
    def worst(self) -> AxisView | None:
        """The axis with that level; COMMIT where both have it, since allocations fail there."""
        level = self.level
        if level is None:
            return None
        return next(self.axes[axis] for axis in Axis if self.axes[axis].level is level)

    @property
    def evictable(self) -> tuple[AxisView, ...]:
        """The axes for which an eviction is right now, the worst first."""
        ready = [self.axes[axis] for axis in Axis if self.axes[axis].hold is None]
        return tuple(sorted(ready, key=lambda each: -each.held))

    @property
    def is_hot(self) -> bool:
        """Whether the node is to be polled often: at Warning or above, or exhausted in half an hour."""
        return any(
            each.held >= Level.WARNING
            or (
                each.level is not None
                and each.seconds_left is not None
                and each.seconds_left < HOT_ETA_SECONDS
            )
            for each in self.axes.values()
        )


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The memory of a pod, in bytes, and by how much it grew in two minutes; None where unknown."""

    commit: float | None = None
    working_set: float | None = None
    commit_growth: float | None = None
    working_set_growth: float | None = None


@dataclass(frozen=True, slots=True)
class Capability:
    """How many nodes have it, and of how many that is not known. Of all others it is known that they do not.

    Unknown is never counted as no.
    """

    have: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the sources of so many ``nodes`` can tell.

    ``commit_limit`` and ``pod_commit`` are of kubelets; pods are asked about on hot nodes only. ``paging`` is
    of windows_exporter. ``kubelet_eviction``: the kubelet itself evicts pods when memory runs out.
    """

    nodes: int
    commit_limit: Capability
    pod_commit: Capability
    paging: Capability
    kubelet_eviction: Capability


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """What is known of the memory of the nodes of a pool, by the UIDs of the nodes.

    ``told`` is what was known when the level, the guard or the signal of a node last changed: what people
    read, so that no report changes with every sample. ``views`` is what is known at ``read_at``, the moment
    of the snapshot: what evictions are decided on. ``problems`` are the sentences about nodes and data
    sources that give no samples, without names of nodes. ``pods`` are the pods of hot nodes, by their UIDs,
    where the pool evicts; a node whose last list of them is not fresh has none. ``data_sources`` are the
    names in the operator's settings, None where those are not known. ``forbidden`` says which right the
    operator lacks to poll kubelets, empty where it lacks none. ``capabilities`` are what people read: renewed
    rarely, and None until most is known after a start.
    """

    told: Mapping[str, NodeView] = field(default_factory=dict)
    views: Mapping[str, NodeView] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    pods: Mapping[str, Mapping[str, PodUsage]] = field(default_factory=dict)
    read_at: float = 0.0
    data_sources: frozenset[str] | None = None
    forbidden: str = ""
    capabilities: Capabilities | None = None


NOTHING_KNOWN: Final = KnownMemory()
