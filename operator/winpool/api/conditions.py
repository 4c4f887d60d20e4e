"""The conditions of a WindowsNodePool: their types, their reasons, and STATE, the worst reason that is true.

A reason is part of the API: people script against it. Those of Ready are at most 19 characters, since
`kubectl get` shows them in the column STATE, and the table stays within 80 columns.

STATE is the reason of the condition Ready. The same order decides what NodesUpToDate reports, so that the two
never name different troubles of the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self


class Polarity(StrEnum):
    """What True says about the pool."""

    GOOD = "True is good"
    BAD = "True is bad"
    BUSY = "True means work in progress"
    NEUTRAL = "True is neither good nor bad"


class ConditionType(StrEnum):
    """The types of condition of a pool, and what True means. A pool has all from the first look on, but two.

    UpgradeAllowed is there where the spec has ``upgrade``, MemoryHealthy where it has ``memoryPressure``.
    """

    polarity: Polarity

    def __new__(cls, value: str, polarity: Polarity = Polarity.GOOD) -> Self:
        """Return the member of that value. True is good where nothing else is said."""
        condition = str.__new__(cls, value)
        condition._value_ = value
        condition.polarity = polarity
        return condition

    READY = "Ready"
    """The spec is accepted, the operator can change the pool's nodes, and enough of them are available. Stays
    True during a rollout, and while nodes wait for an upgrade. `kubectl get` shows its reason as STATE: the
    first of this table that is true."""
    ACCEPTED = "Accepted"
    """The operator can act on this spec. Depends on the spec, the operator's settings and permissions, never
    on single nodes."""
    AVAILABLE = "Available"
    """All nodes but at most `upgrade.maxUnavailable` are Ready and not cordoned, and at least one is. Without
    `upgrade`, a tenth of them may be missing. One may always be missing."""
    NODES_UP_TO_DATE = "NodesUpToDate"
    """Every node of the pool is as this generation of the spec asks: its labels and taints, its release and
    revision of Windows. Where several reasons are true, it has the first in the order of STATE."""
    OS_SUPPORTED = "OSSupported"
    """Every node runs a Windows that the support matrix allows under this version of Kubernetes, at a
    revision and with a kubelet and a runtime that are supported. Where nodes differ, the worst one counts."""
    UPGRADE_ALLOWED = "UpgradeAllowed"
    """A node that is due may be upgraded now: nothing stops the pool, its gates are open, and at least one
    node that is due is not blocked by a gate of its own. The label `winpool.dev/upgrade-state=Required` says
    which nodes these are. Also True where no node is due. Where several reasons are true, it has the first of
    this table, and the message lists every closed gate with what opens it. The pool has this condition only
    while its spec has `upgrade`."""
    MEMORY_HEALTHY = "MemoryHealthy"
    """No node of the pool is under memory pressure. The pool has this condition only while its spec has
    `memoryPressure`."""
    RECONCILING = "Reconciling", Polarity.BUSY
    """The operator is working on the pool and needs no person to continue."""
    STALLED = "Stalled", Polarity.BAD
    """The operator cannot continue until a person does something, or cannot with a node whose upgrade it has
    begun, while it may continue with others. `status.issues` says where and what."""
    PAUSED = "Paused", Polarity.NEUTRAL
    """A person has paused the pool."""
    DELETING = "Deleting", Polarity.NEUTRAL
    """The pool is being deleted and waits until its nodes are released."""


class Reason(StrEnum):
    """Why a condition has the status it has. What each means: ``gen.condition_table``.

    The reasons of Ready stand first, the worst before the others: their order is that of STATE.
    """

    # With these Ready is False,
    DELETING = "Deleting"
    SPEC_REJECTED = "SpecRejected"
    MISSING_PERMISSION = "MissingPermission"
    POOL_OVERLAP = "PoolOverlap"
    OWNER_UNKNOWN = "OwnerUnknown"
    TOO_FEW_AVAILABLE = "TooFewAvailable"
    WRITE_REFUSED = "WriteRefused"
    # and with these it is True.
    PAUSED = "Paused"
    DRY_RUN = "DryRun"
    SYSTEMIC_PRESSURE = "SystemicPressure"
    TAINTS_HELD = "TaintsHeld"
    VALIDATION_TIMED_OUT = "ValidationTimedOut"
    UPGRADE_FAILED = "UpgradeFailed"
    DRAIN_BLOCKED = "DrainBlocked"
    NODES_UNHEALTHY = "NodesUnhealthy"
    SETTLE_TIMED_OUT = "SettleTimedOut"
    POD_LIST_FAILING = "PodListFailing"
    UPGRADE_IN_PROGRESS = "UpgradeInProgress"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    VALIDATING_NODES = "ValidatingNodes"
    NODES_UNDER_PRESSURE = "NodesUnderPressure"
    NODES_HELD = "NodesHeld"
    BUILD_UNSUPPORTED = "BuildUnsupported"
    SUPPORT_ENDED = "SupportEnded"
    REVISION_BELOW_FLOOR = "RevisionBelowFloor"
    VERSION_SKEW = "VersionSkew"
    RUNTIME_TOO_OLD = "RuntimeTooOld"
    PODS_UNREADABLE = "PodsUnreadable"
    MEMORY_MISMATCH = "MemoryMismatch"
    UPGRADE_DUE = "UpgradeDue"
    BUILD_UNKNOWN = "BuildUnknown"
    NO_NODES_SELECTED = "NoNodesSelected"
    UP_TO_DATE = "UpToDate"
    # The others are no STATE.
    ACCEPTED = "Accepted"
    BUDGET = "Budget"
    BUILD_WARNED = "BuildWarned"
    CONTROL_PLANE = "ControlPlane"
    END_OF_SUPPORT = "EndOfSupport"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    GUARD_MISSING = "GuardMissing"
    NODES_AVAILABLE = "NodesAvailable"
    NODES_GATED = "NodesGated"
    NODES_SUPPORTED = "NodesSupported"
    NO_PRESSURE = "NoPressure"
    NOTHING_DUE = "NothingDue"
    NOT_DELETING = "NotDeleting"
    NOT_PAUSED = "NotPaused"
    NOT_STALLED = "NotStalled"
    PAUSED_BY_SPEC = "PausedBySpec"
    PAUSE_REQUESTED = "PauseRequested"
    POOL_HEALTH = "PoolHealth"
    RELEASING_NODES = "ReleasingNodes"
    RESERVED_MEMORY_TOO_LARGE = "ReservedMemoryTooLarge"
    REVISION_FLOOR = "RevisionFloor"
    SAMPLES_MISSING = "SamplesMissing"
    SETTLED = "Settled"
    SUPPORT_ENDING = "SupportEnding"
    SUPPORT_MATRIX = "SupportMatrix"
    UPGRADE_ALLOWED = "UpgradeAllowed"
    WAITING_FOR_ACTOR = "WaitingForActor"


def see_condition(type_: ConditionType) -> str:
    """Return the end of a message whose cause another condition has in full."""
    return f"See the condition {type_}."


_REFERENCE: Final = re.compile(rf"\b(?i:see) the condition ({'|'.join(ConditionType)})\.\Z")


def referred_by(message: str) -> ConditionType | None:
    """Return the condition that a message refers to, as a sentence or as the end of one; None for none."""
    found = _REFERENCE.search(message)
    return ConditionType(found[1]) if found else None


_REASONS: Final = tuple(Reason)
_NOT_READY: Final = _REASONS[: _REASONS.index(Reason.WRITE_REFUSED) + 1]

STATES: Final[Mapping[Reason, str]] = {
    reason: "False" if reason in _NOT_READY else "True"
    for reason in _REASONS[: _REASONS.index(Reason.UP_TO_DATE) + 1]
}
"""Every STATE with the status of Ready that goes with it, the worst first."""
