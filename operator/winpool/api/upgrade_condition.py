"""What UpgradeAllowed can say: a part of the table of conditions (``condition_table``).

A gate that is judged for the pool as a whole is its own reason. Gates that are judged node by node share
NodesGated, since one may be open for one node and closed for the next.
"""

from __future__ import annotations

from typing import Final

from winpool.api.conditions import ConditionKind, ConditionType, Meaning, Polarity, Reason

UPGRADE_ALLOWED: Final = ConditionKind(
    ConditionType.UPGRADE_ALLOWED,
    Polarity.GOOD,
    "A node that is due may be upgraded now: nothing stops the pool, its gates are open, and at least one "
    "node that is due is not blocked by a gate of its own. The label `winpool.dev/upgrade-state=Required` "
    "says which nodes these are. Also True where no node is due. Where several reasons are true, it has the "
    "first of this table, and the message lists every closed gate with what opens it. The pool has this "
    "condition only while its spec has `upgrade`.",
    (
        Meaning("True", Reason.UPGRADE_ALLOWED, "At least one node that is due may be upgraded now."),
        Meaning("True", Reason.NOTHING_DUE, "No node is due for an upgrade."),
        Meaning("True", Reason.NO_NODES_SELECTED, "No node matches, so none is due."),
        Meaning("True", Reason.POOL_OVERLAP, "Other pools own nodes that match; this pool owns none."),
        Meaning(
            "Unknown",
            Reason.BUILD_UNKNOWN,
            "No node is known to be due, and of some it is not known. See the issue BuildUnknown.",
        ),
        Meaning(
            "Unknown",
            Reason.OWNER_UNKNOWN,
            "The ownership record on the nodes that match names a pool that the operator does not know.",
        ),
        Meaning("Unknown", Reason.RELEASING_NODES, "The pool is being deleted."),
        Meaning(
            "False",
            Reason.SPEC_REJECTED,
            "The spec is not accepted, so the operator permits no upgrade.",
        ),
        Meaning(
            "False",
            Reason.MISSING_PERMISSION,
            "Nodes are due, and the operator lacks a permission. See the condition Accepted.",
        ),
        Meaning("False", Reason.PAUSED_BY_SPEC, "Nodes are due, and `mode` is Paused."),
        Meaning("False", Reason.DRY_RUN, "Nodes are due, and `mode` is DryRun."),
        Meaning("False", Reason.PAUSE_REQUESTED, "Nodes are due, and `upgrade.pauseRequests` has an entry."),
        Meaning(
            "False",
            Reason.SUPPORT_MATRIX,
            "The support matrix does not allow the release that `os.version` names under this version of "
            "Kubernetes, or does not know.",
        ),
        Meaning(
            "False",
            Reason.END_OF_SUPPORT,
            "The last day of support for that release has passed, or is not known.",
        ),
        Meaning(
            "False",
            Reason.REVISION_FLOOR,
            "The revision that nodes are brought to is below the lowest supported one, or it cannot be "
            "compared with it.",
        ),
        Meaning(
            "False",
            Reason.CONTROL_PLANE,
            "The version of the API server is not known, or it changed within the last 15 minutes. After the "
            "operator has started, it waits as long.",
        ),
        Meaning(
            "False",
            Reason.MAINTENANCE_WINDOW,
            "None of `upgrade.maintenanceWindows` is open, or an entry of `upgrade.maintenanceExclusions` "
            "closes them.",
        ),
        Meaning(
            "False",
            Reason.POOL_HEALTH,
            "More nodes have failed or are blocked than `upgrade` permits, or many nodes became Ready or not "
            "Ready within ten minutes.",
        ),
        Meaning(
            "False",
            Reason.BUDGET,
            "As many nodes are unavailable as `upgrade.maxUnavailable` permits, or more.",
        ),
        Meaning(
            "False",
            Reason.NODES_GATED,
            "Nothing stops the pool as a whole, and every node that is due is held, or a gate of its own is "
            "closed. See the issue NodesGated.",
        ),
    ),
)
