"""Whether a node runs the Windows that its pool asks for: the release, and the revision that is the target.

The operator itself does not change the release or revision of a node, so a node that runs another one waits
for a person or a program that replaces or patches machines. What cannot be read is unknown: neither up to
date nor due (P4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.rooms import Finding, Progress, Stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from winpool.api.v1alpha1 import OperatingSystem
    from winpool.support.judge import Judgement
    from winpool.support.rows import Layered


@dataclass(frozen=True, slots=True)
class Release:
    """How the Windows of a node compares with what its pool asks for.

    ``stage`` is None where it is as asked, DUE where it differs, and UNKNOWN where it is not known.
    ``reason`` is that of the issue, None where the support matrix reports the same already. The rest is as
    in a ``Finding``.
    """

    stage: Stage | None = None
    reason: IssueReason | None = None
    cause: str = ""
    message: str = ""
    fix: str = ""


AS_ASKED: Final = Release()

_NOT_KNOWN: Final = Release(Stage.UNKNOWN)
"""The release itself is not known: the issue BuildUnknown says why."""

_SAID: Final = {
    Stage.DUE: (
        Reason.WAITING_FOR_ACTOR,
        "The release or revision of Windows on {nodes} is not what spec.os asks for. A person has to replace "
        "or patch the machines.",
    ),
    Stage.UNKNOWN: (
        Reason.BUILD_UNKNOWN,
        "The release or revision of Windows on {nodes} is not known.",
    ),
}


def release_of(judgement: Judgement, asked: OperatingSystem, *, layers: Layered) -> Release:
    """Compare what a node runs, according to its judgement, with what its pool asks for."""
    found, wanted = judgement.os_version, layers.matrix.judged_as(asked.version)
    if not found:
        return _NOT_KNOWN
    if found != wanted:
        return Release(
            Stage.DUE,
            IssueReason.OS_VERSION_MISMATCH,
            found,
            f"Windows Server {found} runs on these nodes, but spec.os.version asks for {asked.version}.",
            f"Replace the nodes with machines that run Windows Server {asked.version}, or change "
            f'spec.os.version to "{found}".',
        )
    target = asked.target_revision
    if target is None or (judgement.revision is not None and judgement.revision >= target):
        return AS_ASKED
    if judgement.revision is None:
        return Release(
            Stage.UNKNOWN,
            IssueReason.BUILD_UNKNOWN,
            "no revision",
            f"nodeInfo.kernelVersion has no revision, but spec.os.targetRevision asks for {target} or later.",
            "Check the kubelet and its nodeInfo.kernelVersion.",
        )
    return Release(
        Stage.DUE,
        IssueReason.OS_REVISION_BEHIND,
        str(target),
        f"The revision of Windows Server {found} on these nodes is below {target}, which "
        "spec.os.targetRevision asks for.",
        f"Install the Windows update with revision {target} or a later one, replace the machines with "
        "patched ones, or lower spec.os.targetRevision.",
    )


def release_progress(others: Collection[tuple[Release, Sequence[str]]]) -> Iterator[Progress]:
    """Yield the stages of nodes that do not run what is asked for, by their names."""
    for stage, (reason, said) in _SAID.items():
        names = sorted(name for release, nodes in others if release.stage is stage for name in nodes)
        if names:
            yield Progress(stage, names, reason, f"{said} {_see(stage, others)}")


def _see(stage: Stage, others: Collection[tuple[Release, Sequence[str]]]) -> str:
    """Refer to the issues that say more of the nodes at ``stage``."""
    reasons = {release.reason or IssueReason.BUILD_UNKNOWN for release, _ in others if release.stage is stage}
    return " ".join(f"See the issue {reason}." for reason in sorted(reasons))


def release_findings(
    others: Collection[tuple[Release, Sequence[str]]], asked: OperatingSystem, *, layers: Layered
) -> Iterator[Finding]:
    """Yield what is wrong with the release that the pool asks for, and one finding for each cause."""
    if unknown := unknown_release(asked, layers=layers):
        yield unknown
    for release, nodes in others:
        if release.reason is not None:
            yield Finding(release.reason, nodes, release.message, release.fix, release.cause)


def unknown_release(asked: OperatingSystem, *, layers: Layered) -> Finding | None:
    """Report a release that neither the support matrix nor any row knows: no node can ever run it."""
    if layers.build_of(asked.version) is not None:
        return None
    known = ", ".join(layers.matrix.releases)
    return Finding(
        IssueReason.OS_VERSION_UNKNOWN,
        (),
        f"spec.os.version is {asked.version}, but the support matrix has no such release of Windows Server.",
        f"Correct spec.os.version to one of {known}. If the release is newer than this data, add a row with "
        "its osVersion and build to spec.supportMatrix.",
        asked.version,
    )
