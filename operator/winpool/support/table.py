"""The matrix as rows for people: each release in each minor, the verdict of a day, and the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.markdown import table
from winpool.support.classes import class_reason
from winpool.support.kep116 import disagreement
from winpool.support.rows import layered
from winpool.support.servicing import ended_reasons
from winpool.support.verdicts import Layer, sorted_reasons, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from winpool.api.verdicts import Verdict
    from winpool.support.data import Status
    from winpool.support.kep116 import Disagreement
    from winpool.support.matrix import Matrix
    from winpool.support.verdicts import Reason
    from winpool.support.versions import Minor


@dataclass(frozen=True, slots=True)
class Entry:
    """One release in one minor. ``verdict`` is that of one day, the worst of ``reasons``."""

    kubernetes: Minor
    release: str
    status: Status
    verdict: Verdict
    reasons: tuple[Reason, ...]
    end_of_support: date
    kep116: Disagreement | None
    note: str
    sources: tuple[str, ...]


def entries(
    matrix: Matrix, *, today: date, kubernetes: Minor | None = None, release: str | None = None
) -> Iterator[Entry]:
    """Yield the entries of one minor or all, the newest first, and of one release or all.

    What is not listed is left out, except where minor and release are both asked for, and except for a
    minor that is not in the data, of which nothing is known.
    """
    minors = [kubernetes] if kubernetes is not None else reversed(list(matrix.minors))
    releases = [release] if release is not None else list(matrix.releases)
    for minor in minors:
        for name in releases:
            asked = kubernetes is not None and (release is not None or kubernetes not in matrix.minors)
            if asked or (minor, name) in matrix.cells:
                yield _entry(matrix, minor, name, today)


def _entry(matrix: Matrix, minor: Minor, name: str, today: date) -> Entry:
    release, cell = matrix.releases[name], matrix.cells.get((minor, name))
    end = release.end_of_support
    reasons = sorted_reasons(
        (
            class_reason(minor, name, layers=layered(matrix)),
            *ended_reasons(name, end, layer=Layer.BUILT_IN, today=today),
        )
    )
    return Entry(
        kubernetes=minor,
        release=name,
        status=matrix.status(minor, name),
        verdict=worst(reasons),
        reasons=reasons,
        end_of_support=end,
        kep116=disagreement(minor, name, matrix=matrix),
        note=cell.note if cell else "",
        sources=cell.source if cell else (),
    )


def render_markdown(rows: Iterable[Entry], *, matrix: Matrix) -> str:
    """Return ``rows`` as a table of Markdown, with links to the sources."""
    return table(
        ("Kubernetes", "Windows Server", "Status", "Verdict", "End of support", "KEP-116 says", "Sources"),
        (
            (
                str(row.kubernetes),
                row.release,
                str(row.status),
                str(row.verdict),
                str(row.end_of_support),
                kep116_says(row),
                links(row.sources, matrix=matrix),
            )
            for row in rows
        ),
    )


def kep116_says(row: Entry) -> str:
    """Return what KEP-116 says where it differs from the data; empty where the two agree."""
    if row.kep116 is None:
        return ""
    return "promised" if row.kep116.promised else "not promised"


def links(sources: Iterable[str], *, matrix: Matrix) -> str:
    """Return the ids of ``sources`` as links of Markdown."""
    return ", ".join(f"[{each}]({matrix.sources[each].url})" for each in sources)
