"""Says why a node does not work, or is not upgraded, and what to do: ``kubectl winpool why``."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.cli import gates
from winpool.cli.console import write
from winpool.cli.kubectl import Kubectl
from winpool.cli.node_place import place_of, pools_of
from winpool.cli.node_problems import contract_of, problems_of
from winpool.cli.node_upgrade import Why, changes_at, levels, next_of, to_do
from winpool.cli.parsing import EndError, Exit, add_output, add_settings, node_name
from winpool.cli.rollouts import blocker_content, progress_content, rollout_claim, with_evidence
from winpool.cli.upgrades import (
    Cluster,
    judged,
    read_cluster,
    rows_of_settings,
    snapshot_of,
    with_pods_of,
)
from winpool.cli.why_text import as_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.support.rows import Row

DESCRIPTION: Final = """\
Show all that is wrong with a node, the worst first: that it is not Ready and
why, validation, taints, memory pressure, its upgrade, a hold, a build that is
not supported. Then what happens next, and what you can do. The text fits a
terminal of 24 lines; -o json has all.

Of an upgrade it shows why it is due, which gates are closed and what opens
each; of a node that the operator upgrades itself, the state, since when, until
when, what it waits for, and what blocks its pods. The exit code is about the
upgrade alone.

It judges that itself, from what the API server has now, by the rules of the
operator, and says yes only if the operator leads and says so too. What only
the operator knows, such as samples of memory, it takes from the conditions of
the node and the issues of the pool. It needs the rights to list
windowsnodepools and nodes, to get the Lease winpool-system/winpool, and, if the
pool has spec.upgrade, to list pods and poddisruptionbudgets. Of a node that is
validated it lists pods, of one that was drained volumeattachments, and of one
that is back the controllers of pods."""

EXITS: Final = {
    Exit.YES: "nothing is due, or an upgrade is due and the operator permits it or has handed the node over",
    Exit.UNKNOWN: "there is no certain answer: no such node, no pool or no spec.upgrade that judges it, no "
    "operator that says so, it is not known what is due, or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or the file of --support-matrix-file cannot be used",
    Exit.NO: "an upgrade is due or not done, and the node must not be upgraded now",
}

EXAMPLES: Final = (
    ("kubectl winpool why akswin000003", "what is wrong with one node"),
    (
        "kubectl winpool why node/akswin000003 || exit",
        "in a script: stop unless nothing is due or it is permitted",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument("node", type=node_name, metavar="NODE", help="Show this node: NAME or node/NAME.")
    add_output(parser)
    add_settings(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    rows, name = rows_of_settings(given), given.node
    with Kubectl(given.flags) as kubectl:
        cluster = read_cluster(kubectl, lambda seen: pools_of(seen, name), node=name)
        node = cluster.node(name)
        if node is not None and _is_of_rollout(cluster, node):
            cluster = with_evidence(kubectl, cluster, [node])
        if node is not None and (pool := _asks_for_pods(cluster, node)) is not None:
            cluster = with_pods_of(kubectl, cluster, node, pool=pool)
    why = why_of(cluster, name, rows=rows)
    write(given.output, lambda: as_content(why), lambda look: as_text(why, look=look))
    return why.standing.exit


def _is_of_rollout(cluster: Cluster, node: Node) -> bool:
    """Whether the operator upgrades ``node`` itself, or has begun to."""
    pool = place_of(cluster, node).pool
    block = pool.spec.upgrade if pool is not None and pool.spec is not None else None
    return block is not None and (block.is_ours or rollout_claim(node) is not None)


def _asks_for_pods(cluster: Cluster, node: Node) -> Pool | None:
    """Return the pool of ``node`` where its contract waits for a list of pods, and none was read."""
    pool = place_of(cluster, node).pool
    if pool is None or pool.uid in cluster.surveys or cluster.pods_problem:
        return None
    found = contract_of(snapshot_of(replace(cluster, nodes=(node,)), pool), node)
    return pool if found is not None and found.needs_pods else None


def why_of(cluster: Cluster, name: str, *, rows: tuple[Row, ...] = ()) -> Why:
    """Return all that is known of the node. Raises EndError where nothing is."""
    node = cluster.node(name) or cluster.stranger
    if node is None:
        unread = next((each for each in cluster.unread if each.startswith(f"node {name}: ")), None)
        said = f'there is no node "{name}" in this cluster: list the nodes with kubectl get nodes'
        raise EndError(said if unread is None else f"the API server has a node that cannot be read: {unread}")
    place = place_of(cluster, node)
    return Why(
        node=node,
        place=place,
        cluster=cluster,
        judged=None if place.pool is None else judged(cluster, place.pool, rows=rows),
        rows=rows,
    )


def as_content(why: Why) -> Mapping[str, Any]:
    """Return all about the node, for programs."""
    judged, due = why.judged, why.due
    overview = judged.overview if judged is not None else None
    return {
        "node": why.node.name,
        "pool": judged.pool.name if judged is not None else None,
        **({} if judged is not None else {"noPool": why.place.reason}),
        **({"refusal": judged.refusal} if judged is not None and judged.refusal else {}),
        "kernelVersion": why.node.versions.kernel,
        "target": overview.target if overview is not None else "",
        "upgradeState": why.node.labels.get(UPGRADE_STATE_LABEL),
        "problems": [each.content for each in problems_of(why)],
        "standing": why.standing.value,
        "blocked": why.standing.exit is not Exit.YES,
        "due": list(map(gates.due_content, due.due)) if due is not None else [],
        "stops": [{**asdict(stop), "of": of} for of, stops, _ in levels(why) for stop in stops],
        "gates": [{**gates.gate_content(gate), "of": of} for of, _, found in levels(why) for gate in found],
        **({"rollout": progress_content(progress)} if (progress := why.progress) is not None else {}),
        **({"blockers": [blocker_content(each) for each in why.foreseen]} if why.foreseen else {}),
        **({"unknown": list(why.cluster.evidence.problems)} if why.cluster.evidence.problems else {}),
        **({"changesAt": written_moment(at)} if (at := changes_at(why)) is not None else {}),
        "next": list(next_of(why)),
        "toDo": list(to_do(why)),
        **({"operatorProblem": why.cluster.leader_problem} if why.cluster.leader_problem else {}),
        **({"podsProblem": why.cluster.pods_problem} if why.cluster.pods_problem else {}),
    }
