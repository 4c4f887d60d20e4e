"""Reads the rows of the support matrix that admins write, and lays them over the built-in data.

They are in a file for the whole cluster, or in ``spec.supportMatrix`` of one pool:

.. code-block:: yaml

    supportMatrix:
    - osVersion: "2019"
      kubernetesVersions: {min: "1.30", max: "1.34"}
      endOfSupport: "2027-04-01"
      verdict: Allow
      reason: backports of our vendor

The pool comes before the cluster and the cluster before the built-in data, by release and field by field: a
field that is set replaces that of the layers below. Of revision floors the highest of all layers holds, so
that no layer can lower by accident what another has raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from typing import Final

import msgspec

from winpool.api.fields import is_os_version, is_windows_build, read_date
from winpool.api.matrix import RowVerdict
from winpool.support.data import DataError, read
from winpool.support.matrix import Matrix
from winpool.support.versions import Minor, WindowsVersion, parse_minor


class Layer(StrEnum):
    """Which layer decided: the data of the package, the cluster-wide file, or the pool."""

    BUILT_IN = "BuiltIn"
    CLUSTER = "Cluster"
    POOL = "Pool"

    @property
    def rows(self) -> str:
        """The rows of this layer, in words for people."""
        return _ROWS[self]


_ROWS: Final = {
    Layer.BUILT_IN: "the built-in support matrix",
    Layer.CLUSTER: "the operator's --support-matrix-file",
    Layer.POOL: "the pool",
}


class Row(msgspec.Struct, frozen=True):
    """One row as it is written. Empty or None means that the row says nothing of it.

    ``min_kubernetes`` and ``max_kubernetes`` are one field, ``kubernetesVersions``: outside of them the
    release is unsupported, inside of them the verdict holds, or what the built-in data says. Dates and
    minors are kept as they were written; ``contradictions`` reports those that cannot be read or are
    reversed, and ``layered`` leaves them out, so that a typing error makes no node unsupported (P4).
    ``build``, such as ``10.0.30000``, names a release that the built-in data does not know.
    """

    os_version: str
    min_kubernetes: str = ""
    max_kubernetes: str = ""
    min_revision: int | None = None
    end_of_support: str = ""
    verdict: RowVerdict | None = None
    reason: str = ""
    build: str = ""


class KubernetesRange(msgspec.Struct, frozen=True):
    """Minors from ``first`` to ``last``, both included; None is open. ``layer`` is the layer of the row."""

    first: Minor | None
    last: Minor | None
    layer: Layer

    def __contains__(self, minor: Minor) -> bool:
        return (self.first is None or minor >= self.first) and (self.last is None or minor <= self.last)

    def __str__(self) -> str:
        if self.first is not None and self.last is not None:
            return f"{self.first} to {self.last}"
        return f"{self.first} and later" if self.first is not None else f"up to {self.last}"


class Override(msgspec.Struct, frozen=True):
    """What the rows of all layers say together of one release, each with the layer that decided."""

    kubernetes: KubernetesRange | None = None
    min_revision: tuple[int, Layer] | None = None
    end_of_support: tuple[date, Layer] | None = None
    verdict: tuple[RowVerdict, Layer, str] | None = None
    """With the reason in the same row."""


NOTHING: Final = Override()


class Layered(msgspec.Struct, frozen=True):
    """The matrix with the rows of all layers. Equal rows over the same data make an equal, hashable value.

    ``named`` are the builds that only rows know, each with the name of its release.
    """

    matrix: Matrix
    overrides: tuple[tuple[str, Override], ...] = msgspec.field(default=())
    named: tuple[tuple[int, str], ...] = msgspec.field(default=())

    def override(self, release: str) -> Override:
        """Return what the rows say of ``release``."""
        return next((each for name, each in self.overrides if name == release), NOTHING)

    def end_of_support(self, release: str) -> tuple[date, Layer] | None:
        """Return the last supported day of ``release``, and the layer that says so; None where unknown."""
        if said := self.override(release).end_of_support:
            return said
        known = self.matrix.releases.get(release)
        return (known.end_of_support, Layer.BUILT_IN) if known else None

    def release_of(self, version: WindowsVersion) -> str:
        """Return the release that a node with ``version`` runs; empty where neither data nor rows know it."""
        release = self.matrix.builds.get(version.build)
        if release is not None:
            return release.name
        return dict(self.named).get(version.build, "")

    def build_of(self, release: str) -> int | None:
        """Return the build of ``release``; None where neither data nor rows know it."""
        known = self.matrix.releases.get(release)
        if known is not None:
            return known.build
        return next((build for build, name in self.named if name == release), None)


def layered(builtin: Matrix, cluster_rows: Iterable[Row] = (), pool_rows: Iterable[Row] = ()) -> Layered:
    """Lay the rows of the cluster and of the pool over the built-in data."""
    found: dict[str, Override] = {
        each.name: Override(min_revision=(each.min_revision, Layer.BUILT_IN))
        for each in builtin.file.releases
        if each.min_revision is not None
    }
    builds: dict[str, int] = {}
    for layer, rows in ((Layer.CLUSTER, cluster_rows), (Layer.POOL, pool_rows)):
        for row in rows:
            found[row.os_version] = _laid(row, layer, over=found.get(row.os_version, NOTHING))
            if (build := read_build(row.build)) is not None:
                builds[row.os_version] = build
    return Layered(builtin, tuple(sorted(found.items())), _named(builtin, builds))


def _named(matrix: Matrix, builds: Mapping[str, int]) -> tuple[tuple[int, str], ...]:
    """Return the builds that rows name. The built-in data wins, and a build with two names has none."""
    names = Counter(builds.values())
    return tuple(
        sorted(
            (build, name)
            for name, build in builds.items()
            if name not in matrix.releases and build not in matrix.builds and names[build] == 1
        )
    )


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


def read_build(text: str) -> int | None:
    """Read ``10.0.26100``; None for anything else, also for a version with a revision."""
    return int(text.rpartition(".")[2]) if is_windows_build(text) else None


def contradictions(
    row: Row,
    *,
    matrix: Matrix | None = None,
    os_version: str = "",
    target_revision: int | None = None,
    below: Iterable[Row] = (),
) -> tuple[str, ...]:
    """Return what is wrong with ``row`` in itself, and what to do, without the last full stop.

    With ``matrix`` also whether there is such a release, where ``below`` are the rows of the layers below,
    which may name one; with the pool's ``os_version`` and ``target_revision`` whether the row's floor is
    above what the pool is to reach.
    """
    said = [*_denial(row), *_range(row), *_end(row, matrix), *_build(row)]
    if row.min_revision is not None and row.min_revision < 0:
        said.append(f"minRevision {row.min_revision} is negative. Revisions count from 0")
    if (
        target_revision is not None
        and row.os_version == os_version
        and (row.min_revision or 0) > target_revision
    ):
        said.append(
            f"minRevision {row.min_revision} is above the pool's os.targetRevision {target_revision}. Nodes "
            "that reach the target would still be unsupported. Raise the target or lower the floor"
        )
    if matrix is not None:
        said.extend(_release(row, matrix, below))
    return tuple(f"row for osVersion {row.os_version!r}: {each}" for each in said)


def _denial(row: Row) -> Iterator[str]:
    if row.verdict is RowVerdict.DENY and (row.min_kubernetes or row.max_kubernetes):
        yield (
            "verdict Deny with kubernetesVersions denies the release inside of them and outside. Keep "
            "kubernetesVersions out, or write verdict Allow or Warn and the range that is not denied"
        )


def _range(row: Row) -> Iterator[str]:
    found: list[Minor] = []
    for name, text in (("min", row.min_kubernetes), ("max", row.max_kubernetes)):
        minor = read_minor(text)
        if minor is not None:
            found.append(minor)
        elif text:
            yield f"kubernetesVersions.{name} {text!r} is no minor version of Kubernetes. Write it as '1.34'"
    if len(found) == 2 and found[0] > found[1]:
        yield (
            f"kubernetesVersions.min {found[0]} is newer than max {found[1]}, so no version is between them. "
            "Exchange the two"
        )


def _end(row: Row, matrix: Matrix | None) -> Iterator[str]:
    end = read_date(row.end_of_support)
    release = matrix.releases.get(row.os_version) if matrix else None
    if row.end_of_support and end is None:
        yield f"endOfSupport {row.end_of_support!r} is no day of the calendar. Write it as '2027-04-01'"
    if end is not None and release is not None and end < release.available:
        yield f"endOfSupport {end} is before {release.available}, the day of the release. Correct the date"


def _build(row: Row) -> Iterator[str]:
    if row.build and read_build(row.build) is None:
        yield f"build {row.build!r} is no build of Windows. Write it without revision, as '10.0.26100'"
    elif row.build and not is_os_version(row.os_version):
        yield "this is no name for a release. Write it as '2025' or '23H2'"


def _release(row: Row, matrix: Matrix, below: Iterable[Row]) -> Iterator[str]:
    release, build = matrix.releases.get(row.os_version), read_build(row.build)
    if release is None:
        yield from _of_new_release(row, build, matrix, below)
    elif other := release.shares_build_with:
        yield f"the release has the build of {other}, and counts as {other}. Write the row for {other!r}"
    elif build not in (None, release.build):
        yield f"build {row.build} is not that of this release, which is 10.0.{release.build}. Correct it"


def _of_new_release(row: Row, build: int | None, matrix: Matrix, below: Iterable[Row]) -> Iterator[str]:
    """Say what is wrong with a row for a release that the built-in data does not know."""
    builds = {each.os_version: named for each in below if (named := read_build(each.build)) is not None}
    if build is None:
        if not row.build and row.os_version not in builds:
            known = ", ".join(matrix.releases)
            yield (
                "the build of this release is not known, so the row has no effect. Use one of "
                f"{known}. If the release is newer than this data, set `build`"
            )
        return
    owner = matrix.builds.get(build)
    other = owner.name if owner else next((name for name, each in builds.items() if each == build), None)
    if other not in (None, row.os_version):
        yield (
            f"build {row.build} is that of {other}, and nodes are judged as {other}. Write the row for "
            f"{other!r}"
        )


class _Versions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min: str = ""
    max: str = ""


class _FileRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    os_version: str
    kubernetes_versions: _Versions = _Versions()
    min_revision: int | None = None
    end_of_support: str = ""
    verdict: str = ""
    reason: str = ""
    build: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    support_matrix: tuple[_FileRow, ...]


def read_rows(text: str, *, matrix: Matrix) -> tuple[Row, ...]:
    """Read the rows of the cluster-wide file.

    Raises DataError with a sentence per fault: what is no YAML, an unknown field, a release that is not in
    ``matrix`` or there twice, a row that contradicts itself. Half a file is never used.
    """
    file = read(text, _File)
    problems: list[str] = []
    rows: list[Row] = []
    for index, each in enumerate(file.support_matrix):
        at = f"supportMatrix[{index}]"
        if each.verdict and each.verdict not in tuple(RowVerdict):
            problems.append(f"{at}.verdict: {each.verdict!r} must be one of {', '.join(RowVerdict)}")
            continue
        row = Row(
            os_version=each.os_version,
            min_kubernetes=each.kubernetes_versions.min,
            max_kubernetes=each.kubernetes_versions.max,
            min_revision=each.min_revision,
            end_of_support=each.end_of_support,
            verdict=RowVerdict(each.verdict) if each.verdict else None,
            reason=each.reason,
            build=each.build,
        )
        if any(other.os_version == row.os_version for other in rows):
            problems.append(
                f"{at}: there is a row for osVersion {row.os_version!r} before it: make one of the two"
            )
        # The rows before it count like those of a layer below: they may have named its release or build.
        problems.extend(f"{at}: {said}" for said in contradictions(row, matrix=matrix, below=rows))
        rows.append(row)
    if problems:
        raise DataError(tuple(problems))
    return tuple(rows)
