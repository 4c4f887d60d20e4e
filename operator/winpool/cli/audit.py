"""Finds what of workloads does not run on Windows as it is written: ``kubectl winpool audit``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import printable
from winpool.cli.counts import counted, listed
from winpool.cli.lenient import Fields
from winpool.cli.manifests import Manifest, read
from winpool.cli.parsing import Exit, UsageError, add_filename, add_output, note, note_offline
from winpool.cli.workloads import node_selectors
from winpool.features.audit.audit import IGNORE_ANNOTATION, codes_in, findings, ignored, server, severities
from winpool.features.audit.rules import (
    NEWEST,
    OLDEST,
    RULES,
    SEVERITIES,
    Needs,
    Rule,
    Severity,
)
from winpool.features.audit.workloads import PodOS, Workload, workload_of
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.features.audit.audit import Finding

SUMMARY: Final = "Find what of workloads does not run on Windows as written."

DESCRIPTION: Final = f"""\
Find fields of workloads that the API server refuses in pods for Windows, that
Windows ignores, or that mean something else there than on Linux.

It reads Pods and all kinds with a pod template, also those that Kubernetes
does not know. A workload is for Windows by spec.os.name, its node selection,
its RuntimeClass, windowsOptions, or else by the tags of its images. Each
finding is one line: place, object, rule, severity, field, what happens, and
what to do. At the end it says what it could not judge without a cluster.

