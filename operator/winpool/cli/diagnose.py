"""Says why Windows nodes do not work, as far as a client of the API sees it: ``kubectl winpool diagnose``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import grouped
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import counted, listed
from winpool.cli.memory import choice
from winpool.cli.parsing import Exit, RefusedError, UsageError, add_output
from winpool.features.diagnose.evidence import OF_KUBELET, Source
from winpool.features.diagnose.rules import RULES, SEVERITIES, Severity, judge

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.cli.diagnose_reader import Seen
    from winpool.features.diagnose.rules import Diagnosis, Finding, Unexplained

DESCRIPTION: Final = """\
Find why Windows nodes are not Ready, or do not start pods, and what to do.

It reads nodes, pods, warnings (events), DaemonSets and the ConfigMap of
flannel by kubectl, with your rights. Of a node that you name it also reads the
configuration and the logs of the kubelet, if you may get nodes/proxy. That is
a right to run commands on the node: do not grant it for this. It reads no
Secrets and changes nothing.

What you may not read is unknown, and the last lines say which right is
missing. If you may not list the pods of all namespaces, it reads those of one:
of -n, otherwise of the context. Without a name and -A it reads that alone.

All causes that it knows: "Why Windows nodes do not work" in the docs."""

EXITS: Final = {
    Exit.YES: "no Error was found, and all pods are started",
    Exit.UNKNOWN: "a cause is not known, a right is missing, or there is no such node or pool",
    Exit.NO: "an Error was found: a node does not work, or does not start pods",
}

EXAMPLES: Final = (
    ("kubectl winpool diagnose node/akswin000003", "one node"),
    ("kubectl winpool diagnose wnp/win-2022", "the nodes of a pool"),
    ("kubectl winpool diagnose -A", "all Windows nodes"),
    ("kubectl winpool diagnose -n shop", "the pods of a namespace, with a viewer's rights"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "name",
        type=choice,
        nargs="?",
        metavar="NODE|POOL",
        help="Diagnose this node, or the nodes of this pool: NAME, node/NAME or wnp/NAME.",
    )
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="Diagnose all Windows nodes, with all their pods."
    )
    add_output(parser)


def run(given: argparse.Namespace) -> int:
    """Diagnose the nodes; return the exit code."""
    if given.name is not None and given.all_namespaces:
        raise UsageError("a NODE or POOL is diagnosed with the pods of all namespaces: leave -A out")
    # Imported here: what asks a server takes half a second to load, and for --help it is not needed.
    from winpool.cli.diagnose_reader import read_seen

    seen = read_seen(given.flags, given.name, is_everywhere=given.all_namespaces)
    if seen.nodes == 0:
        what = "the cluster has no" if given.name is None else f"the pool {given.name.name} selects no"
        raise RefusedError(f"{what} Windows node")
    report = report_of(seen)
    write(given.output, lambda: content_of(report), lambda look: text_of(report, look))
    return report.code


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. Each group of findings has one cause, and each of what is unexplained one reason."""

    seen: Seen
    groups: Sequence[Sequence[Finding]]
    unexplained: Sequence[Sequence[Unexplained]]
    not_judged: Sequence[str]

    @property
    def code(self) -> Exit:
        """The exit code: no, could not tell, or yes."""
        if any(group[0].severity is Severity.ERROR for group in self.groups):
            return Exit.NO
        missing = {Source(each) for found in self.seen.problems.values() for each in found}
        return Exit.UNKNOWN if self.unexplained or missing - set(OF_KUBELET) else Exit.YES


def report_of(seen: Seen) -> Report:
    """Judge all nodes, and put together what has the same cause: Errors first, then by the table."""
    found = [judge(each) for each in seen.evidence]
    by_cause = grouped(
        ((each.severity, each.rule.code, each.says, each.fix), each) for one in found for each in one.findings
    )
    groups = sorted(by_cause.values(), key=lambda group: SEVERITIES.index(group[0].severity))
    unexplained = grouped(
        ((bool(each.pod), each.work, each.reason), each) for one in found for each in one.unexplained
    )
    parts = [unexplained[key] for key in sorted(unexplained, key=lambda key: key[0])]
    return Report(seen, groups, parts, tuple(_not_judged(seen, found, has_logs=bool(parts))))


