"""Shows in which order nodes would be upgraded, and what keeps them: ``kubectl winpool plan``."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from winpool.api.keys import KIND
from winpool.api.text import grouped
from winpool.cli import gates, parsing
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import counted, listed, span
from winpool.cli.kubectl import Kubectl, NoSuchPoolError
from winpool.cli.manifests import named_twice, pools_in
from winpool.cli.parsing import Exit, RefusedError, UsageError
from winpool.cli.rollouts import claimed_nodes
from winpool.cli.upgrades import Cluster, Judged, judged, planned_pool, read_cluster, rows_of_settings
from winpool.features.upgrade.capacity import NOT_KNOWN, Fit
from winpool.features.upgrade.plan import Batch, PlannedAction, PlannedNode, UpgradePlan
from winpool.features.upgrade.records import GateFinding, Stand, UpgradeOverview

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.model.pods import Workload
    from winpool.model.pool import Pool

NODES_SHOWN: Final = 20
"""Nodes of a plan that are shown without ``--all``: as many as fit a terminal."""

DESCRIPTION: Final = f"""\
Show in which order the due nodes of a pool would be upgraded, in batches, and
why in that order: which gates are closed and what opens each, which pods would
not fit on other nodes, which pods would be lost, and how long it would take.

With -f it plans manifests that are not applied, on the nodes of the cluster:
a pool of the same name is replaced in that picture. It writes nothing.

