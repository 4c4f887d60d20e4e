"""The rules on the reference page: images on hosts, skew, bad revisions, features, lines of containerd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.markdown import table
from winpool.support.compat import Isolation, compatible
from winpool.support.table import links

if TYPE_CHECKING:
    from winpool.support.data import WindowsRelease
    from winpool.support.matrix import Matrix

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
    rules = matrix.compatibility
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
    policy = matrix.policies.skew
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
