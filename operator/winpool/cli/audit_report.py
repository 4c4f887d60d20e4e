"""Keeps what an audit has read and found, and writes that as lines, as a summary, as JSON, and as SARIF.

SARIF 2.1.0, for code scanners: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from winpool import __version__
from winpool.cli.counts import counted, listed
from winpool.cli.parsing import Exit
from winpool.features.audit.audit import Finding, knows
from winpool.features.audit.rules import RULES, SEVERITIES, Needs, Rule, Severity
from winpool.features.audit.workloads import RUNTIME_CLASS, PodOS, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.cli.manifests import Comment, Manifest
    from winpool.features.audit.cluster import Cluster, Host, Limits
    from winpool.support.versions import Minor

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}

_ALWAYS: Final = "drivers of PersistentVolumes"
"""What no rule judges yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of a cluster. None is not known; ``problems`` are what could not be read, by why.

    ``contents`` are workloads as manifests have them, each with the kind that people know it by.
    ``windows`` and ``linux`` are nodes.
    """

    version: str = ""
    contents: Sequence[tuple[Mapping[str, Any], str]] = ()
    windows: Sequence[Host] | None = None
    linux: Sequence[Host] | None = None
    classes: Sequence[Mapping[str, Any]] | None = None
    limits: Mapping[str, Limits] | None = None
    enforced: Mapping[str, str] | None = None
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """A workload, and the manifest that it is from; None for one of the cluster."""

    workload: Workload
    manifest: Manifest | None

    def at(self, field: str = "") -> str:
        """Return where it is, or a field of it."""
        if self.manifest is None:
            return self.named()
        return f"{self.manifest.file}:{self.manifest.line_of(field)}: {self.workload.title}"

    def place(self, field: str) -> dict[str, Any]:
        """Return where a field of it is, as JSON has it."""
        if self.manifest is None:
            return {"namespace": self.workload.namespace}
        return {"file": self.manifest.file, "line": self.manifest.line_of(field)}

    def named(self, *fields: str) -> str:
        """Return the workload, or a field of it, by its name in a cluster."""
        workload = self.workload
        return "/".join(filter(None, (workload.namespace, workload.kind, workload.name, *fields)))


@dataclass(slots=True)
class Report:
    """What an audit found. ``ignored`` and ``below`` count findings that are not shown, by code.

    ``suppressed`` are those that are ignored, each with the reason, as SARIF has it. ``above`` are the
    comments above the last List, and by code the reasons in them. ``problems`` are what could not be read of
    the cluster, by why. ``classes`` is how many RuntimeClasses are in the files. ``images`` are workloads of
    which it is not known whether hosts run their images, each with the reason.
    """

    minor: Minor
    cluster: Cluster
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shown: list[tuple[Subject, Finding]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    suppressed: list[tuple[Subject, Finding, dict[str, str] | None]] = field(default_factory=list)
    above: tuple[Sequence[Comment], Mapping[str, str]] = ((), {})
    ignored: Counter[str] = field(default_factory=Counter)
    below: Counter[str] = field(default_factory=Counter)
    judged: Counter[PodOS] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    runtime_classes: list[str] = field(default_factory=list)
    without_pods: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    classes: int = 0
    errors: int = 0

    @property
    def has_judged(self) -> bool:
        """Whether enough was known to judge anything."""
        oses = [PodOS.WINDOWS, PodOS.LINUX]
        if self.cluster.has_nodes or (self.cluster.hosts and self.cluster.image_build):
            oses.append(PodOS.UNKNOWN)
        is_class_judged = self.classes > 0 and self.cluster.has_nodes
        return is_class_judged or any(self.judged[each] for each in oses)

    @property
    def code(self) -> Exit:
        """The exit code: no, could not tell, or yes."""
        if self.errors:
            return Exit.NO
        return Exit.YES if self.has_judged and not self.unread and not self.problems else Exit.UNKNOWN


def lines_of(report: Report) -> Iterator[str]:
    """Yield the line of each finding that is shown."""
    for subject, each in report.shown:
        what = f"{each.rule.code} {each.severity} {each.field}"
        yield f"{subject.at(each.field)}: {what}: {each.says} {each.fix}"


def summary_of(report: Report) -> str:
    """Return in a line what was judged, and how many findings there are."""
    by_severity = Counter(each.severity for _, each in report.shown)
    said = ", ".join(f"{by_severity[each]} {each}" for each in SEVERITIES if by_severity[each])
    windows = counted(report.judged[PodOS.WINDOWS], "workload")
    text = f"{windows} for Windows, Kubernetes {report.minor}: {counted(len(report.shown), 'finding')}"
    text += f" ({said})" if said else ""
    for count, why in ((report.ignored, "ignored"), (report.below, "below --min-severity")):
        if count:
            text += f"; {count.total()} {why} ({_codes(count)})"
    if report.judged[PodOS.LINUX]:
        text += f"; {counted(report.judged[PodOS.LINUX], 'workload')} for Linux skipped"
    if report.unknown and report.cluster.has_nodes:
        text += f"; {counted(len(report.unknown), 'workload')} without any OS"
    if report.classes:
        text += f"; {report.classes} RuntimeClass{'es' if report.classes > 1 else ''} read"
    if report.unread:
        text += f"; {counted(len(report.unread), 'fault')} in documents"
    return text


def not_judged(report: Report) -> str:
    """Return the one line that says what is not known, and why."""
    said = [] if report.judged or report.has_judged else ["no workload was found"]
    if report.judged[PodOS.WINDOWS]:
        said.append(", ".join((*_missing(report.cluster), _ALWAYS)))
    elif report.classes and not report.cluster.has_nodes:
        said.append(f"{Needs.NODES} ({', '.join(rule.code for rule in RULES if rule.kind == RUNTIME_CLASS)})")
    if report.unknown and not report.cluster.has_nodes:
        said.append(
            f"{counted(len(report.unknown), 'workload')} without any OS ({listed(report.unknown)}): whether "
            "they can land on Windows nodes depends on the taints of these, which needs the cluster (P1)"
        )
    if report.runtime_classes and not report.cluster.has_all_classes:
        named = listed(list(dict.fromkeys(report.runtime_classes)))
        said.append(f"the RuntimeClasses that are not in the files ({named})")
    if report.images:
        names, why = listed(list(report.images)), next(iter(report.images.values()))
        said.append(
            f"whether hosts run the images of {counted(len(report.images), 'workload')} ({names}): {why}"
        )
    if report.without_pods:
        kinds = listed(list(dict.fromkeys(report.without_pods)))
        said.append(f"{counted(len(report.without_pods), 'object')} without pods that it can find ({kinds})")
    if report.unread:
        said.append("documents that cannot be read")
    said += [f"{', '.join(whats)}, which cannot be read: {why}" for why, whats in report.problems.items()]
    return f"Not judged: {'; '.join(said) or _nothing(report)}."


def _missing(cluster: Cluster) -> Iterator[str]:
    """Yield what is not known, with the rules that need it."""
    for need in Needs:
        if need not in knows(cluster):
            codes = [rule.code for rule in RULES if need in (rule.needs, rule.better_with)]
            yield f"{need} ({', '.join(codes)})"


def _nothing(report: Report) -> str:
    return "nothing" if report.unknown or report.classes else "nothing, since every workload is for Linux"


def _codes(count: Counter[str]) -> str:
    return ", ".join(f"{each.code}: {count[each.code]}" for each in RULES if count[each.code])


def content_of(report: Report) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "kubernetesVersion": str(report.minor),
        "findings": [
            {
                **subject.place(each.field),
                "kind": subject.workload.kind,
                "name": subject.workload.name,
                "evidence": subject.workload.evidence,
                "code": each.rule.code,
                "severity": str(each.severity),
                "field": each.field,
                "outcome": str(each.outcome),
                "message": each.says,
                "fix": each.fix,
                "sources": list(each.rule.sources),
            }
            for subject, each in report.shown
        ],
        "ignored": dict(report.ignored),
        "belowMinSeverity": dict(report.below),
        "workloads": {str(os): report.judged[os] for os in PodOS},
        "runtimeClasses": report.classes,
        "unread": report.unread,
        "notes": report.notes,
        "notJudged": not_judged(report),
    }


def log_of(report: Report) -> dict[str, Any]:
    """Return the report as SARIF has it. What is ignored is in it as suppressed, with the reason."""
    found = [(*each, None) for each in report.shown] + report.suppressed
    rules = list(dict.fromkeys(each.rule for _, each, _ in found))
    notifications = [(each, "error") for each in report.unread]
    notifications += [(each, "note") for each in (*report.notes, not_judged(report))]
    run = {
        "tool": {
            "driver": {"name": "winpool", "version": __version__, "rules": [_rule(each) for each in rules]}
        },
        "invocations": [
            {
                "executionSuccessful": report.code is not Exit.UNKNOWN,
                "exitCode": int(report.code),
                "toolExecutionNotifications": [
                    {"level": level, "message": {"text": text}} for text, level in notifications
                ],
            }
        ],
        "results": [_result(rules, *each) for each in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    pages = [each for each in rule.sources if each.startswith("https://")]
    return {
        "id": rule.code,
        "shortDescription": {"text": f"{', '.join(rule.fields)}: {rule.happens}"},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        **({"helpUri": pages[0]} if pages else {}),
    }


def _result(
    rules: Sequence[Rule], subject: Subject, finding: Finding, suppression: Mapping[str, str] | None
) -> dict[str, Any]:
    workload, manifest = subject.workload, subject.manifest
    place: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": subject.named(finding.field)}]}
    if manifest is not None:  # the cluster has no lines
        place["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(manifest.file)},
            "region": {"startLine": manifest.line_of(finding.field)},
        }
    return {
        "ruleId": finding.rule.code,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{workload.title}: {finding.field}: {finding.says} {finding.fix}"},
        "locations": [place],
        **({"suppressions": [suppression]} if suppression else {}),
    }


def _uri(file: str) -> str:
    """Return a file as an URI: a relative one, as it was given, is below the root of the sources."""
    path = Path(file)
    quoted = quote(os.fsencode(path))
    return f"file://{quoted}" if path.is_absolute() else quoted
