"""The conditions of a WindowsNodePool: their types, their reasons, and STATE, the worst reason that is true.

A reason is part of the API: people script against it. Those of Ready are at most 19 characters, since
`kubectl get` shows them in the column STATE, and the table stays within 80 columns.

STATE is the reason of the condition Ready. The same order decides what NodesUpToDate reports, so that the two
never name different troubles of the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    DRAIN_BLOCKED = "DrainBlocked"
    DRY_RUN = "DryRun"
    BUDGET = "Budget"
    BUILD_UNKNOWN = "BuildUnknown"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    BUILD_WARNED = "BuildWarned"
    CONTROL_PLANE = "ControlPlane"
    END_OF_SUPPORT = "EndOfSupport"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    MEMORY_MISMATCH = "MemoryMismatch"
    GUARD_MISSING = "GuardMissing"
    MISSING_PERMISSION = "MissingPermission"
    NODES_AVAILABLE = "NodesAvailable"
    NODES_GATED = "NodesGated"
    NODES_HELD = "NodesHeld"
    NODES_SUPPORTED = "NodesSupported"
    NODES_UNHEALTHY = "NodesUnhealthy"
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
    SETTLE_TIMED_OUT = "SettleTimedOut"
    SPEC_REJECTED = "SpecRejected"
    SUPPORT_ENDED = "SupportEnded"
    SUPPORT_ENDING = "SupportEnding"
    SUPPORT_MATRIX = "SupportMatrix"
    SYSTEMIC_PRESSURE = "SystemicPressure"
    TAINTS_HELD = "TaintsHeld"
    TOO_FEW_AVAILABLE = "TooFewAvailable"
    UPGRADE_ALLOWED = "UpgradeAllowed"
    UPGRADE_DUE = "UpgradeDue"
    UPGRADE_FAILED = "UpgradeFailed"
    UPGRADE_IN_PROGRESS = "UpgradeInProgress"
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
    table: Mapping[str, Mapping[Reason, str]]
    """When it has which reason, by its status."""

    @property
    def meanings(self) -> tuple[Meaning, ...]:
        """The rows of the table."""
        return meanings(self.table)


def meanings(table: Mapping[str, Mapping[Reason, str]]) -> tuple[Meaning, ...]:
    """Return the rows of a condition, from when it has which reason, by its status."""
    return tuple(
        Meaning(status, reason, when) for status, rows in table.items() for reason, when in rows.items()
    )


STATE_TABLE: Final[Mapping[str, Mapping[Reason, str]]] = {
    "False": {
        Reason.DELETING: "The pool is being deleted.",
        Reason.SPEC_REJECTED: "The operator cannot act on the spec. See the condition Accepted.",
        Reason.MISSING_PERMISSION: "The operator lacks a permission. See the condition Accepted.",
        Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
        Reason.OWNER_UNKNOWN: "The ownership record on nodes that match names a pool that the operator "
        "does not know.",
        Reason.TOO_FEW_AVAILABLE: "More nodes are missing than may be, or the only one is. See the "
        "condition Available.",
        Reason.WRITE_REFUSED: "The API server, a policy or a webhook refuses to change some nodes. See "
        "the issue WriteRefused.",
    },
    "True": {
        Reason.PAUSED: "`mode` is Paused.",
        Reason.DRY_RUN: "`mode` is DryRun. `status.plan` has what the operator would write.",
        Reason.SYSTEMIC_PRESSURE: "More nodes are under memory pressure, or give no samples, than "
        "`maxPressuredNodes` allows. See the issue SystemicPressure.",
        Reason.TAINTS_HELD: "The operator does not add a NoExecute taint to some nodes, because it would "
        "delete pods there. See the issue IntolerantPods.",
        Reason.VALIDATION_TIMED_OUT: "Some nodes did not pass `validation` in time. See the issue "
        "ValidationTimedOut.",
        Reason.UPGRADE_FAILED: "The upgrade of some nodes failed. They stay cordoned. See the issue "
        "UpgradeFailed.",
        Reason.DRAIN_BLOCKED: "Some nodes could not be drained in time. See the issue DrainBlocked.",
        Reason.NODES_UNHEALTHY: "Two or more nodes are not Ready after their upgrade, so the operator begins "
        "with no other.",
        Reason.SETTLE_TIMED_OUT: "Nodes are upgraded, and what was evicted from them is not Ready elsewhere "
        "in time. See the issue SettleTimedOut.",
        Reason.POD_LIST_FAILING: "The operator cannot list pods, and some nodes wait for that. See the "
        "issue PodListFailing.",
        Reason.UPGRADE_IN_PROGRESS: "The operator upgrades nodes itself, or is about to. The condition "
        "UpgradeAllowed says which, and how far they are.",
        Reason.ROLLOUT_IN_PROGRESS: "The operator still has to write to some nodes.",
        Reason.VALIDATING_NODES: "Some nodes keep their startup taints until they pass `validation`.",
        Reason.NODES_UNDER_PRESSURE: "Some nodes are under memory pressure. See the issue MemoryPressure.",
        Reason.NODES_HELD: "The operator has to write to some nodes, and someone holds them with the "
        "annotation winpool.dev/hold. See the issue NodesHeld.",
        Reason.BUILD_UNSUPPORTED: "OSSupported is False for this reason. See the condition OSSupported.",
        Reason.SUPPORT_ENDED: "OSSupported is False for this reason. See the condition OSSupported.",
        Reason.REVISION_BELOW_FLOOR: "OSSupported is False for this reason. See the condition OSSupported.",
        Reason.VERSION_SKEW: "OSSupported is False for this reason. See the condition OSSupported.",
        Reason.RUNTIME_TOO_OLD: "OSSupported is False for this reason. See the condition OSSupported.",
        Reason.PODS_UNREADABLE: "The operator cannot read some pods. See the issue PodsUnreadable.",
        Reason.MEMORY_MISMATCH: "Some nodes do not reserve the memory that `reservedMemory` declares, "
        "and have a taint for it. See the issue ReservedMemoryMismatch.",
        Reason.UPGRADE_DUE: "Some nodes run another release, or an older revision, than `os` asks for. A "
        "person has to replace or patch them, unless the strategy of `upgrade` lets the operator upgrade "
        "them. See the issues OSVersionMismatch and OSRevisionBehind, and with `upgrade` the condition "
        "UpgradeAllowed, which says whether that may be done now.",
        Reason.BUILD_UNKNOWN: "It is not known what some nodes run, or whether that is supported. See "
        "the issue BuildUnknown.",
        Reason.NO_NODES_SELECTED: "`nodeSelector` matches no Windows node, as in a pool that starts from "
        "zero.",
        Reason.UP_TO_DATE: "All nodes are as the spec asks, and enough are available.",
    },
}
STATES: Final = meanings(STATE_TABLE)
"""Every STATE with the status of Ready that goes with it, the worst first."""
