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
        "False", Reason.SPEC_REJECTED, "The operator cannot act on the spec. See the condition Accepted."
    ),
    Meaning(
        "False",
        Reason.MISSING_PERMISSION,
        "The operator lacks a permission. See the condition Accepted.",
    ),
    Meaning("False", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
    Meaning(
        "False",
        Reason.OWNER_UNKNOWN,
        "The ownership record on nodes that match names a pool that the operator does not know.",
    ),
    Meaning(
        "False",
        Reason.TOO_FEW_NODES_READY,
        "More nodes are missing than may be, or the only one is. See the condition Available.",
    ),
    Meaning(
        "False",
        Reason.WRITE_REFUSED,
        "The API server, a policy or a webhook refuses to change some nodes. See the issue WriteRefused.",
    ),
    Meaning("True", Reason.PAUSED, "`mode` is Paused."),
    Meaning("True", Reason.DRY_RUN, "`mode` is DryRun. `status.plan` has what the operator would write."),
    Meaning(
        "True",
        Reason.SYSTEMIC_PRESSURE,
        "More nodes are under memory pressure, or give no samples, than `maxPressuredNodes` allows. See the "
        "issue SystemicPressure.",
    ),
    Meaning(
        "True",
        Reason.TAINTS_HELD,
        "The operator does not add a NoExecute taint to some nodes, because it would delete pods there. See "
        "the issue IntolerantPods.",
    ),
    Meaning(
        "True",
        Reason.VALIDATION_TIMED_OUT,
        "Some nodes did not pass `validation` in time. See the issue ValidationTimedOut.",
    ),
    Meaning(
        "True",
        Reason.POD_LIST_FAILING,
        "The operator cannot list pods, and some nodes wait for that. See the issue PodListFailing.",
    ),
    Meaning("True", Reason.ROLLOUT_IN_PROGRESS, "The operator still has to write to some nodes."),
    Meaning(
        "True",
        Reason.VALIDATING_NODES,
        "Some nodes keep their startup taints until they pass `validation`.",
    ),
    Meaning(
        "True",
        Reason.NODES_UNDER_PRESSURE,
        "Some nodes are under memory pressure. See the issue MemoryPressure.",
    ),
    Meaning(
        "True",
        Reason.NODES_HELD,
        "The operator has to write to some nodes, and someone holds them with the annotation "
        "winpool.dev/hold. See the issue NodesHeld.",
    ),
    Meaning(
        "True",
        Reason.BUILD_UNSUPPORTED,
        "OSSupported is False for this reason. See the condition OSSupported.",
    ),
    Meaning(
        "True", Reason.SUPPORT_ENDED, "OSSupported is False for this reason. See the condition OSSupported."
    ),
    Meaning(
        "True",
        Reason.REVISION_BELOW_FLOOR,
        "OSSupported is False for this reason. See the condition OSSupported.",
    ),
    Meaning(
        "True", Reason.VERSION_SKEW, "OSSupported is False for this reason. See the condition OSSupported."
    ),
    Meaning(
        "True", Reason.RUNTIME_TOO_OLD, "OSSupported is False for this reason. See the condition OSSupported."
    ),
    Meaning(
        "True", Reason.PODS_UNREADABLE, "The operator cannot read some pods. See the issue PodsUnreadable."
    ),
    Meaning(
        "True",
        Reason.MEMORY_MISMATCH,
        "Some nodes do not reserve the memory that `reservedMemory` declares, and have a taint for it. See "
        "the issue ReservedMemoryMismatch.",
    ),
    Meaning(
        "True",
        Reason.UPGRADE_DUE,
        "Some nodes run another release, or an older revision, than `os` asks for. A person has to replace "
        "or patch them. See the issues OSVersionMismatch and OSRevisionBehind, and with `upgrade` the "
        "condition UpgradeAllowed, which says whether that may be done now.",
    ),
    Meaning(
        "True",
        Reason.BUILD_UNKNOWN,
        "It is not known what some nodes run, or whether that is supported. See the issue BuildUnknown.",
    ),
    Meaning(
        "True",
        Reason.NO_NODES_SELECTED,
        "`nodeSelector` matches no Windows node, as in a pool that starts from zero.",
    ),
    Meaning("True", Reason.UP_TO_DATE, "All nodes are as the spec asks, and enough are available."),
)
"""Every STATE with the status of Ready that goes with it, the worst first."""
