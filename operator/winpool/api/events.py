"""The events that the operator emits: their reasons, and what each says about which object.

An event reports a change or a failed attempt, once, with its result; never something that
merely lasts. What needs a person is in the status too. Nodes get events for exceptions only, so
that the cold start of a large pool is one event and not thousands. Where many nodes share one cause,
the pool gets one event that counts them.
Source: Kubernetes' event style guide (sig-instrumentation).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

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


_NORMAL, _WARNING = EventType
_POOL, _NODE, _POD = Regarding


class EventReason(StrEnum):
    """Why an event is emitted, for programs. The text below each is what the reference page says of it.

    Beside its value each has what was done or tried (``action``), its type, and what it regards.
    """

    action: str
    type: EventType
    regarding: Regarding

    def __new__(cls, value: str, action: str, type_: EventType, regarding: Regarding) -> Self:
        """Return the member of that value."""
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.action, reason.type, reason.regarding = action, type_, regarding
        return reason

    @property
    def objects(self) -> tuple[Regarding, ...]:
        """What such an event may be about: one of nodes is about their pool where many share its cause.

        Of an evicted pod there is one more, about the pod: its owner may not see nodes.
        """
        evicted = (_POD,) if self is EventReason.POD_EVICTED else ()
        pool = () if self.regarding is _POOL else (_POOL,)
        return (self.regarding, *evicted, *pool)

    ROLLOUT_STARTED = "RolloutStarted", "UpdateNodes", _NORMAL, _POOL
    """The spec changed, and the operator starts to update the nodes. The first nodes of a new pool cause no
    such event."""
    ROLLOUT_COMPLETED = "RolloutCompleted", "UpdateNodes", _NORMAL, _POOL
    """All nodes of the pool have the labels and taints of this generation of the spec. A new pool gets this
    event too."""
    POOL_PAUSED = "PoolPaused", "PausePool", _NORMAL, _POOL
    """`mode` is Paused. The operator writes to no node until `mode` is Active again."""
    POOL_RESUMED = "PoolResumed", "ResumePool", _NORMAL, _POOL
    """`mode` is no longer Paused."""
    SPEC_REJECTED = "SpecRejected", "ReadSpec", _WARNING, _POOL
    """The operator cannot act on the spec. The condition Accepted says why and what to do."""
    MISSING_PERMISSION = "MissingPermission", "ReadSpec", _WARNING, _POOL
    """The operator lacks a permission that the pool needs. The event names the RBAC rule to add."""
    POOL_OVERLAP = "PoolOverlap", "SelectNodes", _WARNING, _POOL
    """All nodes that the pool selects belong to other pools, which keep them."""
    NO_NODES_SELECTED = "NoNodesSelected", "SelectNodes", _NORMAL, _POOL
    """`nodeSelector` matches no Windows node. This is normal for a pool that starts from zero."""
    NODES_RELEASED = "NodesReleased", "ReleaseNodes", _NORMAL, _POOL
    """The pool is being deleted, and the operator has removed everything of the pool from all nodes. The
    event counts these nodes, unless the operator restarted meanwhile."""
    POOL_GONE = "PoolGone", "ReleaseNodes", _WARNING, _POOL
    """The pool no longer exists and did not release its nodes. Someone removed its finalizer. The event says
    how many nodes still have its labels and taints, and when the operator removes them."""
    DRIFT_REPAIRED = "DriftRepaired", "RepairNode", _NORMAL, _NODE
    """Someone removed or changed a label or taint of the pool, and the operator restored it."""
    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable", "ReadOwnershipRecord", _WARNING, _NODE
    """The annotation winpool.dev/applied cannot be read. The operator recreates it, or, on a node that leaves
    the pool, removes only keys under winpool.dev/. Existing labels and taints no longer belong to the
    pool."""
    KEYS_LEFT_ALONE = "KeysLeftAlone", "ReadOwnershipRecord", _WARNING, _NODE
    """The operator replaced or removed an ownership record that was written without the guard, and left
    labels or taints that only this record names. The event has the command that removes them."""
    WRITE_REFUSED = "WriteRefused", "UpdateNode", _WARNING, _NODE
    """The API server, a policy or a webhook refuses to change the node."""
    TAINTS_HELD = "TaintsHeld", "UpdateNodes", _WARNING, _POOL
    """The operator does not add a NoExecute taint of the spec to some nodes, because it would delete pods
    there that do not tolerate it. The event counts the nodes and names the first."""
    DELETING_INTOLERANT_PODS = "DeletingIntolerantPods", "UpdateNodes", _WARNING, _POOL
    """The operator is about to add a NoExecute taint with `onIntolerantPods: Delete` to nodes whose pods do
    not tolerate it. Kubernetes then deletes these pods. The event counts them."""
    INTOLERANT_PODS_DELETED = "IntolerantPodsDeleted", "UpdateNodes", _WARNING, _POOL
    """The operator added such a taint. The event counts the pods on these nodes that do not tolerate it,
    which Kubernetes deletes."""
    MISPLACED_PODS = "MisplacedPods", "LookAtPods", _WARNING, _POOL
    """Pods on nodes of the pool cannot run on Windows. The next such event comes only after there were
    none."""
    FOREIGN_TAINT_CONFLICT = "ForeignTaintConflict", "RepairNode", _WARNING, _NODE
    """Someone repeatedly undoes what the pool sets on the node. The operator repairs it at growing
    intervals."""
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch", "CompareReservedMemory", _WARNING, _NODE
    """The kubelet reserves a different amount of memory than `reservedMemory` declares."""
    MEMORY_PRESSURE_DETECTED = "MemoryPressureDetected", "WatchMemory", _WARNING, _NODE
    """A node is under memory pressure. The event has the numbers, and what to do."""
    MEMORY_PRESSURE_CLEARED = "MemoryPressureCleared", "WatchMemory", _NORMAL, _NODE
    """A node is no longer under memory pressure."""
    UNATTRIBUTED_MEMORY = "UnattributedMemory", "WatchMemory", _WARNING, _NODE
    """A node is under memory pressure, and the memory does not belong to pods. Recycle the node."""
    POD_EVICTED = "PodEvicted", "EvictPod", _WARNING, _NODE
    """The operator evicted a pod because of memory pressure. The event says why this pod. There is one about
    the node, and one about the pod in its namespace."""
    EVICTION_BLOCKED = "EvictionBlocked", "EvictPod", _WARNING, _NODE
    """A node is short of memory, and no pod of it may be evicted."""
    NODE_VALIDATED = "NodeValidated", "ValidateNode", _NORMAL, _NODE
    """The node passed `validation`, and the operator removed its startup taints."""
    VALIDATION_TIMED_OUT = "ValidationTimedOut", "ValidateNode", _WARNING, _NODE
    """The node did not pass `validation` in time and keeps its startup taints."""
    BUILD_UNSUPPORTED = "BuildUnsupported", "JudgeNodes", _WARNING, _POOL
    """The support matrix does not allow the Windows build of some nodes with this version of Kubernetes. The
    event counts the nodes; the issue of the same reason says why."""
    SUPPORT_ENDED = "SupportEnded", "JudgeNodes", _WARNING, _POOL
    """Support for the Windows build of some nodes has ended."""
    REVISION_BELOW_FLOOR = "RevisionBelowFloor", "JudgeNodes", _WARNING, _POOL
    """Some nodes run a revision of Windows below the lowest supported one."""
    VERSION_SKEW = "VersionSkew", "JudgeNodes", _WARNING, _POOL
    """The kubelet of some nodes is newer than the control plane, or older than Kubernetes allows."""
    RUNTIME_TOO_OLD = "RuntimeTooOld", "JudgeNodes", _WARNING, _POOL
    """The container runtime of some nodes is too old for their kubelet."""
    BUILD_UNKNOWN = "BuildUnknown", "JudgeNodes", _WARNING, _POOL
    """The support matrix does not know the Windows build of some nodes, or the version of Kubernetes."""
    BUILD_WARNED = "BuildWarned", "JudgeNodes", _WARNING, _POOL
    """The support matrix allows some nodes with a warning. The event names the nodes; the issue of the same
    reason says why."""
    SUPPORT_ENDING = "SupportEnding", "JudgeNodes", _WARNING, _POOL
    """Support for the Windows build of some nodes ends within 180 days."""
    UPGRADE_ALLOWED = "UpgradeAllowed", "JudgeGates", _NORMAL, _POOL
    """Nodes that are due for an upgrade may be upgraded now. Before, none was allowed, or none was due."""
    UPGRADE_GATED = "UpgradeGated", "JudgeGates", _NORMAL, _POOL
    """Nodes are due for an upgrade, and none may be upgraded now. The event lists every closed gate with what
    opens it. The next such event comes only after an upgrade was allowed, or nothing was due."""
    OVERRIDE_EXPIRED = "OverrideExpired", "JudgeGates", _WARNING, _POOL
    """The time of an entry in `upgrade.overrides` has passed. The gate decides again."""
    DRAIN_STARTED = "DrainStarted", "UpgradeNode", _NORMAL, _NODE
    """The operator cordoned the node and evicts its pods, to have it upgraded."""
    DRAIN_BLOCKED = "DrainBlocked", "UpgradeNode", _WARNING, _NODE
    """The node was not drained within `drain.timeoutSeconds`. The event has the first pods and what keeps
    them."""
    PODS_FORCED = "PodsForced", "UpgradeNode", _WARNING, _NODE
    """The operator deleted pods that had not left the node by the deadline of its drain, by `drain.onTimeout:
    Force`. The event has the first pods and what had kept them."""
    NODE_HANDED_OVER = "NodeHandedOver", "UpgradeNode", _NORMAL, _NODE
    """The node is cordoned and drained, and `actuator` may upgrade it."""
    NODE_UPGRADED = "NodeUpgraded", "UpgradeNode", _NORMAL, _NODE
    """The node runs its target and has soaked, and what was evicted from it is Ready elsewhere."""
    UPGRADE_FAILED = "UpgradeFailed", "UpgradeNode", _WARNING, _NODE
    """The node did not reach its target in time, and stays cordoned. The event says why."""
    SETTLE_TIMED_OUT = "SettleTimedOut", "UpgradeNode", _WARNING, _NODE
    """The node is upgraded, and what was evicted from it is not Ready elsewhere within
    `settleTimeoutSeconds`."""
    SURPRISE_OS_CHANGE = "SurpriseOSChange", "WatchMachines", _WARNING, _NODE
    """The node runs another build of Windows than before, or was recreated as another machine, and no one had
    announced it."""
    SURPRISE_REBOOT = "SurpriseReboot", "WatchMachines", _WARNING, _NODE
    """The machine of the node restarted, and no one had announced it."""
    GUARD_MISSING = "GuardMissing", "CheckGuard", _WARNING, _POOL
    """The admission policy that stops kubelets from writing the operator's keys on nodes is not in force. The
    event says why."""
    GUARD_RESTORED = "GuardRestored", "CheckGuard", _NORMAL, _POOL
    """The admission policy that stops kubelets from writing the operator's keys on nodes is in force
    again."""
