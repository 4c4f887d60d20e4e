"""Reads the built-in matrix once from ``matrix.yaml``, and indexes it for lookups.

That it has no gaps and no contradictions ``tools/gen/matrix_faults.py`` says when it is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from winpool.support.data import (
    Cell,
    Feature,
    KubernetesMinor,
    MatrixFile,
    PauseImage,
    Runtime,
    Status,
    WindowsRelease,
    read,
)
from winpool.support.versions import Minor, parse_minor

FILE: Final = "matrix.yaml"


class Matrix(msgspec.Struct, frozen=True, eq=False):
    """The data, indexed. Compared by identity, so that it can cheaply be part of a key.

    ``builds`` are the releases that nodes are judged as, by their builds; ``sandboxes`` the pause images that
    lines of containerd use by default.
    """

    file: MatrixFile
    releases: Mapping[str, WindowsRelease]
    builds: Mapping[int, WindowsRelease]
    minors: Mapping[Minor, KubernetesMinor]
    cells: Mapping[tuple[Minor, str], Cell]
    runtimes: Mapping[tuple[Minor, str], Runtime]
    sandboxes: Mapping[tuple[int, int], PauseImage]

    @property
    def as_of(self) -> date:
        """The newest state of the sources that was read for a minor, or for a release in one."""
        return max(row.as_of for row in (*self.file.minors, *self.file.windows))

    def judged_as(self, name: str) -> str:
        """Return the release that nodes of ``name`` are judged as: another where the two share a build."""
        release = self.releases.get(name)
        return release.shares_build_with or name if release else name

    def status(self, minor: Minor, release: str) -> Status:
        """Return what the sources say of ``release`` in ``minor``.

        Unknown for a release or a minor that is not in the data, and for a minor that was not out when the
        data was read; not listed where both are known and there is no row for them.
        """
        known = self.minors.get(minor)
        if known is None or known.released is None or release not in self.releases:
            return Status.UNKNOWN
        cell = self.cells.get((minor, release))
        return Status.NOT_LISTED if cell is None else cell.status


def parse(text: str) -> Matrix:
    """Read a matrix from the text of a file like the packaged one. Raises DataError."""
    file = read(text, MatrixFile, trusted=True)
    images = {each.image: each for each in file.pause_images}
    return Matrix(
        file=file,
        releases={each.name: each for each in file.releases},
        builds={each.build: each for each in file.releases if not each.shares_build_with},
        minors={_minor(each.name): each for each in file.minors},
        cells={(_minor(each.kubernetes), each.release): each for each in file.windows},
        runtimes={(_minor(each.kubernetes), each.name): each for each in file.runtimes},
        sandboxes={_minor(each.containerd): images[each.image] for each in file.sandboxes},
    )


@cache
def built_in() -> Matrix:
    """Return the matrix of the package. The file is read at the first call, never again."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return parse(text)


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    assert minor is not None  # the schema has its pattern
    return minor


class FeatureStage(StrEnum):
    """How far a feature is in one minor."""

    ABSENT = "absent"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"
    REMOVED = "removed"
    UNKNOWN = "unknown"
    """The minor is not in the data, or was not out when it was read."""


def stages_of(feature: Feature) -> tuple[tuple[FeatureStage, Minor], ...]:
    """Return the stages of ``feature`` with the minor that each begins in, the oldest first."""
    written = (
        (FeatureStage.ALPHA, feature.alpha),
        (FeatureStage.BETA, feature.beta),
        (FeatureStage.STABLE, feature.stable),
        (FeatureStage.REMOVED, feature.removed),
    )
    return tuple((stage, minor) for stage, text in written if text and (minor := parse_minor(text)))


def stage_in(minor: Minor, feature: Feature, *, matrix: Matrix) -> tuple[FeatureStage, Minor | None]:
    """Return the stage of ``feature`` in ``minor``, and since which minor; None where it has none."""
    known = matrix.minors.get(minor)
    if known is None or known.released is None:
        return FeatureStage.UNKNOWN, None
    reached = [(stage, since) for stage, since in stages_of(feature) if since <= minor]
    return reached[-1] if reached else (FeatureStage.ABSENT, None)
