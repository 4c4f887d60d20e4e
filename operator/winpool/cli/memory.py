"""Shows how much memory is left on nodes, and until when: ``kubectl winpool memory``.

The report may come from any server that a person names, so every text and number of it may be anything.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from winpool.api.keys import ADDRESS_ANNOTATION, SHORT_NAME
from winpool.api.text import grouped, printable
from winpool.cli import parsing
from winpool.cli.console import Ink, Look, Paper, Screen, dated, is_text, write
from winpool.cli.counts import NONE, amount, listed, percent, rate, seconds
from winpool.cli.kubectl import polled
from winpool.cli.memory_pods import WITH_URL, SeenPods, read_pods, render_pods
from winpool.cli.memory_report import MemoryReader, is_this_host
from winpool.cli.parsing import Exit, RefusedError, UsageError
from winpool.model.memory_report import PROBLEM_CHARACTERS, MemoryReport, NodeReport, PhysicalReport

REFRESH_SECONDS: Final = 5.0
"""From one reading to the next. A node under pressure has a new sample every ten seconds."""

DESCRIPTION: Final = """\
Show commit and RAM of nodes whose memory the operator watches, the worst first.

The operator watches nodes of pools with spec.memoryPressure. COMMIT and RAM
are what is used of all there is, with ~ for an estimate. TREND is the growth
of commit, and LEFT the time until it is exhausted at that rate. SOURCE and AGE
are of the sample.

Of a single node it shows its pods too, what they use, and whether they may be
evicted. It reads them by kubectl with your rights: get nodes/proxy, list pods,
poddisruptionbudgets and windowsnodepools. It takes 12 seconds for the growth.

The plugin runs kubectl port-forward to the Pod of the operator that leads, or
asks at --url. The Role winpool-memory-user in winpool-system has the rights
that you need. If the operator requires a token, the plugin gets one for the
ServiceAccount winpool-memory-reader; it never sends your own credentials to
the operator."""

EXITS: Final = {
    Exit.YES: "the memory is shown, however little is left",
    Exit.UNKNOWN: "the operator watches no node of that name, and of no such pool, or cannot be asked",
    Exit.USAGE: "the command line is wrong, or a file of --ca-file or --token-file cannot be used",
}

EXAMPLES: Final = (
    ("kubectl winpool memory", "all nodes that are watched, one line each"),
    ("kubectl winpool memory wnp/win-2022 -w", "the nodes of a pool, again and again until Ctrl-C"),
    ("kubectl winpool memory node/akswin000003", "all about one node"),
    ("kubectl winpool memory -o wide", "all columns, also why nothing is evicted"),
    ("kubectl winpool memory --url https://winpool.example --token-file t", "without kubectl port-forward"),
)

NO_NODES: Final = (
    "the operator watches the memory of no node: add spec.memoryPressure to a pool whose nodes it is to watch"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "name",
        type=choice,
        nargs="?",
        metavar="POOL|NODE",
        help="Show the nodes of this pool, or this node: NAME, wnp/NAME or node/NAME.",
    )
    parsing.add_watch(parser, help_text="Read again every 5 seconds, until Ctrl-C.")
    parsing.add_output(parser, parsing.TABLE)
    parser.add_argument(
        "--url",
        type=server_url,
        metavar="URL",
        help="Ask the operator at this address. Default: that on this machine in the annotation "
        f"{ADDRESS_ANNOTATION} of the Lease, otherwise kubectl port-forward to the Pod that leads.",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help="Verify the operator's certificate by this CA (PEM). Default: the system's for --url, and none "
        "for kubectl port-forward.",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="Send the bearer token in this file. Default: none for --url, otherwise see above.",
    )


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    with MemoryReader(
        given.flags, url=given.url, ca_file=given.ca_file, token_file=given.token_file
    ) as reader:
        if given.watch:
            drawing = _Drawing(given)
            for report, trouble in polled(reader.read, seconds=REFRESH_SECONDS):
                drawing.draw(report, trouble)
        return _show(reader.read(), given, reader)


def _show(report: MemoryReport, given: argparse.Namespace, reader: MemoryReader) -> int:
    found = chosen(report, given.name)
    has_pods = _is_one_node(found, given.name) and given.output not in ("name", "wide")
    if is_text(given.output) and not found.nodes:
        parsing.note(NO_NODES)
    elif is_text(given.output) or not has_pods:
        write(
            given.output,
            lambda: msgspec.to_builtins(found),
            lambda look: _text(found, given.name, look=look),
            lambda: names_of(found),
        )
    if has_pods:
        sys.stdout.flush()  # the pods take a while, and a kubelet may not answer
        seen = SeenPods(pods_problem=WITH_URL)
        if given.url is None:
            seen = read_pods(reader.kubectl, found.nodes[0], protected=found.protected_namespaces)
        write(
            given.output,
            lambda: {**msgspec.to_builtins(found), **msgspec.to_builtins(seen)},
            lambda look: render_pods(seen, look=look),
        )
    return Exit.YES


def _is_one_node(found: MemoryReport, wanted: Choice | None) -> bool:
    """Whether a node was named, and is the one that was found."""
    return wanted is not None and [each.node for each in found.nodes] == [wanted.name]


def names_of(report: MemoryReport) -> Iterator[str]:
    """Name the nodes as kubectl does."""
    return (f"node/{each.node}" for each in report.nodes)


def _text(report: MemoryReport, wanted: Choice | None, *, look: Look) -> str:
    if _is_one_node(report, wanted) and not look.wide:
        return render_node(report.nodes[0], report, look=look)
    return render_nodes(report, look=look)


class _Drawing:
    """Shows what is seen of the nodes that were named."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._screen = Screen(given.output)
        self._trouble = ""

    def draw(self, report: MemoryReport, trouble: str = "") -> None:
        """Show ``report``. Where nobody sees ages go on, only new ones, and once the ``trouble`` with it."""
        if not trouble or self._screen.is_live:
            found = self._chosen(report)
            self._screen.show(
                lambda: msgspec.to_builtins(found),
                lambda look: self._picture(found, trouble, look),
                lambda: names_of(found),
            )
        elif trouble != self._trouble:
            parsing.note(f"out of date: {trouble}")
        self._trouble = trouble

    def _chosen(self, report: MemoryReport) -> MemoryReport:
        """Return the nodes to show: at first there must be some, later they may be gone."""
        try:
            return chosen(report, self._given.name)
        except NothingChosenError:
            if not self._screen.has_shown:
                raise
            return msgspec.structs.replace(report, nodes=())

    def _picture(self, found: MemoryReport, trouble: str, look: Look) -> str:
        paper = dated(look, "read every few seconds", at=found.at, trouble=trouble)
        if not found.nodes:
            paper.line(NO_NODES if self._given.name is None else "the operator no longer watches such a node")
            return paper.text
        if len(found.nodes) > 1:
            paper.line(levels_of(found))
            paper.line()
        return paper.text + _text(found, self._given.name, look=look)


