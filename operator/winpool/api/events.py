"""The events that the operator emits: their reasons, and the table from which the reference page is made.

An event reports a change or a failed attempt, once, with its result; never something that
merely lasts. What needs a person is in the status too. Nodes get events for exceptions only, so
that the cold start of a large pool is one event and not thousands. Where many nodes share one cause,
the pool gets one event that counts them.
Source: Kubernetes' event style guide (sig-instrumentation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NODES_WITH_OWN_EVENTS: Final = 3
"""At most so many nodes that share a cause get an event each. More are one event of their pool."""


CLUSTER_EVENTS: Final = "default"
"""The namespace of events of cluster-scoped objects: ``regarding.namespace`` must be empty so that
kubectl describe finds them, and then the API server accepts them only here and in kube-system."""


class EventType(StrEnum):
    """Whether a healthy cluster shows such events."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Regarding(StrEnum):
    """The kind of object that an event is about."""

    POOL = "WindowsNodePool"
    NODE = "Node"
    POD = "Pod"


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
    DRAIN_STARTED = "DrainStarted"
    DRAIN_BLOCKED = "DrainBlocked"
    PODS_FORCED = "PodsForced"
    NODE_HANDED_OVER = "NodeHandedOver"
    NODE_UPGRADED = "NodeUpgraded"
    UPGRADE_FAILED = "UpgradeFailed"
    SETTLE_TIMED_OUT = "SettleTimedOut"
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
        """What such an event may be about: one of nodes is about their pool where many share its cause.

        Of an evicted pod there is one more, about the pod: its owner may not see nodes.
        """
        evicted = (Regarding.POD,) if self.reason is EventReason.POD_EVICTED else ()
        pool = () if self.regarding is Regarding.POOL else (Regarding.POOL,)
        return (self.regarding, *evicted, *pool)


