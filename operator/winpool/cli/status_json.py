"""What ``kubectl winpool status -o json`` prints: for programs, with the names and values of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winpool.cli.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.cli.node_states import NodeGroup
    from winpool.cli.pool_view import PoolView


def content_of(
    pool: PoolView, groups: Sequence[NodeGroup] | None = None, *, nodes_problem: str = ""
) -> Mapping[str, Any]:
    """Return what ``render_pool`` shows, and the names of all nodes; without ``groups`` no nodes."""
    metadata, status = mapping(pool.content.get("metadata")), mapping(pool.content.get("status"))
    notable = {each.type for each in pool.notable}
    ready = pool.ready
    return {
        "name": pool.name,
        "osVersion": pool.os_version,
        "mode": pool.mode,
        "creationTimestamp": metadata.get("creationTimestamp"),
        "generation": pool.generation,
        "observedGeneration": pool.observed_generation,
        "state": pool.state,
        "ready": ready.status if ready is not None else "Unknown",
        "message": ready.message if ready is not None else "",
        "nodes": pool.nodes,
        "readyNodes": pool.ready_nodes,
        "availableNodes": pool.available_nodes,
        "upToDateNodes": pool.up_to_date_nodes,
        "pressuredNodes": pool.pressured_nodes,
        "heldNodes": pool.held_nodes,
        "misplacedPods": pool.misplaced_pods,
        "conditions": [
            each for each in items(status.get("conditions")) if text(mapping(each).get("type")) in notable
        ],
        "issueCount": pool.issue_count,
        "issues": items(status.get("issues")),
        "builds": items(status.get("builds")),
        **({"plan": status["plan"]} if "plan" in status else {}),
        **({} if groups is None else {"nodeGroups": [_group(each) for each in groups]}),
        **({"nodesProblem": nodes_problem} if nodes_problem else {}),
    }


def _group(group: NodeGroup) -> Mapping[str, Any]:
    return {"state": str(group.state), "count": group.count, "nodes": list(group.names)}
