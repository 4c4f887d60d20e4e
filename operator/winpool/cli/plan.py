"""``kubectl winpool plan``: in which order the nodes of a pool would be upgraded, and what keeps them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.keys import KIND
from winpool.cli import gates
from winpool.cli.console import Ink, Paper, look_of
from winpool.cli.counts import counted, listed, span
from winpool.cli.kubectl import Kubectl, NoSuchPoolError
from winpool.cli.manifests import named_twice, pools_in
from winpool.cli.parsing import (
    EndError,
    Exit,
    RefusedError,
    add_filename,
    add_output,
    add_settings,
    add_verb,
    note,
    pool_name,
)
from winpool.cli.upgrades import judged, planned_pool, read_cluster, rows_of_settings
from winpool.features.upgrade.plan import PlannedAction
from winpool.features.upgrade.records import Stand

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.cli.console import Look
    from winpool.cli.parsing import Subparsers
    from winpool.cli.upgrades import Cluster, Judged
    from winpool.features.upgrade.plan import Batch, PlannedGate, PlannedNode, UpgradePlan
    from winpool.features.upgrade.records import UpgradeOverview
    from winpool.model.pool import Pool
    from winpool.support.rows import Row

NODES_SHOWN: Final = 20
"""Nodes of a plan that are shown without ``--all``: as many as fit a terminal."""

_DESCRIPTION: Final = f"""\
Show in which order the due nodes of a pool would be upgraded, in batches, and
why in that order: which gates are closed and what opens each, which pods would
not fit on other nodes, which pods would be lost, and how long it would take.

With -f it plans manifests that are not applied, on the nodes of the cluster:
a pool of the same name is replaced in that picture. It writes nothing.