def _not_judged(seen: Seen, found: Sequence[Diagnosis], *, has_logs: bool) -> Iterator[str]:
    """Yield what is not known, why, and which rules need it."""
    unknown = {rule.code: sources for one in found for rule, sources in one.unknown}
    if not found:
        unknown = {rule.code: rule.needs for rule in RULES}
    missing: Mapping[Source, str] = seen.unknown
    for why, sources in grouped((why, source) for source, why in missing.items()).items():
        codes = [each.code for each in RULES if set(unknown.get(each.code, ())) & set(sources)]
        names = [each for each in sources if each is not Source.LOGS or has_logs]
        if names and (codes or set(names) != {Source.CONFIGZ}):
            of_rules = f" ({', '.join(codes)})" if codes else ""
            yield f"{', '.join(names)}{of_rules}: {why}"


def text_of(report: Report, look: Look) -> str:
    """Return the report as lines: the worst first, each cause once, then what is not known."""
    paper = Paper(look)
    for group in report.groups:
        _write_finding(paper, group)
    for part in report.unexplained:
        _write_unexplained(paper, part)
    paper.wrapped(_summary(report), first="")
    for each in report.not_judged:
        paper.wrapped(each, first="Not judged: ", rest="  ")
    return paper.text


def _write_finding(paper: Paper, group: Sequence[Finding]) -> None:
    finding = group[0]
    ink = Ink.BAD if finding.severity is Severity.ERROR else Ink.BUSY
    paper.marked(f"{finding.rule.code} {finding.severity}: {finding.says}", ink=ink)
    quote = f': "{finding.found.quote}"' if finding.found.quote else ""
    _write_titled(
        paper,
        Nodes=_names([each.node for each in group if each.node]),
        Pods=_names(_pods_of(group)),
        Seen=f"{finding.found.by}{quote}",
        Means=finding.rule.means,
        Fix=finding.fix,
    )
    for each in finding.rule.sources:
        paper.wrapped(each, first="    ")
    paper.line()


def _write_unexplained(paper: Paper, part: Sequence[Unexplained]) -> None:
    first, count = part[0], len(part)
    what = f"{counted(count, 'pod')} not started" if first.pod else f"{counted(count, 'node')} not Ready"
    why = f", and {first.work}" if first.work else ", and no rule knows why"
    paper.marked(f"{what}{why}: {first.reason}", ink=Ink.BUSY)
    nodes = list(dict.fromkeys(each.node for each in part if each.node))
    log = [f"{counted(lines, 'line')}: {cause}" for cause, lines in first.log.items()]
    _write_titled(
        paper,
        Nodes=_names(nodes),
        Pods=_names([each.pod for each in part if each.pod]),
        Seen=f'"{first.quote}"' if first.quote else "",
        Logs="; ".join(log),
        See=f"kubectl winpool why {nodes[0] if len(nodes) == 1 else 'NODE'}" if first.work else "",
    )
    paper.line()


def _write_titled(paper: Paper, **texts: str) -> None:
    for title, text in texts.items():
        if text:
            paper.wrapped(text, first=f"    {title + ':':<8}")


def _pods_of(group: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(pod for each in group for pod in each.found.pods))


def _names(names: Sequence[str]) -> str:
    return f"{len(names)}: {listed(names)}" if len(names) > 1 else "".join(names)


def _summary(report: Report) -> str:
    seen = report.seen
    pods = f"the pods of the namespace {seen.scope}"
    what = pods if seen.nodes is None else counted(seen.nodes, "Windows node")
    if seen.nodes is not None and seen.scope:
        what += f", with {pods} alone"
    said = counted(len(report.groups), "finding") if report.groups else "no finding"
    return f"Diagnosed {what}: {said}."


def content_of(report: Report) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "nodes": report.seen.nodes,
        "namespace": report.seen.scope,
        "findings": [
            {
                "code": group[0].rule.code,
                "severity": str(group[0].severity),
                "nodes": [each.node for each in group],
                "pods": _pods_of(group),
                "evidence": {"by": group[0].found.by, "quote": group[0].found.quote},
                "message": group[0].says,
                "meaning": group[0].rule.means,
                "fix": group[0].fix,
                "sources": list(group[0].rule.sources),
            }
            for group in report.groups
        ],
        "unexplained": [
            {**each._asdict(), "log": dict(each.log)} for part in report.unexplained for each in part
        ],
        "notJudged": list(report.not_judged),
    }
