"""What the data says of a release in a minor of Kubernetes, as a verdict with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import RowVerdict, Verdict
from winpool.support.data import Status
from winpool.support.verdicts import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.support.matrix import Matrix
    from winpool.support.rows import Layered
    from winpool.support.versions import Minor

VERDICTS: Final[Mapping[Status, Verdict]] = {
    Status.DOCUMENTED: Verdict.SUPPORTED,
    Status.DOCUMENTED_LATER: Verdict.SUPPORTED,
    Status.RELEASE_NOTES_ONLY: Verdict.WARNED,
    Status.VENDOR_ONLY: Verdict.WARNED,
    Status.DOCUMENTED_STALE: Verdict.UNSUPPORTED,
    Status.DROPPED: Verdict.UNSUPPORTED,
    Status.NOT_LISTED: Verdict.UNSUPPORTED,
    Status.UNKNOWN: Verdict.UNKNOWN,
}

_CODES: Final[Mapping[Status, str]] = {
    Status.DOCUMENTED: "Documented",
    Status.DOCUMENTED_LATER: "DocumentedLater",
    Status.RELEASE_NOTES_ONLY: "ReleaseNotesOnly",
    Status.VENDOR_ONLY: "VendorOnly",
    Status.DOCUMENTED_STALE: "DocumentedStale",
    Status.DROPPED: "Dropped",
    Status.NOT_LISTED: "NotListed",
    Status.UNKNOWN: "ReleaseUnknown",
}

_ROW: Final = "If your vendor supports it, add a supportMatrix row with verdict Allow."
_MOVE: Final = f"Replace the nodes with a listed release. {_ROW}"

_SENTENCES: Final[Mapping[Status, tuple[str, str]]] = {
    Status.DOCUMENTED: ("The documentation of Kubernetes {minor} lists Windows Server {release}.", ""),
    Status.DOCUMENTED_LATER: (
        "Later documentation lists Windows Server {release} for Kubernetes {minor}.",
        "",
    ),
    Status.RELEASE_NOTES_ONLY: (
        "Only the release notes of Kubernetes {minor} list Windows Server {release}. Its documentation does "
        "not.",
        "Plan for a listed release.",
    ),
    Status.VENDOR_ONLY: (
        "Only vendors support Windows Server {release} with Kubernetes {minor}. Kubernetes does not list it.",
        "Check that your vendor does, and add a supportMatrix row with verdict Allow.",
    ),
    Status.DOCUMENTED_STALE: (
        "The documentation of Kubernetes {minor} still lists Windows Server {release}, but Microsoft no "
        "longer services it, or Kubernetes has no images for it.",
        "Replace the nodes with a newer release.",
    ),
    Status.DROPPED: ("Kubernetes {minor} no longer lists Windows Server {release}.", _MOVE),
    Status.NOT_LISTED: ("Kubernetes {minor} does not list Windows Server {release}.", _MOVE),
    Status.UNKNOWN: (
        "It is not known whether Kubernetes {minor} supports Windows Server {release}.",
        "Update winpool, or add a supportMatrix row.",
    ),
}
"""For each status the message, and the fix."""

_ROW_VERDICTS: Final[Mapping[RowVerdict, tuple[str, Verdict]]] = {
    RowVerdict.ALLOW: ("AllowedByRow", Verdict.SUPPORTED),
    RowVerdict.WARN: ("WarnedByRow", Verdict.WARNED),
    RowVerdict.DENY: ("DeniedByRow", Verdict.UNSUPPORTED),
}


def class_reason(minor: Minor, release: str, *, layers: Layered) -> Reason:
    """Judge ``release`` in ``minor``: by the range and verdict of a row, or by the built-in data."""
    said = layers.override(release)
    if said.kubernetes is not None and minor not in said.kubernetes:
        layer = said.kubernetes.layer
        return Reason(
            "OutsideRow",
            Verdict.UNSUPPORTED,
            f"A supportMatrix row of {layer.rows} allows Windows Server {release} with Kubernetes "
            f"{said.kubernetes} only, and this is {minor}.",
            fix="Replace the nodes with another release, or widen kubernetesVersions of that row.",
            layer=layer,
        )
    if said.verdict is not None:
        verdict, layer, why = said.verdict
        code, judged = _ROW_VERDICTS[verdict]
        # A block of YAML ends with a newline, which must not be part of the message.
        because = f": {' '.join(why.split())}" if why.strip() else ""
        text = (
            f"A supportMatrix row of {layer.rows} says {verdict} to Windows Server {release} on Kubernetes "
        )
        fix = (
            ""
            if judged is Verdict.SUPPORTED
            else "Replace the nodes with another release, or change that row."
        )
        return Reason(code, judged, f"{text}{minor}{because}.", fix=fix, layer=layer)
    return _by_data(minor, release, layers.matrix)


def _by_data(minor: Minor, release: str, matrix: Matrix) -> Reason:
    status, cell, first = matrix.status(minor, release), matrix.cells.get((minor, release)), matrix.first
    sentence, fix = _SENTENCES[status]
    text = sentence.format(minor=minor, release=release)
    if status is Status.UNKNOWN and minor < first:
        text = (
            f"Windows nodes are stable since Kubernetes {first}. The support matrix has nothing about "
            f"Windows Server {release} with Kubernetes {minor}."
        )
        return Reason(_CODES[status], VERDICTS[status], text, fix="Upgrade Kubernetes.")
    if cell is not None and cell.caution:
        text = f"{text.removesuffix('.')}, but {cell.caution}."
        return Reason("DocumentedWithCaution", Verdict.WARNED, text, fix="Plan for a newer release.")
    return Reason(_CODES[status], VERDICTS[status], text, fix=fix)
