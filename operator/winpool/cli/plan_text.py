"""The text of ``kubectl winpool plan``: a function of what was read and of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cli.ages import span
from winpool.cli.console import Ink, Paper
from winpool.cli.counts import counted, listed
from winpool.cli.gate_text import clipped, notes, write_closed, write_open
from winpool.cli.workload_text import blocked
from winpool.features.upgrade.plan import PlannedAction
from winpool.features.upgrade.records import Stand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.cli.console import Look
    from winpool.cli.upgrade_judge import Judged
    from winpool.cli.upgrade_world import Cluster
    from winpool.features.upgrade.plan import Batch, PlannedGate, PlannedNode, UpgradePlan
    from winpool.features.upgrade.records import UpgradeOverview


def as_text(judged: Judged, cluster: Cluster, *, most: int | None, look: Look) -> str:
    """Return the plan of one pool for a terminal of that look; of its nodes the first ``most``, or all."""
    paper = Paper(look)
    plan, overview = judged.plan, judged.overview
    paper.titled("Pool", f"{judged.pool.name}, {counted(len(judged.nodes), 'node')}")
    if judged.refusal:
        paper.titled("Spec", f"The operator does not act on it: {clipped(judged.refusal)}", ink=Ink.BAD)
    if plan is None or overview is None:
        paper.titled("State", _why_no_plan(judged), ink=Ink.BUSY)
        return paper.text
    _write_head(paper, plan, overview)
    paper.heading("Gates and stops of the pool:")
    write_closed(paper, overview.closed, overview.stops)
    write_open(paper, [each for each in overview.gates if each.permits])
    for note in notes(pods_problem=cluster.pods_problem, is_assumed=judged.assumes_control_plane):
        paper.wrapped(note, first="  - ")
    for line in cluster.unread:
        paper.wrapped(f"Not read: {clipped(line)}", first="  - ")
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
        parts.append(f"zone {clipped(batch.zone, 63)}")
    parts.append(f"likely {span(batch.likely_seconds)}, at worst {span(batch.worst_case_seconds)}")
    return f"{', '.join(parts)}:"


def _write_node(paper: Paper, node: PlannedNode) -> None:
    due = ", ".join(each.trigger for each in node.due)
    ink = Ink.GOOD if node.action is PlannedAction.UPGRADE else Ink.BAD
    first = f"  {paper.look.mark(ink)} {node.place}. "
    paper.wrapped(f"{node.node}: {due}. {clipped(node.why)}", first=first, rest="      ", ink=ink)
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
        said = "; ".join(clipped(each) for each in node.unfit_examples)
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
        yield f"{node.blocked_pods} that cannot be evicted now: {blocked(node.blockers, node.blocked_pods)}"


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
        paper.wrapped(clipped(message), first="    ")
        if opens:
            paper.wrapped(clipped(opens), first="    To open: ")
