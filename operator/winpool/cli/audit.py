"""Finds what of workloads does not run on Windows as it is written: ``kubectl winpool audit``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from winpool.api.keys import OS_LABEL, OS_WINDOWS, WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.text import printable
from winpool.cli.audit_report import (
    Read,
    Report,
    Subject,
    content_of,
    lines_of,
    log_of,
    not_judged,
    summary_of,
)
from winpool.cli.console import document, is_text
from winpool.cli.lenient import Fields
from winpool.cli.manifests import Comment, Manifest, read
from winpool.cli.parsing import (
    ANSWER,
    Exit,
    RefusedError,
    UsageError,
    add_filename,
    add_output,
    note,
    note_offline,
    pool_name,
)
from winpool.features.audit.audit import (
    IGNORE_ANNOTATION,
    Finding,
    codes_in,
    findings,
    ignored,
    server,
    severities,
)
from winpool.features.audit.cluster import Cluster, Host, RuntimeClass, alike
from winpool.features.audit.conditions import unknown_images
from winpool.features.audit.rules import NEWEST, OLDEST, RULES, SEVERITIES, Needs, Rule, Severity
from winpool.features.audit.workloads import (
    RUNTIME_CLASS,
    PodOS,
    Workload,
    runtime_class_of,
    selected_keys,
    workload_of,
)
from winpool.support.compat import Isolation, release_named
from winpool.support.matrix import Matrix, built_in
from winpool.support.versions import Minor, build_text_of, parse_minor, parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


ISOLATIONS: Final[Mapping[str, Isolation]] = {"process": Isolation.PROCESS, "hyperv": Isolation.HYPER_V}
"""What ``--isolation`` takes."""


DESCRIPTION: Final = f"""\
Find fields of workloads that the API server refuses in pods for Windows, that
Windows ignores, or that mean something else there than on Linux; pods that land
on nodes of the wrong OS, or on none; images that the nodes do not run.

With -f it reads manifests: Pods and all kinds with a pod template, also those
that Kubernetes does not know. Without -f it reads from the cluster: the
workloads of a namespace (-n; otherwise that of the context), of all namespaces
(-A), or those that you name; and the nodes, RuntimeClasses, LimitRanges and
namespaces that decide about them. A workload is for Windows by spec.os.name,
its node selection, its RuntimeClass, windowsOptions, or else by the tags of its
images.

The Windows version of an image is the first of these that is given:
--image-build, the annotation {WINDOWS_BUILD_ANNOTATION} of the pod, the build
that the pod or its RuntimeClass selects, the tag of the image. A tag can be
wrong, so it only causes a warning. It contacts no registry.

