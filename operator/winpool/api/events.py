"""The reasons of the events that the operator emits, and what a kind of event is. All kinds: ``event_table``.

An event reports a change or a failed attempt, once, with its result; never something that
merely lasts. What needs a person is in the status too. Nodes get events for exceptions only, so
that the cold start of a large pool is one event and not thousands. Where many nodes share one cause,
the pool gets one event that counts them.
Source: Kubernetes' event style guide (sig-instrumentation).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NODES_WITH_OWN_EVENTS: Final = 3
"""At most so many nodes that share a cause get an event each. More are one event of their pool."""


class EventType(StrEnum):
    """Whether a healthy cluster shows such events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(StrEnum):
    """The kind of object that an event is about."""

    POOL = "WindowsNodePool"
    NODE = "Node"


class EventReason(StrEnum):
    """Why an event was emitted, for programs. What each means: ``event_table``."""

    ROLLOUT_STARTED = "RolloutStarted"
    ROLLOUT_COMPLETED = "RolloutCompleted"
    POOL_PAUSED = "PoolPaused"
    POOL_RESUMED = "PoolResumed"
    SPEC_REJECTED = "SpecRejected"
    MISSING_PERMISSION = "MissingPermission"
    POOL_OVERLAP = "PoolOverlap"
    NO_NODES_SELECTED = "NoNodesSelected"
    NODES_RELEASED = "NodesReleased"
    POOL_GONE = "PoolGone"
    DRIFT_REPAIRED = "DriftRepaired"
    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable"
    KEYS_LEFT_ALONE = "KeysLeftAlone"
    WRITE_REFUSED = "WriteRefused"
    TAINTS_HELD = "TaintsHeld"
    DELETING_INTOLERANT_PODS = "DeletingIntolerantPods"
    INTOLERANT_PODS_DELETED = "IntolerantPodsDeleted"
    MISPLACED_PODS = "MisplacedPods"
    FOREIGN_TAINT_CONFLICT = "ForeignTaintConflict"
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch"
    MEMORY_PRESSURE_DETECTED = "MemoryPressureDetected"
    MEMORY_PRESSURE_CLEARED = "MemoryPressureCleared"
    UNATTRIBUTED_MEMORY = "UnattributedMemory"
    POD_EVICTED = "PodEvicted"
    EVICTION_BLOCKED = "EvictionBlocked"
    NODE_VALIDATED = "NodeValidated"
    VALIDATION_TIMED_OUT = "ValidationTimedOut"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    SUPPORT_ENDED = "SupportEnded"
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    VERSION_SKEW = "VersionSkew"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    BUILD_UNKNOWN = "BuildUnknown"
    BUILD_WARNED = "BuildWarned"
    SUPPORT_ENDING = "SupportEnding"
    UPGRADE_ALLOWED = "UpgradeAllowed"
    UPGRADE_GATED = "UpgradeGated"
    OVERRIDE_EXPIRED = "OverrideExpired"
    SURPRISE_OS_CHANGE = "SurpriseOSChange"
    SURPRISE_REBOOT = "SurpriseReboot"
    GUARD_MISSING = "GuardMissing"
    GUARD_RESTORED = "GuardRestored"


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: reason, what was done or tried (``action``), what it regards, and what it means."""

    reason: EventReason
    action: str
    type: EventType
    regarding: Regarding
    meaning: str

    @property
    def objects(self) -> tuple[Regarding, ...]:
        """What such an event may be about: one of nodes is about their pool where many share its cause."""
        return (Regarding.NODE, Regarding.POOL) if self.regarding is Regarding.NODE else (Regarding.POOL,)
