"""Answers what the data says of a release, a revision and a kubelet, each as a verdict with its reason.

A release of Windows is serviced through its last day, in UTC. A bad revision is a warning, since not every
node uses what it breaks. A kubelet is never newer than its API server, and not much older:
https://kubernetes.io/releases/version-skew-policy/#kubelet

The promise of KEP-116, that a release is supported in its first minor and two more, is computed beside the
data and decides nothing. It was not kept from the beginning (1903), and vendors support what upstream never
listed; the matrix shows where the two disagree.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-windows/116-windows-node-support
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from typing import Final

import msgspec

from winpool.api.matrix import RowVerdict, Verdict
from winpool.support.data import Status, WindowsRelease
from winpool.support.matrix import Matrix
from winpool.support.rows import Layer, Layered
from winpool.support.versions import Minor, WindowsVersion, parse_minor


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One reason of a verdict.

    ``message`` says, in sentences, what is so and where; ``fix`` what to do about it, empty where there is
    nothing to be done. ``layer`` is the one that decided. ``cause`` is what nodes have in common where
    the message quotes a text that each may have of its own; where it is empty the message is.
    """

    code: str
    verdict: Verdict
    message: str
    fix: str = ""
    layer: Layer = Layer.BUILT_IN
    cause: str = ""

    @property
    def text(self) -> str:
        """Message and fix."""
        return f"{self.message} {self.fix}" if self.fix else self.message


_FROM_BEST: Final = tuple(Verdict)
"""Unknown is worse than Warned, since it blocks upgrades, and better than Unsupported: what is known to be
unsupported stays so when other information is missing. Missing information alone is never Unsupported
(P4)."""


def worst(reasons: Iterable[Reason]) -> Verdict:
    """Return the worst verdict among ``reasons``; Supported where there is none."""
    return max((each.verdict for each in reasons), key=_FROM_BEST.index, default=Verdict.SUPPORTED)


