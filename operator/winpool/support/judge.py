"""Judges what a node runs by the support matrix, and gives every reason: ``judge_node``.

It is pure and free of reads. All inputs are hashable and most nodes of a pool are alike, so a caller keeps
one answer per distinct combination. ``Basis`` is what all nodes are judged by, as a part of the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date

import msgspec

from winpool.api.matrix import Verdict
from winpool.support.compat import runtime_reasons
from winpool.support.matrix import Matrix, built_in
from winpool.support.rows import Layer, Layered, Row
from winpool.support.servicing import (
    Reason,
    class_reason,
    ended_reasons,
    revision_reasons,
    skew_reasons,
    sorted_reasons,
    worst,
)
from winpool.support.versions import Minor, WindowsVersion, is_client_edition, parse_minor, parse_windows


class Judgement(msgspec.Struct, frozen=True):
    """What a node runs, and the verdict on it.

    ``verdict`` is the worst of ``reasons``, which are sorted by that. ``os_version`` is the release as
    ``spec.os.version`` writes it, empty where the build belongs to none that is known; ``build`` is
    ``10.0.20348``, empty where nothing could be read; ``end_of_support`` is the last supported day, UTC.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    os_version: str = ""
    build: str = ""
    revision: int | None = None
    end_of_support: date | None = None


def judge_node(
    *,
    control_plane: str | None,
    kubelet: str,
    host: str,
    runtime: str,
    layers: Layered,
    today: date,
    windows_build: str = "",
    os_image: str = "",
    os_version: str = "",
    min_revision: int | None = None,
    accepted_revisions: Collection[int] = (),
) -> Judgement:
    """Judge one node by the texts that it reports.

    ``control_plane`` is the version of the API server (``1.36`` or ``v1.36.2``), None where it is not
    known; ``kubelet``, ``host`` and ``runtime`` are ``kubeletVersion``, ``kernelVersion`` and
    ``containerRuntimeVersion`` of the node's nodeInfo; ``windows_build`` is its label
    ``node.kubernetes.io/windows-build``, empty where it has none. ``os_image`` is ``osImage`` of nodeInfo, a
    name for marketing: it can only say that a build, which client editions share with a Windows Server, is no
    Windows Server. ``min_revision`` is the pool's own floor, for nodes of the release ``os_version``, or for
    all where that is empty: revisions of different releases cannot be compared. ``accepted_revisions`` pass
    it, although they are lower. ``today`` is the day in UTC.

    The release is judged in the kubelet's minor, since the kubelet is what runs on Windows. Where only the
    control plane's minor does not support it, that is a warning: the kubelet cannot follow it there.
    """
    version = parse_windows(host)
    release = layers.release_of(version) if version else ""
    # A row of the cluster or the pool may name the release of a build that no Windows Server has.
    client = release if release in layers.matrix.releases and is_client_edition(os_image) else ""
    node = _Node(
        host=host,
        version=version,
        release="" if client else release,
        client=client,
        kubelet=parse_minor(kubelet),
        control_plane=parse_minor(control_plane) if control_plane else None,
        layers=layers,
    )
    end = node.layers.end_of_support(node.release)
    reasons = sorted_reasons(
        (
            *_unread(node, kubelet),
            *_class(node),
            *(ended_reasons(node.release, end[0], layer=end[1], today=today) if end else ()),
            *_floor(node, _floors(node, os_version, min_revision, accepted_revisions)),
            *(revision_reasons(version, matrix=layers.matrix) if version else ()),
            *_skew(node),
            *runtime_reasons(runtime, kubelet=node.kubelet, host=version, matrix=layers.matrix),
            *_label(node, windows_build),
        )
    )
    return Judgement(
        verdict=worst(reasons),
        reasons=reasons,
        os_version=node.release,
        build=version.build_text if version else "",
        revision=version.revision if version else None,
        end_of_support=end[0] if end else None,
    )


class _Node(msgspec.Struct, frozen=True):
    """What was read from the texts of a node; None, or an empty release, for what could not be read.

    ``client`` is the release that has the build of the node, where the node runs a client edition.
    """

    host: str
    version: WindowsVersion | None
    release: str
    client: str
    kubelet: Minor | None
    control_plane: Minor | None
    layers: Layered


