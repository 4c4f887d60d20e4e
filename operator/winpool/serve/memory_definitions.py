"""The metrics of nodes' memory, which are part of the table of all metrics (``definitions``)."""

from __future__ import annotations

from typing import Final

from winpool.serve.definition import Definition

RESERVED_MEMORY_MISMATCHED: Final = Definition(
    "winpool_reserved_memory_mismatched_nodes",
    "gauge",
    ("pool",),
    "Nodes of the pool whose kubelet holds back another amount of memory than the pool declares. 0 where it "
    "declares none.",
)
NODES_BY_MEMORY_LEVEL: Final = Definition(
    "winpool_nodes_by_memory_level",
    "gauge",
    ("pool", "axis", "level"),
    "Nodes of the pool by axis of memory (commit or physical) and its level: normal, warning, proxy_only, "
    "soft, hard or unknown. Only for pools that have memoryPressure.",
)
SYSTEMIC_PRESSURE: Final = Definition(
    "winpool_memory_systemic_pressure",
    "gauge",
    ("pool",),
    "1 where more nodes of the pool are under memory pressure, or give no samples, than maxPressuredNodes "
    "allows, else 0. Only for pools that have memoryPressure.",
)

MEMORY_DEFINITIONS: Final = (RESERVED_MEMORY_MISMATCHED, NODES_BY_MEMORY_LEVEL, SYSTEMIC_PRESSURE)
"""All of them, in the order of the reference page."""
