"""Lists the matrix for people: each release in each minor, the verdict of a day, and the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date

import msgspec

from winpool.api.matrix import Verdict
from winpool.api.text import table
from winpool.support.data import Status
from winpool.support.matrix import Matrix
from winpool.support.rows import Layer, layered
from winpool.support.servicing import (
    VERDICTS,
    Disagreement,
    Reason,
    class_reason,
    disagreement,
    ended_reasons,
    servicing_told,
    sorted_reasons,
    worst,
)
from winpool.support.versions import Minor


class Entry(msgspec.Struct, frozen=True):
    """One release in one minor. ``verdict`` is that of one day, the worst of ``reasons``.

    ``end_of_life`` is the minor's, None where no source says it. ``note`` is the remark in the
    row. ``as_of`` is the newest state of its sources that was read, None where there is no row.
    ``servicing`` is a sentence.
    """

    kubernetes: Minor
    end_of_life: date | None
    release: str
    build: int
    status: Status
    verdict: Verdict
    reasons: tuple[Reason, ...]
    end_of_support: date
    kep116: Disagreement | None
    note: str
    servicing: str
    as_of: date | None
    sources: tuple[str, ...]

    @property
    def decides(self) -> bool:
        """Whether the note is why the row is not simply supported."""
        return bool(self.note) and VERDICTS[self.status] is not Verdict.SUPPORTED


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
    release, cell, known = matrix.releases[name], matrix.cells.get((minor, name)), matrix.minors.get(minor)
    end = release.end_of_support
    reasons = sorted_reasons(
        (
            class_reason(minor, name, layers=layered(matrix)),
            *ended_reasons(name, end, layer=Layer.BUILT_IN, today=today),
        )
    )
    return Entry(
        kubernetes=minor,
        end_of_life=known.end_of_life if known else None,
        release=name,
        build=release.build,
        status=matrix.status(minor, name),
        verdict=worst(reasons),
        reasons=reasons,
        end_of_support=end,
        kep116=disagreement(minor, name, matrix=matrix),
        note=cell.note if cell else "",
        servicing=servicing_told(release, today),
        as_of=cell.as_of if cell else None,
        sources=cell.source if cell else (),
    )


def render_markdown(rows: Iterable[Entry], *, matrix: Matrix) -> str:
    """Return ``rows`` as a table of Markdown, with links to the sources."""
    columns: dict[str, Callable[[Entry], object]] = {
        "Kubernetes": lambda row: row.kubernetes,
        "End of life": lambda row: row.end_of_life or "",
        "Windows Server": lambda row: row.release,
        "Build": lambda row: row.build,
        "Status": lambda row: row.status,
        "Verdict": lambda row: row.verdict,
        "End of support": lambda row: row.end_of_support,
        "KEP-116 says": kep116_says,
        "Remarks": lambda row: row.note,
        "As of": lambda row: row.as_of or "",
        "Sources": lambda row: links(row.sources, matrix=matrix),
    }
    return table(tuple(columns), (tuple(str(cell(row)) for cell in columns.values()) for row in rows))


def kep116_says(row: Entry) -> str:
    """Return what KEP-116 says where it differs from the data; empty where the two agree."""
    if row.kep116 is None:
        return ""
    return "promised" if row.kep116.promised else "not promised"


def links(sources: Iterable[str], *, matrix: Matrix) -> str:
    """Return the ids of ``sources`` as links of Markdown."""
    return ", ".join(f"[{each}]({matrix.file.sources[each].url})" for each in sources)