def _unread(node: _Node, kubelet_text: str) -> Iterator[Reason]:
    """Say what is not known of a node: its release of Windows Server, and the minor of its kubelet."""
    if node.version is None:
        yield Reason(
            "HostVersionUnknown",
            Verdict.UNKNOWN,
            f"The kernelVersion {node.host[:60]!r} is no version of Windows.",
            fix="Check the kubelet of the node, and its nodeInfo.kernelVersion.",
            cause="kernelVersion",
        )
    elif node.client:
        yield Reason(
            "ClientEdition",
            Verdict.UNKNOWN,
            f"nodeInfo.osImage names a client edition of Windows, which has the build of Windows Server "
            f"{node.client}, {node.version.build_text}. Kubernetes supports nodes with Windows Server only.",
            fix=f"Replace the node with a machine that runs Windows Server {node.client}.",
            cause="client edition",
        )
    elif not node.release:
        yield Reason(
            "BuildUnknown",
            Verdict.UNKNOWN,
            f"Build {node.version.build_text} is no release of Windows Server that winpool knows.",
            fix="Update winpool, name the release of this build in a supportMatrix row, or replace the node "
            "with one that runs a known release of Windows Server.",
        )
    if node.kubelet is None:
        yield Reason(
            "KubeletVersionUnknown",
            Verdict.UNKNOWN,
            f"The kubeletVersion {kubelet_text[:60]!r} is no version of Kubernetes.",
            fix="Check nodeInfo.kubeletVersion of the node.",
            cause="kubeletVersion",
        )


def _class(node: _Node) -> Iterator[Reason]:
    """Judge the release in the minor of the kubelet, and in that of its control plane."""
    if not node.release or node.kubelet is None:
        return
    own = class_reason(node.kubelet, node.release, layers=node.layers)
    yield own
    if own.verdict is Verdict.UNSUPPORTED or node.control_plane is None or node.control_plane <= node.kubelet:
        return
    there = class_reason(node.control_plane, node.release, layers=node.layers)
    if there.verdict is Verdict.UNSUPPORTED:
        yield Reason(
            "ControlPlaneUnsupported",
            Verdict.WARNED,
            f"The kubelet cannot follow its control plane: {there.message}",
            fix=there.fix,
            layer=there.layer,
        )
    elif there.verdict is Verdict.UNKNOWN:
        yield Reason("ControlPlaneNotListed", Verdict.UNKNOWN, there.message, fix=there.fix)


def _floors(
    node: _Node, os_version: str, min_revision: int | None, accepted_revisions: Collection[int]
) -> tuple[int, Layer] | None:
    """Return the highest floor of all layers, and its layer."""
    if not node.release:
        return None
    found = node.layers.override(node.release).min_revision
    if min_revision is None or node.layers.matrix.judged_as(os_version) not in ("", node.release):
        return found
    if node.version is not None and node.version.revision in accepted_revisions:
        return found
    return (min_revision, Layer.POOL) if found is None or min_revision > found[0] else found


def _floor(node: _Node, floor: tuple[int, Layer] | None) -> Iterator[Reason]:
    if floor is None or node.version is None:
        return
    least, layer = floor
    asked = f"{layer.rows} asks for at least revision {least} of build {node.version.build_text}"
    if node.version.revision is None:
        yield Reason(
            "RevisionUnknown",
            Verdict.UNKNOWN,
            f"The kernelVersion {node.version} has no revision, but {asked}.",
            fix="Check the kubelet of the node.",
            layer=layer,
        )
    elif node.version.revision < least:
        yield Reason(
            "RevisionTooLow",
            Verdict.UNSUPPORTED,
            # Without the revision that it runs, so that nodes below one floor share an issue.
            f"The revision is too low: {asked}.",
            fix="Install the Windows updates on the node, or replace it.",
            layer=layer,
        )


def _skew(node: _Node) -> Iterator[Reason]:
    if node.control_plane is None:
        yield Reason(
            "ControlPlaneUnknown",
            Verdict.UNKNOWN,
            "The version of the control plane is not known, so the version skew cannot be judged.",
            fix="Check whether the API server answers /version, and read the operator's log.",
        )
    elif node.kubelet is not None:
        yield from skew_reasons(node.kubelet, control_plane=node.control_plane, matrix=node.layers.matrix)


def _label(node: _Node, windows_build: str) -> Iterator[Reason]:
    if windows_build and node.version is not None and windows_build != node.version.build_text:
        yield Reason(
            "LabelDisagrees",
            Verdict.WARNED,
            f"The label node.kubernetes.io/windows-build is {windows_build[:63]!r}, but the build is "
            f"{node.version.build_text}. Kubernetes schedules pods here that ask for another build.",
            fix="Remove the label from the kubelet's --node-labels, or restart the kubelet, which sets it.",
            cause=f"windows-build {node.version.build_text}",
        )


class Basis(msgspec.Struct, frozen=True):
    """The version of the API server as it reports it, empty where not known, and the layers of the matrix.

    ``matrix`` is the built-in support matrix, ``cluster_rows`` the rows of the operator's settings over it.
    """

    control_plane: str = ""
    matrix: Matrix = msgspec.field(default_factory=built_in)
    cluster_rows: tuple[Row, ...] = ()