It judges the gates itself, from what the API server has now, by the rules of
the operator. It needs the rights to list windowsnodepools, nodes, pods and
poddisruptionbudgets. The first {NODES_SHOWN} nodes are shown; --all shows all."""

_EXITS: Final = {
    Exit.DONE: "the plan is shown, whatever gates are closed",
    Exit.REFUSED: "there is no such pool, or a manifest is not valid or has no pool",
    Exit.USAGE: "the command line is wrong, or a file or the API server cannot be read",
}

_EXAMPLES: Final = (
    ("kubectl winpool plan win-2022", "what would happen, and what keeps it"),
    ("kubectl winpool plan -f pool.yaml --all", "before you apply a manifest; all nodes"),
    ("kubectl winpool plan wnp/win-2022 -o json", "for programs; always all nodes"),
    ("kubectl winpool plan -f - --support-matrix-file rows.yaml", "with rows of the operator's settings"),
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "plan",
        summary="Show how the nodes of a pool would be upgraded, and what keeps them.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "pool", type=pool_name, nargs="?", metavar="POOL", help="Plan this pool: NAME or wnp/NAME."
    )
    add_filename(parser, required=False)
    add_output(parser)
    parser.add_argument("--all", action="store_true", help="Show all nodes of the plan.")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    if (given.pool is None) is (given.filename is None):
        raise EndError("name one POOL, or manifests with -f, and not both")
    if given.recursive and given.filename is None:
        raise EndError("-R needs -f")
    rows = rows_of_settings(given)
    manifests = _manifests(given)
    with Kubectl(given.flags) as kubectl:
        cluster = read_cluster(kubectl, lambda seen: _planned(seen, given.pool, manifests)[1])
    sys.stdout.write(shown(cluster, given, manifests=manifests, rows=rows))
    return Exit.DONE


def shown(
    cluster: Cluster,
    given: argparse.Namespace,
    *,
    manifests: Sequence[Mapping[str, Any]] = (),
    rows: tuple[Row, ...] = (),
) -> str:
    """Return the plan of the pool, or of each of ``manifests``, as it was asked for."""
    picture, pools = _planned(cluster, given.pool, manifests)
    found: list[Judged] = [judged(picture, pool, rows=rows) for pool in pools]
    if given.output == "json":
        return as_json(found, picture)
    most = None if given.all else NODES_SHOWN
    look = look_of(sys.stdout)
    return "\n".join(as_text(each, picture, most=most, look=look) for each in found)


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
    """Return the pools of ``-f``, none without it. Raises EndError where there is no valid one."""
    if given.filename is None:
        return ()
    found = pools_in(given.filename, recursive=given.recursive)
    found.faults += named_twice(found.pools)
    for line in (*found.skipped, *found.faults):
        note(line)
    if found.faults:
        raise RefusedError("no plan for a manifest that is not valid: see kubectl winpool validate --help")
    if not found.pools:
        raise RefusedError(f"no {KIND} found")
    return [each.content for each in found.pools]


def as_json(found: Iterable[Judged], cluster: Cluster) -> str:
    """Return the plans of pools, each with all of its nodes."""
    content = {
        "pools": [_pool_content(each) for each in found],
        **({"podsProblem": cluster.pods_problem} if cluster.pods_problem else {}),
        **({"unreadNodes": list(cluster.unread)} if cluster.unread else {}),
    }
    return json.dumps(content, indent=2) + "\n"


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


_BATCH: Final = {
    **{name: name for name in ("number", "zone", "nodes")},
    "canary": "is_canary",
    "likelySeconds": "likely_seconds",
    "worstCaseSeconds": "worst_case_seconds",
}
_PLAN: Final = {
    "target": "target",
    "upToDateNodes": "up_to_date",
    "unknownNodes": "unknown",
    "maxUnavailable": "max_unavailable",
    "unavailableNodes": "unavailable",
    "batchSize": "batch_size",
    "likelySeconds": "likely_seconds",
    "worstCaseSeconds": "worst_case_seconds",
}
_NODE: Final = {name: name for name in ("node", "place", "batch", "zone", "action", "why")}
_PODS: Final = {
    "moving": "moving_pods",
    "unfit": "unfit_pods",
    "unfitExamples": "unfit_examples",
    "unclear": "unclear_pods",
    "fitUnknown": "is_fit_unknown",
    "unmanaged": "unmanaged_pods",
    "emptyDir": "local_pods",
    "blocked": "blocked_pods",
}
"""Fields of the JSON, and of the records that they are from."""


def _plan_content(plan: UpgradePlan, overview: UpgradeOverview) -> Mapping[str, Any]:
    return {
        **_content(plan, _PLAN),
        "permittedNodes": len(overview.permitted),
        "stops": list(map(gates.stop_content, plan.stops)),
        "gates": list(map(gates.gate_content, plan.gates)),
        "batches": [_content(each, _BATCH) for each in plan.batches],
        "steps": list(map(_node_content, plan.nodes)),
    }


def _content(record: object, fields: Mapping[str, str]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(record, field)) for name, field in fields.items()}


def _node_content(node: PlannedNode) -> Mapping[str, Any]:
    blockers = [
        {"pod": each.pod, "reason": str(each.why), "budgets": list(each.budgets)} for each in node.blockers
    ]
    return {
        **_content(node, _NODE),
        "due": list(map(gates.due_content, node.due)),
        "stops": list(map(gates.stop_content, node.stops)),
        "closedGates": list(map(gates.gate_content, node.closed)),
        "pods": {**_content(node, _PODS), "blockers": blockers} if node.pods_known else None,
    }


def as_text(judged: Judged, cluster: Cluster, *, most: int | None, look: Look) -> str:
    """Return the plan of one pool for a terminal of that look; of its nodes the first ``most``, or all."""
    paper = Paper(look)
    plan, overview = judged.plan, judged.overview
    paper.titled("Pool", f"{judged.pool.name}, {counted(len(judged.nodes), 'node')}")
    if judged.refusal:
        paper.titled("Spec", f"The operator does not act on it: {gates.clipped(judged.refusal)}", ink=Ink.BAD)
    if plan is None or overview is None:
        paper.titled("State", _why_no_plan(judged), ink=Ink.BUSY)
        return paper.text
    _write_head(paper, plan, overview)
    paper.heading("Gates and stops of the pool:")
    gates.write_closed(paper, overview.closed, overview.stops)
    gates.write_open(paper, [each for each in overview.gates if each.permits])
    for each in gates.notes(pods_problem=cluster.pods_problem, is_assumed=judged.assumes_control_plane):
        paper.wrapped(each, first="  - ")
    for line in cluster.unread:
        paper.wrapped(f"Not read: {gates.clipped(line)}", first="  - ")
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


def _write_head(paper: Paper, plan: UpgradePlan, overview: UpgradeOverview) -> None:
    unknown = f", {len(plan.unknown)} unknown ({listed(plan.unknown)})" if plan.unknown else ""
    paper.titled("Target", plan.target)
    paper.titled("Nodes", f"{len(plan.nodes)} due, {plan.up_to_date} up to date{unknown}")
    allowed = "unknown" if plan.max_unavailable is None else str(plan.max_unavailable)
    paper.titled("Budget", f"{plan.unavailable} nodes are unavailable, {allowed} may be (maxUnavailable)")
    if plan.likely_seconds is not None and plan.worst_case_seconds is not None:
        likely, worst = span(plan.likely_seconds), span(plan.worst_case_seconds)
        paper.titled(
            "Time", f"likely {likely}, at worst {worst}, without the time for which gates are closed"
        )
    open_nodes = len(overview.permitted)
    if not plan.nodes:
        paper.titled("State", "Nothing is due.", ink=Ink.GOOD)
    elif open_nodes:
        paper.titled("State", f"{open_nodes} of {len(plan.nodes)} may be upgraded now.", ink=Ink.GOOD)
    else:
        of_pool = len(overview.closed) + len(overview.stops)
        why = f"closed for the pool: {of_pool}" if of_pool else "every due node has a closed gate of its own"
        paper.titled("State", f"No node may be upgraded now; {why}.", ink=Ink.BAD)


def _write_order(paper: Paper, plan: UpgradePlan, *, most: int | None) -> None:
    if not plan.nodes:
        return
    batches = "in no batch"
    if plan.batches:
        word = "batch" if len(plan.batches) == 1 else "batches"
        batches = f"in {len(plan.batches)} {word} of at most {plan.batch_size}"
    paper.heading(f"Order: {counted(len(plan.nodes), 'node')} {batches}")
    by_number = {each.number: each for each in plan.batches}
    shown = plan.nodes if most is None else plan.nodes[:most]
    before: int | None = 0
    for node in shown:
        if node.batch != before:
            before = node.batch
            batch = by_number.get(node.batch) if node.batch is not None else None
            paper.wrapped(_batch(batch) if batch is not None else _NO_BATCH, first="  ", rest="    ")
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
    due = ", ".join(each.trigger for each in node.due)
    ink = Ink.GOOD if node.action is PlannedAction.UPGRADE else Ink.BAD
    first = f"  {paper.look.mark(ink)} {node.place}. "
    paper.wrapped(f"{node.node}: {due}. {gates.clipped(node.why)}", first=first, rest="      ", ink=ink)
    closed = (*(each.name for each in node.stops), *(_named(each) for each in node.closed))
    if closed:
        paper.wrapped(f"Closed: {', '.join(closed)}", first="      ", rest="        ")
    for line in _pods(node):
        paper.wrapped(line, first="      ", rest="        ")


def _named(gate: PlannedGate) -> str:
    return f"{gate.gate} (unknown)" if gate.stand == Stand.UNKNOWN.value else str(gate.gate)


def _pods(node: PlannedNode) -> Iterator[str]:
    """Yield what is known of the pods of a node, a line for each kind of trouble."""
    if not node.pods_known:
        yield "Pods: not known"
        return
    yield f"Pods: {node.moving_pods} to move"
    if node.unfit_pods:
        said = "; ".join(gates.clipped(each) for each in node.unfit_examples)
        yield f"{node.unfit_pods} or more fit on no other node: {said}"
    if node.unclear_pods:
        yield f"{node.unclear_pods} of which it cannot be known which nodes take them"
    if node.is_fit_unknown:
        yield "Whether the others fit on other nodes is not known"
    if node.unmanaged_pods:
        yield f"{node.unmanaged_pods} without a controller: a drain deletes them for good"
    if node.local_pods:
        yield f"{node.local_pods} with an emptyDir: a drain deletes its content"
    if node.blocked_pods:
        named = gates.blocked(node.blockers, node.blocked_pods)
        yield f"{node.blocked_pods} that cannot be evicted now: {named}"


def _write_closed_for_nodes(paper: Paper, plan: UpgradePlan) -> None:
    """Write each cause that keeps nodes of their own, once, with what opens it and the first of the nodes."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in plan.nodes:
        for stop in node.stops:
            found.setdefault((stop.name, stop.message, stop.opens), []).append(node.node)
        for gate in node.closed:
            found.setdefault((_named(gate), gate.message, gate.opens), []).append(node.node)
    if not found:
        return
    paper.heading("Closed for single nodes:")
    for (name, message, opens), nodes in found.items():
        paper.marked(f"{name}, {counted(len(nodes), 'node')} ({listed(nodes)})", ink=Ink.BAD)
        paper.wrapped(gates.clipped(message), first="    ")
        if opens:
            paper.wrapped(gates.clipped(opens), first="    To open: ")
