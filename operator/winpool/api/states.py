"""What STATE in ``kubectl get`` shows: the worst that is true of a pool, in the order of this table.

STATE is the reason of the condition Ready. The same order decides what NodesUpToDate reports, so that the two
never name different troubles of the nodes.
"""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import Meaning, Reason

STATES: Final = (
    Meaning("False", Reason.DELETING, "The pool is being deleted."),
    Meaning(
        "False", Reason.SPEC_REJECTED, "Accepted is False because of the spec; the message has its reason."
    ),
    Meaning(
        "False",
        Reason.MISSING_PERMISSION,
        "Accepted is False because of a permission; the message has the rule.",
    ),
    Meaning("False", Reason.POOL_OVERLAP, "Every node that the pool selects belongs to another pool."),
    Meaning("False", Reason.OWNER_UNKNOWN, "Nobody knows yet which pool owns the nodes that it selects."),
    Meaning("False", Reason.TOO_FEW_NODES_READY, "Available is False: see there."),
    Meaning(
        "False",
        Reason.WRITE_REFUSED,
        "The API server, or a policy behind it, refuses to change some nodes: see status.issues.",
    ),
    Meaning("True", Reason.PAUSED, "`mode` is Paused."),
    Meaning("True", Reason.DRY_RUN, "`mode` is DryRun: see status.plan."),
    Meaning(
        "True",
        Reason.TAINTS_HELD,
        "The operator holds a NoExecute taint back from some nodes, since it would delete pods there: see "
        "status.issues.",
    ),
    Meaning(
        "True",
        Reason.VALIDATION_TIMED_OUT,
        "Some nodes have not passed `validation` in time: see status.issues.",
    ),
    Meaning(
        "True",
        Reason.POD_LIST_FAILING,
        "Some nodes wait for a look at their pods, and these cannot be listed: see status.issues.",
    ),
    Meaning("True", Reason.ROLLOUT_IN_PROGRESS, "The operator still has to write to some nodes."),
    Meaning(
        "True",
        Reason.VALIDATING_NODES,
        "Some nodes carry startup taints until they have passed `validation`.",
    ),
    Meaning("True", Reason.BUILD_UNSUPPORTED, "OSSupported is False for this reason: see there."),
    Meaning("True", Reason.SUPPORT_ENDED, "OSSupported is False for this reason: see there."),
    Meaning("True", Reason.REVISION_BELOW_FLOOR, "OSSupported is False for this reason: see there."),
    Meaning("True", Reason.VERSION_SKEW, "OSSupported is False for this reason: see there."),
    Meaning("True", Reason.RUNTIME_TOO_OLD, "OSSupported is False for this reason: see there."),
    Meaning("True", Reason.PODS_UNREADABLE, "Pods on some nodes cannot be read: see status.issues."),
    Meaning(
        "True",
        Reason.MEMORY_MISMATCH,
        "Some nodes do not reserve the memory that `reservedMemory` declares, and carry the taint of "
        "`onMismatch` for it: see status.issues.",
    ),
    Meaning(
        "True",
        Reason.UPGRADE_DUE,
        "Some nodes run another release, or an older revision, than `os` asks for. A person has to replace "
        "or patch them: see status.issues.",
    ),
    Meaning(
        "True",
        Reason.BUILD_UNKNOWN,
        "What some nodes run is not known, or whether it is supported: see status.issues.",
    ),
    Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, as in a pool that starts from zero."),
    Meaning("True", Reason.UP_TO_DATE, "All nodes are as the spec asks, and enough are available."),
)
"""Every STATE with the status of Ready that goes with it, the worst first."""