_TABLE: Final[Mapping[tuple[str, EventType, Regarding], Mapping[EventReason, str]]] = {
    ("UpdateNodes", EventType.NORMAL, Regarding.POOL): {
        EventReason.ROLLOUT_STARTED: "The spec changed, and the operator starts to update the nodes. The "
        "first nodes of a new pool cause no such event.",
        EventReason.ROLLOUT_COMPLETED: "All nodes of the pool have the labels and taints of this generation "
        "of the spec. A new pool gets this event too.",
    },
    ("PausePool", EventType.NORMAL, Regarding.POOL): {
        EventReason.POOL_PAUSED: "`mode` is Paused. The operator writes to no node until `mode` is Active "
        "again.",
    },
    ("ResumePool", EventType.NORMAL, Regarding.POOL): {
        EventReason.POOL_RESUMED: "`mode` is no longer Paused.",
    },
    ("ReadSpec", EventType.WARNING, Regarding.POOL): {
        EventReason.SPEC_REJECTED: "The operator cannot act on the spec. The condition Accepted says why and "
        "what to do.",
        EventReason.MISSING_PERMISSION: "The operator lacks a permission that the pool needs. The event "
        "names the RBAC rule to add.",
    },
    ("SelectNodes", EventType.WARNING, Regarding.POOL): {
        EventReason.POOL_OVERLAP: "All nodes that the pool selects belong to other pools, which keep them.",
    },
    ("SelectNodes", EventType.NORMAL, Regarding.POOL): {
        EventReason.NO_NODES_SELECTED: "`nodeSelector` matches no Windows node. This is normal for a pool "
        "that starts from zero.",
    },
    ("ReleaseNodes", EventType.NORMAL, Regarding.POOL): {
        EventReason.NODES_RELEASED: "The pool is being deleted, and the operator has removed everything of "
        "the pool from all nodes. The event counts these nodes, unless the operator restarted meanwhile.",
    },
    ("ReleaseNodes", EventType.WARNING, Regarding.POOL): {
        EventReason.POOL_GONE: "The pool no longer exists and did not release its nodes. Someone removed its "
        "finalizer. The event says how many nodes still have its labels and taints, and when the operator "
        "removes them.",
    },
    ("RepairNode", EventType.NORMAL, Regarding.NODE): {
        EventReason.DRIFT_REPAIRED: "Someone removed or changed a label or taint of the pool, and the "
        "operator restored it.",
    },
    ("ReadOwnershipRecord", EventType.WARNING, Regarding.NODE): {
        EventReason.OWNERSHIP_RECORD_UNREADABLE: "The annotation winpool.dev/applied cannot be read. The "
        "operator recreates it, or, on a node that leaves the pool, removes only keys under winpool.dev/. "
        "Existing labels and taints no longer belong to the pool.",
        EventReason.KEYS_LEFT_ALONE: "The operator replaced or removed an ownership record that was written "
        "without the guard, and left labels or taints that only this record names. The event has the "
        "command that removes them.",
    },
    ("UpdateNode", EventType.WARNING, Regarding.NODE): {
        EventReason.WRITE_REFUSED: "The API server, a policy or a webhook refuses to change the node.",
    },
    ("UpdateNodes", EventType.WARNING, Regarding.POOL): {
        EventReason.TAINTS_HELD: "The operator does not add a NoExecute taint of the spec to some nodes, "
        "because it would delete pods there that do not tolerate it. The event counts the nodes and names "
        "the first.",
        EventReason.DELETING_INTOLERANT_PODS: "The operator is about to add a NoExecute taint with "
        "`onIntolerantPods: Delete` to nodes whose pods do not tolerate it. Kubernetes then deletes these "
        "pods. The event counts them.",
        EventReason.INTOLERANT_PODS_DELETED: "The operator added such a taint. The event counts the pods on "
        "these nodes that do not tolerate it, which Kubernetes deletes.",
    },
    ("LookAtPods", EventType.WARNING, Regarding.POOL): {
        EventReason.MISPLACED_PODS: "Pods on nodes of the pool cannot run on Windows. The next such event "
        "comes only after there were none.",
    },
    ("RepairNode", EventType.WARNING, Regarding.NODE): {
        EventReason.FOREIGN_TAINT_CONFLICT: "Someone repeatedly undoes what the pool sets on the node. The "
        "operator repairs it at growing intervals.",
    },
    ("CompareReservedMemory", EventType.WARNING, Regarding.NODE): {
        EventReason.RESERVED_MEMORY_MISMATCH: "The kubelet reserves a different amount of memory than "
        "`reservedMemory` declares.",
    },
    ("WatchMemory", EventType.WARNING, Regarding.NODE): {
        EventReason.MEMORY_PRESSURE_DETECTED: "A node is under memory pressure. The event has the numbers, "
        "and what to do.",
        EventReason.UNATTRIBUTED_MEMORY: "A node is under memory pressure, and the memory does not belong to "
        "pods. Recycle the node.",
    },
    ("WatchMemory", EventType.NORMAL, Regarding.NODE): {
        EventReason.MEMORY_PRESSURE_CLEARED: "A node is no longer under memory pressure.",
    },
    ("EvictPod", EventType.WARNING, Regarding.NODE): {
        EventReason.POD_EVICTED: "The operator evicted a pod because of memory pressure. The event says why "
        "this pod. There is one about the node, and one about the pod in its namespace.",
        EventReason.EVICTION_BLOCKED: "A node is short of memory, and no pod of it may be evicted.",
    },
    ("ValidateNode", EventType.NORMAL, Regarding.NODE): {
        EventReason.NODE_VALIDATED: "The node passed `validation`, and the operator removed its startup "
        "taints.",
    },
    ("ValidateNode", EventType.WARNING, Regarding.NODE): {
        EventReason.VALIDATION_TIMED_OUT: "The node did not pass `validation` in time and keeps its startup "
        "taints.",
    },
    ("JudgeNodes", EventType.WARNING, Regarding.POOL): {
        EventReason.BUILD_UNSUPPORTED: "The support matrix does not allow the Windows build of some nodes "
        "with this version of Kubernetes. The event counts the nodes; the issue of the same reason says why.",
        EventReason.SUPPORT_ENDED: "Support for the Windows build of some nodes has ended.",
        EventReason.REVISION_BELOW_FLOOR: "Some nodes run a revision of Windows below the lowest supported "
        "one.",
        EventReason.VERSION_SKEW: "The kubelet of some nodes is newer than the control plane, or older than "
        "Kubernetes allows.",
        EventReason.RUNTIME_TOO_OLD: "The container runtime of some nodes is too old for their kubelet.",
        EventReason.BUILD_UNKNOWN: "The support matrix does not know the Windows build of some nodes, or the "
        "version of Kubernetes.",
        EventReason.BUILD_WARNED: "The support matrix allows some nodes with a warning. The event names the "
        "nodes; the issue of the same reason says why.",
        EventReason.SUPPORT_ENDING: "Support for the Windows build of some nodes ends within 180 days.",
    },
    ("JudgeGates", EventType.NORMAL, Regarding.POOL): {
        EventReason.UPGRADE_ALLOWED: "Nodes that are due for an upgrade may be upgraded now. Before, none "
        "was allowed, or none was due.",
        EventReason.UPGRADE_GATED: "Nodes are due for an upgrade, and none may be upgraded now. The event "
        "lists every closed gate with what opens it. The next such event comes only after an upgrade was "
        "allowed, or nothing was due.",
    },
    ("JudgeGates", EventType.WARNING, Regarding.POOL): {
        EventReason.OVERRIDE_EXPIRED: "The time of an entry in `upgrade.overrides` has passed. The gate "
        "decides again.",
    },
    ("UpgradeNode", EventType.NORMAL, Regarding.NODE): {
        EventReason.DRAIN_STARTED: "The operator cordoned the node and evicts its pods, to have it upgraded.",
        EventReason.NODE_HANDED_OVER: "The node is cordoned and drained, and `actuator` may upgrade it.",
        EventReason.NODE_UPGRADED: "The node runs its target and has soaked, and what was evicted from it is "
        "Ready elsewhere.",
    },
    ("UpgradeNode", EventType.WARNING, Regarding.NODE): {
        EventReason.DRAIN_BLOCKED: "The node was not drained within `drain.timeoutSeconds`. The event has "
        "the first pods and what keeps them.",
        EventReason.PODS_FORCED: "The operator deleted pods that had not left the node by the deadline of "
        "its drain, by `drain.onTimeout: Force`. The event has the first pods and what had kept them.",
        EventReason.UPGRADE_FAILED: "The node did not reach its target in time, and stays cordoned. The "
        "event says why.",
        EventReason.SETTLE_TIMED_OUT: "The node is upgraded, and what was evicted from it is not Ready "
        "elsewhere within `settleTimeoutSeconds`.",
    },
    ("WatchMachines", EventType.WARNING, Regarding.NODE): {
        EventReason.SURPRISE_OS_CHANGE: "The node runs another build of Windows than before, or was "
        "recreated as another machine, and no one had announced it.",
        EventReason.SURPRISE_REBOOT: "The machine of the node restarted, and no one had announced it.",
    },
    ("CheckGuard", EventType.WARNING, Regarding.POOL): {
        EventReason.GUARD_MISSING: "The admission policy that stops kubelets from writing the operator's "
        "keys on nodes is not in force. The event says why.",
    },
    ("CheckGuard", EventType.NORMAL, Regarding.POOL): {
        EventReason.GUARD_RESTORED: "The admission policy that stops kubelets from writing the operator's "
        "keys on nodes is in force again.",
    },
}

_KINDS: Final = {
    reason: EventKind(reason, action, type_, regarding, meaning)
    for (action, type_, regarding), meanings in _TABLE.items()
    for reason, meaning in meanings.items()
}

EVENTS: Final = {reason: _KINDS[reason] for reason in EventReason}
"""Every kind of event by its reason. What is not here is not emitted."""
