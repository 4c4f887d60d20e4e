"""All gates in one table: what each means, what opens it, whether it is about the pool or one node, its rule.

Pages and tests are made from it. A new gate is a line here, a name in ``api.upgrade.Gate``, and a
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from winpool.api.upgrade import Gate
from winpool.features.upgrade.gates.node import (
    capacity,
    disruption_budgets,
    images,
    release_change,
    version_skew,
)
from winpool.features.upgrade.gates.pool import (
    World,
    budget,
    control_plane,
    end_of_support,
    maintenance_window,
    pool_health,
    revision_floor,
    support_matrix,
)
from winpool.features.upgrade.records import GateFinding, NodeUpgrade


class PoolGate(msgspec.Struct, frozen=True):
    """A gate that is judged once for the pool. ``meaning`` and ``opens`` are sentences for people."""

    gate: Gate
    meaning: str
    opens: str
    judge: Callable[[World], GateFinding]


class NodeGate(msgspec.Struct, frozen=True):
    """A gate that is judged for each node that is due."""

    gate: Gate
    meaning: str
    opens: str
    judge: Callable[[World, NodeUpgrade], GateFinding]


GATES: Final[tuple[PoolGate | NodeGate, ...]] = (
    PoolGate(
        Gate.SUPPORT_MATRIX,
        "The support matrix, with the rows of the cluster and the pool, has the release in `os.version` and "
        "allows it under the version of the control plane.",
        "Another `os.version`, or a row in `supportMatrix` that allows the release.",
        support_matrix,
    ),
    PoolGate(
        Gate.END_OF_SUPPORT,
        "The last day of support for the release in `os.version` has not passed, in UTC.",
        "A newer `os.version`, or a row in `supportMatrix` with a later `endOfSupport`.",
        end_of_support,
    ),
    PoolGate(
        Gate.REVISION_FLOOR,
        "`os.targetRevision` is not below `os.minRevision` or a floor of the support matrix. Without "
        "`os.targetRevision` the gate is open, and its message has the lowest revision that is allowed.",
        "A higher `os.targetRevision`.",
        revision_floor,
    ),
    NodeGate(
        Gate.RELEASE_CHANGE,
        "The method can bring the node to the target. With `method: InPlace` the gate is closed for a node "
        "of another release.",
        "`method: Replace`, where the machine is replaced, or another `os.version`.",
        release_change,
    ),
    NodeGate(
        Gate.VERSION_SKEW,
        "The kubelet of the node is not newer than the API server, and with `method: InPlace` not older than "
        "the version skew policy of Kubernetes permits.",
        "An upgrade of the control plane or of the kubelet.",
        version_skew,
    ),
    PoolGate(
        Gate.CONTROL_PLANE,
        "The version of the control plane is known, and unchanged for 15 minutes as far as the operator has "
        "seen. `status.controlPlane` keeps the time over a restart of the operator.",
        "Time, once the control plane answers with one version.",
        control_plane,
    ),
    PoolGate(
        Gate.MAINTENANCE_WINDOW,
        "A window of `maintenanceWindows` is open, and no entry of `maintenanceExclusions` covers this time. "
        "Without windows the gate is open outside of exclusions.",
        "The next window, whose beginning the message has.",
        maintenance_window,
    ),
    PoolGate(
        Gate.POOL_HEALTH,
        "At most `maxFailedNodes` nodes have failed, at most `maxBlockedNodes` cannot be drained, and there "
        "is no storm: of nodes that had been in the cluster for 15 minutes, at most 20 % of the pool, or 3 "
        "where that is more, changed their condition Ready within the last 10 minutes.",
        "Repaired nodes, and 10 minutes in which few nodes change Ready.",
        pool_health,
    ),
    NodeGate(
        Gate.CAPACITY,
        "The other nodes of the same Windows build can take the pods of the node, by requests, selectors and "
        "tolerations, with what their RuntimeClass adds now. It closes only where a pod is known to find no "
        "other node, or names a RuntimeClass that does not exist.",
        "More nodes of this build, smaller requests, fewer pods, or the RuntimeClass that is missing.",
        capacity,
    ),
    NodeGate(
        Gate.IMAGES,
        "With `method: Replace`, the pods of the node run on the target, by the Windows build that they "
        "declare or their RuntimeClass selects now. It closes only where a pod is known not to run there. It "
        "is open for `method: InPlace`.",
        "Images for the target, and pods that declare it.",
        images,
    ),
    PoolGate(
        Gate.BUDGET,
        "Fewer nodes of the pool without a slot are unavailable than `maxUnavailable` permits. A node counts "
        "that is not Ready, is cordoned by anyone, or is being deleted. While slots use up the rest, the "
        "gate is open, and other nodes wait for their turn. A node whose upgrade has begun keeps its "
        "permission, but if `maxUnavailable` is 0. No override opens the gate.",
        "Nodes that are Ready and schedulable again, or a higher `maxUnavailable`.",
        budget,
    ),
    NodeGate(
        Gate.DISRUPTION_BUDGETS,
        "The API server would evict each pod of the node now: its PodDisruptionBudget allows a disruption, "
        "and no pod has two. No override opens the gate.",
        "More pods that are Ready, or budgets that allow a disruption.",
        disruption_budgets,
    ),
)
"""Every gate, in the order in which gates are reported."""

POOL_GATES: Final = tuple(each for each in GATES if isinstance(each, PoolGate))
NODE_GATES: Final = tuple(each for each in GATES if isinstance(each, NodeGate))

assert tuple(each.gate for each in GATES) == tuple(Gate)
