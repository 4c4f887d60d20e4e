"""Keeps what an audit of workloads found, and writes it as lines, as a summary, and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from winpool.cli.counts import counted, listed
from winpool.cli.parsing import Exit
from winpool.features.audit.audit import knows
from winpool.features.audit.rules import RULES, SEVERITIES, Needs
from winpool.features.audit.workloads import RUNTIME_CLASS, PodOS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.cli.comments import Comment
    from winpool.cli.manifests import Manifest
    from winpool.features.audit.audit import Finding
    from winpool.features.audit.cluster import Cluster
    from winpool.features.audit.workloads import Workload
    from winpool.support.versions import Minor

_ALWAYS: Final = "drivers of PersistentVolumes"
"""What no rule judges yet."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A workload, and the manifest that it is from; None for one of the cluster."""

    workload: Workload
    manifest: Manifest | None

    def at(self, field: str = "") -> str:
        """Return where it is, or a field of it."""
        workload, manifest = self.workload, self.manifest
        if manifest is not None:
            line = manifest.line_of(field) if field else manifest.line
            return f"{manifest.file}:{line}: {workload.title}"
        return "/".join(filter(None, (workload.namespace, workload.kind, workload.name)))


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
                **_place(subject, each),
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


def _place(subject: Subject, finding: Finding) -> dict[str, Any]:
    manifest = subject.manifest
    if manifest is None:
        return {"namespace": subject.workload.namespace}
    return {"file": manifest.file, "line": manifest.line_of(finding.field)}
