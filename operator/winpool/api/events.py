"""The events that the operator emits: one table, from which the reference page is made.

An event tells of a change or of a failed attempt, once, with its result; never of something that
merely goes on. What needs a person is in the status too. Nodes get events for exceptions only, so
that the cold start of a large pool is one event and not thousands. What befalls many nodes at once
(a build that is unsupported, a control plane that was upgraded) is told of their pool, with a count.
Source: Kubernetes' event style guide (sig-instrumentation).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class EventType(StrEnum):
    """Whether a healthy cluster shows such events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(StrEnum):
    """The kind of object that an event is about."""

    POOL = "WindowsNodePool"
    NODE = "Node"


class EventReason(StrEnum):
    """Why an event was emitted, for programs. What each means: ``EVENTS``."""

    ROLLOUT_STARTED = "RolloutStarted"
    ROLLOUT_COMPLETED = "RolloutCompleted"
    POOL_PAUSED = "PoolPaused"
    POOL_RESUMED = "PoolResumed"
    SPEC_REJECTED = "SpecRejected"
    POOL_OVERLAP = "PoolOverlap"
    NODES_RELEASED = "NodesReleased"
    DRIFT_REPAIRED = "DriftRepaired"
    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable"
    KEYS_LEFT_ALONE = "KeysLeftAlone"
    WRITE_REFUSED = "WriteRefused"
    TAINTS_HELD = "TaintsHeld"
    MISPLACED_PODS = "MisplacedPods"
    FOREIGN_TAINT_CONFLICT = "ForeignTaintConflict"
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch"
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
    GUARD_MISSING = "GuardMissing"
    GUARD_RESTORED = "GuardRestored"


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: reason, what was done or tried (``action``), and what it means."""

    reason: EventReason
    action: str
    type: EventType
    regarding: Regarding
    meaning: str


_TABLE: Final = (
    EventKind(
        EventReason.ROLLOUT_STARTED,
        "UpdateNodes",
        EventType.NORMAL,
        Regarding.POOL,
        "A changed spec is being brought to nodes that were up to date before; a pool's first nodes get "
        "none.",
    ),
    EventKind(
        EventReason.ROLLOUT_COMPLETED,
        "UpdateNodes",
        EventType.NORMAL,
        Regarding.POOL,
        "All nodes of the pool are as this generation of the spec asks; a new pool gets this one event.",
    ),
    EventKind(
        EventReason.POOL_PAUSED,
        "PausePool",
        EventType.NORMAL,
        Regarding.POOL,
        "`mode` was set to Paused: nothing is written to the nodes until it is changed.",
    ),
    EventKind(
        EventReason.POOL_RESUMED,
        "ResumePool",
        EventType.NORMAL,
        Regarding.POOL,
        "`mode` is no longer Paused.",
    ),
    EventKind(
        EventReason.SPEC_REJECTED,
        "ReadSpec",
        EventType.WARNING,
        Regarding.POOL,
        "The operator cannot act on the spec; the condition Accepted says why and what to do.",
    ),
    EventKind(
        EventReason.POOL_OVERLAP,
        "SelectNodes",
        EventType.WARNING,
        Regarding.POOL,
        "The pool selects nodes that belong to another pool; they stay where they are.",
    ),
    EventKind(
        EventReason.NODES_RELEASED,
        "ReleaseNodes",
        EventType.NORMAL,
        Regarding.POOL,
        "The pool is being deleted and nothing is left on any node that the ownership records name as its.",
    ),
    EventKind(
        EventReason.DRIFT_REPAIRED,
        "RepairNode",
        EventType.NORMAL,
        Regarding.NODE,
        "Somebody removed or changed a label or taint that the pool asks for, and it was put back.",
    ),
    EventKind(
        EventReason.OWNERSHIP_RECORD_UNREADABLE,
        "ReadOwnershipRecord",
        EventType.WARNING,
        Regarding.NODE,
        "The annotation winpool.dev/applied cannot be read, so nothing is taken off this node but keys under "
        "winpool.dev/.",
    ),
    EventKind(
        EventReason.KEYS_LEFT_ALONE,
        "ReadOwnershipRecord",
        EventType.WARNING,
        Regarding.NODE,
        "The ownership record was written anew or taken off, and labels or taints stay that it named: it was "
        "written without the guard, and the pool does not know of them. The event has the command that takes "
        "them off.",
    ),
    EventKind(
        EventReason.WRITE_REFUSED,
        "UpdateNode",
        EventType.WARNING,
        Regarding.NODE,
        "The API server, or a policy or webhook behind it, does not let the operator change this node.",
    ),
    EventKind(
        EventReason.TAINTS_HELD,
        "UpdateNodes",
        EventType.WARNING,
        Regarding.POOL,
        "A NoExecute taint of the spec would have pods deleted that do not tolerate it, and is held back on "
        "their nodes; the event says how many and where.",
    ),
    EventKind(
        EventReason.MISPLACED_PODS,
        "LookAtPods",
        EventType.WARNING,
        Regarding.POOL,
        "Pods are bound to nodes of the pool that cannot run on Windows; told once, until there are none.",
    ),
    EventKind(
        EventReason.FOREIGN_TAINT_CONFLICT,
        "RepairNode",
        EventType.WARNING,
        Regarding.NODE,
        "Somebody keeps undoing what the pool puts on the node; it is repaired later and later.",
    ),
    EventKind(
        EventReason.RESERVED_MEMORY_MISMATCH,
        "CompareReservedMemory",
        EventType.WARNING,
        Regarding.NODE,
        "The kubelet holds back another amount of memory than the pool declares. Of many nodes, those get "
        "it that `status.issues` names.",
    ),
    EventKind(
        EventReason.NODE_VALIDATED,
        "ValidateNode",
        EventType.NORMAL,
        Regarding.NODE,
        "The node has passed `validation` and its startup taints were taken off.",
    ),
    EventKind(
        EventReason.VALIDATION_TIMED_OUT,
        "ValidateNode",
        EventType.WARNING,
        Regarding.NODE,
        "The node has not passed `validation` in time and keeps its startup taints.",
    ),
    EventKind(
        EventReason.BUILD_UNSUPPORTED,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a build of Windows that the support matrix does not allow under this version of "
        "Kubernetes; the event counts them and says why.",
    ),
    EventKind(
        EventReason.SUPPORT_ENDED,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a build of Windows whose last day of support has passed.",
    ),
    EventKind(
        EventReason.REVISION_BELOW_FLOOR,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a revision of Windows below the lowest that is supported.",
    ),
    EventKind(
        EventReason.VERSION_SKEW,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a kubelet that is newer than the control plane, or older than it may be.",
    ),
    EventKind(
        EventReason.RUNTIME_TOO_OLD,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a container runtime that is too old for their kubelet.",
    ),
    EventKind(
        EventReason.BUILD_UNKNOWN,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a build of Windows, or the cluster a version of Kubernetes, that the support matrix does "
        "not know.",
    ),
    EventKind(
        EventReason.BUILD_WARNED,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes are supported with a warning; the event says which and why.",
    ),
    EventKind(
        EventReason.SUPPORT_ENDING,
        "JudgeNodes",
        EventType.WARNING,
        Regarding.POOL,
        "Nodes run a build of Windows whose support ends within 180 days.",
    ),
    EventKind(
        EventReason.GUARD_MISSING,
        "CheckGuard",
        EventType.WARNING,
        Regarding.POOL,
        "The admission policy that keeps kubelets from writing the operator's keys on nodes is not in force; "
        "the event says why.",
    ),
    EventKind(
        EventReason.GUARD_RESTORED,
        "CheckGuard",
        EventType.NORMAL,
        Regarding.POOL,
        "That policy is in force again.",
    ),
)

EVENTS: Final = {kind.reason: kind for kind in _TABLE}
"""Every kind of event by its reason. What is not here is not emitted."""
