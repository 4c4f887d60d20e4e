"""What the data says of a release in a minor of Kubernetes, as a verdict with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import RowVerdict, Verdict
from winpool.support.data import Status
from winpool.support.verdicts import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.support.data import Cell
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

_SENTENCES: Final[Mapping[Status, str]] = {
    Status.DOCUMENTED: "The documentation of Kubernetes {minor} lists Windows Server {release}.",
    Status.DOCUMENTED_LATER: "Later documentation lists Windows Server {release} for Kubernetes {minor}.",
    Status.RELEASE_NOTES_ONLY: "Only the release notes of Kubernetes {minor} claim Windows Server {release}, "
    "its documentation does not: plan for a listed release.",
    Status.VENDOR_ONLY: "Only vendors support Windows Server {release} with Kubernetes {minor}, "
    "upstream does not list it: make sure that yours does, and say so in a supportMatrix row with Allow.",
    Status.DOCUMENTED_STALE: "The documentation of Kubernetes {minor} still lists Windows Server {release}, "
    "but Microsoft no longer services it or upstream has no images for it: move to a newer release.",
    Status.DROPPED: "Kubernetes {minor} no longer lists Windows Server {release}: "
    f"move the nodes to a listed release, {_ROW}.",
    Status.NOT_LISTED: "Kubernetes {minor} does not list Windows Server {release}: "
    f"move the nodes to a listed release, {_ROW}.",
    Status.UNKNOWN: "It is not known whether Kubernetes {minor} supports Windows Server {release}: update "
    "winpool, or say it in a supportMatrix row.",
}

_ROW_VERDICTS: Final[Mapping[RowVerdict, tuple[str, Verdict]]] = {
    RowVerdict.ALLOW: ("AllowedByRow", Verdict.SUPPORTED),
    RowVerdict.WARN: ("WarnedByRow", Verdict.WARNED),
    RowVerdict.DENY: ("DeniedByRow", Verdict.UNSUPPORTED),
}


def class_reason(minor: Minor, release: str, *, layers: Layered) -> Reason:
    """Judge ``release`` in ``minor``: by the range and the verdict of a row, else by the built-in data."""
    said = layers.override(release)
    if said.kubernetes is not None and minor not in said.kubernetes:
        text = (
            f"A supportMatrix row has Windows Server {release} with Kubernetes {said.kubernetes} only, and "
            f"this is {minor}: move the nodes to another release, or widen kubernetesVersions of that row."
        )
        return Reason("OutsideRow", Verdict.UNSUPPORTED, text, said.kubernetes.layer)
    if said.verdict is not None:
        verdict, layer, why = said.verdict
        code, judged = _ROW_VERDICTS[verdict]
        because = f": {why}" if why else ""
        text = (
            f"A supportMatrix row says {verdict} to Windows Server {release} on Kubernetes {minor}{because}."
        )
        return Reason(code, judged, text, layer)
    return _by_data(
        layers.matrix.status(minor, release), layers.matrix.cells.get((minor, release)), minor, release
    )


def _by_data(status: Status, cell: Cell | None, minor: Minor, release: str) -> Reason:
    text = _SENTENCES[status].format(minor=minor, release=release)
    if cell is not None and cell.caution:
        text = f"{text.removesuffix('.')}, but {cell.caution}: plan the move to a newer release."
        return Reason("DocumentedWithCaution", Verdict.WARNED, text)
    return Reason(_CODES[status], VERDICTS[status], text)
