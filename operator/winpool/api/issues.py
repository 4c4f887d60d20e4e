"""The reasons of the entries in ``status.issues``, the worst first: their order is the order of the list."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class IssueReason(StrEnum):
    """What is wrong with a node or the pool, in one word for programs. What each means: ``ISSUES``."""

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
    RESERVED_MEMORY_TOO_LARGE = "ReservedMemoryTooLarge"
    RESERVED_MEMORY_MISMATCH = "ReservedMemoryMismatch"
    MISPLACED_PODS = "MisplacedPods"
    INTOLERANT_NODE_AGENTS = "IntolerantNodeAgents"
    PODS_UNREADABLE = "PodsUnreadable"
    BUILD_UNKNOWN = "BuildUnknown"
    BUILD_LABEL_DISAGREES = "BuildLabelDisagrees"
    SUPPORT_ENDING = "SupportEnding"
    BUILD_WARNED = "BuildWarned"
    RESERVED_MEMORY_LOW = "ReservedMemoryLow"


ISSUES: Final = {
    IssueReason.GUARD_NOT_IN_FORCE: "Of the pool: the admission policy that keeps kubelets from writing the "
    "operator's keys on nodes is missing, was changed, or cannot be looked at; until it is in force, less is "
    "believed of what stands on nodes.",
    IssueReason.OWNERSHIP_RECORD_UNREADABLE: "The annotation winpool.dev/applied cannot be read, so "
    "nothing is taken off this node but keys under winpool.dev/.",
    IssueReason.WRITE_REFUSED: "The API server, or a policy or webhook behind it, does not let the operator "
    "change the node; it is tried again, at most five minutes apart.",
    IssueReason.INTOLERANT_PODS: "A taint of the spec is not on the node yet, and pods run there that do not "
    "tolerate it. A NoExecute taint, which would have them deleted, is held back until they are gone, unless "
    "it says `onIntolerantPods: Delete`.",
    IssueReason.VALIDATION_TIMED_OUT: "The node has not passed `validation` in time; its startup taints stay "
    "until it has.",
    IssueReason.POD_LIST_FAILING: "Nodes of the pool wait for a look at their pods, and these cannot be "
    "listed; it is tried again, at most half a minute apart.",
    IssueReason.FOREIGN_TAINT_CONFLICT: "Somebody keeps undoing what the pool puts on the node: it was "
    "repaired three times within ten minutes, and is repaired later and later.",
    IssueReason.OWNER_UNKNOWN: "The annotation winpool.dev/applied names a pool that is not known, and "
    "not known to be gone either.",
    IssueReason.KEYS_LEFT_ALONE: "The ownership record on the node was written without the guard, so "
    "its kubelet may have forged it, and it names labels or taints that the pool neither asks for nor has "
    "set by `status.setKeys`. They stay; the fix takes them off.",
    IssueReason.POOL_OVERLAP: "The node is selected by this pool and by another one.",
    IssueReason.SELECTOR_OPEN_TO_KUBELETS: "Of the pool: it sets labels that no kubelet may give itself "
    "(node-restriction.kubernetes.io, node-role.kubernetes.io) on nodes that it selects only by labels that "
    "any kubelet can give itself.",
    IssueReason.BUILD_UNSUPPORTED: "The support matrix does not allow the node's build of Windows "
    "under this version of Kubernetes, or denies it.",
    IssueReason.SUPPORT_ENDED: "The last day of support of the node's build of Windows has passed.",
    IssueReason.REVISION_BELOW_FLOOR: "The node's revision of Windows is below the lowest that is "
    "supported: the highest of `os.minRevision` and the floors of the support matrix.",
    IssueReason.VERSION_SKEW: "The node's kubelet is newer than the control plane, or older than it may be.",
    IssueReason.RUNTIME_TOO_OLD: "The node's container runtime is too old for its kubelet.",
    IssueReason.RESERVED_MEMORY_TOO_LARGE: "What `reservedMemory` declares is more than half of the node's "
    "memory.",
    IssueReason.RESERVED_MEMORY_MISMATCH: "The kubelet holds back another amount of memory than "
    "`reservedMemory` declares.",
    IssueReason.MISPLACED_PODS: "Pods are bound to the node that cannot run there: they are for Linux, or no "
    "image of theirs is for Windows.",
    IssueReason.INTOLERANT_NODE_AGENTS: "Pods of DaemonSets run on nodes of the pool and do not tolerate a "
    "taint that the pool asks for: once they end, they do not come back.",
    IssueReason.PODS_UNREADABLE: "Pods on the node could not be read, so nothing that depends on them is "
    "done there.",
    IssueReason.BUILD_UNKNOWN: "The support matrix does not know the node's build of Windows or this "
    "version of Kubernetes, or what the node reports cannot be read; nothing is done to the node for it.",
    IssueReason.BUILD_LABEL_DISAGREES: "The label node.kubernetes.io/windows-build names another build "
    "than the node reports; the node is judged by what it reports.",
    IssueReason.SUPPORT_ENDING: "Support of the node's build of Windows ends within 180 days.",
    IssueReason.BUILD_WARNED: "The node is supported with a warning; the message has the reason.",
    IssueReason.RESERVED_MEMORY_LOW: "`reservedMemory` declares less than 2 GiB, the least that is good "
    "practice on Windows.",
}
"""What each reason means, for the reference page."""
