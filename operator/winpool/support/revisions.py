"""Revisions of Windows that are known to be bad: a warning, since not every node uses what they break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.verdicts import Verdict
from winpool.support.verdicts import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.matrix import Matrix
    from winpool.support.versions import WindowsVersion


def revision_reasons(version: WindowsVersion, *, matrix: Matrix) -> Iterator[Reason]:
    """Warn of what the revision of ``version`` is known to break; nothing is said where it has none."""
    if version.revision is None:
        return
    for each in matrix.file.bad_revisions:
        if each.build == version.build and each.first <= version.revision <= each.last:
            sources = ", ".join(matrix.sources[source].url for source in each.source)
            yield Reason(
                "KnownBadRevision",
                Verdict.WARNED,
                f"Revisions {each.first} to {each.last} of build {each.build} break {each.affects} "
                f"({sources}).",
                fix=f"Install {each.fix} or later on the node, or replace it, if you use that.",
            )
