"""Rows of the matrix that admins write: for the whole cluster in a file, for one pool in its spec.

Three layers, the pool over the cluster over the built-in data, by release and field by field: a field that
is set replaces that of the layers below. Of revision floors the highest of all layers holds, so that nobody
can lower by accident what somebody else has raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final

from winpool.api.verdicts import RowVerdict
from winpool.support.verdicts import Layer
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.support.matrix import Matrix


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it is written. Empty or None means that the row says nothing of it.

    ``min_kubernetes`` and ``max_kubernetes`` are one field, ``kubernetesVersions``: outside of them the
    release is unsupported, inside of them the verdict holds, or what the built-in data says. Dates and
    minors are kept as they were written; ``contradictions`` tells of those that cannot be read or are
    reversed, and ``layered`` leaves them out, so that a slip of the pen makes no node unsupported (P4).
    """

    os_version: str
    min_kubernetes: str = ""
    max_kubernetes: str = ""
    min_revision: int | None = None
    end_of_support: str = ""
    verdict: RowVerdict | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KubernetesRange:
    """Minors from ``first`` to ``last``, both included; None is open. ``layer`` is whose row it is."""

    first: Minor | None
    last: Minor | None
    layer: Layer

    def __contains__(self, minor: Minor) -> bool:
        return (self.first is None or minor >= self.first) and (self.last is None or minor <= self.last)

    def __str__(self) -> str:
        if self.first is not None and self.last is not None:
            return f"{self.first} to {self.last}"
        return f"{self.first} and later" if self.first is not None else f"up to {self.last}"


@dataclass(frozen=True, slots=True)
class Override:
    """What the rows of all layers say together of one release, each with the layer that decided."""

    kubernetes: KubernetesRange | None = None
    min_revision: tuple[int, Layer] | None = None
    end_of_support: tuple[date, Layer] | None = None
    verdict: tuple[RowVerdict, Layer, str] | None = None
    """With the reason that stands beside it in its row."""


NOTHING: Final = Override()


@dataclass(frozen=True, slots=True)
class Layered:
    """The matrix with the rows of all layers. Equal rows over the same data make an equal, hashable value."""

    matrix: Matrix
    overrides: tuple[tuple[str, Override], ...] = field(default=())

    def override(self, release: str) -> Override:
        """Return what the rows say of ``release``."""
        return next((each for name, each in self.overrides if name == release), NOTHING)


def layered(builtin: Matrix, cluster_rows: Iterable[Row] = (), pool_rows: Iterable[Row] = ()) -> Layered:
    """Lay the rows of the cluster and of the pool over the built-in data."""
    found: dict[str, Override] = {
        each.name: Override(min_revision=(each.min_revision, Layer.BUILT_IN))
        for each in builtin.file.releases
        if each.min_revision is not None
    }
    for layer, rows in ((Layer.CLUSTER, cluster_rows), (Layer.POOL, pool_rows)):
        for row in rows:
            found[row.os_version] = _laid(row, layer, over=found.get(row.os_version, NOTHING))
    return Layered(builtin, tuple(sorted(found.items())))


def _laid(row: Row, layer: Layer, *, over: Override) -> Override:
    end = read_date(row.end_of_support)
    floor = over.min_revision
    if row.min_revision is not None and (floor is None or row.min_revision > floor[0]):
        floor = row.min_revision, layer
    return Override(
        kubernetes=_range_of(row, layer) or over.kubernetes,
        min_revision=floor,
        end_of_support=(end, layer) if end else over.end_of_support,
        verdict=(row.verdict, layer, row.reason) if row.verdict else over.verdict,
    )


def _range_of(row: Row, layer: Layer) -> KubernetesRange | None:
    """Return the minors of ``row``; None where it names none, or a first one that is newer than the last."""
    first, last = read_minor(row.min_kubernetes), read_minor(row.max_kubernetes)
    if (first is None and last is None) or (first is not None and last is not None and first > last):
        return None
    return KubernetesRange(first, last, layer)


def read_minor(text: str) -> Minor | None:
    """Read ``1.34``; None for anything else, also for a version with a patch."""
    minor = parse_minor(text)
    return minor if str(minor) == text else None


def read_date(text: str) -> date | None:
    """Read ``2027-04-01``; None for anything else, also for a day that no calendar has."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text else None


def contradictions(
    row: Row, *, matrix: Matrix | None = None, os_version: str = "", target_revision: int | None = None
) -> tuple[str, ...]:
    """Return what is wrong with ``row`` in itself, one sentence each that says what to do.

    With ``matrix`` also whether there is such a release; with the pool's ``os_version`` and
    ``target_revision`` whether the row's floor is above what the pool is to reach.
    """
    said = [*_denial(row), *_range(row), *_end(row, matrix)]
    if row.min_revision is not None and row.min_revision < 0:
        said.append(f"minRevision {row.min_revision} is negative: revisions count from 0")
    if (
        target_revision is not None
        and row.os_version == os_version
        and (row.min_revision or 0) > target_revision
    ):
        said.append(
            f"minRevision {row.min_revision} is above the pool's os.targetRevision {target_revision}, so "
            "that nodes that reach the target would still be unsupported: raise the target or lower the floor"
        )
    if matrix is not None:
        said.extend(_release(row, matrix))
    return tuple(f"row for osVersion {row.os_version!r}: {each}" for each in said)


def _denial(row: Row) -> list[str]:
    if row.verdict is not RowVerdict.DENY or not (row.min_kubernetes or row.max_kubernetes):
        return []
    return [
        "verdict Deny with kubernetesVersions denies the release inside of them and outside: leave "
        "kubernetesVersions out, or write verdict Allow or Warn and the range that is not denied"
    ]


def _range(row: Row) -> list[str]:
    said = []
    found: list[Minor] = []
    for name, text in (("min", row.min_kubernetes), ("max", row.max_kubernetes)):
        minor = read_minor(text)
        if minor is not None:
            found.append(minor)
        elif text:
            said.append(f"kubernetesVersions.{name} {text!r} is no minor of Kubernetes: write it as '1.34'")
    if len(found) == 2 and found[0] > found[1]:
        said.append(
            f"kubernetesVersions.min {found[0]} is newer than max {found[1]}, so that no minor is between "
            "them: exchange the two"
        )
    return said


def _end(row: Row, matrix: Matrix | None) -> list[str]:
    if not row.end_of_support:
        return []
    end = read_date(row.end_of_support)
    if end is None:
        return [f"endOfSupport {row.end_of_support!r} is no day of the calendar: write it as '2027-04-01'"]
    release = matrix.releases.get(row.os_version) if matrix else None
    if release is not None and end < release.available:
        return [f"endOfSupport {end} is before the release came out on {release.available}: correct the date"]
    return []


def _release(row: Row, matrix: Matrix) -> list[str]:
    release = matrix.releases.get(row.os_version)
    if release is None:
        known = ", ".join(matrix.releases)
        return [f"is no release that can be told by its build, so the row has no effect: use one of {known}"]
    if release.shares_build_with:
        other = release.shares_build_with
        return [f"has the build of {other}, and nodes are judged as {other}: write the row for {other!r}"]
    return []
