"""The reasons of the entries in ``status.issues``, the worst first: their order is the order of the list."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class IssueReason(StrEnum):
    """What is wrong with a node, in one word for programs. What each means: ``ISSUES``."""

    OWNERSHIP_RECORD_UNREADABLE = "OwnershipRecordUnreadable"
    WRITE_REFUSED = "WriteRefused"
    OWNER_UNKNOWN = "OwnerUnknown"
    POOL_OVERLAP = "PoolOverlap"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    SUPPORT_ENDED = "SupportEnded"
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    VERSION_SKEW = "VersionSkew"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    BUILD_UNKNOWN = "BuildUnknown"
    BUILD_LABEL_DISAGREES = "BuildLabelDisagrees"
    SUPPORT_ENDING = "SupportEnding"
    BUILD_WARNED = "BuildWarned"


ISSUES: Final = {
    IssueReason.OWNERSHIP_RECORD_UNREADABLE: "The annotation winpool.dev/applied cannot be read, so "
    "nothing is taken off this node but keys under winpool.dev/.",
    IssueReason.WRITE_REFUSED: "The API server, or a policy or webhook behind it, does not let the operator "
    "change the node; it is tried again, at most five minutes apart.",
    IssueReason.OWNER_UNKNOWN: "The annotation winpool.dev/applied names a pool that is not known, and "
    "not known to be gone either.",
    IssueReason.POOL_OVERLAP: "The node is selected by this pool and by another one.",
    IssueReason.BUILD_UNSUPPORTED: "The support matrix does not allow the node's build of Windows "
    "under this version of Kubernetes, or denies it.",
    IssueReason.SUPPORT_ENDED: "The last day of support of the node's build of Windows has passed.",
    IssueReason.REVISION_BELOW_FLOOR: "The node's revision of Windows is below the lowest that is "
    "supported: the highest of `os.minRevision` and the floors of the support matrix.",
    IssueReason.VERSION_SKEW: "The node's kubelet is newer than the control plane, or older than it may be.",
    IssueReason.RUNTIME_TOO_OLD: "The node's container runtime is too old for its kubelet.",
    IssueReason.BUILD_UNKNOWN: "The support matrix does not know the node's build of Windows or this "
    "version of Kubernetes, or what the node reports cannot be read; nothing is done to the node for it.",
    IssueReason.BUILD_LABEL_DISAGREES: "The label node.kubernetes.io/windows-build names another build "
    "than the node reports; the node is judged by what it reports.",
    IssueReason.SUPPORT_ENDING: "Support of the node's build of Windows ends within 180 days.",
    IssueReason.BUILD_WARNED: "The node is supported with a warning; the message has the reason.",
}
"""What each reason means, for the reference page."""
