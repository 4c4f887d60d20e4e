"""The reasons of the entries in ``status.issues``, the worst first: their order is the order of the list."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class IssueReason(StrEnum):
    """What is wrong with nodes or the pool, in one word for programs. The reference page has these texts."""

    GUARD_NOT_IN_FORCE = "GuardNotInForce"
    """About the pool: the admission policy that stops kubelets from writing the operator's keys on nodes is
    missing, was changed, or cannot be read. Until it is in force, the operator believes less of what nodes
    say."""
    SECOND_OPERATOR = "SecondOperatorRunning"
    """About the pool, in every pool: one operator holds the Lease winpool-system/winpool, and another one
    runs without `--leader-elect`. Both write to nodes and pools. The issue goes within 16 minutes after one
    of them has ended."""
    CRD_OUTDATED = "CRDOutdated"
    """About the pool, in every pool: the CRD in the cluster is older than the operator. The message names the
    fields of spec and status that it lacks. The operator writes the status without them. The issue goes when
    the CRD of the operator's version is applied."""
    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable"
    """The annotation winpool.dev/applied is damaged, or was. Existing labels and taints of the pool no longer
    belong to it, and stay when the pool is deleted. The message names them, and the fix removes them."""
    WRITE_REFUSED = "WriteRefused"
    """The API server, a policy or a webhook refuses to change the nodes. The operator tries again after at
    most five minutes."""
    NODES_NOT_READY = "NodesNotReady"
    """The nodes have not been Ready for five minutes, and the operator has not handed them over to be
    upgraded. Nodes that their cloud has stopped, which have its taint `shutdown`, do not count. One issue for
    each of the three causes that most nodes have, and one for all others: the message has reason and message
    of the condition Ready, with `…` for numbers and identifiers, which differ from node to node."""
    INTOLERANT_PODS = "IntolerantPods"
    """A taint of the spec is not on the nodes yet, or replaced one of another value there, and pods there do
    not tolerate it. The operator does not add a NoExecute taint, which would delete them, until they are
    gone, unless the taint has `onIntolerantPods: Delete`."""
    VALIDATION_TIMED_OUT = "ValidationTimedOut"
    """The nodes did not pass `validation` in time. They keep their startup taints until they do."""
    STARTUP_TAINT_STAYS = "StartupTaintStays"
    """A taint of `startupTaints` is on nodes that have passed validation, or that got it from someone else
    before they joined. The operator removes only its own, once. No pod without a toleration is scheduled
    there until someone removes it."""
    CLOUD_TAINT_STAYS = "CloudTaintStays"
    """The nodes have been Ready for ten minutes, and still have the taint `uninitialized` or `shutdown` of
    node.cloudprovider.kubernetes.io, which a cloud controller manager removes. It keeps pods away. The
    operator does not remove it."""
    UPGRADE_FAILED = "UpgradeFailed"
    """The nodes did not reach their target in time, or were not drained in time and `onTimeout` is
    Quarantine. They stay cordoned, and count for `maxFailedNodes`. With the annotation
    winpool.dev/upgrade-retry their upgrade begins again. Or they were handed over and deleted, and no machine
    has taken their place in time."""
    DRAIN_BLOCKED = "DrainBlocked"
    """The nodes were not drained within `drain.timeoutSeconds`, or their volumes did not detach. They stay
    cordoned, count for `maxBlockedNodes`, and the operator keeps trying. The message names the pods and what
    keeps them."""
    SETTLE_TIMED_OUT = "SettleTimedOut"
    """The nodes are upgraded and schedulable, and within `upgrade.settleTimeoutSeconds` they did not stay
    healthy, or what was evicted from them is not Ready on other nodes. They keep their slots, so that others
    wait. The message names the controllers."""
    POD_LIST_FAILING = "PodListFailing"
    """Nodes wait for a list of their pods, and the operator cannot list pods, or a list takes too long. It
    tries again after at most 30 seconds."""
    SYSTEMIC_PRESSURE = "SystemicPressure"
    """More nodes are under memory pressure, or give no samples, than
    `memoryPressure.eviction.maxPressuredNodes` allows. The operator evicts no pod meanwhile, since that would
    only move the pressure to other nodes."""
    UNATTRIBUTED_MEMORY = "UnattributedMemory"
    """The nodes are under memory pressure, and the memory does not belong to pods. Evicting pods does not
    help. Drain the nodes, then restart or replace the machines."""
    EVICTION_STUCK = "EvictionStuck"
    """A pod that was evicted because of memory pressure is still being deleted, two minutes after its grace
    period, of which ten minutes count at most. The operator evicts no other pod of the node until it is
    gone."""
    EVICTION_BLOCKED = "EvictionBlocked"
    """The nodes are short of memory, and no pod of them may be evicted: PodDisruptionBudgets permit none, the
    memory of pods is unknown, none has grown since the node was calm, the one that grows has to stay, or all
    pods are protected, too young or too small."""
    EVICTION_RECORD_UNREADABLE = "EvictionRecordUnreadable"
    """The annotation winpool.dev/memory of the nodes, which records evictions, cannot be read. The operator
    evicts no pod there."""
    MEMORY_PRESSURE = "MemoryPressure"
    """The nodes are under memory pressure: they can commit hardly any more memory, or are short of RAM and
    page. One issue for each axis and level, with the numbers of the worst node at the moment when the level
    of a node last changed."""
    FOREIGN_TAINT_CONFLICT = "ForeignTaintConflict"
    """Someone repeatedly undoes what the pool sets on the nodes. The operator repaired each three times
    within ten minutes, and now repairs it at growing intervals."""
    OWNER_UNKNOWN = "OwnerUnknown"
    """The annotation winpool.dev/applied names a pool that the operator does not know. It is not known to be
    gone either."""
    KEYS_LEFT_ALONE = "KeysLeftAlone"
    """The ownership record on the nodes was written without the guard, so their kubelets may have forged it.
    It names labels or taints that are neither in the spec nor in `status.setKeys`. They stay. The commands of
    the fix remove them."""
    NODE_NOT_WINDOWS = "NodeNotWindows"
    """Nodes of the pool do not have the label `kubernetes.io/os=windows` any more. Their kubelets may change
    this label. So the operator leaves what a kubelet may not remove from its own node, until someone deletes
    the pool: taints, labels under node-restriction.kubernetes.io and node-role.kubernetes.io, and all under
    winpool.dev/. The commands of the fix remove it. The issue goes within ten minutes."""
    POOL_OVERLAP = "PoolOverlap"
    """This pool and another one select the same nodes."""
    SELECTOR_OPEN_TO_KUBELETS = "SelectorOpenToKubelets"
    """About the pool: it sets labels that no kubelet may set on its own node (node-restriction.kubernetes.io,
    node-role.kubernetes.io), and selects nodes only by labels that any kubelet may set."""
    SURPRISE_OS_CHANGE = "SurpriseOSChange"
    """The nodes run another build of Windows than before, or were recreated as other machines, and no one had
    announced it: the nodes were neither labelled `winpool.dev/upgrade-state=Required`, nor requested, nor
    cordoned. The issue stays for an hour."""
    SURPRISE_REBOOT = "SurpriseReboot"
    """The machines of the nodes restarted, and no one had announced it: the nodes were neither labelled
    `winpool.dev/upgrade-state=Required`, nor requested, nor cordoned. The issue stays for an hour."""
    BUILD_UNSUPPORTED = "BuildUnsupported"
    """The support matrix does not allow the nodes' build of Windows under this version of Kubernetes, or
    denies it."""
    SUPPORT_ENDED = "SupportEnded"
    """The last day of support for the nodes' build of Windows has passed."""
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    """The nodes' revision of Windows is below the lowest supported one: the highest of `os.minRevision` and
    the floors of the support matrix."""
    VERSION_SKEW = "VersionSkew"
    """The nodes' kubelet is newer than the control plane, or older than it may be."""
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    """The nodes' container runtime is too old for their kubelet."""
    OS_VERSION_UNKNOWN = "OSVersionUnknown"
    """About the pool: the support matrix does not have the release that `os.version` names."""
    OS_VERSION_MISMATCH = "OSVersionMismatch"
    """The nodes run another release of Windows Server than `os.version` asks for."""
    OS_REVISION_BEHIND = "OSRevisionBehind"
    """The nodes run the release that `os.version` asks for, with a revision below `os.targetRevision`."""
    MEMORY_UNKNOWN = "MemoryUnknown"
    """The operator does not know the memory of the nodes, because it gets no samples, or none that are fresh.
    It leaves condition and taint of the nodes as they are."""
    RESERVED_MEMORY_TOO_LARGE = "ReservedMemoryTooLarge"
    """`reservedMemory` declares more than half of the nodes' memory."""
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch"
    """The kubelets reserve another amount of memory than `reservedMemory` declares."""
    MISPLACED_PODS = "MisplacedPods"
    """Pods on the nodes cannot run there. They are for Linux, or an image of theirs is not for Windows, or
    for another build of it."""
    INTOLERANT_NODE_AGENTS = "IntolerantNodeAgents"
    """DaemonSets do not tolerate a taint of the spec. On nodes with it their pods never start, and those that
    run do not come back once they end."""
    PODS_UNREADABLE = "PodsUnreadable"
    """The operator cannot read some pods on the nodes, so it adds no NoExecute taint there."""
    BUILD_UNKNOWN = "BuildUnknown"
    """The support matrix does not have the nodes' build of Windows or this version of Kubernetes, or the
    operator cannot read what the nodes report. The operator does nothing to the nodes for it."""
    MEMORY_WARNING = "MemoryWarning"
    """The nodes come close to memory pressure. Nothing is signalled on them yet."""
    MEMORY_SOURCE_FAILING = "MemorySourceFailing"
    """One of `memoryPressure.sources` gives no samples of the nodes. Another one does."""
    OVERRIDE_EXPIRED = "OverrideExpired"
    """About the pool: the time of an entry in `upgrade.overrides` has passed, so it opens its gate no
    longer."""
    OVERRIDE_IN_FORCE = "OverrideInForce"
    """About the pool: an entry in `upgrade.overrides` opens a gate until its time has passed, whatever the
    gate finds."""
    GATE_CLOSED = "GateClosed"
    """About the pool: nodes are due for an upgrade, and a gate of the pool is closed. One issue for each
    gate. The fix says what opens it."""
    NODES_GATED = "NodesGated"
    """The nodes are due for an upgrade, and a gate that is judged node by node keeps them from it. One issue
    for each gate and cause. The fix says what opens it."""
    PAUSE_REQUESTED = "PauseRequested"
    """About the pool: an entry in `upgrade.pauseRequests` asks that no upgrade begins."""
    PERMISSION_UNUSED = "PermissionUnused"
    """The nodes may be upgraded, and for 30 minutes no one has begun. Every other node that may be upgraded
    had its turn, or there is none. The nodes keep the permission until something changes."""
    UPGRADE_REQUESTED = "UpgradeRequested"
    """Someone requests an upgrade of the nodes with the annotation winpool.dev/upgrade-requested. The message
    has its text."""
    NODES_HELD = "NodesHeld"
    """Someone holds the nodes with the annotation winpool.dev/hold. The operator writes nothing to them until
    the annotation is removed or the time in it has passed. If the pool is deleted, it releases them too."""
    NO_NODES_SELECTED = "NoNodesSelected"
    """About the pool: no Windows node has the labels that `nodeSelector` asks for."""
    BUILD_LABEL_DISAGREES = "BuildLabelDisagrees"
    """The label node.kubernetes.io/windows-build names another build than the nodes report. The operator
    judges the nodes by what they report."""
    SUPPORT_ENDING = "SupportEnding"
    """Support for the nodes' build of Windows ends within 180 days."""
    BUILD_WARNED = "BuildWarned"
    """The nodes are supported with a warning. The message has the reason."""
    UNSELECTED_WORKLOADS = "UnselectedWorkloads"
    """About the pool: pods of workloads that select no OS can be scheduled to its nodes, since no taint keeps
    them off. The message names the workloads with the most pods. It changes only when it names others. No
    condition and no gate reads this issue."""
    MEMORY_LIMITS_MISSING = "MemoryLimitsMissing"
    """About the pool: containers on its nodes have no memory limit. On Windows nothing else bounds their
    memory. The message names the workloads with the most such containers. It changes only when it names
    others. No condition and no gate reads this issue."""
    RESERVED_MEMORY_LOW = "ReservedMemoryLow"
    """About the pool: `systemReserved` and `kubeReserved` of `reservedMemory` are less than 2 GiB together,
    the least that is good practice on Windows. `evictionHard` does not count."""


NORMAL: Final = frozenset(
    {
        *(IssueReason.OVERRIDE_IN_FORCE, IssueReason.GATE_CLOSED, IssueReason.NODES_GATED),
        *(IssueReason.PAUSE_REQUESTED, IssueReason.UPGRADE_REQUESTED, IssueReason.NODES_HELD),
        *(IssueReason.PERMISSION_UNUSED, IssueReason.NO_NODES_SELECTED),
    }
)
"""What someone has asked for, or what waits as it should. All others are warnings. An event of the same
reason is of the same type."""
