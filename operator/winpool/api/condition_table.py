"""Every type of condition with every status and reason that it can have: the source of the reference page."""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason

CONDITIONS: Final = (
    ConditionKind(
        ConditionType.READY,
        Polarity.GOOD,
        "The spec is accepted, the pool is under control and enough of its nodes are available. "
        "Stays True during a rollout.",
        (
            Meaning("True", Reason.UP_TO_DATE, "All nodes are as the spec asks, and enough are available."),
            Meaning(
                "True",
                Reason.ROLLOUT_IN_PROGRESS,
                "Enough nodes are available; some are still to be written to.",
            ),
            Meaning(
                "True",
                Reason.POD_LIST_FAILING,
                "Enough nodes are available; some wait for a look at their pods, which fails.",
            ),
            Meaning(
                "True",
                Reason.TAINTS_HELD,
                "Enough nodes are available; from some a NoExecute taint is held back: see Stalled.",
            ),
            Meaning(
                "True",
                Reason.VALIDATING_NODES,
                "Enough nodes are available; some carry startup taints until they have passed validation.",
            ),
            Meaning(
                "True",
                Reason.VALIDATION_TIMED_OUT,
                "Enough nodes are available; some have not passed validation in time: see Stalled.",
            ),
            Meaning("True", Reason.PAUSED, "`mode` is Paused; enough nodes are available."),
            Meaning("True", Reason.DRY_RUN, "`mode` is DryRun; enough nodes are available."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, as in a pool that starts from zero."),
            Meaning("False", Reason.SPEC_REJECTED, "Accepted is False because of the spec: see there."),
            Meaning(
                "False", Reason.MISSING_PERMISSION, "Accepted is False because of a permission: see there."
            ),
            Meaning(
                "False", Reason.POOL_OVERLAP, "Every node that the pool selects belongs to another pool."
            ),
            Meaning("False", Reason.OWNER_UNKNOWN, "Nobody knows yet whose the nodes are that it selects."),
            Meaning("False", Reason.WRITE_REFUSED, "NodesUpToDate is False: see there."),
            Meaning("False", Reason.TOO_FEW_NODES_READY, "Available is False: see there."),
            Meaning("False", Reason.DELETING, "The pool is being deleted."),
        ),
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
        "Every node of the pool is as this generation of the spec asks.",
        (
            Meaning("True", Reason.UP_TO_DATE, "Every node is as the spec asks."),
            Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is behind."),
            Meaning("True", Reason.POOL_OVERLAP, "All nodes that match belong to other pools."),
            Meaning("Unknown", Reason.OWNER_UNKNOWN, "Nobody knows yet whose the nodes are that match."),
            Meaning(
                "False",
                Reason.WRITE_REFUSED,
                "All that is left are nodes that the API server, or a policy behind it, does not let be "
                "changed: see status.issues.",
            ),
            Meaning(
                "False",
                Reason.POD_LIST_FAILING,
                "Some nodes wait for a look at their pods, and these cannot be listed: the message says why.",
            ),
            Meaning("False", Reason.ROLLOUT_IN_PROGRESS, "Some nodes are still to be written to."),
            Meaning(
                "False",
                Reason.TAINTS_HELD,
                "All that is left are nodes with pods that a NoExecute taint of the spec would have deleted: "
                "see status.issues.",
            ),
            Meaning(
                "False",
                Reason.VALIDATING_NODES,
                "All that is left are nodes that joined and have not passed validation yet.",
            ),
            Meaning(
                "False",
                Reason.VALIDATION_TIMED_OUT,
                "All that is left are nodes that have not passed validation in time: see status.issues.",
            ),
            Meaning("False", Reason.PAUSED, "Some nodes are not as the spec asks, and `mode` is Paused."),
            Meaning(
                "False",
                Reason.DRY_RUN,
                "Some nodes are not as the spec asks, and `mode` is DryRun: see status.plan.",
            ),
            Meaning(
                "False", Reason.SPEC_REJECTED, "The spec was not accepted, so nothing was compared with it."
            ),
            Meaning(
                "False",
                Reason.MISSING_PERMISSION,
                "Some nodes are not as the spec asks, and a permission is missing: see Accepted.",
            ),
            Meaning("False", Reason.RELEASING_NODES, "The pool is being deleted."),
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
