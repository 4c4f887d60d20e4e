"""The metrics of upgrades, a part of the table of all metrics (``definitions``).

But for the counter of surprises they are only of pools that have ``upgrade``.
"""

from __future__ import annotations

from typing import Final

from winpool.serve.definition import Definition

UPGRADE_NODES: Final = Definition(
    "winpool_upgrade_nodes",
    "gauge",
    ("pool", "state"),
    "Nodes of the pool by state: UpToDate, Required (due, and may be upgraded now), Gated (due, and may "
    "not), Unknown (it is not known whether they are due). As all metrics of upgrades but the counter, only "
    "for pools that have upgrade.",
)
UPGRADE_DUE: Final = Definition(
    "winpool_upgrade_due_nodes",
    "gauge",
    ("pool", "trigger"),
    "Nodes of the pool that are due for an upgrade, by trigger: OSVersion, OSRevision, Request, "
    "ReservedMemory or KubeletSkew. A node may be due for several.",
)
UPGRADE_DUE_SINCE: Final = Definition(
    "winpool_upgrade_due_since_timestamp_seconds",
    "gauge",
    ("pool",),
    "Unix time since which nodes of the pool have been due for its target: the start of the entry of "
    "status.history that is InProgress. Absent while no node is due.",
)
GATE_CLOSED: Final = Definition(
    "winpool_upgrade_gate_closed",
    "gauge",
    ("pool", "gate"),
    "1 where the gate keeps nodes of the pool from being upgraded, 0 where it does not. A gate that is "
    "judged node by node counts as soon as it keeps one node that is due.",
)
OVERRIDES: Final = Definition(
    "winpool_upgrade_overrides",
    "gauge",
    ("pool", "state"),
    "Entries in upgrade.overrides of the pool by state: in_force or expired.",
)
SURPRISED: Final = Definition(
    "winpool_upgrade_surprised_nodes",
    "gauge",
    ("pool", "kind"),
    "Nodes of the pool whose machine did something within the last hour that no one had announced, by kind: "
    "SurpriseReboot or SurpriseOSChange.",
)
SURPRISES: Final = Definition(
    "winpool_upgrade_surprises",
    "counter",
    ("kind",),
    "Times that the machine of a node did something that no one had announced, by kind: SurpriseReboot or "
    "SurpriseOSChange. Of nodes of all pools that have upgrade.",
)

UPGRADE_DEFINITIONS: Final = (
    UPGRADE_NODES,
    UPGRADE_DUE,
    UPGRADE_DUE_SINCE,
    GATE_CLOSED,
    OVERRIDES,
    SURPRISED,
    SURPRISES,
)
"""All of them, in the order of the page."""