The annotation {IGNORE_ANNOTATION} of an object or of its pods names
rules that are not reported, with the reason: "W13: only a cache". So does a
comment of that name in a file, for the field in its line or after it. All
rules: docs/reference/workload-rules.md. It contacts no cluster."""

EXITS: Final = {
    Exit.YES: "no Error was found, or --explain printed a rule",
    Exit.UNKNOWN: "a document cannot be read, or no workload says its OS",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
    Exit.NO: "an Error was found: a pod cannot be created or start on Windows",
}

EXAMPLES: Final = (
    ("kubectl winpool audit -f deployment.yaml", "audit one file"),
    ("kubectl winpool audit -R -f manifests/ --min-severity Error", "only what does not run"),
    ("kubectl winpool audit -f app.yaml --min-severity Info", "also what works and is different"),
    ("helm template chart/ | kubectl winpool audit -f -", "audit the output of another program"),
    ("kubectl winpool audit -f app.yaml --kubernetes 1.32", "for an older API server"),
    ("kubectl winpool audit -f app.yaml --ignore W34,R18 -o json", "without two rules, for programs"),
    ("kubectl winpool audit -R -f manifests/ -o sarif", "for a code scanner"),
    ("kubectl winpool audit --explain W13", "what a rule is about, and where it is from"),
)

_BY_CODE: Final = {rule.code: rule for rule in RULES}

_NEEDS_CLUSTER: Final = (
    "taints of nodes, builds of hosts, LimitRanges, Pod Security of namespaces, drivers of PersistentVolumes"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    add_filename(parser, required=False)
    parser.add_argument(
        "--explain",
        type=_rule,
        metavar="CODE",
        help="Print what is known of this rule, such as W13, and exit.",
    )
    parser.add_argument(
        "--kubernetes",
        type=_minor,
        default=NEWEST,
        metavar="MINOR",
        help=f"Judge for the API server of this minor version. Default: {NEWEST}.",
    )
    parser.add_argument(
        "--min-severity",
        type=Severity,
        choices=SEVERITIES,
        default=Severity.WARNING,  # Info is for many containers of every chart; the summary counts it
        metavar="SEVERITY",
        help="Print findings from this severity on: Error, Warning or Info. Default: Warning.",
    )
    parser.add_argument(
        "--ignore",
        type=_rules,
        default=(),
        metavar="CODES",
        help="Do not report these rules, such as W34,R18. They are counted.",
    )
    add_output(parser, ("text", "json", "sarif"))


def run(given: argparse.Namespace) -> int:
    """Audit the files, or explain a rule; return the exit code."""
    note_offline(given, why="no cluster is contacted")
    if given.explain is not None:
        sys.stdout.writelines(f"{line}\n" for line in explained(given.explain))
        return Exit.YES
    if not given.filename:
        raise UsageError("it needs -f FILE or --explain CODE")
    report = audited(read(given.filename, recursive=given.recursive, goes_on=True), given)
    if given.output == "json":
        sys.stdout.write(f"{json.dumps(_content(report), indent=2)}\n")
    elif given.output == "sarif":
        from winpool.cli.sarif import log_of

        sys.stdout.write(f"{json.dumps(log_of(report, not_judged=_not_judged(report)), indent=2)}\n")
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for line in (*report.unread, *_lines(report)))
        for line in (*report.notes, _summary(report), _not_judged(report)):
            note(line)
    return report.code


@dataclass(slots=True)
class Report:
    """What an audit found. ``ignored`` and ``below`` count findings that are not shown, by code.

    ``suppressed`` are those that are ignored, each with the reason, as SARIF has it.
    """

    minor: Minor
    shown: list[tuple[Manifest, Workload, Finding]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    suppressed: list[tuple[Manifest, Workload, Finding, dict[str, str] | None]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    below: Counter[str] = field(default_factory=Counter)
    judged: Counter[PodOS] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    runtime_classes: list[str] = field(default_factory=list)
    without_pods: list[str] = field(default_factory=list)
    errors: int = 0

    @property
    def code(self) -> Exit:
        """The exit code: no, could not tell, or yes."""
        if self.errors:
            return Exit.NO
        is_judged = any(self.judged[each] for each in (PodOS.WINDOWS, PodOS.LINUX))
        return Exit.YES if is_judged and not self.unread else Exit.UNKNOWN


def audited(found: Sequence[Manifest], given: argparse.Namespace) -> Report:
    """Apply the rules to all workloads in files."""
    report = Report(min(given.kubernetes, NEWEST))
    if given.kubernetes > NEWEST:
        report.notes.append(f"Kubernetes {given.kubernetes} is newer than the rules: judged as {NEWEST}")
    selectors = node_selectors(Fields.of(each.content) for each in found if _kind(each) == "RuntimeClass")
    for each in found:
        report.unread += [each.at(line, fault) for line, fault in each.faults]
        if each.content is None:
            continue
        workload = workload_of(each.content, selectors)
        if workload is None:
            if not _kind(each):
                report.notes.append(each.at(each.line, "no object of Kubernetes: kind is not set"))
            elif _kind(each) != "RuntimeClass":
                report.without_pods.append(_kind(each))
            continue
        _audit(report, each, workload, given)
    return report


def _audit(report: Report, manifest: Manifest, workload: Workload, given: argparse.Namespace) -> None:
    where = f"{manifest.file}:{manifest.line}: {workload.title}"
    report.judged[workload.os] += 1
    if workload.os is PodOS.UNKNOWN:
        report.unknown.append(workload.title)
    if workload.runtime_class and workload.os is not PodOS.LINUX:
        report.runtime_classes.append(workload.runtime_class)
    reasons, unread = ignored(workload)
    report.notes += [
        f"{where}: {each!r} in the annotation {IGNORE_ANNOTATION} names no rule: write CODE: REASON"
        for each in unread
    ]
    by_line = _commented(report, manifest)
    for each in findings(workload, report.minor):
        suppression = _suppression(manifest, each, given.ignore, reasons, by_line)
        if suppression:
            report.ignored[each.rule.code] += 1
            report.suppressed.append((manifest, workload, each, suppression))
            continue
        report.errors += each.severity is Severity.ERROR
        if SEVERITIES.index(each.severity) > SEVERITIES.index(given.min_severity):
            report.below[each.rule.code] += 1
        else:
            report.shown.append((manifest, workload, each))


def _suppression(
    manifest: Manifest,
    finding: Finding,
    ignored_codes: Sequence[str],
    reasons: Mapping[str, str],
    by_line: Mapping[str, Mapping[int, str]],
) -> dict[str, str] | None:
    """Return why a finding is not reported, None if it is: a flag, the annotation, or a comment."""
    code = finding.rule.code
    if code in ignored_codes:
        return {"kind": "external", "justification": "--ignore"}
    if code in reasons:
        return {"kind": "inSource", "justification": reasons[code]}
    commented = by_line.get(code, {})
    lines = commented.keys() & manifest.lines_to(finding.field) if commented else ()
    return {"kind": "inSource", "justification": commented[min(lines)]} if lines else None


def _commented(report: Report, manifest: Manifest) -> dict[str, dict[int, str]]:
    """Return by code in which lines comments ignore a rule, and why; note those that name no rule."""
    found: dict[str, dict[int, str]] = {}
    for each in manifest.comments:
        if each.key == IGNORE_ANNOTATION:
            codes, unread = codes_in(each.text)
            for code, reason in codes.items():
                found.setdefault(code, {})[each.about] = reason
            report.notes += [
                f"{manifest.file}:{each.line}: {text!r} in the comment {IGNORE_ANNOTATION} names no rule: "
                "write CODE: REASON"
                for text in (unread if codes or unread else [each.text])
            ]
    return found


def _lines(report: Report) -> Iterator[str]:
    for manifest, workload, each in report.shown:
        place = f"{manifest.file}:{manifest.line_of(each.field)}: {workload.title}"
        yield f"{place}: {each.rule.code} {each.severity} {each.field}: {each.says} {each.fix}"


def _summary(report: Report) -> str:
    by_severity = Counter(each.severity for *_, each in report.shown)
    said = ", ".join(f"{by_severity[each]} {each}" for each in SEVERITIES if by_severity[each])
    windows = counted(report.judged[PodOS.WINDOWS], "workload")
    text = f"{windows} for Windows, Kubernetes {report.minor}: {counted(len(report.shown), 'finding')}"
    text += f" ({said})" if said else ""
    for count, why in ((report.ignored, "ignored"), (report.below, "below --min-severity")):
        if count:
            text += f"; {count.total()} {why} ({_codes(count)})"
    if report.judged[PodOS.LINUX]:
        text += f"; {counted(report.judged[PodOS.LINUX], 'workload')} for Linux skipped"
    if report.unread:
        text += f"; {counted(len(report.unread), 'fault')} in documents"
    return text


def _not_judged(report: Report) -> str:
    """Return the one line that says what is not known without a cluster."""
    said = [] if report.judged else ["no workload was found"]
    if report.judged[PodOS.WINDOWS]:
        said.append(_NEEDS_CLUSTER)
    if report.unknown:
        said.append(
            f"{counted(len(report.unknown), 'workload')} without any OS ({listed(report.unknown)}): whether "
            "they can land on Windows nodes depends on the taints of these, which needs the cluster (P1)"
        )
    if report.runtime_classes:
        named = listed(list(dict.fromkeys(report.runtime_classes)))
        said.append(f"the RuntimeClasses that are not in the files ({named})")
    if report.without_pods:
        kinds = listed(list(dict.fromkeys(report.without_pods)))
        said.append(f"{counted(len(report.without_pods), 'object')} without pods that it can find ({kinds})")
    if report.unread:
        said.append("documents that cannot be read")
    return f"Not judged: {'; '.join(said) or 'nothing, since every workload is for Linux'}."


def _codes(count: Counter[str]) -> str:
    return ", ".join(f"{code}: {count[code]}" for code in _BY_CODE if count[code])


def _content(report: Report) -> dict[str, Any]:
    return {
        "kubernetesVersion": str(report.minor),
        "findings": [
            {
                "file": manifest.file,
                "line": manifest.line_of(each.field),
                "kind": workload.kind,
                "name": workload.name,
                "evidence": workload.evidence,
                "code": each.rule.code,
                "severity": str(each.severity),
                "field": each.field,
                "outcome": str(each.outcome),
                "message": each.says,
                "fix": each.fix,
                "sources": list(each.rule.sources),
            }
            for manifest, workload, each in report.shown
        ],
        "ignored": dict(report.ignored),
        "belowMinSeverity": dict(report.below),
        "workloads": {str(os): report.judged[os] for os in PodOS},
        "unread": report.unread,
        "notes": report.notes,
        "notJudged": _not_judged(report),
    }


def explained(rule: Rule) -> Iterator[str]:
    """Yield what is known of a rule."""
    yield f"{rule.code}: {', '.join(rule.fields)}"
    yield f"On Windows:  {rule.happens}"
    yield f"API server:  {server(rule)}"
    yield f"Severity:    {severities(rule)}"
    yield f"Fix:         {rule.fix}"
    if rule.needs is not Needs.MANIFEST:
        yield f"Needs:       the {rule.needs}; a manifest alone does not show it"
    yield f"Known by:    {', '.join(rule.known)}"
    yield from (f"Source:      {each}" for each in rule.sources)


def _kind(manifest: Manifest) -> str:
    return Fields.of(manifest.content).text("kind")


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    if minor is None or minor < OLDEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a Kubernetes version from {OLDEST} on: write it as 1.35"
        )
    return minor


def _rule(text: str) -> Rule:
    if text.upper() not in _BY_CODE:
        raise argparse.ArgumentTypeError(f"{text!r} is no rule: use one of {', '.join(_BY_CODE)}")
    return _BY_CODE[text.upper()]


def _rules(text: str) -> tuple[str, ...]:
    return tuple(_rule(each.strip()).code for each in text.split(",") if each.strip())
