"""The types of condition of a WindowsNodePool and the reasons that they can have.

A reason is part of the API: people script against it. Those of Ready are at most 19 characters, since
`kubectl get` shows them in the column STATE, and the table stays within 80 columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """The types of condition of a pool. It has all of them from the first look on, but for two.

    UpgradeAllowed is there where the spec has ``upgrade``, MemoryHealthy where it has ``memoryPressure``.
    """

    READY = "Ready"
    ACCEPTED = "Accepted"
    AVAILABLE = "Available"
    NODES_UP_TO_DATE = "NodesUpToDate"
    OS_SUPPORTED = "OSSupported"
    UPGRADE_ALLOWED = "UpgradeAllowed"
    MEMORY_HEALTHY = "MemoryHealthy"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    PAUSED = "Paused"
    DELETING = "Deleting"


class Reason(StrEnum):
    """Why a condition has the status it has. What each means under which condition: ``condition_table``."""

    ACCEPTED = "Accepted"
    DRY_RUN = "DryRun"
    BUDGET = "Budget"
    BUILD_UNKNOWN = "BuildUnknown"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    BUILD_WARNED = "BuildWarned"
    CONTROL_PLANE = "ControlPlane"
    END_OF_SUPPORT = "EndOfSupport"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    MEMORY_MISMATCH = "MemoryMismatch"
    MISSING_PERMISSION = "MissingPermission"
    NODES_AVAILABLE = "NodesAvailable"
    NODES_GATED = "NodesGated"
    NODES_HELD = "NodesHeld"
    NODES_SUPPORTED = "NodesSupported"
    NODES_UNDER_PRESSURE = "NodesUnderPressure"
    NO_NODES_SELECTED = "NoNodesSelected"
    NO_PRESSURE = "NoPressure"
    NOTHING_DUE = "NothingDue"
    NOT_DELETING = "NotDeleting"
    NOT_PAUSED = "NotPaused"
    NOT_STALLED = "NotStalled"
    OWNER_UNKNOWN = "OwnerUnknown"
    PAUSED = "Paused"
    PAUSED_BY_SPEC = "PausedBySpec"
    PAUSE_REQUESTED = "PauseRequested"
    PODS_UNREADABLE = "PodsUnreadable"
    POD_LIST_FAILING = "PodListFailing"
    POOL_HEALTH = "PoolHealth"
    POOL_OVERLAP = "PoolOverlap"
    RELEASING_NODES = "ReleasingNodes"
    RESERVED_MEMORY_TOO_LARGE = "ReservedMemoryTooLarge"
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    REVISION_FLOOR = "RevisionFloor"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    SAMPLES_MISSING = "SamplesMissing"
    SETTLED = "Settled"
    SPEC_REJECTED = "SpecRejected"
    SUPPORT_ENDED = "SupportEnded"
    SUPPORT_ENDING = "SupportEnding"
    SUPPORT_MATRIX = "SupportMatrix"
    SYSTEMIC_PRESSURE = "SystemicPressure"
    TAINTS_HELD = "TaintsHeld"
    TOO_FEW_NODES_READY = "TooFewNodesReady"
    UPGRADE_ALLOWED = "UpgradeAllowed"
    UPGRADE_DUE = "UpgradeDue"
    UP_TO_DATE = "UpToDate"
    VALIDATING_NODES = "ValidatingNodes"
    VALIDATION_TIMED_OUT = "ValidationTimedOut"
    VERSION_SKEW = "VersionSkew"
    WAITING_FOR_ACTOR = "WaitingForActor"
    WRITE_REFUSED = "WriteRefused"
    DELETING = "Deleting"


def see_condition(type_: ConditionType) -> str:
    """Return the end of a message whose cause another condition has in full."""
    return f"See the condition {type_}."


_REFERENCE: Final = re.compile(rf"\b(?i:see) the condition ({'|'.join(ConditionType)})\.\Z")


def referred_by(message: str) -> ConditionType | None:
    """Return the condition that a message refers to, as a sentence or as the end of one; None for none."""
    found = _REFERENCE.search(message)
    return ConditionType(found[1]) if found else None


class Polarity(StrEnum):
    """What True says about the pool."""

    GOOD = "True is good"
    BAD = "True is bad"
    BUSY = "True means work in progress"
    NEUTRAL = "True is neither good nor bad"


@dataclass(frozen=True, slots=True)
class Meaning:
    """When a condition has this status for this reason."""

    status: str
    reason: Reason
    when: str


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """A type of condition: what True means, and every status and reason it can have."""

    type: ConditionType
    polarity: Polarity
    true_means: str
    meanings: tuple[Meaning, ...]