The annotation {IGNORE_ANNOTATION} of an object or of its pods names
rules that are not reported, with the reason: "W13: only a cache". So does a
comment of that name in a file, for the field in its line or after it. The last
line says what could not be judged. All rules: "What is different on Windows"
in the docs."""

EXITS: Final = {
    Exit.YES: "no Error was found, or --explain printed a rule",
    Exit.UNKNOWN: "something cannot be read, or nothing was judged",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
    Exit.NO: "an Error was found: a pod cannot be created or start on Windows",
}

EXAMPLES: Final = (
    ("kubectl winpool audit -f deployment.yaml", "audit one file"),
    ("kubectl winpool audit -R -f manifests/ --min-severity Error", "only what does not run"),
    ("kubectl winpool audit -f app.yaml --min-severity Info", "also what works and is different"),
    ("helm template chart/ | kubectl winpool audit -f -", "audit the output of another program"),
    ("kubectl winpool audit -f app.yaml --kubernetes 1.32", "for an older API server"),
    ("kubectl winpool audit -f app.yaml --host-build 2022 --host-build 2025", "on two Windows versions"),
    ("kubectl winpool audit -f app.yaml --pool win-2022", "on the current nodes of a pool"),
    ("kubectl winpool audit -R -f manifests/ -o sarif", "for a code scanner"),
    ("kubectl winpool audit -A", "audit all workloads of the cluster"),
    ("kubectl winpool audit -n shop deploy/web sts/db", "audit two workloads"),
    ("kubectl winpool audit --explain W13", "what a rule is about, and where it is from"),
)

_BY_CODE: Final = {rule.code: rule for rule in RULES}

MOST_CONTAINERS: Final = 200
"""Of a workload that is judged. Rules compare containers with each other: thousands would take minutes."""

_QUOTED: Final = 80
"""Characters of an entry of an annotation, or of the name of an object without pods, that a note shows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line: what is audited, for which cluster, by which rules."""
    parser.add_argument(
        "names",
        metavar="KIND/NAME",
        nargs="*",
        help="Audit these workloads of the namespace, such as deploy/web.",
    )
    add_filename(parser, required=False)
    parser.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="Audit the workloads of all namespaces of the cluster.",
    )
    hosts = parser.add_mutually_exclusive_group()
    hosts.add_argument(
        "--host-build",
        type=_version,
        metavar="BUILD",
        action="append",
        help="Judge for hosts with this Windows version: 10.0.20348.1607, 20348 or 2022. Can be repeated.",
    )
    hosts.add_argument(
        "--pool", type=pool_name, metavar="POOL", help="Judge for the nodes of this pool in the cluster."
    )
    parser.add_argument(
        "--runtime",
        metavar="RUNTIME",
        default="",
        help="With --host-build, use this runtime of the hosts, such as containerd://1.7.24.",
    )
    parser.add_argument(
        "--image-build", type=_version, metavar="BUILD", help="Use this Windows version for all images."
    )
    parser.add_argument(
        "--isolation",
        choices=tuple(ISOLATIONS),
        default="process",
        help="Use this isolation mode of containers. Default: process.",
    )
    parser.add_argument(
        "--kubernetes",
        type=_minor,
        metavar="MINOR",
        help="Judge for the API server of this minor version. Default: that of the cluster, and with -f "
        f"{NEWEST}.",
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
    parser.add_argument(
        "--explain",
        type=_rule,
        metavar="CODE",
        help="Print what is known of this rule, such as W13, and exit.",
    )
    add_output(parser, (*ANSWER, "sarif"))


def run(given: argparse.Namespace) -> int:
    """Audit files or the cluster, or explain a rule; return the exit code."""
    if given.explain is not None:
        note_offline(given, why="no cluster is contacted")
        sys.stdout.writelines(f"{line}\n" for line in explained(given.explain))
        return Exit.YES
    if given.filename and (given.names or given.all_namespaces):
        raise UsageError("-f reads files, KIND/NAME and -A the cluster: use one of them")
    if given.names and given.all_namespaces:
        raise UsageError("KIND/NAME is in one namespace: name that with -n instead of -A")
    if given.runtime and not given.host_build:
        raise UsageError("--runtime needs --host-build: nodes report their runtime")
    if given.filename:
        if given.pool is None:
            note_offline(given, why="no cluster is contacted")
        found = read(given.filename, recursive=given.recursive, keeps=_is_judged, goes_on=True)
        report = audited(found, given)
    else:
        report = _of_cluster(given)
    if given.output == "sarif":
        sys.stdout.write(document("json", log_of(report)))
    elif not is_text(given.output):
        sys.stdout.write(document(given.output, content_of(report)))
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for line in (*report.unread, *lines_of(report)))
        for line in (*report.notes, summary_of(report), not_judged(report)):
            note(line)
    return report.code


def _is_judged(content: Any) -> bool:
    return kind_of(content) == RUNTIME_CLASS or workload_of(content) is not None


def audited(manifests: Iterable[Manifest], given: argparse.Namespace) -> Report:
    """Apply the rules to all workloads in files, with what is known of the nodes of a pool.

    Of what is not judged, as CRDs are, only the kind is kept until all files are read.
    """
    found = [each if _is_judged(each.content) else _unjudged(each) for each in manifests]
    contents = [each.content for each in found if each.content is not None]
    known = Read()
    if given.pool is not None:
        # Imported here: what asks a server takes half a second to load, and offline it is not needed.
        from winpool.cli.audit_reader import read_for_files

        known = read_for_files(given.flags, given.pool)
    report = _report(given.kubernetes or NEWEST, cluster_of(known, contents, given), known)
    for each in found:
        report.unread += [each.at(line, fault) for line, fault in each.faults]
        if each.content is not None:
            _audit(report, each, each.content, given)
    return report


def _unjudged(manifest: Manifest) -> Manifest:
    if manifest.content is None:
        return manifest
    kind = {"kind": kind_of(manifest.content)[:_QUOTED], "metadata": {"name": manifest.name[:_QUOTED]}}
    return dataclasses.replace(manifest, content=kind, node=None, comments=(), above=())


def _of_cluster(given: argparse.Namespace) -> Report:
    from winpool.cli.audit_reader import read_cluster, workload_name

    try:
        names = [workload_name(each) for each in given.names]
    except ValueError as error:
        raise UsageError(str(error)) from None
    known = read_cluster(
        given.flags,
        names=names,
        is_everywhere=given.all_namespaces,
        pool=given.pool,
        has_hosts=bool(given.host_build),
    )
    minor = given.kubernetes or parse_minor(known.version) or NEWEST
    contents = [content for content, _ in known.contents]
    report = _report(minor, cluster_of(known, contents, given), known)
    for each in known.classes or ():
        _audit(report, None, each, given)
    for content, kind in known.contents:
        _audit(report, None, content, given, kind=kind)
    return report


def _report(asked: Minor, cluster: Cluster, known: Read) -> Report:
    report = Report(max(OLDEST, min(asked, NEWEST)), cluster, known.problems)
    if asked != report.minor:
        age = "newer" if asked > NEWEST else "older"
        report.notes.append(f"Kubernetes {asked} is {age} than the rules: judged as {report.minor}")
    return report


def _audit(
    report: Report, manifest: Manifest | None, content: Any, given: argparse.Namespace, *, kind: str = ""
) -> None:
    """Apply the rules to an object; ``kind`` is that by which people know it, where it is another."""
    workload = _workload(report, manifest, content)
    if workload is None:
        return
    workload = replace(workload, kind=kind or workload.kind)
    subject = Subject(workload, manifest)
    if len(workload.containers()) > MOST_CONTAINERS:
        report.unread.append(f"{subject.at()}: not judged: it has more than {MOST_CONTAINERS} containers")
        return
    if not workload.is_runtime_class:
        _count(report, subject)
    elif manifest:
        report.classes += 1
    reasons, unread = ignored(workload)
    reasons = {**_above(report, manifest), **reasons}
    if unread:
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        said = f"{unread[0][:_QUOTED]!r}{more} in the annotation {IGNORE_ANNOTATION}"
        report.notes.append(f"{subject.at()}: {said}: names no rule: write CODE: REASON")
    by_line = _commented(report, manifest.file, manifest.comments) if manifest else {}
    by_code = {code: {"kind": "inSource", "justification": why} for code, why in reasons.items()}
    by_code |= {code: {"kind": "external", "justification": "--ignore"} for code in given.ignore}
    for each in findings(workload, report.minor):
        lines = by_line.get(each.rule.code, {})
        suppression = by_code.get(each.rule.code) or _by_comment(manifest, each, lines)
        if suppression:
            report.ignored[each.rule.code] += 1
            report.suppressed.append((subject, each, suppression))
            continue
        report.errors += each.severity is Severity.ERROR
        if SEVERITIES.index(each.severity) > SEVERITIES.index(given.min_severity):
            report.below[each.rule.code] += 1
        else:
            report.shown.append((subject, each))


def _workload(report: Report, manifest: Manifest | None, content: Any) -> Workload | None:
    """Return the pods that an object makes, or a RuntimeClass; note what is neither."""
    kind, cluster = kind_of(content), report.cluster
    if kind == RUNTIME_CLASS:
        return runtime_class_of(content, cluster)
    workload = workload_of(content, cluster)
    if workload is None and kind:
        report.without_pods.append(kind)
    elif workload is None and manifest:
        report.notes.append(manifest.at(manifest.line, "no object of Kubernetes: kind is not set"))
    return workload


def _by_comment(
    manifest: Manifest | None, finding: Finding, reasons: Mapping[int, str]
) -> dict[str, str] | None:
    """Return why a comment in a line of the field, or above it, has it not reported; None if none has."""
    lines = reasons.keys() & manifest.lines_to(finding.field) if manifest and reasons else ()
    return {"kind": "inSource", "justification": reasons[min(lines)]} if lines else None


def _commented(report: Report, file: str, comments: Sequence[Comment]) -> dict[str, dict[int, str]]:
    """Return by code in which lines comments ignore a rule, and why; note those that name no rule."""
    found: dict[str, dict[int, str]] = {}
    for each in comments:
        if each.key == IGNORE_ANNOTATION:
            codes, unread = codes_in(each.text)
            for code, reason in codes.items():
                found.setdefault(code, {})[each.about] = reason
            report.notes += [
                f"{file}:{each.line}: {text!r} in the comment {IGNORE_ANNOTATION} names no rule: "
                "write CODE: REASON"
                for text in (unread if codes or unread else [each.text])
            ]
    return found


def _above(report: Report, manifest: Manifest | None) -> Mapping[str, str]:
    """Return by code why comments above a List ignore a rule in all its items. They are read once for all."""
    above = manifest.above if manifest else ()
    if manifest and report.above[0] is not above:
        found = _commented(report, manifest.file, above)
        report.above = above, {code: next(iter(lines.values())) for code, lines in found.items()}
    return report.above[1] if above else {}


def _count(report: Report, subject: Subject) -> None:
    """Count a workload, and note what is not known of it."""
    workload = subject.workload
    title = workload.title if subject.manifest else subject.at()
    report.judged[workload.os] += 1
    if workload.os is PodOS.UNKNOWN:
        report.unknown.append(title)
    if workload.runtime_class and workload.os is not PodOS.LINUX:
        report.runtime_classes.append(workload.runtime_class)
    if why := unknown_images(workload):
        report.images[title] = why


def cluster_of(known: Read, contents: Iterable[Any], given: argparse.Namespace) -> Cluster:
    """Return what is known. RuntimeClasses among the ``contents`` count before those of the cluster.

    Raises RefusedError where a pool has no nodes.
    """
    of_files = [each for each in contents if kind_of(each) == RUNTIME_CLASS]
    classes = {
        Fields.of(each).one("metadata").text("name"): RuntimeClass.of(each)
        for each in (*(known.classes or ()), *of_files)
    }
    windows = known.windows
    if given.pool and windows is not None and not windows:
        raise RefusedError(f"the pool {given.pool} selects no Windows node")
    if given.host_build:
        windows = [_host(each, given.runtime) for each in given.host_build]
    keys = _keys(contents, classes)
    return Cluster(
        hosts=None if windows is None else alike(windows, keys),
        is_chosen=bool(given.host_build or given.pool),
        linux=None if known.linux is None else alike(known.linux, keys),
        runtime_classes=classes,
        has_all_classes=known.classes is not None,
        limits=known.limits,
        enforced=known.enforced,
        image_build=given.image_build or "",
        isolation=ISOLATIONS[given.isolation],
    )


def _keys(contents: Iterable[Any], classes: Mapping[str, RuntimeClass]) -> set[str]:
    """Return the keys of all labels that decide where pods go: nodes that differ in others are alike."""
    known = Cluster(runtime_classes=classes)
    workloads = (workload_of(each, known) for each in contents)
    keys = {key for each in workloads if each for key in selected_keys(each)}
    selectors = (each.node_selector for each in classes.values())
    return keys.union(*selectors, (OS_LABEL, WINDOWS_BUILD_LABEL))


def _host(version: str, runtime: str) -> Host:
    labels = {OS_LABEL: OS_WINDOWS, WINDOWS_BUILD_LABEL: build_text_of(version)}
    return Host(kernel=version, runtime=runtime, labels=labels)


def kind_of(content: Any) -> str:
    """Return the kind of an object, empty where it has none."""
    return Fields.of(content).text("kind")


def explained(rule: Rule) -> Iterator[str]:
    """Yield what is known of a rule."""
    yield f"{rule.code}: {', '.join(rule.fields)}"
    yield f"On Windows:  {rule.happens}"
    yield f"API server:  {server(rule)}"
    yield f"Severity:    {severities(rule)}"
    yield f"Fix:         {rule.fix}"
    if rule.needs is not Needs.MANIFEST:
        yield f"Needs:       the {rule.needs}; a manifest alone does not show it"
    if rule.better_with is not None:
        yield f"Better with: the {rule.better_with}"
    yield f"Known by:    {', '.join(rule.known)}"
    yield from (f"Source:      {each}" for each in rule.sources)


def version_named(written: str, *, matrix: Matrix) -> str | None:
    """Return the Windows that ``written`` names: ``10.0.20348.1607``, or ``10.0.20348`` for ``2022``.

    A version is taken as it is, also one that is not in the data; None for what names none.
    """
    given = written.strip()
    version = parse_windows(given)
    if version is not None:
        return str(version)
    name = release_named(given, matrix=matrix)
    if name is None:
        return f"10.0.{given}" if given.isdigit() and parse_windows(f"10.0.{given}") else None
    return f"10.0.{matrix.releases[name].build}"


def _version(text: str) -> str:
    found = version_named(text, matrix=built_in())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a Windows version: write it as 10.0.20348, 20348 or 2022"
        )
    return found


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
