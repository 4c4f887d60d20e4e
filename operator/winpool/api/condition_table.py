"""Every type of condition with every status and reason that it can have: the source of the reference page."""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason
from winpool.api.states import STATES

CONDITIONS: Final = (
    ConditionKind(
        ConditionType.READY,
        Polarity.GOOD,
        "The spec is accepted, the operator can change the pool's nodes, and enough of them are available. "
        "Stays True during a rollout, and while nodes wait for an upgrade. Its reason, which `kubectl get` "
        "shows as STATE, is the first of this table that is true.",
        STATES,
    ),
    ConditionKind(
        ConditionType.ACCEPTED,
        Polarity.GOOD,
        "The operator can act on this spec. Depends on the spec, the operator's settings and permissions, "
        "never on single nodes.",
        (
            Meaning("True", Reason.ACCEPTED, "The spec can be acted on."),
            Meaning(
                "False",
                Reason.SPEC_REJECTED,
                "The operator cannot act on the spec; nothing new is written to nodes until it is corrected.",
            ),
            Meaning(
                "False",
                Reason.RESERVED_MEMORY_TOO_LARGE,
                "What `reservedMemory` declares is more than half the memory of every node of the pool.",
            ),
            Meaning(
                "False",
                Reason.MISSING_PERMISSION,
                "The operator lacks a permission; the message has the exact rule.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.AVAILABLE,
        Polarity.GOOD,
        "All nodes but at most one are Ready and not cordoned.",
        (
            Meaning("True", Reason.NODES_AVAILABLE, "Enough nodes are Ready and not cordoned."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is missing."),
            Meaning("True", Reason.POOL_OVERLAP, "All nodes that match belong to other pools."),
            Meaning(
                "Unknown",
                Reason.OWNER_UNKNOWN,
                "The nodes that match carry the record of a pool that is not known, nor known to be gone.",
            ),
            Meaning("False", Reason.TOO_FEW_NODES_READY, "More than one node is not Ready or is cordoned."),
        ),
    ),
    ConditionKind(
        ConditionType.NODES_UP_TO_DATE,
        Polarity.GOOD,
        "Every node of the pool is as this generation of the spec asks: its labels and taints, its release "
        "and revision of Windows. Of several reasons it has the worst, in the order of STATE.",
        (
            Meaning("True", Reason.UP_TO_DATE, "Every node is as the spec asks."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is behind."),
            Meaning("Unknown", Reason.OWNER_UNKNOWN, "Nobody knows yet whose the nodes are that match."),
            Meaning(
                "Unknown",
                Reason.BUILD_UNKNOWN,
                "All that is left are nodes whose release is not known, or whose revision while "
                "`os.targetRevision` is set: see status.issues.",
            ),
            Meaning("False", Reason.RELEASING_NODES, "The pool is being deleted."),
            Meaning(
                "False", Reason.SPEC_REJECTED, "The spec was not accepted, so nothing was compared with it."
            ),
            Meaning(
                "False",
                Reason.MISSING_PERMISSION,
                "The operator has to write to some nodes, and a permission is missing: see Accepted.",
            ),
            Meaning("False", Reason.POOL_OVERLAP, "All nodes that match belong to other pools."),
            Meaning(
                "False",
                Reason.WRITE_REFUSED,
                "The API server, or a policy behind it, refuses to change some nodes: see status.issues.",
            ),
            Meaning("False", Reason.PAUSED, "The operator would write to some nodes, and `mode` is Paused."),
            Meaning(
                "False",
                Reason.DRY_RUN,
                "The operator would write to some nodes, and `mode` is DryRun: see status.plan.",
            ),
            Meaning(
                "False",
                Reason.TAINTS_HELD,
                "Some nodes have pods that a NoExecute taint of the spec would delete: see status.issues.",
            ),
            Meaning(
                "False",
                Reason.VALIDATION_TIMED_OUT,
                "Some nodes have not passed validation in time: see status.issues.",
            ),
            Meaning(
                "False",
                Reason.POD_LIST_FAILING,
                "Some nodes wait for a look at their pods, and these cannot be listed: the message says why.",
            ),
            Meaning("False", Reason.ROLLOUT_IN_PROGRESS, "The operator still has to write to some nodes."),
            Meaning(
                "False",
                Reason.VALIDATING_NODES,
                "All that is left are nodes that joined and have not passed validation yet.",
            ),
            Meaning(
                "False",
                Reason.WAITING_FOR_ACTOR,
                "All labels and taints are on the nodes, and some nodes run another release or an older "
                "revision than `os` asks for. The operator does not replace or patch machines: see "
                "status.issues.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.OS_SUPPORTED,
        Polarity.GOOD,
        "Every node runs a Windows that the support matrix allows under this version of Kubernetes, at a "
        "revision and with a kubelet and a runtime that are supported. Where nodes differ, the worst is "
        "told.",
        (
            Meaning("True", Reason.NODES_SUPPORTED, "Every node is supported."),
            Meaning(
                "True",
                Reason.BUILD_WARNED,
                "Every node is supported, some with a warning: see status.issues.",
            ),
            Meaning("True", Reason.SUPPORT_ENDING, "Support of a build that nodes run ends within 90 days."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is unsupported."),
            Meaning("True", Reason.POOL_OVERLAP, "All nodes that match belong to other pools."),
            Meaning(
                "Unknown",
                Reason.BUILD_UNKNOWN,
                "The support matrix does not know a build that nodes run or this version of Kubernetes, or "
                "what a node reports cannot be read.",
            ),
            Meaning("Unknown", Reason.OWNER_UNKNOWN, "Nobody knows yet whose the nodes are that match."),
            Meaning("Unknown", Reason.SPEC_REJECTED, "The spec was not accepted, so its rows are not known."),
            Meaning("Unknown", Reason.RELEASING_NODES, "The pool is being deleted."),
            Meaning(
                "False",
                Reason.BUILD_UNSUPPORTED,
                "Nodes run a build that the support matrix does not allow under this version of Kubernetes, "
                "or denies.",
            ),
            Meaning(
                "False", Reason.SUPPORT_ENDED, "The last day of support of a build that nodes run passed."
            ),
            Meaning(
                "False",
                Reason.REVISION_BELOW_FLOOR,
                "Nodes run a revision below the highest of `os.minRevision` and the support matrix's floors.",
            ),
            Meaning(
                "False",
                Reason.VERSION_SKEW,
                "Nodes run a kubelet that is newer than the control plane, or older than it may be.",
            ),
            Meaning(
                "False",
                Reason.RUNTIME_TOO_OLD,
                "Nodes run a container runtime that is too old for their kubelet.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.RECONCILING,
        Polarity.BUSY,
        "The operator itself is at work on the pool and will go on by itself.",
        (
            Meaning("True", Reason.ROLLOUT_IN_PROGRESS, "Nodes are being brought to what the spec asks."),
            Meaning("True", Reason.VALIDATING_NODES, "Nodes that joined are being validated."),
            Meaning(
                "True",
                Reason.POD_LIST_FAILING,
                "All that is left waits for a look at its pods, which fails; it is tried again.",
            ),
            Meaning(
                "True",
                Reason.RELEASING_NODES,
                "The pool is being deleted and what it put on nodes is taken off.",
            ),
            Meaning(
                "False",
                Reason.SETTLED,
                "There is nothing left to do, or nothing that the operator may do now.",
            ),
        ),
    ),
    ConditionKind(
        ConditionType.STALLED,
        Polarity.BAD,
        "The operator cannot go on until a person does something; status.issues says where and what.",
        (
            Meaning(
                "True",
                Reason.TAINTS_HELD,
                "A NoExecute taint is held back from nodes with pods that do not tolerate it.",
            ),
            Meaning("True", Reason.VALIDATION_TIMED_OUT, "Nodes have not passed validation in time."),
            Meaning(
                "True",
                Reason.POD_LIST_FAILING,
                "All that is left has waited for five minutes for a look at its pods, and these cannot be "
                "listed.",
            ),
            Meaning(
                "True",
                Reason.WRITE_REFUSED,
                "All that is left are nodes that the API server, or a policy behind it, does not let be "
                "changed.",
            ),
            Meaning("True", Reason.POOL_OVERLAP, "Every node that the pool selects belongs to another pool."),
            Meaning("True", Reason.SPEC_REJECTED, "Accepted is False because of the spec: see there."),
            Meaning(
                "True", Reason.RESERVED_MEMORY_TOO_LARGE, "Accepted is False for that reason: see there."
            ),
            Meaning(
                "True", Reason.MISSING_PERMISSION, "Accepted is False because of a permission: see there."
            ),
            Meaning(
                "False",
                Reason.NOT_STALLED,
                "Nothing is in the way, or the operator has other nodes to go on with.",
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
                "What the pool put on nodes is being taken off; the message counts them.",
            ),
            Meaning("False", Reason.NOT_DELETING, "Nobody has asked for deletion."),
        ),
    ),
)
"""Every type of condition, with every status and reason that it can have."""
