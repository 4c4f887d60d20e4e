"""What OSSupported and MemoryHealthy can say: a part of the table of conditions (``condition_table``)."""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason

OS_SUPPORTED: Final = ConditionKind(
    ConditionType.OS_SUPPORTED,
    Polarity.GOOD,
    "Every node runs a Windows that the support matrix allows under this version of Kubernetes, at a "
    "revision and with a kubelet and a runtime that are supported. Where nodes differ, the worst one "
    "counts.",
    (
        Meaning("True", Reason.NODES_SUPPORTED, "Every node is supported."),
        Meaning(
            "True",
            Reason.BUILD_WARNED,
            "Every node is supported, some with a warning. See the issue BuildWarned.",
        ),
        Meaning("True", Reason.SUPPORT_ENDING, "Support for a build that nodes run ends within 90 days."),
        Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is unsupported."),
        Meaning("True", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
        Meaning(
            "Unknown",
            Reason.BUILD_UNKNOWN,
            "The support matrix does not know a build that nodes run or this version of Kubernetes, or "
            "what a node reports cannot be read.",
        ),
        Meaning(
            "Unknown",
            Reason.OWNER_UNKNOWN,
            "The ownership record on the nodes that match names a pool that the operator does not know.",
        ),
        Meaning(
            "Unknown",
            Reason.SPEC_REJECTED,
            "The spec is not accepted, so the operator judges no nodes by it.",
        ),
        Meaning("Unknown", Reason.RELEASING_NODES, "The pool is being deleted."),
        Meaning(
            "False",
            Reason.BUILD_UNSUPPORTED,
            "Nodes run a build that the support matrix does not allow under this version of Kubernetes, "
            "or denies.",
        ),
        Meaning(
            "False",
            Reason.SUPPORT_ENDED,
            "The last day of support for a build that nodes run has passed.",
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
)

MEMORY_HEALTHY: Final = ConditionKind(
    ConditionType.MEMORY_HEALTHY,
    Polarity.GOOD,
    "No node of the pool is under memory pressure. The pool has this condition only while its spec has "
    "`memoryPressure`.",
    (
        Meaning("True", Reason.NO_PRESSURE, "No node is under memory pressure."),
        Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is under pressure."),
        Meaning("True", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
        Meaning(
            "Unknown",
            Reason.SAMPLES_MISSING,
            "No node is known to be under memory pressure, and the memory of some is not known. See the "
            "issue MemoryUnknown. After the operator has started, samples take up to two minutes.",
        ),
        Meaning(
            "Unknown",
            Reason.OWNER_UNKNOWN,
            "The ownership record on the nodes that match names a pool that the operator does not know.",
        ),
        Meaning(
            "Unknown",
            Reason.SPEC_REJECTED,
            "The operator cannot read the spec, so it watches no memory.",
        ),
        Meaning("Unknown", Reason.RELEASING_NODES, "The pool is being deleted."),
        Meaning(
            "False",
            Reason.NODES_UNDER_PRESSURE,
            "Nodes are under memory pressure. See the issue MemoryPressure.",
        ),
        Meaning(
            "False",
            Reason.SYSTEMIC_PRESSURE,
            "More nodes are under memory pressure, or give no samples, than `maxPressuredNodes` allows, "
            "so no pod is evicted. See the issue SystemicPressure.",
        ),
    ),
)
