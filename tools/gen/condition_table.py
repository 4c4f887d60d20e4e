"""Every type of condition with every status and reason that it can have: the source of the reference page.

A gate that is judged for the pool as a whole is its own reason. Gates that are judged node by node share
NodesGated, since one may be open for one node and closed for the next. The reasons of Ready have the order of
``STATES``: the worst first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from winpool.api.conditions import ConditionType, Reason

CONDITIONS: Final[Mapping[ConditionType, Mapping[str, Mapping[Reason, str]]]] = {
    ConditionType.READY: {
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
            Reason.NODES_UNHEALTHY: "Two or more nodes are not Ready after their upgrade, so the operator "
            "begins with no other.",
            Reason.SETTLE_TIMED_OUT: "Nodes are upgraded, and what was evicted from them is not Ready "
            "elsewhere in time. See the issue SettleTimedOut.",
            Reason.POD_LIST_FAILING: "The operator cannot list pods, and some nodes wait for that. See the "
            "issue PodListFailing.",
            Reason.UPGRADE_IN_PROGRESS: "The operator upgrades nodes itself, or is about to. The condition "
            "UpgradeAllowed says which, and how far they are.",
            Reason.ROLLOUT_IN_PROGRESS: "The operator still has to write to some nodes.",
            Reason.VALIDATING_NODES: "Some nodes keep their startup taints until they pass `validation`.",
            Reason.NODES_UNDER_PRESSURE: "Some nodes are under memory pressure. See the issue "
            "MemoryPressure.",
            Reason.NODES_HELD: "The operator has to write to some nodes, and someone holds them with the "
            "annotation winpool.dev/hold. See the issue NodesHeld.",
            Reason.BUILD_UNSUPPORTED: "OSSupported is False for this reason. See the condition OSSupported.",
            Reason.SUPPORT_ENDED: "OSSupported is False for this reason. See the condition OSSupported.",
            Reason.REVISION_BELOW_FLOOR: "OSSupported is False for this reason. See the condition "
            "OSSupported.",
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
    },
    ConditionType.ACCEPTED: {
        "True": {
            Reason.ACCEPTED: "The operator can act on the spec.",
        },
        "False": {
            Reason.SPEC_REJECTED: "The operator cannot act on the spec. It writes nothing new to "
            "nodes until the spec is corrected. The message names the field.",
            Reason.RESERVED_MEMORY_TOO_LARGE: "`reservedMemory` declares more than half of the "
            "memory of every node of the pool.",
            Reason.GUARD_MISSING: "The strategy of `upgrade` drains nodes, and the guard is not in "
            "force, so kubelets could make the operator drain them.",
            Reason.MISSING_PERMISSION: "The operator lacks a permission. The message has the exact rule.",
        },
    },
    ConditionType.AVAILABLE: {
        "True": {
            Reason.NODES_AVAILABLE: "Enough nodes are Ready and not cordoned.",
            Reason.NO_NODES_SELECTED: "No node matches, so none is missing.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
        },
        "Unknown": {
            Reason.OWNER_UNKNOWN: "The ownership record on the nodes that match names a pool that "
            "the operator does not know.",
        },
        "False": {
            Reason.TOO_FEW_AVAILABLE: "More nodes are missing, or the only one is.",
        },
    },
    ConditionType.NODES_UP_TO_DATE: {
        "True": {
            Reason.UP_TO_DATE: "Every node is as the spec asks.",
            Reason.NO_NODES_SELECTED: "No node matches, so none is behind.",
        },
        "Unknown": {
            Reason.OWNER_UNKNOWN: "The ownership record on the nodes that match names a pool that "
            "the operator does not know.",
            Reason.BUILD_UNKNOWN: "Only nodes are left whose release is not known, or whose revision "
            "is not known while `os.targetRevision` is set. See the issue BuildUnknown.",
        },
        "False": {
            Reason.RELEASING_NODES: "The pool is being deleted.",
            Reason.SPEC_REJECTED: "The spec is not accepted, so the operator compares no nodes with it.",
            Reason.MISSING_PERMISSION: "The operator has to write to some nodes and lacks a "
            "permission. See the condition Accepted.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
            Reason.WRITE_REFUSED: "The API server, a policy or a webhook refuses to change some "
            "nodes. See the issue WriteRefused.",
            Reason.PAUSED: "The operator would write to some nodes, but `mode` is Paused.",
            Reason.DRY_RUN: "The operator would write to some nodes, but `mode` is DryRun. "
            "`status.plan` has what it would write.",
            Reason.TAINTS_HELD: "The operator does not add a NoExecute taint to some nodes, because "
            "it would delete pods there. See the issue IntolerantPods.",
            Reason.VALIDATION_TIMED_OUT: "Some nodes did not pass `validation` in time. See the "
            "issue ValidationTimedOut.",
            Reason.POD_LIST_FAILING: "The operator cannot list pods, and some nodes wait for that. "
            "See the issue PodListFailing.",
            Reason.ROLLOUT_IN_PROGRESS: "The operator still has to write to some nodes.",
            Reason.VALIDATING_NODES: "Only nodes are left that joined and have not passed `validation` yet.",
            Reason.NODES_HELD: "Someone holds the nodes that are left with the annotation winpool.dev/hold.",
            Reason.WAITING_FOR_ACTOR: "All labels and taints are on the nodes, but some nodes run "
            "another release or an older revision than `os` asks for. The operator does not replace "
            "or patch machines. See the issues OSVersionMismatch and OSRevisionBehind.",
            Reason.UPGRADE_IN_PROGRESS: "Some nodes run another release or an older revision than `os` "
            "asks for, and the operator upgrades them.",
            Reason.UPGRADE_DUE: "Some nodes run another release or an older revision than `os` asks for, "
            "and the operator may not upgrade them now. See the condition UpgradeAllowed.",
        },
    },
    ConditionType.OS_SUPPORTED: {
        "True": {
            Reason.NODES_SUPPORTED: "Every node is supported.",
            Reason.BUILD_WARNED: "Every node is supported, some with a warning. See the issue BuildWarned.",
            Reason.SUPPORT_ENDING: "Support for a build that nodes run ends within 90 days.",
            Reason.NO_NODES_SELECTED: "No node matches, so none is unsupported.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
        },
        "Unknown": {
            Reason.BUILD_UNKNOWN: "The support matrix does not know a build that nodes run or this "
            "version of Kubernetes, or what a node reports cannot be read.",
            Reason.OWNER_UNKNOWN: "The ownership record on the nodes that match names a pool that "
            "the operator does not know.",
            Reason.SPEC_REJECTED: "The spec is not accepted, so the operator judges no nodes by it.",
            Reason.RELEASING_NODES: "The pool is being deleted.",
        },
        "False": {
            Reason.BUILD_UNSUPPORTED: "Nodes run a build that the support matrix does not allow "
            "under this version of Kubernetes, or denies.",
            Reason.SUPPORT_ENDED: "The last day of support for a build that nodes run has passed.",
            Reason.REVISION_BELOW_FLOOR: "Nodes run a revision below the highest of `os.minRevision` "
            "and the support matrix's floors.",
            Reason.VERSION_SKEW: "Nodes run a kubelet that is newer than the control plane, or older "
            "than it may be.",
            Reason.RUNTIME_TOO_OLD: "Nodes run a container runtime that is too old for their kubelet.",
        },
    },
    ConditionType.UPGRADE_ALLOWED: {
        "True": {
            Reason.UPGRADE_ALLOWED: "At least one node that is due may be upgraded now. Under the "
            "strategies OnRequest and RollingUpdate the message says which nodes the operator upgrades, "
            "in which states they are, and why no further one begins.",
            Reason.NOTHING_DUE: "No node is due for an upgrade.",
            Reason.NO_NODES_SELECTED: "No node matches, so none is due.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
        },
        "Unknown": {
            Reason.BUILD_UNKNOWN: "No node is known to be due, and of some it is not known. See the "
            "issue BuildUnknown.",
            Reason.OWNER_UNKNOWN: "The ownership record on the nodes that match names a pool that "
            "the operator does not know.",
            Reason.RELEASING_NODES: "The pool is being deleted.",
        },
        "False": {
            Reason.SPEC_REJECTED: "The spec is not accepted, so the operator permits no upgrade.",
            Reason.MISSING_PERMISSION: "Nodes are due, and the operator lacks a permission. See the "
            "condition Accepted.",
            Reason.PAUSED_BY_SPEC: "Nodes are due, and `mode` is Paused.",
            Reason.DRY_RUN: "Nodes are due, and `mode` is DryRun.",
            Reason.PAUSE_REQUESTED: "Nodes are due, and `upgrade.pauseRequests` has an entry.",
            Reason.SUPPORT_MATRIX: "The support matrix does not allow the release that `os.version` "
            "names under this version of Kubernetes, or does not know.",
            Reason.END_OF_SUPPORT: "The last day of support for that release has passed, or is not known.",
            Reason.REVISION_FLOOR: "The revision that nodes are brought to is below the lowest "
            "supported one, or it cannot be compared with it.",
            Reason.CONTROL_PLANE: "The version of the API server is not known, or it changed within "
            "the last 15 minutes. After the operator has started, it waits as long.",
            Reason.MAINTENANCE_WINDOW: "None of `upgrade.maintenanceWindows` is open, or an entry of "
            "`upgrade.maintenanceExclusions` closes them.",
            Reason.POOL_HEALTH: "More nodes have failed or are blocked than `upgrade` permits, or "
            "many nodes became Ready or not Ready within ten minutes.",
            Reason.BUDGET: "As many nodes are unavailable as `upgrade.maxUnavailable` permits, or more, "
            "or others have all slots, and have begun.",
            Reason.NODES_GATED: "Nothing stops the pool as a whole, and every node that is due is "
            "held, or a gate of its own is closed. See the issue NodesGated.",
        },
    },
    ConditionType.MEMORY_HEALTHY: {
        "True": {
            Reason.NO_PRESSURE: "No node is under memory pressure.",
            Reason.NO_NODES_SELECTED: "No node matches, so none is under pressure.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
        },
        "Unknown": {
            Reason.SAMPLES_MISSING: "No node is known to be under memory pressure, and the memory of "
            "some is not known. See the issue MemoryUnknown. After the operator has started, "
            "samples take up to two minutes.",
            Reason.OWNER_UNKNOWN: "The ownership record on the nodes that match names a pool that "
            "the operator does not know.",
            Reason.SPEC_REJECTED: "The operator cannot read the spec, so it watches no memory.",
            Reason.RELEASING_NODES: "The pool is being deleted.",
        },
        "False": {
            Reason.NODES_UNDER_PRESSURE: "Nodes are under memory pressure. See the issue MemoryPressure.",
            Reason.SYSTEMIC_PRESSURE: "More nodes are under memory pressure, or give no samples, "
            "than `maxPressuredNodes` allows, so no pod is evicted. See the issue SystemicPressure.",
        },
    },
    ConditionType.RECONCILING: {
        "True": {
            Reason.UPGRADE_IN_PROGRESS: "The operator upgrades nodes, or nodes are due and may follow.",
            Reason.ROLLOUT_IN_PROGRESS: "The operator has to write to nodes.",
            Reason.VALIDATING_NODES: "The operator validates nodes that joined.",
            Reason.POD_LIST_FAILING: "All nodes that are left wait for a list of their pods. The "
            "list fails, and the operator tries again.",
            Reason.RELEASING_NODES: "The pool is being deleted, and the operator removes its labels "
            "and taints from nodes.",
        },
        "False": {
            Reason.SETTLED: "The operator has nothing to do, or may not do it now.",
        },
    },
    ConditionType.STALLED: {
        "True": {
            Reason.TAINTS_HELD: "The operator holds a NoExecute taint, because pods on the nodes do "
            "not tolerate it.",
            Reason.VALIDATION_TIMED_OUT: "Nodes did not pass `validation` in time.",
            Reason.UPGRADE_FAILED: "Nodes did not reach their target in time, and stay cordoned. See the "
            "issue UpgradeFailed.",
            Reason.DRAIN_BLOCKED: "Nodes were not drained within `upgrade.drain.timeoutSeconds`. See the "
            "issue DrainBlocked.",
            Reason.NODES_UNHEALTHY: "Two or more nodes are not Ready after their upgrade, so no other "
            "begins.",
            Reason.SETTLE_TIMED_OUT: "What was evicted from upgraded nodes is not Ready elsewhere within "
            "`upgrade.settleTimeoutSeconds`. See the issue SettleTimedOut.",
            Reason.POD_LIST_FAILING: "All nodes that are left have waited for five minutes for a "
            "list of their pods, which fails.",
            Reason.WRITE_REFUSED: "Only nodes are left that the API server, a policy or a webhook "
            "refuses to change.",
            Reason.POOL_OVERLAP: "Other pools own nodes that match; this pool owns none.",
            Reason.OWNER_UNKNOWN: "The ownership record on nodes that match names a pool that does "
            "not exist, and a person has to decide. See the issue OwnerUnknown.",
            Reason.SPEC_REJECTED: "Accepted is False because of the spec. See the condition Accepted.",
            Reason.RESERVED_MEMORY_TOO_LARGE: "Accepted is False for this reason. See the condition "
            "Accepted.",
            Reason.GUARD_MISSING: "Accepted is False for this reason. See the condition Accepted.",
            Reason.MISSING_PERMISSION: "Accepted is False because of a permission. See the condition "
            "Accepted.",
        },
        "False": {
            Reason.NOT_STALLED: "Nothing keeps the operator from continuing, at least with other nodes.",
        },
    },
    ConditionType.PAUSED: {
        "True": {
            Reason.PAUSED_BY_SPEC: "`mode` is Paused.",
        },
        "False": {
            Reason.NOT_PAUSED: "`mode` is not Paused.",
        },
    },
    ConditionType.DELETING: {
        "True": {
            Reason.RELEASING_NODES: "The operator removes the labels and taints of the pool. The "
            "message counts the nodes that still have them.",
        },
        "False": {
            Reason.NOT_DELETING: "No one has deleted the pool.",
        },
    },
}
"""Every type of condition, with every status and reason that it can have."""


def rows_of(type_: ConditionType) -> Iterator[tuple[str, Reason, str]]:
    """Yield status and reason that a condition of this type can have, and when it has them."""
    for status, reasons in CONDITIONS[type_].items():
        for reason, when in reasons.items():
            yield status, reason, when
