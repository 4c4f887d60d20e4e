"""The promise of KEP-116, computed beside the data: a release is supported in its first minor and two more.

It decides nothing here. It was not kept from the beginning (1903), and vendors support what upstream never
listed; the matrix shows where the two disagree.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-windows/116-windows-node-support
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import Verdict
from winpool.support.classes import VERDICTS
from winpool.support.data import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.matrix import Matrix
    from winpool.support.versions import Minor

_UPSTREAM: Final = (Status.DOCUMENTED, Status.DOCUMENTED_LATER, Status.RELEASE_NOTES_ONLY)
"""The statuses that make a minor the first one of a release. A vendor's support is not a promise of the
project."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A cell where promise and data differ: what the promise says, what the data says, and a sentence."""

    minor: Minor
    release: str
    promised: bool
    status: Status
    message: str


def first_minor(release: str, *, matrix: Matrix) -> Minor | None:
    """Return the first minor in which upstream claims ``release``; None where it never does."""
    return next((minor for minor in matrix.minors if matrix.status(minor, release) in _UPSTREAM), None)


def is_promised(minor: Minor, release: str, *, matrix: Matrix) -> bool:
    """Whether the KEP promises ``release`` in ``minor``. "At least": it says nothing of later minors."""
    first = first_minor(release, matrix=matrix)
    if first is None or minor.major != first.major:
        return False
    return 0 <= minor.minor - first.minor <= matrix.policies.kep116.further_minors


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
    return Disagreement(minor, release, promised, status, text)


def disagreements(matrix: Matrix) -> Iterator[Disagreement]:
    """Yield all cells where promise and data differ, by minor and then by release."""
    for minor in matrix.minors:
        for release in matrix.releases:
            found = disagreement(minor, release, matrix=matrix)
            if found is not None:
                yield found
