"""The text of ``kubectl winpool why``: a function of what was read and of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.cli.console import Ink, Paper
from winpool.cli.gate_text import clipped, notes, write_closed, write_open
from winpool.cli.node_why import Standing
from winpool.cli.why_advice import next_of, to_do
from winpool.cli.workload_text import written_workload
from winpool.model.node import hold_end, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.cli.console import Look
    from winpool.cli.node_why import Why

_STATES: Final = {
    Standing.NO_POOL: (Ink.GOOD, "No pool has the node, so nothing is due."),
    Standing.NOTHING_DUE: (Ink.GOOD, "Nothing is due."),
    Standing.NOT_GATED: (Ink.BUSY, "An upgrade is due. No gate is judged: the pool has no spec.upgrade."),
    Standing.OPEN: (Ink.GOOD, "An upgrade is due, and all gates are open: the node may be upgraded now."),
    Standing.IN_WORK: (Ink.BUSY, "The upgrade has begun, and the node keeps its permission."),
    Standing.BLOCKED: (Ink.BAD, "An upgrade is due, and the node must not be upgraded now."),
    Standing.UNKNOWN: (Ink.BAD, "It is not known whether an upgrade is due: do not upgrade the node now."),
}


def as_text(why: Why, *, look: Look) -> str:
    """Return all about the node for a terminal of that look."""
    paper = Paper(look)
    _write_head(paper, why)
    if why.due is not None:
        paper.heading("Due:")
        for reason in why.due.due:
            paper.marked(f"{reason.trigger}: {clipped(reason.said)}", ink=Ink.BUSY)
    _write_gates(paper, why)
    _write_node(paper, why)
    for title, lines in (("Next:", next_of(why)), ("What you can do:", to_do(why))):
        paper.heading(title)
        for line in lines:
            paper.wrapped(line, first="  - ")
    return paper.text


def _write_head(paper: Paper, why: Why) -> None:
    node, judged = why.node, why.judged
    paper.titled("Node", node.name)
    if judged is None:
        paper.titled("Pool", f"none. {why.place.reason}")
    else:
        paper.titled("Pool", judged.pool.name + (", which is being deleted" if judged.pool.deleting else ""))
        target = f"; the pool asks for {judged.overview.target}" if judged.overview is not None else ""
        paper.titled("Runs", f"Windows {node.versions.kernel or 'unknown'}{target}")
    ink, said = _STATES[why.standing]
    paper.titled("State", said, ink=ink)
    if label := node.labels.get(UPGRADE_STATE_LABEL):
        paper.titled("Label", f"{UPGRADE_STATE_LABEL}={clipped(label, 63)}")
    if judged is not None and judged.refusal:
        paper.wrapped(
            f"The operator does not act on the spec of the pool: {clipped(judged.refusal)}",
            first=" " * paper.title_width,
        )


def _write_gates(paper: Paper, why: Why) -> None:
    judged, due = why.judged, why.due
    if judged is None or judged.overview is None or not judged.is_gated or due is None:
        return
    overview = judged.overview
    closed, stops = (*overview.closed, *due.closed), (*overview.stops, *due.stops)
    paper.heading(f"Closed: {len(closed) + len(stops)}" if closed or stops else "Closed gates: none")
    write_closed(paper, overview.closed, overview.stops, of="the pool")
    write_closed(paper, due.closed, due.stops, of="this node")
    paper.heading("Open:")
    write_open(paper, [each for each in overview.gates if each.permits], of="the pool")
    write_open(paper, [each for each in due.gates if each.permits], of="this node")
    for note in notes(pods_problem=why.pods_problem, is_assumed=judged.assumes_control_plane):
        paper.wrapped(note, first="  - ")


def _write_node(paper: Paper, why: Why) -> None:
    """Write what is special about the node: its pods, a hold, a cordon, issues that name it."""
    lines = list(_about_node(why))
    if not lines:
        return
    paper.heading("About the node:")
    for line in lines:
        paper.wrapped(line, first="  - ")


def _about_node(why: Why) -> Iterator[str]:
    node, due = why.node, why.due
    if due is not None and due.workload is not None:
        yield f"Pods: {written_workload(due.workload, due.fit)}."
    if is_held(node, now=why.now) and (due is None or not due.stops):
        end = hold_end(node)
        yield f"Someone holds it ({HOLD_ANNOTATION})" + (f" until {written_moment(end)}." if end else ".")
    if node.deleting:
        yield "It is being deleted."
    if node.ready != "True":
        yield f"It is not Ready: its condition Ready is {clipped(node.ready, 16)}."
    if node.unschedulable:
        yield "It is cordoned."
    if why.judged is not None:
        for issue in why.judged.pool.status.issues:
            if node.name in issue.nodes:
                yield f"Issue {issue.reason}: {issue.message} {issue.fix}"