It judges the gates itself, from what the API server has now, by the rules of
the operator. It needs the rights to list windowsnodepools, nodes, pods and
poddisruptionbudgets, and to get the Lease winpool-system/winpool. The first
{NODES_SHOWN} nodes are shown; --all shows all."""

EXITS: Final = {
    Exit.YES: "the plan is shown, whatever gates are closed",
    Exit.UNKNOWN: "there is no such pool, or its spec cannot be read; a manifest is not valid or has no "
    "pool; or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
}

EXAMPLES: Final = (
    ("kubectl winpool plan win-2022", "what would happen, and what keeps it"),
    ("kubectl winpool plan -f pool.yaml --all", "before you apply a manifest; all nodes"),
    ("kubectl winpool plan wnp/win-2022 -o json", "for programs; always all nodes"),
    ("kubectl winpool plan -f - --support-matrix-file rows.yaml", "with rows of the operator's settings"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "pool", type=parsing.pool_name, nargs="?", metavar="POOL", help="Plan this pool: NAME or wnp/NAME."
    )
    parsing.add_filename(parser, required=False)
    parsing.add_output(parser)
    parser.add_argument("--all", action="store_true", help="Show all nodes of the plan.")
    parsing.add_settings(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    if (given.pool is None) is (given.filename is None):
        raise UsageError("name one POOL, or manifests with -f, and not both")
    if given.recursive and given.filename is None:
        raise UsageError("-R needs -f")
    rows = rows_of_settings(given)
    manifests = _manifests(given)
    with Kubectl(given.flags) as kubectl:
        cluster = read_cluster(kubectl, lambda seen: _planned(seen, given.pool, manifests)[1])
    picture, pools = _planned(cluster, given.pool, manifests)
    found = [judged(picture, pool, rows=rows) for pool in pools]
    most = None if given.all else NODES_SHOWN
    write(
        given.output,
        lambda: as_content(found, picture),
        lambda look: "\n".join(as_text(each, picture, most=most, look=look) for each in found),
    )
    return Exit.UNKNOWN if any(each.spec is None for each in pools) else Exit.YES


def _planned(
    cluster: Cluster, name: str | None, manifests: Sequence[Mapping[str, Any]]
) -> tuple[Cluster, tuple[Pool, ...]]:
    """Return the cluster as it is planned, and the pools that are.

    Raises NoSuchPoolError where the cluster does not have the pool of that name.
    """
    if name is not None:
        pool = cluster.pool(name)
        if pool is None:
            raise NoSuchPoolError(name)
        return cluster, (pool,)
    pools = tuple(planned_pool(each, cluster.pools) for each in manifests)
    for each in pools:
        cluster = cluster.planned(each)
    return cluster, pools


def _manifests(given: argparse.Namespace) -> Sequence[Mapping[str, Any]]:
    """Return the pools of ``-f``, none without it. Raises UsageError and RefusedError."""
    if given.filename is None:
        return ()
    found = pools_in(given.filename, recursive=given.recursive)
    found.faults += named_twice(found.pools)
    for line in (*found.skipped, *found.faults):
        parsing.note(line)
    if found.faults:
        raise RefusedError("no plan for a manifest that is not valid: see kubectl winpool validate --help")
    if not found.pools:
        raise RefusedError(f"no {KIND} found")
    return [each.content for each in found.pools]


def as_content(found: Iterable[Judged], cluster: Cluster) -> Mapping[str, Any]:
    """Return the plans of pools for programs, each with all of its nodes."""
    return {
        "pools": [_pool_content(each) for each in found],
        **({"operatorProblem": cluster.leader_problem} if cluster.leader_problem else {}),
        **({"podsProblem": cluster.pods_problem} if cluster.pods_problem else {}),
        **({"unreadNodes": list(cluster.unread)} if cluster.unread else {}),
    }


def _pool_content(judged: Judged) -> Mapping[str, Any]:
    overview, plan = judged.overview, judged.plan
    return {
        "name": judged.pool.name,
        "generation": judged.pool.generation,
        "nodes": len(judged.nodes),
        **({"refusal": judged.refusal} if judged.refusal else {}),
        "dueNodes": len(overview.due) if overview is not None else 0,
        **({} if plan is None or overview is None else _plan_content(plan, overview)),
    }


def _plan_content(plan: UpgradePlan, overview: UpgradeOverview) -> Mapping[str, Any]:
    claimed = overview.rollout.steps if overview.rollout is not None else ()
    return {
        "target": overview.target,
        "upToDateNodes": overview.up_to_date,
        "unknownNodes": sorted(overview.unknown),
        "maxUnavailable": plan.max_unavailable,
        "unavailableNodes": plan.unavailable,
        "batchSize": plan.batch_size,
        "likelySeconds": plan.likely_seconds,
        "worstCaseSeconds": plan.worst_case_seconds,
        "permittedNodes": len(overview.permitted),
        "nodesInWork": [
            each.node for each in overview.slots if each in overview.in_work or each.node in claimed
        ],
        "stops": list(map(asdict, overview.stops)),
        "gates": list(map(gates.gate_content, overview.gates)),
        "batches": list(map(_batch_content, plan.batches)),
        "steps": list(map(_node_content, plan.nodes)),
    }


def _batch_content(batch: Batch) -> Mapping[str, Any]:
    return {
        "number": batch.number,
        "zone": batch.zone,
        "nodes": list(batch.nodes),
        "canary": batch.is_canary,
        "likelySeconds": batch.likely_seconds,
        "worstCaseSeconds": batch.worst_case_seconds,
    }


def _node_content(node: PlannedNode) -> Mapping[str, Any]:
    upgrade = node.upgrade
    return {
        "node": node.node,
        "place": node.place,
        "batch": node.batch,
        "zone": node.zone,
        "action": str(node.action),
        "why": node.why,
        "due": list(map(gates.due_content, upgrade.due)),
        "stops": list(map(asdict, upgrade.stops)),
        "closedGates": list(map(gates.gate_content, upgrade.closed)),
        "pods": _pods_content(upgrade.workload, upgrade.fit or NOT_KNOWN),
    }


def _pods_content(workload: Workload | None, fit: Fit) -> Mapping[str, Any] | None:
    if workload is None:
        return None
    return {
        "moving": workload.moving_pods,
        "unfit": fit.unfit,
        "unfitExamples": list(fit.examples),
        "unclear": fit.unclear,
        "fitUnknown": fit.unknown,
        "unmanaged": workload.unmanaged,
        "emptyDir": workload.local,
        "blocked": workload.blocked,
        "blockers": [
            {"pod": each.pod, "reason": str(each.why), "budgets": list(each.budgets)}
            for each in workload.blocks
        ],
    }


def as_text(judged: Judged, cluster: Cluster, *, most: int | None, look: Look) -> str:
    """Return the plan of one pool for a terminal of that look; of its nodes the first ``most``, or all."""
    paper = Paper(look)
    plan, overview = judged.plan, judged.overview
    paper.titled("Pool", f"{judged.pool.name}, {counted(len(judged.nodes), 'node')}")
    if cluster.leader_problem:
        paper.titled("Leader", cluster.leader_problem, ink=Ink.BAD)
    if judged.refusal:
        paper.titled("Spec", f"The operator does not act on it: {gates.clipped(judged.refusal)}", ink=Ink.BAD)
    if plan is None or overview is None:
        paper.titled("State", _why_no_plan(judged), ink=Ink.BUSY)
        return paper.text
    _write_head(paper, judged, plan, overview)
    paper.heading("Gates and stops of the pool:")
    gates.write_closed(paper, overview.closed, overview.stops)
    gates.write_open(paper, [each for each in overview.gates if each.permits])
    paper.bullets(gates.notes(cluster, judged))
    paper.bullets(f"Not read: {gates.clipped(line)}" for line in cluster.unread)
    _write_order(paper, plan, most=most)
    _write_closed_for_nodes(paper, plan)
    return paper.text


def _why_no_plan(judged: Judged) -> str:
    if judged.pool.deleting:
        return "The pool is being deleted. There is nothing to plan."
    if judged.pool.spec is None:
        return "The spec cannot be read. There is nothing to plan."
    due = len(judged.overview.due) if judged.overview is not None else 0
    return (
        f"{counted(due, 'node')} due for an upgrade. There is no plan: the pool has no spec.upgrade, so no "
        "gate is judged. Add it to the pool, or to a manifest for -f."
    )


def _write_head(paper: Paper, judged: Judged, plan: UpgradePlan, overview: UpgradeOverview) -> None:
    names = sorted(overview.unknown)
    unknown = f", {len(names)} unknown ({listed(names)})" if names else ""
    paper.titled("Target", overview.target)
    paper.titled("Nodes", f"{len(plan.nodes)} due, {overview.up_to_date} up to date{unknown}")
    if begun := in_work(overview, judged):
        paper.titled("In work", f"{counted(len(begun), 'node')}: {listed(begun)}")
    allowed = "unknown" if plan.max_unavailable is None else str(plan.max_unavailable)
    paper.titled("Budget", f"{plan.unavailable} nodes are unavailable, {allowed} may be (maxUnavailable)")
    if plan.likely_seconds is not None and plan.worst_case_seconds is not None:
        likely, worst = span(plan.likely_seconds), span(plan.worst_case_seconds)
        paper.titled(
            "Time", f"likely {likely}, at worst {worst}, without the time for which gates are closed"
        )
    permitted, open_nodes = overview.permitted, overview.open_nodes
    if not plan.nodes:
        paper.titled("State", "Nothing is due.", ink=Ink.GOOD)
    elif judged.is_ours and open_nodes:
        first = f"next: {listed(permitted)}" if permitted else "others have their turn first"
        said = f"The operator upgrades the nodes; {first}."
        paper.titled("State", said, ink=Ink.GOOD if permitted else Ink.BUSY)
    elif permitted:
        said = f"{len(permitted)} of {len(plan.nodes)} may be upgraded now: {listed(permitted)}."
        paper.titled("State", said, ink=Ink.GOOD)
    elif open_nodes:
        said = f"No node may be upgraded now; {counted(len(open_nodes), 'node')} wait for their turn."
        paper.titled("State", said, ink=Ink.BUSY)
    else:
        of_pool = len(overview.closed) + len(overview.stops)
        why = f"closed for the pool: {of_pool}" if of_pool else "every due node has a closed gate of its own"
        begins = "The operator begins with no node now" if judged.is_ours else "No node may be upgraded now"
        paper.titled("State", f"{begins}; {why}.", ink=Ink.BAD)


def in_work(overview: UpgradeOverview, judged: Judged) -> Sequence[str]:
    """Name the nodes whose upgrade has begun; where the operator upgrades them, each with its state."""
    return claimed_nodes(overview.slots) if judged.is_ours else [each.node for each in overview.in_work]


def _write_order(paper: Paper, plan: UpgradePlan, *, most: int | None) -> None:
    if not plan.nodes:
        return
    batches = "in no batch"
    if plan.batches:
        word = "batch" if len(plan.batches) == 1 else "batches"
        batches = f"in {len(plan.batches)} {word} of at most {plan.batch_size}"
    paper.heading(f"Order: {counted(len(plan.nodes), 'node')} {batches}")
    titles: dict[int | None, str] = {each.number: _batch(each) for each in plan.batches}
    shown = plan.nodes[:most]
    for number, nodes in groupby(shown, key=lambda each: each.batch):
        paper.wrapped(titles.get(number, _NO_BATCH), first="  ", rest="    ")
        for node in nodes:
            _write_node(paper, node)
    if rest := len(plan.nodes) - len(shown):
        paper.line(f"  and {counted(rest, 'node')} more: --all shows them")


_NO_BATCH: Final = "In no batch, since the budget permits none:"


def _batch(batch: Batch) -> str:
    parts = [f"Batch {batch.number}"]
    if batch.is_canary:
        parts.append("canary")
    if batch.zone:
        parts.append(f"zone {gates.clipped(batch.zone, 63)}")
    parts.append(f"likely {span(batch.likely_seconds)}, at worst {span(batch.worst_case_seconds)}")
    return f"{', '.join(parts)}:"


def _write_node(paper: Paper, node: PlannedNode) -> None:
    due = ", ".join(each.trigger for each in node.upgrade.due)
    ink = Ink.GOOD if node.action is PlannedAction.UPGRADE else Ink.BAD
    first = f"  {paper.look.mark(ink)} {node.place}. "
    paper.wrapped(f"{node.node}: {due}. {gates.clipped(node.why)}", first=first, rest="      ", ink=ink)
    closed = [name for name, _, _ in _causes(node)]
    if closed:
        paper.wrapped(f"Closed: {', '.join(closed)}", first="      ", rest="        ")
    for line in _pods(node.upgrade.workload, node.upgrade.fit or NOT_KNOWN):
        paper.wrapped(line, first="      ", rest="        ")


def _named(gate: GateFinding) -> str:
    return f"{gate.gate} (unknown)" if gate.stand is Stand.UNKNOWN else str(gate.gate)


def _pods(workload: Workload | None, fit: Fit) -> Iterator[str]:
    """Yield what is known of the pods of a node, a line for each kind of trouble."""
    if workload is None:
        yield "Pods: not known"
        return
    yield f"Pods: {workload.moving_pods} to move"
    yield from gates.misfits(fit)
    if fit.unknown:
        yield "Whether the others fit on other nodes is not known"
    yield from gates.lost(workload)
    if workload.blocked:
        yield f"{workload.blocked} that cannot be evicted now: {gates.blocked(workload)}"


def _write_closed_for_nodes(paper: Paper, plan: UpgradePlan) -> None:
    """Write each cause that keeps nodes of their own, once, with what opens it and the first of the nodes."""
    found = grouped((cause, node.node) for node in plan.nodes for cause in _causes(node))
    if found:
        paper.heading("Closed for single nodes:")
    for (name, message, opens), nodes in found.items():
        named = f"{name}, {counted(len(nodes), 'node')} ({listed(nodes)})"
        gates.write_cause(paper, named, message=message, opens=opens)


def _causes(node: PlannedNode) -> Iterator[tuple[str, str, str]]:
    """Yield what keeps the node itself: its name, why, and what opens it."""
    yield from ((each.name, each.message, each.opens) for each in node.upgrade.stops)
    yield from ((_named(each), each.message, each.opens) for each in node.upgrade.closed)
