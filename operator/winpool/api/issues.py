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


ISSUES: Final = {
    IssueReason.OWNERSHIP_RECORD_UNREADABLE: "The annotation winpool.dev/applied cannot be read, so "
    "nothing is taken off this node but keys under winpool.dev/.",
    IssueReason.WRITE_REFUSED: "The API server, or a policy or webhook behind it, does not let the operator "
    "change the node; it is tried again, at most five minutes apart.",
    IssueReason.OWNER_UNKNOWN: "The annotation winpool.dev/applied names a pool that is not known, and "
    "not known to be gone either.",
    IssueReason.POOL_OVERLAP: "The node is selected by this pool and by another one.",
}
"""What each reason means, for the reference page."""
