"""Says which pool a node belongs to, or why none has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winpool.api.keys import KIND, OS_LABEL, OS_WINDOWS, SHORT_NAME
from winpool.cli.upgrades import Cluster, snapshot_of
from winpool.ownership.members import Claim, divide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.model.node import Node
    from winpool.model.pool import Pool


@dataclass(frozen=True, slots=True)
class Place:
    """The pool that a node belongs to, or None and the reason, with what to do about it."""

    pool: Pool | None = None
    reason: str = ""
    fix: str = ""


def place_of(cluster: Cluster, node: Node) -> Place:
    """Say which pool has ``node``."""
    if node.labels.get(OS_LABEL) != OS_WINDOWS:
        return Place(
            reason=f"The label {OS_LABEL} of the node is not {OS_WINDOWS}: winpool manages no other nodes."
        )
    alone = replace(cluster, nodes=(node,))
    by_claim = {
        member.claim: pool
        for pool in reversed(cluster.pools)  # of two with the same claim the first counts
        for member in divide(snapshot_of(alone, pool)).all
    }
    ours = by_claim.get(Claim.OURS)
    return Place(pool=ours) if ours is not None else _why_none(cluster, node, by_claim)


def _why_none(cluster: Cluster, node: Node, by_claim: Mapping[Claim, Pool]) -> Place:
    if not cluster.pools:
        return Place(
            reason=f"There is no {KIND} in this cluster.", fix=f"Create a {KIND} that selects the node."
        )
    if left := by_claim.get(Claim.LEFT):
        why = "is being deleted" if left.deleting else "does not select it any more"
        return Place(
            reason=f"It still has labels or taints of the pool {left.name}, which {why}. The operator "
            "removes them.",
            fix="Wait until the operator has released the node, and check that it runs: kubectl -n "
            "winpool-system get pods",
        )
    if unknown := by_claim.get(Claim.UNKNOWN):
        return Place(
            reason=f"The pool {unknown.name} selects it, but its ownership record names a pool that does not "
            "exist.",
            fix=f"See the issue OwnerUnknown: kubectl winpool status {unknown.name}",
        )
    return Place(
        reason=f"No {KIND} selects it: its labels do not match spec.nodeSelector of any pool.",
        fix=f"Compare kubectl get node {node.name} --show-labels with spec.nodeSelector in kubectl get "
        f"{SHORT_NAME} -o yaml",
    )


def pools_of(cluster: Cluster, name: str) -> Sequence[Pool]:
    """Return the pool of the node, whose pods have to be read too."""
    node = cluster.node(name)
    pool = place_of(cluster, node).pool if node is not None else None
    return () if pool is None else (pool,)
