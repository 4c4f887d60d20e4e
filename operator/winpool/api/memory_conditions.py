"""What MemoryHealthy can say: a part of the table of conditions (``condition_table``)."""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason

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