def sorted_reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return ``reasons``, the worst first, and in the given order where they are equally bad."""
    return tuple(sorted(reasons, key=lambda each: -_FROM_BEST.index(each.verdict)))


NOTICE_DAYS: Final = 180
"""Half a year: long enough to plan new node pools, and before most yearly change freezes."""

WARNING_DAYS: Final = 90
"""A quarter: by now the move should have begun."""


class EndingLevel(StrEnum):
    """How near the end of support is."""

    NONE = "None"
    NOTICE = "Notice"
    WARNING = "Warning"
    ENDED = "Ended"


def support_ending(end: date, today: date) -> EndingLevel:
    """Return how near ``end``, the last supported day, is on ``today``, both in UTC."""
    left = (end - today).days
    if left < 0:
        return EndingLevel.ENDED
    if left <= WARNING_DAYS:
        return EndingLevel.WARNING
    return EndingLevel.NOTICE if left <= NOTICE_DAYS else EndingLevel.NONE


def servicing_told(release: WindowsRelease, today: date) -> str:
    """Say in a sentence how long Microsoft services ``release``, and what can be bought after that."""
    parts = [("mainstream" if release.extended_end else "all", release.mainstream_end)]
    if release.extended_end:
        parts.append(("extended", release.extended_end))
    told = ", ".join(f"{name} support {'ended' if today > end else 'ends'} on {end}" for name, end in parts)
    bought = f"; extended security updates {release.esu}" if release.esu else ""
    return f"Windows Server {release.name}: {told}{bought}."


def ended_reasons(release: str, end: date, *, layer: Layer, today: date) -> Iterator[Reason]:
    """Say that the support of ``release`` has ended, where it has; ``end`` comes from ``layer``."""
    if today <= end:
        return
    who = "Microsoft's support" if layer is Layer.BUILT_IN else f"The support that {layer.rows} grants"
    yield Reason(
        "SupportEnded",
        Verdict.UNSUPPORTED,
        f"{who} for Windows Server {release} ended on {end}.",
        fix="Replace the nodes with a newer release. If you have support beyond that day, set endOfSupport "
        "in a supportMatrix row.",
        layer=layer,
    )


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

_CHANGE: Final = "Replace the nodes with another release, or change that row."

_ROW_VERDICTS: Final[Mapping[RowVerdict, tuple[str, Verdict, str]]] = {
    RowVerdict.ALLOW: ("AllowedByRow", Verdict.SUPPORTED, ""),
    RowVerdict.WARN: ("WarnedByRow", Verdict.WARNED, _CHANGE),
    RowVerdict.DENY: ("DeniedByRow", Verdict.UNSUPPORTED, _CHANGE),
}
"""For each verdict of a row the code, what it comes to, and the fix."""


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
        code, judged, fix = _ROW_VERDICTS[verdict]
        # A block of YAML ends with a newline, which must not be part of the message.
        because = f": {' '.join(why.split())}" if why.strip() else ""
        text = (
            f"A supportMatrix row of {layer.rows} says {verdict} to Windows Server {release} on Kubernetes "
        )
        return Reason(code, judged, f"{text}{minor}{because}.", fix=fix, layer=layer)
    return _by_data(minor, release, layers.matrix)


def _by_data(minor: Minor, release: str, matrix: Matrix) -> Reason:
    status, cell = matrix.status(minor, release), matrix.cells.get((minor, release))
    first = min(matrix.minors)
    sentence, fix = _SENTENCES[status]
    code = "ReleaseUnknown" if status is Status.UNKNOWN else f"{status[:1].upper()}{status[1:]}"
    text = sentence.format(minor=minor, release=release)
    if status is Status.UNKNOWN and minor < first:
        text = (
            f"Windows nodes are stable since Kubernetes {first}. The support matrix has nothing about "
            f"Windows Server {release} with Kubernetes {minor}."
        )
        return Reason(code, VERDICTS[status], text, fix="Upgrade Kubernetes.")
    if cell is not None and cell.caution:
        text = f"{text.removesuffix('.')}, but {cell.caution}."
        return Reason("DocumentedWithCaution", Verdict.WARNED, text, fix="Plan for a newer release.")
    return Reason(code, VERDICTS[status], text, fix=fix)


_UPSTREAM: Final = (Status.DOCUMENTED, Status.DOCUMENTED_LATER, Status.RELEASE_NOTES_ONLY)
"""The statuses that make a minor the first one of a release. A vendor's support is not a promise of the
project."""


class Disagreement(msgspec.Struct, frozen=True):
    """A cell where promise and data differ: what the promise says, and a sentence."""

    minor: Minor
    release: str
    promised: bool
    message: str


def first_minor(release: str, *, matrix: Matrix) -> Minor | None:
    """Return the first minor in which upstream claims ``release``; None where it never does."""
    return next((minor for minor in matrix.minors if matrix.status(minor, release) in _UPSTREAM), None)


def is_promised(minor: Minor, release: str, *, matrix: Matrix) -> bool:
    """Whether the KEP promises ``release`` in ``minor``. "At least": it says nothing of later minors."""
    first = first_minor(release, matrix=matrix)
    if first is None or minor.major != first.major:
        return False
    return 0 <= minor.minor - first.minor <= matrix.file.policies.kep116.further_minors


def disagreement(minor: Minor, release: str, *, matrix: Matrix) -> Disagreement | None:
    """Compare promise and data for ``release`` in ``minor``; None where they do not disagree.

    They disagree where the KEP promises what the data does not support or does not know, and where a
    vendor supports what the KEP does not promise.
    """
    status, promised = matrix.status(minor, release), is_promised(minor, release, matrix=matrix)
    if promised and VERDICTS[status] in (Verdict.UNSUPPORTED, Verdict.UNKNOWN):
        found = "is not known to" if VERDICTS[status] is Verdict.UNKNOWN else "does not"
        text = (
            f"KEP-116 promises Windows Server {release} for Kubernetes {minor}, since "
            f"{first_minor(release, matrix=matrix)} was its first minor, and {minor} {found} support it."
        )
    elif not promised and status is Status.VENDOR_ONLY:
        text = (
            f"KEP-116 promises nothing of Windows Server {release} for Kubernetes {minor}, and at least "
            "one vendor supports it there."
        )
    else:
        return None
    return Disagreement(minor, release, promised, text)


def revision_reasons(version: WindowsVersion, *, matrix: Matrix) -> Iterator[Reason]:
    """Warn of what the revision of ``version`` is known to break; nothing is said where it has none."""
    if version.revision is None:
        return
    for each in matrix.file.bad_revisions:
        if each.build == version.build and each.first <= version.revision <= each.last:
            sources = ", ".join(matrix.file.sources[source].url for source in each.source)
            yield Reason(
                "KnownBadRevision",
                Verdict.WARNED,
                f"Revisions {each.first} to {each.last} of build {each.build} break {each.affects} "
                f"({sources}).",
                fix=f"Install {each.fix} or later on the node, or replace it, if you use that.",
            )


def skew_reasons(kubelet: Minor, *, control_plane: Minor, matrix: Matrix) -> Iterator[Reason]:
    """Compare a kubelet with its control plane; yield nothing for one that conforms to the policy."""
    policy = matrix.file.policies.skew
    before = parse_minor(policy.before)
    allowed = policy.minors_before if before is not None and kubelet < before else policy.minors
    if kubelet > control_plane:
        yield Reason(
            "KubeletNewer",
            Verdict.UNSUPPORTED,
            f"The kubelet has version {kubelet}, and the control plane {control_plane}. A kubelet must never "
            "be newer.",
            fix="Upgrade the control plane first, or install an older kubelet on the node.",
        )
    elif kubelet.major != control_plane.major or control_plane.minor - kubelet.minor > allowed:
        yield Reason(
            "KubeletTooOld",
            Verdict.UNSUPPORTED,
            f"The kubelet has version {kubelet}, and the control plane {control_plane}. A kubelet {kubelet} "
            f"may be at most {allowed} minor versions older.",
            fix="Upgrade the kubelet.",
        )
