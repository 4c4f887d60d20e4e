"""The reasons of the entries in ``status.issues``, the worst first: their order is the order of the list."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class IssueReason(StrEnum):
    """What is wrong with nodes or the pool, in one word for programs. What each means: ``ISSUES``."""

    GUARD_NOT_IN_FORCE = "GuardNotInForce"
    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable"
    WRITE_REFUSED = "WriteRefused"
    INTOLERANT_PODS = "IntolerantPods"
    VALIDATION_TIMED_OUT = "ValidationTimedOut"
    POD_LIST_FAILING = "PodListFailing"
    FOREIGN_TAINT_CONFLICT = "ForeignTaintConflict"
    OWNER_UNKNOWN = "OwnerUnknown"
    KEYS_LEFT_ALONE = "KeysLeftAlone"
    POOL_OVERLAP = "PoolOverlap"
    SELECTOR_OPEN_TO_KUBELETS = "SelectorOpenToKubelets"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    SUPPORT_ENDED = "SupportEnded"
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    VERSION_SKEW = "VersionSkew"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    OS_VERSION_UNKNOWN = "OSVersionUnknown"
    OS_VERSION_MISMATCH = "OSVersionMismatch"
    OS_REVISION_BEHIND = "OSRevisionBehind"
    RESERVED_MEMORY_TOO_LARGE = "ReservedMemoryTooLarge"
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch"
    MISPLACED_PODS = "MisplacedPods"
    INTOLERANT_NODE_AGENTS = "IntolerantNodeAgents"
    PODS_UNREADABLE = "PodsUnreadable"
    BUILD_UNKNOWN = "BuildUnknown"
    NO_NODES_SELECTED = "NoNodesSelected"
    BUILD_LABEL_DISAGREES = "BuildLabelDisagrees"
    SUPPORT_ENDING = "SupportEnding"
    BUILD_WARNED = "BuildWarned"
    RESERVED_MEMORY_LOW = "ReservedMemoryLow"


ISSUES: Final = {
    IssueReason.GUARD_NOT_IN_FORCE: "Of the pool: the admission policy that keeps kubelets from writing the "
    "operator's keys on nodes is missing, was changed, or cannot be read; until it is in force, the operator "
    "believes less of what stands on nodes.",
    IssueReason.OWNERSHIP_RECORD_UNREADABLE: "The annotation winpool.dev/applied is damaged, or was, so "
    "labels and taints of the pool that stand there no longer belong to it. They stay when the pool is "
    "deleted. The message names them, the fix removes them.",
    IssueReason.WRITE_REFUSED: "The API server, or a policy or webhook behind it, does not let the operator "
    "change the nodes; the operator tries again, at most five minutes apart.",
    IssueReason.INTOLERANT_PODS: "A taint of the spec is not on the nodes yet, and pods run there that do "
    "not tolerate it. The operator does not put a NoExecute taint, which would have them deleted, until they "
    "are gone, unless the taint says `onIntolerantPods: Delete`.",
    IssueReason.VALIDATION_TIMED_OUT: "The nodes did not pass `validation` in time; their startup taints "
    "stay until they do.",
    IssueReason.POD_LIST_FAILING: "Nodes wait for a list of their pods, and the pods cannot be listed; the "
    "operator tries again, at most half a minute apart.",
    IssueReason.FOREIGN_TAINT_CONFLICT: "Somebody keeps undoing what the pool sets on the nodes: each was "
    "repaired three times within ten minutes, and is repaired later and later.",
    IssueReason.OWNER_UNKNOWN: "The annotation winpool.dev/applied names a pool that is not known, and "
    "not known to be gone either.",
    IssueReason.KEYS_LEFT_ALONE: "The ownership record on the nodes was written without the guard, so their "
    "kubelets may have forged it, and it names labels or taints that the pool neither asks for nor has set "
    "by `status.setKeys`. They stay; the commands of the fix remove them.",
    IssueReason.POOL_OVERLAP: "Nodes are selected by this pool and by another one.",
    IssueReason.SELECTOR_OPEN_TO_KUBELETS: "Of the pool: it sets labels that no kubelet may give itself "
    "(node-restriction.kubernetes.io, node-role.kubernetes.io) on nodes that it selects only by labels that "
    "any kubelet can give itself.",
    IssueReason.BUILD_UNSUPPORTED: "The support matrix does not allow the nodes' build of Windows "
    "under this version of Kubernetes, or denies it.",
    IssueReason.SUPPORT_ENDED: "The last day of support of the nodes' build of Windows has passed.",
    IssueReason.REVISION_BELOW_FLOOR: "The nodes' revision of Windows is below the lowest that is "
    "supported: the highest of `os.minRevision` and the floors of the support matrix.",
    IssueReason.VERSION_SKEW: "The nodes' kubelet is newer than the control plane, or older than it may be.",
    IssueReason.RUNTIME_TOO_OLD: "The nodes' container runtime is too old for their kubelet.",
    IssueReason.OS_VERSION_UNKNOWN: "Of the pool: the support matrix does not know the release that "
    "`os.version` names.",
    IssueReason.OS_VERSION_MISMATCH: "The nodes run another release of Windows Server than `os.version` asks "
    "for.",
    IssueReason.OS_REVISION_BEHIND: "The nodes run the release that `os.version` asks for, with a revision "
    "below `os.targetRevision`.",
    IssueReason.RESERVED_MEMORY_TOO_LARGE: "`reservedMemory` declares more than half of the nodes' memory.",
    IssueReason.RESERVED_MEMORY_MISMATCH: "The kubelets reserve another amount of memory than "
    "`reservedMemory` declares.",
    IssueReason.MISPLACED_PODS: "Pods are bound to the nodes that cannot run there: they are for Linux, or "
    "no image of theirs is for Windows.",
    IssueReason.INTOLERANT_NODE_AGENTS: "Pods of DaemonSets run on nodes of the pool and do not tolerate a "
    "taint that the pool asks for: once they end, they do not come back.",
    IssueReason.PODS_UNREADABLE: "Pods on the nodes cannot be read, so nothing that depends on them is "
    "done there.",
    IssueReason.BUILD_UNKNOWN: "The support matrix does not know the nodes' build of Windows or this "
    "version of Kubernetes, or what the nodes report cannot be read; nothing is done to the nodes for it.",
    IssueReason.NO_NODES_SELECTED: "Of the pool: no Windows node has the labels that `nodeSelector` "
    "asks for.",
    IssueReason.BUILD_LABEL_DISAGREES: "The label node.kubernetes.io/windows-build names another build "
    "than the nodes report; the nodes are judged by what they report.",
    IssueReason.SUPPORT_ENDING: "Support of the nodes' build of Windows ends within 180 days.",
    IssueReason.BUILD_WARNED: "The nodes are supported with a warning; the message has the reason.",
    IssueReason.RESERVED_MEMORY_LOW: "Of the pool: `reservedMemory` declares less than 2 GiB, the least that "
    "is good practice on Windows.",
}
"""What each reason means, for the reference page."""
