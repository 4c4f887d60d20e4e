"""Every type of condition with every status and reason that it can have: the source of the reference page."""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason
from winpool.api.health_conditions import MEMORY_HEALTHY, OS_SUPPORTED
from winpool.api.states import STATES
from winpool.api.upgrade_condition import UPGRADE_ALLOWED

CONDITIONS: Final = (
    ConditionKind(
        ConditionType.READY,
        Polarity.GOOD,
        "The spec is accepted, the operator can change the pool's nodes, and enough of them are available. "
        "Stays True during a rollout, and while nodes wait for an upgrade. `kubectl get` shows its reason as "
        "STATE: the first of this table that is true.",
        STATES,
    ),
    ConditionKind(
        ConditionType.ACCEPTED,
        Polarity.GOOD,
        "The operator can act on this spec. Depends on the spec, the operator's settings and permissions, "
        "never on single nodes.",
        (
            Meaning("True", Reason.ACCEPTED, "The operator can act on the spec."),
            Meaning(
                "False",
                Reason.SPEC_REJECTED,
                "The operator cannot act on the spec. It writes nothing new to nodes until the spec is "
                "corrected. The message names the field.",
            ),
            Meaning(
                "False",
                Reason.RESERVED_MEMORY_TOO_LARGE,
                "`reservedMemory` declares more than half of the memory of every node of the pool.",
            ),
            Meaning(
                "False",
                Reason.MISSING_PERMISSION,
                "The operator lacks a permission. The message has the exact rule.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.AVAILABLE,
        Polarity.GOOD,
        "All nodes but at most `upgrade.maxUnavailable` are Ready and not cordoned, and at least one is. At "
        "most one may be missing where the spec has no `upgrade`, or allows none.",
        (
            Meaning("True", Reason.NODES_AVAILABLE, "Enough nodes are Ready and not cordoned."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is missing."),
            Meaning("True", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
            Meaning(
                "Unknown",
                Reason.OWNER_UNKNOWN,
                "The ownership record on the nodes that match names a pool that the operator does not know.",
            ),
            Meaning("False", Reason.TOO_FEW_NODES_READY, "More nodes are missing, or the only one is."),
        ),
    ),
    ConditionKind(
        ConditionType.NODES_UP_TO_DATE,
        Polarity.GOOD,
        "Every node of the pool is as this generation of the spec asks: its labels and taints, its release "
        "and revision of Windows. Where several reasons are true, it has the first in the order of STATE.",
        (
            Meaning("True", Reason.UP_TO_DATE, "Every node is as the spec asks."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is behind."),
            Meaning(
                "Unknown",
                Reason.OWNER_UNKNOWN,
                "The ownership record on the nodes that match names a pool that the operator does not know.",
            ),
            Meaning(
                "Unknown",
                Reason.BUILD_UNKNOWN,
                "Only nodes are left whose release is not known, or whose revision is not known while "
                "`os.targetRevision` is set. See the issue BuildUnknown.",
            ),
            Meaning("False", Reason.RELEASING_NODES, "The pool is being deleted."),
            Meaning(
                "False",
                Reason.SPEC_REJECTED,
                "The spec is not accepted, so the operator compares no nodes with it.",
            ),
            Meaning(
                "False",
                Reason.MISSING_PERMISSION,
                "The operator has to write to some nodes and lacks a permission. See the condition Accepted.",
            ),
            Meaning("False", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
            Meaning(
                "False",
                Reason.WRITE_REFUSED,
                "The API server, a policy or a webhook refuses to change some nodes. See the issue "
                "WriteRefused.",
            ),
            Meaning("False", Reason.PAUSED, "The operator would write to some nodes, but `mode` is Paused."),
            Meaning(
                "False",
                Reason.DRY_RUN,
                "The operator would write to some nodes, but `mode` is DryRun. `status.plan` has what it "
                "would write.",
            ),
            Meaning(
                "False",
                Reason.TAINTS_HELD,
                "The operator does not add a NoExecute taint to some nodes, because it would delete pods "
                "there. See the issue IntolerantPods.",
            ),
            Meaning(
                "False",
                Reason.VALIDATION_TIMED_OUT,
                "Some nodes did not pass `validation` in time. See the issue ValidationTimedOut.",
            ),
            Meaning(
                "False",
                Reason.POD_LIST_FAILING,
                "The operator cannot list pods, and some nodes wait for that. See the issue PodListFailing.",
            ),
            Meaning("False", Reason.ROLLOUT_IN_PROGRESS, "The operator still has to write to some nodes."),
            Meaning(
                "False",
                Reason.VALIDATING_NODES,
                "Only nodes are left that joined and have not passed `validation` yet.",
            ),
            Meaning(
                "False",
                Reason.NODES_HELD,
                "Someone holds the nodes that are left with the annotation winpool.dev/hold.",
            ),
            Meaning(
                "False",
                Reason.WAITING_FOR_ACTOR,
                "All labels and taints are on the nodes, but some nodes run another release or an older "
                "revision than `os` asks for. The operator does not replace or patch machines. See the "
                "issues OSVersionMismatch and OSRevisionBehind.",
            ),
        ),
    ),
    OS_SUPPORTED,
    UPGRADE_ALLOWED,
    MEMORY_HEALTHY,
    ConditionKind(
        ConditionType.RECONCILING,
        Polarity.BUSY,
        "The operator is working on the pool and needs no person to continue.",
        (
            Meaning("True", Reason.ROLLOUT_IN_PROGRESS, "The operator has to write to nodes."),
            Meaning("True", Reason.VALIDATING_NODES, "The operator validates nodes that joined."),
            Meaning(
                "True",
                Reason.POD_LIST_FAILING,
                "All nodes that are left wait for a list of their pods. The list fails, and the operator "
                "tries again.",
            ),
            Meaning(
                "True",
                Reason.RELEASING_NODES,
                "The pool is being deleted, and the operator removes its labels and taints from nodes.",
            ),
            Meaning(
                "False",
                Reason.SETTLED,
                "The operator has nothing to do, or may not do it now.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.STALLED,
        Polarity.BAD,
        "The operator cannot continue until a person does something. `status.issues` says where and what.",
        (
            Meaning(
                "True",
                Reason.TAINTS_HELD,
                "The operator holds a NoExecute taint, because pods on the nodes do not tolerate it.",
            ),
            Meaning("True", Reason.VALIDATION_TIMED_OUT, "Nodes did not pass `validation` in time."),
            Meaning(
                "True",
                Reason.POD_LIST_FAILING,
                "All nodes that are left have waited for five minutes for a list of their pods, which fails.",
            ),
            Meaning(
                "True",
                Reason.WRITE_REFUSED,
                "Only nodes are left that the API server, a policy or a webhook refuses to change.",
            ),
            Meaning("True", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
            Meaning(
                "True",
                Reason.OWNER_UNKNOWN,
                "The ownership record on nodes that match names a pool that does not exist, and a person has "
                "to decide. See the issue OwnerUnknown.",
            ),
            Meaning(
                "True",
                Reason.SPEC_REJECTED,
                "Accepted is False because of the spec. See the condition Accepted.",
            ),
            Meaning(
                "True",
                Reason.RESERVED_MEMORY_TOO_LARGE,
                "Accepted is False for this reason. See the condition Accepted.",
            ),
            Meaning(
                "True",
                Reason.MISSING_PERMISSION,
                "Accepted is False because of a permission. See the condition Accepted.",
            ),
            Meaning(
                "False",
                Reason.NOT_STALLED,
                "Nothing keeps the operator from continuing, at least with other nodes.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.PAUSED,
        Polarity.NEUTRAL,
        "A person has paused the pool.",
        (
            Meaning("True", Reason.PAUSED_BY_SPEC, "`mode` is Paused."),
            Meaning("False", Reason.NOT_PAUSED, "`mode` is not Paused."),
        ),
    ),
    ConditionKind(
        ConditionType.DELETING,
        Polarity.NEUTRAL,
        "The pool is being deleted and waits until its nodes are released.",
        (
            Meaning(
                "True",
                Reason.RELEASING_NODES,
                "The operator removes the labels and taints of the pool. The message counts the nodes that "
                "still have them.",
            ),
            Meaning("False", Reason.NOT_DELETING, "No one has deleted the pool."),
        ),
    ),
)
"""Every type of condition, with every status and reason that it can have."""