@dataclass(frozen=True, slots=True)
class Choice:
    """A name, and of what it is; ``kind`` is empty where the person has not said."""

    name: str
    kind: Literal["pool", "node", ""] = ""


class NothingChosenError(RefusedError):
    """The report has no node of that name and of no pool of that name; the text says so."""


def choice(text: str) -> Choice:
    """Read NAME, wnp/NAME or node/NAME, as an argument of the command line."""
    if text and "/" not in text:
        return Choice(text)
    with suppress(argparse.ArgumentTypeError):
        return Choice(parsing.node_name(text), "node")
    with suppress(argparse.ArgumentTypeError):
        return Choice(parsing.pool_name(text), "pool")
    raise argparse.ArgumentTypeError(
        f"{text!r} is not the name of a pool or a node: write NAME, {SHORT_NAME}/NAME or node/NAME"
    )


def chosen(report: MemoryReport, wanted: Choice | None) -> MemoryReport:
    """Return ``report`` with the nodes that were named only, all where none was.

    Raises NothingChosenError and UsageError.
    """
    if wanted is None:
        return report
    of_pool = () if wanted.kind == "node" else tuple(n for n in report.nodes if n.pool == wanted.name)
    named = () if wanted.kind == "pool" else tuple(n for n in report.nodes if n.node == wanted.name)
    if of_pool and named:
        raise UsageError(
            f'"{wanted.name}" is the name of a pool and of a node: write {SHORT_NAME}/{wanted.name} or '
            f"node/{wanted.name}"
        )
    if not of_pool and not named:
        what = {"pool": "watched pool", "node": "watched node", "": "watched node or pool"}[wanted.kind]
        said = f'no {what} is named "{wanted.name}": list them with kubectl winpool memory'
        raise NothingChosenError(said if report.nodes else NO_NODES)
    return msgspec.structs.replace(report, nodes=of_pool or named, left_out=0 if named else report.left_out)


def server_url(text: str) -> str:
    """Return the address without ``/memory`` and without a slash at its end, as an argument.

    It is HTTPS, since a token may go there, but for this host itself.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL") from None
    if "@" in url.netloc:
        raise argparse.ArgumentTypeError("the URL has a user or a password: give a token with --token-file")
    if not host or url.scheme not in ("http", "https") or url.query or url.fragment or port == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of an operator, as https://HOST:PORT is"
        )
    if url.scheme == "http" and not is_this_host(host):
        raise argparse.ArgumentTypeError(f"{text!r} has to begin with https://: a token may be sent there")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/').removesuffix('/memory').rstrip('/')}"


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


def levels_of(report: MemoryReport) -> str:
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
    said = "of use now, if the pool evicts" if node.hold is None else _HOLDS.get(node.hold, _name(node.hold))
    paper.titled("Eviction", said)


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
