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

_ROW: Final = "or, if your vendor supports it, say so in a supportMatrix row with verdict Allow"
_MOVE: Final = f"move the nodes to a listed release, {_ROW}"

_SENTENCES: Final[Mapping[Status, tuple[str, str]]] = {
    Status.DOCUMENTED: ("The documentation of Kubernetes {minor} lists Windows Server {release}.", ""),
    Status.DOCUMENTED_LATER: (
        "Later documentation lists Windows Server {release} for Kubernetes {minor}.",
        "",
    ),
    Status.RELEASE_NOTES_ONLY: (
        "Only the release notes of Kubernetes {minor} claim Windows Server {release}, its documentation does "
        "not.",
        "plan for a listed release",
    ),
    Status.VENDOR_ONLY: (
        "Only vendors support Windows Server {release} with Kubernetes {minor}, upstream does not list it.",
        "make sure that yours does, and say so in a supportMatrix row with verdict Allow",
    ),
    Status.DOCUMENTED_STALE: (
        "The documentation of Kubernetes {minor} still lists Windows Server {release}, but Microsoft no "
        "longer services it or upstream has no images for it.",
        "move to a newer release",
    ),
    Status.DROPPED: ("Kubernetes {minor} no longer lists Windows Server {release}.", _MOVE),
    Status.NOT_LISTED: ("Kubernetes {minor} does not list Windows Server {release}.", _MOVE),
    Status.UNKNOWN: (
        "It is not known whether Kubernetes {minor} supports Windows Server {release}.",
        "update winpool, or say it in a supportMatrix row",
    ),
}
"""What is so, and what to do about it."""

_ROW_VERDICTS: Final[Mapping[RowVerdict, tuple[str, Verdict]]] = {
    RowVerdict.ALLOW: ("AllowedByRow", Verdict.SUPPORTED),
    RowVerdict.WARN: ("WarnedByRow", Verdict.WARNED),
    RowVerdict.DENY: ("DeniedByRow", Verdict.UNSUPPORTED),
}


def class_reason(minor: Minor, release: str, *, layers: Layered) -> Reason:
    """Judge ``release`` in ``minor``: by the range and the verdict of a row, else by the built-in data."""
    said = layers.override(release)
    if said.kubernetes is not None and minor not in said.kubernetes:
        layer = said.kubernetes.layer
        return Reason(
            "OutsideRow",
            Verdict.UNSUPPORTED,
            f"A supportMatrix row of {layer.rows} has Windows Server {release} with Kubernetes "
            f"{said.kubernetes} only, and this is {minor}.",
            fix="move the nodes to another release, or widen kubernetesVersions of that row",
            layer=layer,
        )
    if said.verdict is not None:
        verdict, layer, why = said.verdict
        code, judged = _ROW_VERDICTS[verdict]
        # A block of YAML ends with a newline, which means nothing and would be written out.
        because = f": {' '.join(why.split())}" if why.strip() else ""
        text = (
            f"A supportMatrix row of {layer.rows} says {verdict} to Windows Server {release} on Kubernetes "
        )
        fix = "" if judged is Verdict.SUPPORTED else "move the nodes to another release, or change that row"
        return Reason(code, judged, f"{text}{minor}{because}.", fix=fix, layer=layer)
    return _by_data(minor, release, layers.matrix)


def _by_data(minor: Minor, release: str, matrix: Matrix) -> Reason:
    status, cell, first = matrix.status(minor, release), matrix.cells.get((minor, release)), matrix.first
    sentence, fix = _SENTENCES[status]
    text = sentence.format(minor=minor, release=release)
    if status is Status.UNKNOWN and minor < first:
        text = (
            f"Windows nodes are stable from Kubernetes {first} on; nothing is known of Windows Server "
            f"{release} with Kubernetes {minor}."
        )
        return Reason(_CODES[status], VERDICTS[status], text, fix="upgrade Kubernetes")
    if cell is not None and cell.caution:
        text = f"{text.removesuffix('.')}, but {cell.caution}."
        return Reason("DocumentedWithCaution", Verdict.WARNED, text, fix="plan the move to a newer release")
    return Reason(_CODES[status], VERDICTS[status], text, fix=fix)
