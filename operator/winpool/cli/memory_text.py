"""Writes the operator's memory report as text for a terminal.

The report may come from any server that a person names, so every text and number of it may be anything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from winpool.api.text import grouped, printable
from winpool.cli.console import Ink, Look, Paper
from winpool.cli.counts import NONE, amount, listed, percent, rate, seconds
from winpool.model.memory_report import PROBLEM_CHARACTERS, MemoryReport, NodeReport, PhysicalReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


PROBLEMS_SHOWN: Final = 5
"""Different problems: each is a cause, and a fleet has few at once."""

_TEXT_SHOWN: Final = 253
"""Characters of a name: the API server permits no longer one."""

_DROPPED: Final = ("SOURCE", "TREND", "POOL", "AXIS", "AGE", "LEFT")
"""Columns that go where the terminal is too narrow, in this order."""

_TITLE_WIDTH: Final = 11
"""Of the column that begins the lines about a node: after the longest, ``Eviction:`` with its mark."""

_WORST_FIRST: Final = ("Hard", "Soft", "ProxyOnly", "Warning", "Unknown", "Normal")
_BAD: Final = frozenset({"Hard", "Soft"})
_FINE: Final = frozenset({"Normal"})

_HOLDS: Final[Mapping[str, str]] = {
    "Unknown": "nothing is evicted: there is no fresh sample",
    "Estimate": "nothing is evicted: the RAM is only estimated",
    "Settling": "waiting: an eviction is under way, or its memory is not free yet",
    "Unattributed": "nothing is evicted: the memory is not that of pods",
    "Grace": "waiting: the pressure has not lasted long enough, or is no longer over the line",
    "Steady": "nothing is evicted: it is neither below hardHeadroom nor exhausted soon",
    "Age": "waiting: an eviction needs two fresh samples",
    "Recovering": "waiting: it improves by itself",
}
_GUARDS: Final[Mapping[str, str]] = {
    "OutsideShare": "too much is committed outside pods: drain the node, and reboot or replace it",
    "OutsideGrowth": "most of the growth is outside pods: drain the node, and reboot or replace it",
    "Ineffective": "an eviction freed less than half of what the pod used: drain the node, and reboot or "
    "replace it",
    "Blind": "an eviction has not ended the pressure, and it is not known what it freed: drain the node, and "
    "reboot or replace it",
}


def counted(report: MemoryReport) -> str:
    """Return how many nodes have which level, the worst first: a terminal may not show the lines of all."""
    levels = Counter(each.level or "Unknown" for each in report.nodes)
    found = ", ".join(f"{levels[each]} {each}" for each in _WORST_FIRST if levels[each])
    return f"{len(report.nodes)} nodes: {found}"


def render_nodes(report: MemoryReport, *, look: Look) -> str:
    """Return one line for each node, and why nodes give no samples; nothing for a report without nodes."""
    paper = Paper(look)
    if report.nodes:
        rows = [{**_row(each), **(_more(each) if look.wide else {})} for each in report.nodes]
        paper.table(rows, dropped=_DROPPED, indent="")
    if report.left_out > 0:
        paper.line(f"{report.left_out} more nodes, which are better, are not in the operator's answer")
    _problems(paper, report.nodes)
    return paper.text


def render_node(node: NodeReport, report: MemoryReport, *, look: Look) -> str:
    """Return all about one node of ``report``."""
    paper = Paper(look, title_width=_TITLE_WIDTH)
    paper.titled("Node", f"{_name(node.node)}, pool {_name(node.pool)}")
    since = None if node.since is None else (report.at - node.since).total_seconds()
    lasting = f" for {seconds(since)}" if since is not None else ""
    paper.titled("Level", f"{node.level or 'unknown'}{_on(node)}{lasting}", ink=_ink(node))
    _commit(paper, node)
    _physical(paper, node.physical)
    if node.paging is not None:
        reads, writes = node.paging.reads_per_second, node.paging.writes_per_second
        said = [
            f"{value:.6g} {what} a second"
            for value, what in ((reads, "page reads"), (writes, "pages written"))
            if value is not None
        ]
        paper.titled("Paging", ", ".join(said) or NONE)
    if node.outside_pods is not None:
        paper.titled("Outside", f"{amount(node.outside_pods)} committed outside pods")
    if node.guard is not None:
        paper.titled("Guard", _GUARDS.get(node.guard, _name(node.guard)))
    _eviction(paper, node)
    sampled = f"{seconds(node.age_seconds)} old, from {_name(node.source) or NONE}"
    paper.titled("Sample", "none yet" if node.age_seconds is None else sampled)
    if node.problem:
        paper.titled("Problem", _problem(node))
    return paper.text


def _commit(paper: Paper, node: NodeReport) -> None:
    commit = node.commit
    if commit is None:
        paper.titled("Commit", "unknown")
        return
    grows = commit.trend_bytes_per_second
    trend = ""
    if grows is not None:
        trend = f", growing by {rate(grows)}" if grows > 0 else ", not growing"
    left = "" if commit.seconds_left is None else f", exhausted in {seconds(commit.seconds_left)}"
    used = f"{amount(commit.used)} of {amount(commit.ceiling)} ({percent(commit.used_percent)})"
    paper.titled("Commit", f"{used}{trend}{left}")


def _eviction(paper: Paper, node: NodeReport) -> None:
    if node.level is None or node.level in _FINE or node.hold == "NoPressure":
        return
    hold = node.hold
    paper.titled(
        "Eviction", "of use now, if the pool evicts" if hold is None else _HOLDS.get(hold, _name(hold))
    )


def _physical(paper: Paper, found: PhysicalReport | None) -> None:
    if found is None:
        paper.titled("RAM", "unknown")
        return
    estimate = ", by an estimate from the kubelet's numbers" if found.is_estimate else ""
    share = f"({percent(found.available_percent)})"
    paper.titled("RAM", f"{amount(found.available)} of {amount(found.total)} available {share}{estimate}")


def _row(node: NodeReport) -> Mapping[str, str]:
    commit = node.commit
    return {
        "NODE": _name(node.node),
        "POOL": _name(node.pool),
        "LEVEL": node.level or "Unknown",
        "AXIS": node.axis or NONE,
        "COMMIT": NONE if commit is None else percent(commit.used_percent),
        "RAM": _used_ram(node.physical),
        "TREND": NONE if commit is None else rate(commit.trend_bytes_per_second),
        "LEFT": NONE if commit is None else seconds(commit.seconds_left),
        "SOURCE": _name(node.source) or NONE,
        "AGE": seconds(node.age_seconds),
    }


def _more(node: NodeReport) -> Mapping[str, str]:
    """Return what ``-o wide`` adds: what no pod has committed, and why an eviction does not help or waits."""
    return {
        "OUTSIDE-PODS": NONE if node.outside_pods is None else amount(node.outside_pods),
        "GUARD": _name(node.guard or NONE),
        "HOLD": _name(node.hold or NONE),
    }


def _used_ram(found: PhysicalReport | None) -> str:
    """Return what is used, as of commit. A tilde marks an estimate."""
    if found is None or found.available_percent is None:
        return NONE
    return f"{'~' if found.is_estimate else ''}{percent(100 - found.available_percent)}"


def _problems(paper: Paper, nodes: Sequence[NodeReport]) -> None:
    found = grouped((_problem(each), _name(each.node)) for each in nodes if each.problem)
    if not found:
        return
    paper.line()
    paper.line("Problems:", ink=Ink.HEAD)
    by_nodes = sorted(found.items(), key=lambda item: -len(item[1]))
    for problem, names in by_nodes[:PROBLEMS_SHOWN]:
        paper.marked(f"{listed(names)}: {problem}", ink=Ink.BUSY)
    if len(found) > PROBLEMS_SHOWN:
        paper.line(f"  and {len(found) - PROBLEMS_SHOWN} more")


def _on(node: NodeReport) -> str:
    return "" if node.axis is None or node.level in _FINE else f" on {node.axis}"


def _ink(node: NodeReport) -> Ink:
    return Ink.BAD if node.level in _BAD else Ink.GOOD if node.level in _FINE else Ink.BUSY


def _problem(node: NodeReport) -> str:
    """Return why there are no samples, no longer than an operator says it."""
    return node.problem[:PROBLEM_CHARACTERS]


def _name(text: str) -> str:
    return printable(text[:_TEXT_SHOWN])
