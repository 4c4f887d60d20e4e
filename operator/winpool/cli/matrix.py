"""Prints which Windows runs with which Kubernetes, and the sources: ``kubectl winpool matrix``."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import table
from winpool.cli.console import aligned, document
from winpool.cli.parsing import ANSWER, Exit, UsageError, add_output, note_offline
from winpool.support.compat import release_named
from winpool.support.matrix import FeatureStage, Matrix, built_in, stage_in, stages_of
from winpool.support.table import Entry, entries, kep116_says, links, render_markdown
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from winpool.support.data import Feature

DESCRIPTION: Final = """\
Print which Windows Server releases run with which Kubernetes versions.

For each combination it prints whether it is supported today, until when,
where KEP-116 differs, and the sources. The matrix is built into winpool. It
does not include the rows of your cluster and your pools. It needs no cluster."""

EXITS: Final = {Exit.YES: "the matrix is printed"}

EXAMPLES: Final = (
    ("kubectl winpool matrix", "the whole matrix"),
    ("kubectl winpool matrix --kubernetes 1.35", "one Kubernetes minor version"),
    ("kubectl winpool matrix --kubernetes 1.34 --os 2019", "one combination, with the reasons"),
    ("kubectl winpool matrix --os 2022 -o json", "for programs"),
    ("kubectl winpool matrix --os 10.0.20348.1607", "the release of a node, by its kernelVersion"),
    ("kubectl winpool matrix --features --kubernetes 1.33", "Windows features in one minor version"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "--kubernetes", type=_minor, metavar="MINOR", help="Print only this minor version, such as 1.35."
    )
    parser.add_argument(
        "--os",
        type=_release,
        metavar="RELEASE",
        help="Print only this release: a name (2022), build (20348, 10.0.20348.1607), tag (ltsc2022) or "
        "title (Windows Server 2022).",
    )
    parser.add_argument(
        "--features",
        action="store_true",
        help="Print Windows features and the minor versions that have them, instead of releases.",
    )
    add_output(parser, (*ANSWER, "markdown"))


def run(given: argparse.Namespace) -> int:
    """Print what was asked for, as of today in UTC; return the exit code."""
    if given.features and given.os:
        raise UsageError("--os cannot be used with --features")
    note_offline(given, why="the matrix is built in, and no cluster is contacted")
    today = datetime.now(UTC).date()
    sys.stdout.write(
        render_features(given.output, kubernetes=given.kubernetes)
        if given.features
        else render(given.output, today=today, kubernetes=given.kubernetes, release=given.os)
    )
    return Exit.YES


def render(output: str, *, today: date, kubernetes: Minor | None = None, release: str | None = None) -> str:
    """Return the entries of one minor or all and of one release or all, as ``output`` on ``today``."""
    matrix = built_in()
    rows = tuple(entries(matrix, today=today, kubernetes=kubernetes, release=release))
    if output == "text":
        return _table(rows, matrix, today)
    if output == "markdown":
        return render_markdown(rows, matrix=matrix)
    content = {
        "date": str(today),
        "asOf": str(matrix.as_of),
        "rows": [_row(row, matrix) for row in rows],
        "sources": _urls((source for row in rows for source in row.sources), matrix),
    }
    return document(output, content)


def render_features(output: str, *, kubernetes: Minor | None = None) -> str:
    """Return what works since which minor, in one minor or all, as ``output``."""
    matrix = built_in()
    features = matrix.file.features
    found = {each.name: stage_in(kubernetes, each, matrix=matrix) for each in features} if kubernetes else {}
    if output in ("text", "markdown"):
        rows = [_feature_cells(each, kubernetes, found.get(each.name)) for each in features]
        if output == "text":
            return aligned([{title.upper(): cell or "-" for title, cell in row.items()} for row in rows])
        sources = [links(each.source, matrix=matrix) for each in features]
        linked = [(*row.values(), said) for row, said in zip(rows, sources, strict=True)]
        return table((*list(rows[0])[:-1], "Remarks", "Sources"), linked)
    content = {
        "asOf": str(matrix.as_of),
        "features": [
            {
                "name": each.name,
                "stages": {str(stage): str(minor) for stage, minor in stages_of(each)},
                "note": each.note,
                "asOf": str(each.as_of),
                "sources": list(each.source),
            }
            | ({"kubernetesVersion": str(kubernetes), "stage": str(found[each.name][0])} if found else {})
            for each in features
        ],
        "sources": _urls((source for each in features for source in each.source), matrix),
    }
    return document(output, content)


def _feature_cells(
    feature: Feature, kubernetes: Minor | None, now: tuple[FeatureStage, Minor | None] | None
) -> dict[str, str]:
    """Return the cells of a feature by the titles of their columns: in one minor, or in all."""
    stages: dict[str, str | None] = {
        "Alpha": feature.alpha,
        "Beta": feature.beta,
        "Stable": feature.stable,
        "Removed": feature.removed,
    }
    if now is not None:
        stages = {f"In {kubernetes}": now[0], "Since": str(now[1] or "")}
    cells = {"Feature": feature.name, **stages, "Note": feature.note}
    return {title: text or "" for title, text in cells.items()}


def _urls(sources: Iterable[str], matrix: Matrix) -> Mapping[str, str]:
    return {each: matrix.file.sources[each].url for each in sorted(set(sources))}


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    if minor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a Kubernetes version: write it as 1.35")
    return minor


def _release(text: str) -> str:
    matrix = built_in()
    found = release_named(text, matrix=matrix)
    if found is None:
        known = ", ".join(matrix.releases)
        raise argparse.ArgumentTypeError(f"{text!r} is not in the matrix: use one of {known}, or a build")
    return found


def _table(rows: Sequence[Entry], matrix: Matrix, today: date) -> str:
    if not rows:
        return "The matrix has no entry for this. Use --kubernetes and --os together to see why.\n"
    alone = len(rows) == 1
    cells = [_cells(row) for row in rows]
    if alone:
        del cells[0]["SOURCES"]  # they stand below it
    text = aligned(cells)
    said = _why(rows[0], matrix, today) if alone else _notes(rows)
    return f"{text}{said}\nThe data is from {matrix.as_of} and has no later changes.\n"


def _cells(row: Entry) -> dict[str, str]:
    """Return the cells of a row by the titles of their columns."""
    cells = {
        "KUBERNETES": row.kubernetes,
        "END-OF-LIFE": row.end_of_life,
        "OS": row.release,
        "BUILD": row.build,
        "STATUS": row.status,
        "TODAY": row.verdict,
        "END-OF-SUPPORT": row.end_of_support,
        "KEP-116": kep116_says(row),
        "AS-OF": row.as_of,
        "SOURCES": ",".join(row.sources),
    }
    return {title: str(cell or "-") for title, cell in cells.items()}


def _notes(rows: Sequence[Entry]) -> str:
    """Return the notes that are why a row is not simply supported."""
    said = [f"{row.kubernetes} {row.release}: {row.note}" for row in rows if row.decides]
    return "\n" + "".join(f"{each}\n" for each in said) if said else ""


def _why(row: Entry, matrix: Matrix, today: date) -> str:
    """Return all that is known of a row that stands alone, and where it is from."""
    said = [f"{reason.code}: {reason.text}" for reason in row.reasons]
    if row.note:
        said.append(f"Note: {row.note}.")
    if row.kep116 is not None:
        said.append(row.kep116.message)
    if row.end_of_life is not None:
        word = "was" if today > row.end_of_life else "is"
        said.append(f"Kubernetes {row.kubernetes}: the end of life {word} {row.end_of_life}.")
    said.append(row.servicing)
    said.extend(f"Source: {matrix.file.sources[each].url}" for each in row.sources)
    return "\n" + "".join(f"{each}\n" for each in said)


def _row(row: Entry, matrix: Matrix) -> Mapping[str, Any]:
    release = matrix.releases[row.release]
    return {
        "kubernetesVersion": str(row.kubernetes),
        "kubernetesEndOfLife": str(row.end_of_life or ""),
        "osVersion": row.release,
        "build": f"10.0.{row.build}",
        "status": str(row.status),
        "verdict": str(row.verdict),
        "mainstreamEnd": str(release.mainstream_end),
        "endOfSupport": str(row.end_of_support),
        "extendedSecurityUpdates": release.esu,
        "reasons": [
            {"code": each.code, "verdict": str(each.verdict), "message": each.text} for each in row.reasons
        ],
        "kep116": row.kep116.message if row.kep116 else "",
        "note": row.note,
        "asOf": str(row.as_of or ""),
        "sources": list(row.sources),
    }
