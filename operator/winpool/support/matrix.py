"""The built-in matrix, read once from ``matrix.yaml`` and indexed for lookups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from winpool.support.checks import problems
from winpool.support.data import (
    Cell,
    KubernetesMinor,
    MatrixFile,
    PauseImage,
    Runtime,
    Source,
    Status,
    WindowsRelease,
)
from winpool.support.text import DataError, read
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from winpool.support.rules import CompatibilityRules, Policies
    from winpool.support.versions import Release, WindowsVersion

FILE: Final = "matrix.yaml"


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The data, indexed. Compared by identity, so that it can cheaply be part of a key."""

    file: MatrixFile
    releases: Mapping[str, WindowsRelease]
    builds: Mapping[int, WindowsRelease]
    minors: Mapping[Minor, KubernetesMinor]
    cells: Mapping[tuple[Minor, str], Cell]
    runtimes: Mapping[tuple[Minor, str], Runtime]
    sandboxes: Mapping[tuple[int, int], PauseImage]

    @property
    def compatibility(self) -> CompatibilityRules:
        """The constants of the rules for images on hosts."""
        return self.file.compatibility

    @property
    def policies(self) -> Policies:
        """The constants of Kubernetes' own rules."""
        return self.file.policies

    @property
    def sources(self) -> Mapping[str, Source]:
        """All sources, by id."""
        return self.file.sources

    @property
    def as_of(self) -> date:
        """The newest state of the sources that was read for a minor, or for a release in one."""
        return max(row.as_of for row in (*self.file.minors, *self.file.windows))

    @property
    def first(self) -> Minor:
        """The first minor with stable Windows nodes, and the oldest in the data."""
        return min(self.minors)

    def release_of(self, version: WindowsVersion) -> WindowsRelease | None:
        """Return the release that a node with ``version`` runs; None for a build that is not in the data."""
        return self.builds.get(version.build) if version.is_windows_nt else None

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

    def sandbox(self, containerd: Release) -> PauseImage | None:
        """Return the pause image that ``containerd`` uses by default; None for a line not in the data."""
        return self.sandboxes.get(containerd.line)


def parse(text: str, *, trusted: bool = False) -> Matrix:
    """Read a matrix from the text of a file like the packaged one, ``trusted`` if it is our own.

    Raises DataError with a sentence per fault that says which row it is in.
    """
    file = read(text, MatrixFile, trusted=trusted)
    found = tuple(problems(file))
    if found:
        raise DataError(found)
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
    return parse(text, trusted=True)


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    assert minor is not None  # the schema has its pattern
    return minor
