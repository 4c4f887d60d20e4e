"""The reference page of the matrix, generated from the data: ``python -m gen.matrix_reference``.

``docs/reference/matrix.md`` has what this prints; a test compares them. It does not depend on the day:
``kubectl winpool matrix`` says what is supported today.

The rules on the reference page: images on hosts, skew, bad revisions, features, lines of containerd.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Final

from gen.matrix_faults import faults
from winpool.api.text import table
from winpool.support.compat import Isolation, compatible
from winpool.support.data import Runtime, Stage, Status, WindowsRelease
from winpool.support.matrix import FILE as SOURCE
from winpool.support.matrix import Matrix, built_in
from winpool.support.servicing import VERDICTS, Disagreement, disagreement
from winpool.support.table import links
from winpool.support.versions import Minor

_MARKS = {"Supported": "runs", "Warned": "runs, see below", "Unsupported": "", "Unknown": "?"}


def precedence() -> str:
    """Return which source wins where several speak of one release in one minor."""
    return (
        "Where sources disagree, the first of these that holds is the status: `documentedStale`; "
        "`documented`, `documentedLater`, `releaseNotesOnly`; `vendorOnly`, also where upstream "
        "dropped the release; `dropped`; not listed. A vendor that refuses what upstream lists is a "
        "remark and changes no status. Where it is not known whether a vendor's list covers the minor, the "
        "status is `unknown`.\n"
    )


def hosts(matrix: Matrix) -> str:
    """Return which image runs on which host, with process isolation, and the rules behind it."""
    alone = [each for each in matrix.releases.values() if not each.shares_build_with]
    rules = matrix.file.compatibility
    abi, baselines = rules.stable_abi, rules.baselines
    known = ", ".join(f"{each.build} from revision {each.revision} on" for each in baselines if each.revision)
    unknown = ", ".join(str(each.build) for each in baselines if each.revision is None)
    lines = (
        f"From build {abi.first_build} on a host runs images of its own build and of older ones, down to the "
        f"newest of {', '.join(map(str, abi.stable_builds))} that is older than itself. Older hosts run "
        f"images of their own build only ({links(abi.source, matrix=matrix)}).",
        f"containerd lets older images through from {', '.join(rules.stable_abi_containerd.minimums)} on "
        f"({links(rules.stable_abi_containerd.source, matrix=matrix)}).",
        f"A host of {', '.join(map(str, rules.exact_revision.builds))} runs images of its own revision only "
        f"({links(rules.exact_revision.source, matrix=matrix)}).",
        f"Host and image must be on the same side of the update of February 2020: {known}; for {unknown} the "
        f"revision is not published ({links(baselines[0].source, matrix=matrix)}).",
        "Images that are newer than their unpatched host failed with "
        f"{rules.newer_image.error_code}: a warning ({links(rules.newer_image.source, matrix=matrix)}).",
        f"HostProcess containers may have an image of any version, and need containerd "
        f"{rules.host_process.containerd} ({links(rules.host_process.source, matrix=matrix)}).",
        "With Hyper-V isolation Windows runs images of the host's build and older ones, and the "
        f"documentation of Kubernetes calls it {rules.hyper_v.kubernetes} "
        f"({links(rules.hyper_v.source, matrix=matrix)}).",
    )
    grid = table(
        ("Host", *(each.name for each in alone)),
        ((f"{host.name} ({host.build})", *(_runs(host, image, matrix) for image in alone)) for host in alone),
    )
    return f"{grid}\n" + "".join(f"- {line}\n" for line in lines)


def _runs(host: WindowsRelease, image: WindowsRelease, matrix: Matrix) -> str:
    """Judge two equal revisions, so that builds alone decide."""
    found = compatible(
        f"10.0.{host.build}.9999", f"10.0.{image.build}.9999", Isolation.PROCESS, matrix=matrix
    )
    return _MARKS[found.verdict]


def skew(matrix: Matrix) -> str:
    """Return how old a kubelet may be."""
    policy = matrix.file.policies.skew
    return (
        f"A kubelet is never newer than its API server, and at most {policy.minors} minors older; before "
        f"{policy.before} at most {policy.minors_before} ({links(policy.source, matrix=matrix)}). Beyond "
        "that a node is unsupported.\n"
    )


def revisions(matrix: Matrix) -> str:
    """Return the revisions that are known to be bad."""
    return table(
        ("Build", "Revisions", "What breaks", "Fixed by", "Remarks", "As of", "Sources"),
        (
            (
                str(each.build),
                f"{each.first} to {each.last}",
                each.affects,
                each.fix,
                each.note,
                str(each.as_of),
                links(each.source, matrix=matrix),
            )
            for each in matrix.file.bad_revisions
        ),
    )


def features(matrix: Matrix) -> str:
    """Return which features work on Windows since which minor."""
    return table(
        ("Feature", "Alpha", "Beta", "Stable", "Removed", "Remarks", "As of", "Sources"),
        (
            (
                each.name,
                *(text or "" for text in (each.alpha, each.beta, each.stable, each.removed)),
                each.note,
                str(each.as_of),
                links(each.source, matrix=matrix),
            )
            for each in matrix.file.features
        ),
    )


def containerd_lines(matrix: Matrix) -> str:
    """Return how long the containerd project supports its lines."""
    return table(
        ("containerd", "Released", "End of support", "Remarks", "As of", "Sources"),
        (
            (
                each.line,
                str(each.released),
                str(each.end_of_support),
                each.note,
                str(each.as_of),
                links(each.source, matrix=matrix),
            )
            for each in matrix.file.containerd_lines
        ),
    )


FILE: Final = "docs/reference/matrix.md"
"""The path of the result, from the root of the repository."""

COMMAND: Final = f"python -m gen.matrix_reference > {FILE}"

HEADER: Final = f"<!-- Generated from operator/winpool/support/matrix.yaml. Do not edit; run: {COMMAND} -->\n"

_MEANINGS: Final[Mapping[Status, str]] = {
    Status.DOCUMENTED: "The documentation of that minor lists the release. With a caution beside it: Warned.",
    Status.DOCUMENTED_LATER: "Only the documentation of a later minor lists it for this one.",
    Status.RELEASE_NOTES_ONLY: "The release notes of the minor claim it, no documentation does.",
    Status.VENDOR_ONLY: "Upstream does not list it; at least one vendor supports it.",
    Status.DOCUMENTED_STALE: "Listed, but Microsoft no longer services it or upstream has no images for it.",
    Status.DROPPED: "Listed before, and no longer.",
    Status.NOT_LISTED: "Not listed; an empty cell below.",
    Status.UNKNOWN: "Could not be verified, or the minor is not in the data.",
}


def render_markdown(matrix: Matrix) -> str:
    """Return the page: Markdown with a header that says where it comes from."""
    sections = (
        HEADER,
        "# Support matrix\n",
        "Which release of Windows Server runs where, until when, and who says so. `kubectl winpool "
        "matrix` prints the same with the verdict of today. Admins can lay rows of their own over it: "
        "for all pools in a file of the operator, for one pool in `spec.supportMatrix`.\n",
        "## What the words mean\n",
        table(
            ("Status", "Verdict", "Meaning"),
            ((f"`{status}`", str(VERDICTS[status]), text) for status, text in _MEANINGS.items()),
        ),
        precedence(),
        "Whatever the status: a release is unsupported from the day after its end of support, which is "
        "the end of extended support where there is one.\n",
        "## Kubernetes and Windows Server\n",
        _grid(matrix),
        "## Row by row\n",
        table(("Kubernetes", "Windows Server", "Status", "Remarks", "As of", "Sources"), _cells(matrix)),
        "## Releases of Windows Server\n",
        _releases(matrix),
        "## Minors of Kubernetes\n",
        _minors(matrix),
        "## Container runtimes\n",
        "For the kubelet of that minor. Below the minimum a node is unsupported. Older than recommended is a "
        "warning: an older patch of one of these lines, or an older line.\n",
        _runtimes(matrix),
        "How long the containerd project supports its own lines. It changes no verdict.\n",
        containerd_lines(matrix),
        "## Pause images\n",
        "What containerd takes where its configuration names none, and the builds that the image has "
        "variants for.\n",
        _sandboxes(matrix),
        "## Images on hosts\n",
        "With process isolation, by builds: rows are hosts, columns are images. `kubectl winpool audit` "
        "asks it for your workloads.\n",
        hosts(matrix),
        "## Kubelets and API servers\n",
        skew(matrix),
        "## Revisions that are known to be bad\n",
        "A warning for nodes that run one of them, both ends included; no floor.\n",
        revisions(matrix),
        "## Features\n",
        "What of Windows works since which minor: `kubectl winpool matrix --features`.\n",
        features(matrix),
        "## Where KEP-116 differs\n",
        "The KEP promises a release in its first minor and two more. It decides nothing here.\n",
        _kep116(matrix),
        "## Sources\n",
        table(
            ("Id", "Where", "Remarks"),
            ((each, f"<{source.url}>", source.note) for each, source in sorted(matrix.file.sources.items())),
        ),
    )
    return "\n".join(sections)


def _grid(matrix: Matrix) -> str:
    return table(
        ("", *matrix.releases),
        (
            (str(minor), *(_mark(matrix, minor, name) for name in matrix.releases))
            for minor in _newest(matrix)
        ),
    )


def _mark(matrix: Matrix, minor: Minor, release: str) -> str:
    status, cell = matrix.status(minor, release), matrix.cells.get((minor, release))
    if status is Status.NOT_LISTED:
        return ""
    return f"{status} (!)" if cell is not None and cell.caution else str(status)


def _newest(matrix: Matrix) -> Iterator[Minor]:
    return reversed(list(matrix.minors))


def _cells(matrix: Matrix) -> Iterator[tuple[str, ...]]:
    for minor in _newest(matrix):
        for name in matrix.releases:
            cell = matrix.cells.get((minor, name))
            if cell is not None:
                remarks = "; ".join(text for text in (cell.caution, cell.note) if text)
                sources = links(cell.source, matrix=matrix)
                yield str(minor), name, f"`{cell.status}`", remarks, str(cell.as_of), sources


def _releases(matrix: Matrix) -> str:
    head = (
        "Release",
        "Channel",
        "Version",
        "Build",
        "Available",
        "Mainstream end",
        "Extended end",
        "Extended security updates",
        "Tags",
        "Remarks",
    )
    return table(
        (*head, "Sources"),
        (
            (
                each.name,
                str(each.channel),
                each.version,
                str(each.build),
                str(each.available),
                str(each.mainstream_end),
                str(each.extended_end or ""),
                each.esu,
                ", ".join(f"`{tag}`" for tag in each.tags),
                f"judged as {each.shares_build_with}" if each.shares_build_with else each.note,
                links(each.source, matrix=matrix),
            )
            for each in matrix.file.releases
        ),
    )


def _minors(matrix: Matrix) -> str:
    return table(
        ("Kubernetes", "Released", "End of life", "Remarks", "Sources"),
        (
            (
                each.name,
                str(each.released or ""),
                str(each.end_of_life or ""),
                each.note,
                links(each.source, matrix=matrix),
            )
            for each in reversed(matrix.file.minors)
        ),
    )


def _runtimes(matrix: Matrix) -> str:
    rows = (
        (
            each.kubernetes,
            each.name,
            _stage(each),
            ", ".join(f"{text}+" for text in each.recommended),
            each.note,
            links(each.source, matrix=matrix),
        )
        for each in reversed(matrix.file.runtimes)
    )
    return table(("Kubernetes", "Runtime", "Minimum", "Recommended", "Remarks", "Sources"), rows)


def _stage(runtime: Runtime) -> str:
    if runtime.stage is Stage.ABSENT:
        return "not usable"
    least = "" if runtime.minimum == "0.0.0" else runtime.minimum
    return least if runtime.stage is Stage.STABLE else f"{least} ({runtime.stage})".strip()


def _sandboxes(matrix: Matrix) -> str:
    return table(
        ("containerd", "Image", "Builds", "Sources"),
        (
            (
                each.containerd,
                f"`{each.image}`",
                ", ".join(map(str, image.builds)),
                links((*each.source, *image.source), matrix=matrix),
            )
            for each, image in zip(matrix.file.sandboxes, matrix.sandboxes.values(), strict=True)
        ),
    )


def disagreements(matrix: Matrix) -> Iterator[Disagreement]:
    """Yield all cells where promise and data differ, by minor and then by release."""
    for minor in matrix.minors:
        for release in matrix.releases:
            found = disagreement(minor, release, matrix=matrix)
            if found is not None:
                yield found


def _kep116(matrix: Matrix) -> str:
    return "".join(f"- {each.message}\n" for each in disagreements(matrix))


def main() -> None:
    """Print the page, of data without a fault."""
    if found := faults(resources.files("winpool.support").joinpath(SOURCE).read_text()):
        sys.exit("\n".join(found))
    sys.stdout.write(render_markdown(built_in()))


if __name__ == "__main__":
    main()
