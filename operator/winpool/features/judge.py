"""Judges the nodes of a pool by the support matrix, and compares their Windows with what ``spec.os`` asks.

Thousands of nodes run a handful of combinations of versions, so a pass judges each combination once. The
operator itself does not change the release or revision of a node, so a node that runs another one waits for a
person or a program that replaces or patches machines. What cannot be read is unknown: neither up to date nor
due (P4). Labels on the nodes report the release and the revision that were judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.keys import OS_REVISION_LABEL, OS_VERSION_LABEL, WINDOWS_BUILD_LABEL
from winpool.api.matrix import MatrixRow
from winpool.api.spec import OperatingSystem, WindowsNodePoolSpec
from winpool.features.feature import Finding, Progress, Stage
from winpool.model.node import Node, NodeVersions
from winpool.model.snapshot import Snapshot
from winpool.support.judge import Judgement, judge_node
from winpool.support.matrix import Matrix
from winpool.support.rows import Layered, Row, contradictions, layered


class Release(msgspec.Struct, frozen=True):
    """How the Windows of a node compares with what its pool asks for.

    ``stage`` is None where it is as asked, DUE where it differs, and UNKNOWN where it is not known.
    ``finding`` names no nodes yet; it is None where the support matrix reports the same already.
    """

    stage: Stage | None = None
    finding: Finding | None = None

    @property
    def reason(self) -> IssueReason | None:
        """The reason of the issue."""
        return self.finding.reason if self.finding else None


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
        said = f"Windows Server {found} runs on these nodes, but spec.os.version asks for {asked.version}."
        fix = (
            f"Replace the nodes with machines that run Windows Server {asked.version}, or change "
            f'spec.os.version to "{found}".'
        )
        return Release(Stage.DUE, Finding(IssueReason.OS_VERSION_MISMATCH, (), said, fix, found))
    target, revision = asked.target_revision, judgement.revision
    if target is None or (
        revision is not None and (revision >= target or revision in asked.accepted_revisions)
    ):
        return AS_ASKED
    if judgement.revision is None:
        said = (
            f"nodeInfo.kernelVersion has no revision, but spec.os.targetRevision asks for {target} or later."
        )
        fix = "Check the kubelet and its nodeInfo.kernelVersion."
        return Release(Stage.UNKNOWN, Finding(IssueReason.BUILD_UNKNOWN, (), said, fix, "no revision"))
    said = (
        f"The revision of Windows Server {found} on these nodes is below {target}, which "
        "spec.os.targetRevision asks for."
    )
    fix = (
        f"Install the Windows update with revision {target} or a later one, replace the machines with "
        "patched ones, or lower spec.os.targetRevision. If they are hotpatched, add their revision to "
        "spec.os.acceptedRevisions."
    )
    return Release(Stage.DUE, Finding(IssueReason.OS_REVISION_BEHIND, (), said, fix, str(target)))


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
        if release.finding is not None:
            yield replace(release.finding, nodes=nodes)


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


class Judged(msgspec.Struct, frozen=True):
    """The judgement of a node, and the values of its labels of ``TOLD_BY_THE_NODE``, without unknown ones.

    ``release`` says how its Windows compares with what the pool asks for.
    """

    judgement: Judgement
    labels: Mapping[str, str]
    release: Release


class Judge:
    """Judges the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec) -> None:
        self._spec = spec
        self.layers = layers_of(snapshot, spec)
        self._control_plane = snapshot.support.control_plane or None
        self._today = snapshot.now.date()
        self._found: dict[tuple[NodeVersions, str | None], Judged] = {}
        self._releases: dict[Release, Release] = {}

    def judge(self, node: Node) -> Judged:
        """Return the judgement of ``node``, by what it reports and nothing else."""
        key = (node.versions, node.labels.get(WINDOWS_BUILD_LABEL))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._judge(*key)
        return found

    def _judge(self, versions: NodeVersions, windows_build: str | None) -> Judged:
        judgement = _judgement(
            versions,
            windows_build or "",
            self._spec.os,
            control_plane=self._control_plane,
            layers=self.layers,
            today=self._today,
        )
        labels: dict[str, str] = {}
        if judgement.os_version:
            labels[OS_VERSION_LABEL] = judgement.os_version
        if judgement.revision is not None:
            labels[OS_REVISION_LABEL] = str(judgement.revision)
        release = release_of(judgement, self._spec.os, layers=self.layers)
        return Judged(judgement, labels, self._releases.setdefault(release, release))


# Each pass asks twice, and what nodes report changes rarely. What the key holds is small: rows and versions.
@lru_cache(maxsize=1024)
def _judgement(
    versions: NodeVersions,
    windows_build: str,
    asked: OperatingSystem,
    *,
    control_plane: str | None,
    layers: Layered,
    today: date,
) -> Judgement:
    return judge_node(
        control_plane=control_plane,
        kubelet=versions.kubelet,
        host=versions.kernel,
        runtime=versions.runtime,
        os_image=versions.image,
        layers=layers,
        today=today,
        windows_build=windows_build,
        os_version=asked.version,
        min_revision=asked.min_revision,
        accepted_revisions=asked.accepted_revisions,
    )


def layers_of(snapshot: Snapshot, spec: WindowsNodePoolSpec) -> Layered:
    """Return the support matrix for the pool: with the rows of the cluster, and its own."""
    basis = snapshot.support
    return layered(basis.matrix, basis.cluster_rows, rows_of(spec.support_matrix))


def rows_of(rows: Iterable[MatrixRow]) -> tuple[Row, ...]:
    """Return the rows of a spec in the form that the support matrix uses."""
    return tuple(
        Row(
            os_version=row.os_version,
            min_kubernetes=(row.kubernetes_versions and row.kubernetes_versions.min) or "",
            max_kubernetes=(row.kubernetes_versions and row.kubernetes_versions.max) or "",
            min_revision=row.min_revision,
            end_of_support=row.end_of_support or "",
            verdict=row.verdict,
            reason=row.reason,
            build=row.build or "",
        )
        for row in rows
    )


def contradictory_rows(
    spec: WindowsNodePoolSpec, *, matrix: Matrix, cluster_rows: tuple[Row, ...]
) -> Iterator[str]:
    """Yield what is wrong with the pool's rows and target, by rules that CEL cannot check.

    Each are sentences that begin with the field, without the last full stop.
    """
    release, target = matrix.judged_as(spec.os.version), spec.os.target_revision
    for row in rows_of(spec.support_matrix):
        for said in contradictions(
            row, matrix=matrix, os_version=release, target_revision=target, below=cluster_rows
        ):
            yield f"spec.supportMatrix: {said}"
    # A floor of the layers below: CEL checks the pool's own rows.
    floor = layered(matrix, cluster_rows).override(release).min_revision
    if floor and target is not None and floor[0] > target:
        yield (
            f"spec.os.targetRevision: {target} is below revision {floor[0]}, the lowest that {floor[1].rows} "
            "allows. Nodes that reach the target would still be unsupported. Raise the target"
        )
