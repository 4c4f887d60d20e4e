"""What is wrong with a row that an admin writes: alone, and together with the data and its pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.syntax import is_os_version
from winpool.api.verdicts import RowVerdict
from winpool.support.rows import read_build, read_date, read_minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.support.matrix import Matrix
    from winpool.support.rows import Row
    from winpool.support.versions import Minor


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


def _denial(row: Row) -> list[str]:
    if row.verdict is not RowVerdict.DENY or not (row.min_kubernetes or row.max_kubernetes):
        return []
    return [
        "verdict Deny with kubernetesVersions denies the release inside of them and outside. Leave "
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
            said.append(
                f"kubernetesVersions.{name} {text!r} is no minor version of Kubernetes. Write it as '1.34'"
            )
    if len(found) == 2 and found[0] > found[1]:
        said.append(
            f"kubernetesVersions.min {found[0]} is newer than max {found[1]}, so no version is between them. "
            "Exchange the two"
        )
    return said


def _end(row: Row, matrix: Matrix | None) -> list[str]:
    if not row.end_of_support:
        return []
    end = read_date(row.end_of_support)
    if end is None:
        return [f"endOfSupport {row.end_of_support!r} is no day of the calendar. Write it as '2027-04-01'"]
    release = matrix.releases.get(row.os_version) if matrix else None
    if release is not None and end < release.available:
        return [f"endOfSupport {end} is before {release.available}, the day of the release. Correct the date"]
    return []


def _build(row: Row) -> list[str]:
    if row.build and read_build(row.build) is None:
        return [f"build {row.build!r} is no build of Windows. Write it without revision, as '10.0.26100'"]
    if row.build and not is_os_version(row.os_version):
        return ["this is no name for a release. Write it as '2025' or '23H2'"]
    return []


def _release(row: Row, matrix: Matrix, below: Iterable[Row]) -> list[str]:
    release, build = matrix.releases.get(row.os_version), read_build(row.build)
    if release is None:
        return _of_new_release(row, build, matrix, below)
    if release.shares_build_with:
        other = release.shares_build_with
        return [f"the release has the build of {other}, and counts as {other}. Write the row for {other!r}"]
    if build not in (None, release.build):
        return [f"build {row.build} is not that of this release, which is 10.0.{release.build}. Correct it"]
    return []


def _of_new_release(row: Row, build: int | None, matrix: Matrix, below: Iterable[Row]) -> list[str]:
    """Say what is wrong with a row for a release that the built-in data does not know."""
    builds = {each.os_version: named for each in below if (named := read_build(each.build)) is not None}
    if build is None and (row.build or row.os_version in builds):
        return []
    if build is None:
        known = ", ".join(matrix.releases)
        return [
            "the build of this release is not known, so the row has no effect. Use one of "
            f"{known}. If the release is newer than this data, set `build`"
        ]
    owner = matrix.builds.get(build)
    other = owner.name if owner else next((name for name, each in builds.items() if each == build), None)
    if other is None or other == row.os_version:
        return []
    return [
        f"build {row.build} is that of {other}, and nodes are judged as {other}. Write the row for {other!r}"
    ]
