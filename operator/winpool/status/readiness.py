"""Finds nodes that have not been Ready for a while, and Ready ones that have a taint of their cloud left.

Both need time to tell them from a node that joins or restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import grouped, later
from winpool.api.upgrade import UpgradeState
from winpool.features.feature import Finding
from winpool.model.node import Node
from winpool.ownership.members import Claim
from winpool.status.assessment import SHUTDOWN, Assessment, cloud_taints, is_ready
from winpool.status.events import NODE, ended, nameless

UNREADY_SECONDS: Final = 300.0
"""How long a node is not Ready before it is an issue: as long as Kubernetes leaves pods on such a node by
default. https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"""

TAINT_SECONDS: Final = 600.0
"""How long a node has been Ready before a taint of its cloud is an issue. A cloud controller manager takes
``shutdown`` from a Ready node every five seconds, and ``uninitialized`` once the cloud has answered. This is
twice its slowest period, which is five minutes by default. Neither taint has a time of its own.
kubernetes/cloud-provider config/v1alpha1/defaults.go, controllers/nodelifecycle/node_lifecycle_controller.go
"""

TOGETHER_SECONDS: Final = 30.0
"""Nodes whose time comes within so long are reported together: when a zone fails, its nodes follow each other
for a minute, and each second would have a pass and a report of its own."""

CAUSE_LENGTH: Final = 600
"""Characters of what a kubelet says that are reported. It was cut once before, behind names of different
length: so much of it is the same for all nodes."""

MOST_CAUSES: Final = 3
"""Causes that are reported one by one: each kubelet may write words of its own, and the status has room for
ten issues, most of which come after these."""

_UNREADY_FIX: Final = (
    "Repair what the message names: the network plugin, the container runtime, the kubelet or the machine. "
    f"See the events and the conditions: kubectl describe node {NODE}"
)


def readiness_findings(nodes: Iterable[Assessment], *, now: datetime) -> Iterator[Finding]:
    """Yield one finding for each cause that nodes of the pool share."""
    ours = [each.node for each in nodes if each.claim is Claim.OURS and _is_ripe(each.node, now)]
    unready = grouped((_cause(node), node.name) for node in ours if not is_ready(node))
    causes = sorted(unready, key=lambda cause: (-len(unready[cause]), min(unready[cause])))
    for cause in causes[:MOST_CAUSES]:
        said = f'The condition Ready says: "{cause}"' if cause else "The condition Ready gives no reason"
        yield _unready(unready[cause], said, cause=cause)
    if rest := sorted(causes[MOST_CAUSES:]):
        names = [name for cause in rest for name in unready[cause]]
        said = f'Their conditions Ready say various things, such as: "{rest[0]}"'
        yield _unready(names, said, cause="various")
    taints = grouped(
        (each.identity, node.name) for node in ours if is_ready(node) for each in cloud_taints(node)
    )
    for (key, effect), names in taints.items():
        yield Finding(
            IssueReason.CLOUD_TAINT_STAYS,
            names,
            f"The taint {key}:{effect} is still on these nodes, which have been Ready for ten minutes or "
            "longer. A cloud controller manager removes it, and the operator does not. Pods that do not "
            "tolerate it are not scheduled there.",
            "Check that a cloud controller manager runs (on Azure also cloud-node-manager, a pod on each "
            "node), and what its log says of these nodes. If the "
            "cluster has none, start the kubelets without --cloud-provider=external, and remove the taint: "
            f"kubectl taint nodes {NODE} {key}:{effect}-",
            f"{key}:{effect}",
        )


def ripens_at(nodes: Iterable[Assessment], *, now: datetime) -> datetime | None:
    """Return when the next node becomes part of a finding by time alone; None where none does."""
    moments = (_ripe_at(each.node) for each in nodes if each.claim is Claim.OURS)
    return min((moment for moment in moments if moment and moment > now), default=None)


def _is_ripe(node: Node, now: datetime) -> bool:
    moment = _ripe_at(node)
    return moment is not None and moment <= now


def _ripe_at(node: Node) -> datetime | None:
    """Return when what is found of the node is an issue; None where nothing is, or its time is not known.

    A machine that the operator has handed over to be upgraded may restart, several times. One that is stopped
    in its cloud is not Ready for as long as someone wants: AKS keeps such nodes with the scale-down mode
    Deallocate.
    """
    if node.ready_since is None:
        return None
    if not is_ready(node):
        is_upgraded = node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.UPGRADING
        is_stopped = any(taint.key == SHUTDOWN for taint in node.taints)
        return None if is_upgraded or is_stopped else _together(later(node.ready_since, UNREADY_SECONDS))
    if not cloud_taints(node):
        return None
    return _together(later(max(node.ready_since, node.created or node.ready_since), TAINT_SECONDS))


def _together(moment: datetime) -> datetime:
    return later(moment, -moment.timestamp() % TOGETHER_SECONDS)


def _cause(node: Node) -> str:
    """Return what the kubelet says, without what is of this node alone."""
    said = nameless(node.unready, name=node.name)
    return said if len(said) <= CAUSE_LENGTH else f"{said[: CAUSE_LENGTH - 1]}…"


def _unready(names: list[str], said: str, *, cause: str) -> Finding:
    message = f"These nodes have not been Ready for five minutes or longer. {ended(said)}"
    return Finding(IssueReason.NODES_NOT_READY, names, message, _UNREADY_FIX, cause)
