"""The text of ``kubectl winpool status``: a function of what was read, the time, and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType, Reason, referred_by
from winpool.api.keys import HOLD_ANNOTATION
from winpool.cli.ages import age
from winpool.cli.console import Ink, Paper
from winpool.cli.counts import counted, listed
from winpool.cli.node_states import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from winpool.cli.console import Look
    from winpool.cli.node_states import NodeGroup
    from winpool.cli.pool_view import ConditionView, IssueView, PoolView, StepView

_DROPPED: Final = ("MODE", "OS", "READY", "AGE")
_DROPPED_OF_BUILDS: Final = ("REVISIONS", "OS")
"""Columns that go where the terminal is too narrow, in this order."""

_SAID: Final[Mapping[NodeState, str]] = {
    NodeState.UP_TO_DATE: "up to date",
    NodeState.TO_BE_RELEASED: "to be released",
    NodeState.NOT_READY: "not Ready",
    NodeState.CORDONED: "cordoned",
    NodeState.MEMORY_PRESSURE: "tainted because of memory pressure",
    NodeState.HELD: f"held, by the annotation {HOLD_ANNOTATION}",
    NodeState.KEYS_MISSING: "labels or taints missing",
    NodeState.VALIDATING: "with startup taints until they pass validation",
    NodeState.UPGRADE_DUE: "upgrade due",
    NodeState.BUILD_UNKNOWN: "with an unknown Windows build",
    NodeState.MEMORY_MISMATCH: "tainted because of reserved memory",
    NodeState.NOT_WRITTEN: "not written to yet",
    NodeState.NOT_AS_ASKED: "not as the spec asks, see issues",
}


def render_pools(pools: Iterable[PoolView], *, now: datetime, look: Look) -> str:
    """Return one line for each pool, with fewer columns where they do not fit."""
    rows = [
        {
            "NAME": pool.name,
            "OS": pool.os_version,
            "MODE": pool.mode,
            "NODES": str(pool.nodes),
            "READY": str(pool.ready_nodes),
            "UP-TO-DATE": str(pool.up_to_date_nodes),
            "ISSUES": str(pool.issue_count),
            "STATE": pool.state or "-",
            "AGE": age(pool.created, now=now),
        }
        for pool in pools
    ]
    paper = Paper(look)
    paper.table(rows, dropped=_DROPPED, indent="")
    return paper.text


def render_pool(
    pool: PoolView, groups: Sequence[NodeGroup], *, nodes_problem: str = "", now: datetime, look: Look
) -> str:
    """Return all about one pool; ``nodes_problem`` is why its nodes could not be listed."""
    paper = Paper(look)
    _header(paper, pool, now=now)
    _conditions(paper, pool, now=now)
    _issues(paper, pool, now=now)
    _plan(paper, pool)
    _builds(paper, pool)
    _nodes(paper, groups, problem=nodes_problem)
    return paper.text


def _header(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    target = f", revision {pool.target_revision} or later" if pool.target_revision is not None else ""
    paper.titled("Pool", f"{pool.name}, {age(pool.created, now=now)} old")
    paper.titled("OS", f"Windows Server {pool.os_version}{target}")
    paper.titled("Mode", pool.mode)
    counts = (
        f"{pool.ready_nodes} Ready",
        f"{pool.available_nodes} available",
        f"{pool.up_to_date_nodes} up to date",
        *((f"{pool.pressured_nodes} under memory pressure",) if pool.pressured_nodes else ()),
        *((f"{pool.held_nodes} held",) if pool.held_nodes else ()),
    )
    misplaced = f"; {pool.misplaced_pods} pods that cannot run there" if pool.misplaced_pods else ""
    paper.titled("Nodes", f"{pool.nodes}: {', '.join(counts)}{misplaced}")
    _state(paper, pool, now=now)


def _state(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    ready = pool.ready
    if ready is None or not pool.is_observed:
        said = (
            "unknown: the operator has not processed this pool yet. Check that it runs: kubectl -n "
            "winpool-system get pods"
        )
        paper.titled("State", said, ink=Ink.BUSY)
        return
    ink = Ink.BAD if ready.status != "True" else Ink.GOOD if ready.reason in _FINE else Ink.BUSY
    since = f"(Ready={ready.status} for {age(ready.since, now=now)})"
    paper.titled("State", f"{pool.state} {since}", ink=ink)
    if ready.message and ready.reason != Reason.UP_TO_DATE and not _is_issue(pool, ready.reason):
        paper.wrapped(ready.message, first=" " * paper.title_width)
    if pool.observed_generation < pool.generation:
        said = "The operator has not processed the newest spec yet. The following is about an earlier spec."
        paper.wrapped(said, first=" " * paper.title_width)


_FINE: Final = (Reason.UP_TO_DATE, Reason.NO_NODES_SELECTED)


def _conditions(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    if not pool.notable:
        return
    paper.heading("Conditions:")
    told = {pool.ready.message} if pool.ready is not None else set()
    for each in pool.notable:
        paper.marked(_told(each, now=now), ink=Ink.BAD if each.is_trouble else Ink.BUSY)
        is_said = each.message in told or referred_by(each.message) is ConditionType.READY
        if each.message and not is_said and not _is_issue(pool, each.reason):
            paper.wrapped(each.message, first="    ")
        told.add(each.message)


def _is_issue(pool: PoolView, reason: str) -> bool:
    """Whether the issues, which follow, say why: the condition would say it in other words."""
    return any(each.reason == reason for each in pool.issues)


def _told(condition: ConditionView, *, now: datetime) -> str:
    since = f"for {age(condition.since, now=now)}"
    return f"{condition.type}={condition.status}, {condition.reason}, {since}"


def _issues(paper: Paper, pool: PoolView, *, now: datetime) -> None:
    if not pool.issues:
        if pool.is_observed:
            paper.heading("Issues: none")
        return
    shown, count = len(pool.issues), pool.issue_count
    paper.heading(f"Issues: {count}" + (f", the worst {shown}:" if count > shown else ""))
    for each in pool.issues:
        paper.marked(f"{each.reason}, {_about(each)}, for {age(each.since, now=now)}", ink=Ink.BAD)
        if each.message:
            paper.wrapped(each.message, first="    ")
        if each.fix:
            paper.wrapped(each.fix, first="    Fix: ")


def _about(issue: IssueView) -> str:
    if not issue.node_count:
        return "the pool as a whole"
    return f"{counted(issue.node_count, 'node')} ({listed(issue.nodes, count=issue.node_count)})"


def _plan(paper: Paper, pool: PoolView) -> None:
    if pool.planned_nodes is None:
        return
    planned = counted(pool.planned_nodes, "node")
    if pool.plans_upgrades:
        paper.heading(f"Plan: for {planned}, what the operator would write, and which upgrades are due")
    else:
        paper.heading(f"Plan: with mode Active the operator would write to {planned}")
    for (changes, more), names in _folded(pool.plan).items():
        cut = f" and {more} more" if more else ""
        said = f"{', '.join(changes)}{cut} on {counted(len(names), 'node')} ({listed(names)})"
        paper.wrapped(said, first="  ", rest="    ")
    if len(pool.plan) < pool.planned_nodes:
        paper.line(f"  and {counted(pool.planned_nodes - len(pool.plan), 'node')} more")
    for each in pool.preflight:
        pods = f"{counted(each.intolerant_pods, 'pod')} ({listed(each.pods, count=each.intolerant_pods)})"
        said = f"{each.taint}: not tolerated by {pods} on {counted(each.nodes, 'node')}"
        agents = (
            f", including pods of the DaemonSets {', '.join(each.daemon_sets)}" if each.daemon_sets else ""
        )
        paper.marked(f"{said}{agents}", ink=Ink.BUSY)


def _folded(steps: Iterable[StepView]) -> Mapping[tuple[tuple[str, ...], int], list[str]]:
    """Return the nodes by what would be changed on them."""
    found: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for step in steps:
        found.setdefault((step.changes, step.more), []).append(step.node)
    return found


def _builds(paper: Paper, pool: PoolView) -> None:
    if not pool.builds:
        return
    paper.heading("Builds:")
    rows = [
        {
            "BUILD": each.build,
            "OS": each.os_version or "-",
            "REVISIONS": each.revisions or "-",
            "NODES": str(each.nodes),
            "VERDICT": each.verdict,
            "END-OF-SUPPORT": each.end_of_support or "-",
        }
        for each in pool.builds
    ]
    paper.table(rows, dropped=_DROPPED_OF_BUILDS, indent="  ")


def _nodes(paper: Paper, groups: Sequence[NodeGroup], *, problem: str) -> None:
    if problem:
        paper.heading("Nodes by state: the nodes cannot be listed")
        paper.wrapped(problem, first="    ")
        return
    if not groups:
        return
    paper.heading("Nodes by state:")
    width = max(len(str(group.count)) for group in groups)
    for group in groups:
        # Which nodes are as they should be, nobody asks.
        shown = group.names if group.state is not NodeState.UP_TO_DATE else ()
        names = f": {listed(shown, count=group.count)}" if shown else ""
        paper.wrapped(f"{_SAID[group.state]}{names}", first=f"  {str(group.count).rjust(width)} ")
