"""The verdicts of the support matrix on the nodes of a pool, and the labels that report them on the nodes.

Thousands of nodes run a handful of combinations of versions, so a pass judges each combination once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.keys import OS_REVISION_LABEL, OS_VERSION_LABEL, WINDOWS_BUILD_LABEL
from winpool.judging.release import Release, release_of
from winpool.support.contradictions import contradictions
from winpool.support.judge import judge_node
from winpool.support.rows import Row, layered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from winpool.api.v1alpha1 import MatrixRow, WindowsNodePoolSpec
    from winpool.objects.node import Node, NodeVersions
    from winpool.snapshot import Snapshot
    from winpool.support.judge import Judgement
    from winpool.support.matrix import Matrix
    from winpool.support.rows import Layered


@dataclass(frozen=True, slots=True)
class Judged:
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
        judgement = judge_node(
            control_plane=self._control_plane,
            kubelet=versions.kubelet,
            host=versions.kernel,
            runtime=versions.runtime,
            layers=self.layers,
            today=self._today,
            windows_build=windows_build or "",
            os_version=self._spec.os.version,
            min_revision=self._spec.os.min_revision,
        )
        labels: dict[str, str] = {}
        if judgement.os_version:
            labels[OS_VERSION_LABEL] = judgement.os_version
        if judgement.revision is not None:
            labels[OS_REVISION_LABEL] = str(judgement.revision)
        release = release_of(judgement, self._spec.os, layers=self.layers)
        return Judged(judgement, labels, self._releases.setdefault(release, release))


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
    spec: WindowsNodePoolSpec, *, matrix: Matrix, cluster_rows: tuple[Row, ...] = ()
) -> tuple[str, ...]:
    """Return what is wrong with the pool's rows and target, by rules that CEL cannot check.

    Each are sentences that begin with the field, without the last full stop.
    """
    return (*_wrong_rows(spec, matrix, cluster_rows), *_unreachable_target(spec, matrix, cluster_rows))


def _unreachable_target(
    spec: WindowsNodePoolSpec, matrix: Matrix, cluster_rows: tuple[Row, ...]
) -> Iterator[str]:
    """Say that a floor of the layers below is above the pool's target; CEL checks its own rows."""
    floor = layered(matrix, cluster_rows).override(matrix.judged_as(spec.os.version)).min_revision
    target = spec.os.target_revision
    if floor and target is not None and floor[0] > target:
        yield (
            f"spec.os.targetRevision: {target} is below revision {floor[0]}, the lowest that {floor[1].rows} "
            "allows. Nodes that reach the target would still be unsupported. Raise the target"
        )


def _wrong_rows(spec: WindowsNodePoolSpec, matrix: Matrix, cluster_rows: tuple[Row, ...]) -> tuple[str, ...]:
    return tuple(
        f"spec.supportMatrix: {said}"
        for row in rows_of(spec.support_matrix)
        for said in contradictions(
            row,
            matrix=matrix,
            os_version=matrix.judged_as(spec.os.version),
            target_revision=spec.os.target_revision,
            below=cluster_rows,
        )
    )
