"""Rows of the matrix that admins write: for the whole cluster in a file, for one pool in its spec.

Three layers, the pool over the cluster over the built-in data, by release and field by field: a field that
is set replaces that of the layers below. Of revision floors the highest of all layers holds, so that no layer
can lower by accident what another has raised.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Final

from winpool.api.syntax import is_windows_build
from winpool.support.verdicts import Layer
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.api.verdicts import RowVerdict
    from winpool.support.matrix import Matrix
    from winpool.support.versions import WindowsVersion


@dataclass(frozen=True, slots=True)
class Row:
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


@dataclass(frozen=True, slots=True)
class KubernetesRange:
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


@dataclass(frozen=True, slots=True)
class Override:
    """What the rows of all layers say together of one release, each with the layer that decided."""

    kubernetes: KubernetesRange | None = None
    min_revision: tuple[int, Layer] | None = None
    end_of_support: tuple[date, Layer] | None = None
    verdict: tuple[RowVerdict, Layer, str] | None = None
    """With the reason in the same row."""


NOTHING: Final = Override()


@dataclass(frozen=True, slots=True)
class Layered:
    """The matrix with the rows of all layers. Equal rows over the same data make an equal, hashable value.

    ``named`` are the builds that only rows know, each with the name of its release.
    """

    matrix: Matrix
    overrides: tuple[tuple[str, Override], ...] = field(default=())
    named: tuple[tuple[int, str], ...] = field(default=())

    def override(self, release: str) -> Override:
        """Return what the rows say of ``release``."""
        return next((each for name, each in self.overrides if name == release), NOTHING)

    def release_of(self, version: WindowsVersion) -> str:
        """Return the release that a node with ``version`` runs; empty where neither data nor rows know it."""
        release = self.matrix.release_of(version)
        if release is not None:
            return release.name
        return dict(self.named).get(version.build, "") if version.is_windows_nt else ""

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


def read_date(text: str) -> date | None:
    """Read ``2027-04-01``; None for anything else, also for a day that no calendar has."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.isoformat() == text else None


def read_build(text: str) -> int | None:
    """Read ``10.0.26100``; None for anything else, also for a version with a revision."""
    return int(text.rpartition(".")[2]) if is_windows_build(text) else None
