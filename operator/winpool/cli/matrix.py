"""``kubectl winpool matrix``: which Windows runs where, until when, and who says so. Works offline."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

from winpool.cli import features
from winpool.cli.columns import aligned
from winpool.cli.parsing import Exit, add_output, add_verb, offline_note
from winpool.support.compat import release_named
from winpool.support.matrix import built_in
from winpool.support.table import Entry, entries, kep116_says, render_markdown
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from winpool.cli.parsing import Subparsers
    from winpool.support.matrix import Matrix

_DESCRIPTION: Final = """\
Print which Windows Server releases run with which Kubernetes versions.

For each combination it prints whether it is supported today, until when,
where KEP-116 differs, and the sources. The matrix is built into winpool. It
does not include the rows of your cluster and your pools. It needs no cluster."""

_EXITS: Final = {Exit.DONE: "the matrix is printed"}

_EXAMPLES: Final = (
    ("kubectl winpool matrix", "the whole matrix"),
    ("kubectl winpool matrix --kubernetes 1.35", "one Kubernetes minor version"),
    ("kubectl winpool matrix --kubernetes 1.34 --os 2019", "one combination, with the reasons"),
    ("kubectl winpool matrix --os 2022 -o json", "for programs"),
    ("kubectl winpool matrix --os 10.0.20348.1607", "the release of a node, by its kernelVersion"),
    ("kubectl winpool matrix --features --kubernetes 1.33", "Windows features in one minor version"),
)

_HEAD: Final = (
    "KUBERNETES",
    "END-OF-LIFE",
    "OS",
    "BUILD",
    "STATUS",
    "TODAY",
    "END-OF-SUPPORT",
    "KEP-116",
    "AS-OF",
    "SOURCES",
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "matrix",
        summary="Print which Windows releases run with which Kubernetes versions.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
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
    add_output(parser, tuple(_RENDERERS))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print what was asked for, as of today in UTC; return the exit code."""
    if given.features and given.os:
        sys.stderr.write("kubectl winpool matrix: --os cannot be used with --features\n")
        return Exit.USAGE
    if note := offline_note(given, why="the matrix is built in, and no cluster is contacted"):
        sys.stderr.write(f"{note}\n")
    today = datetime.now(UTC).date()
    sys.stdout.write(
        render_features(given.output, kubernetes=given.kubernetes)
        if given.features
        else render(given.output, today=today, kubernetes=given.kubernetes, release=given.os)
    )
    return Exit.DONE


def render(output: str, *, today: date, kubernetes: Minor | None = None, release: str | None = None) -> str:
    """Return the entries of one minor or all and of one release or all, as ``output`` on ``today``."""
    matrix = built_in()
    rows = tuple(entries(matrix, today=today, kubernetes=kubernetes, release=release))
    return _RENDERERS[output](rows, matrix, today)


def render_features(output: str, *, kubernetes: Minor | None = None) -> str:
    """Return what works since which minor, in one minor or all, as ``output``."""
    matrix = built_in()
    if output == "table":
        return features.as_text(matrix, kubernetes)
    if output == "markdown":
        return features.as_markdown(matrix, kubernetes)
    content = features.content(matrix, kubernetes)
    return _dumped_json(content) if output == "json" else _dumped_yaml(content)


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
    text = aligned(
        _HEAD[:-1] if alone else _HEAD,
        ((cells[:-1] if alone else cells) for cells in map(_cells, rows)),
    )
    said = _why(rows[0], matrix, today) if alone else _notes(rows)
    return f"{text}{said}\nThe data is from {matrix.as_of} and has no later changes.\n"


def _cells(row: Entry) -> tuple[str, ...]:
    return (
        str(row.kubernetes),
        str(row.end_of_life or "-"),
        row.release,
        str(row.build),
        str(row.status),
        str(row.verdict),
        str(row.end_of_support),
        kep116_says(row) or "-",
        str(row.as_of or "-"),
        ",".join(row.sources) or "-",
    )


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
    said.extend(f"Source: {matrix.sources[each].url}" for each in row.sources)
    return "\n" + "".join(f"{each}\n" for each in said)


def _content(rows: Sequence[Entry], matrix: Matrix, today: date) -> Mapping[str, Any]:
    """Return what programs get: names and values as the API writes them."""
    cited = sorted({each for row in rows for each in row.sources})
    return {
        "date": str(today),
        "asOf": str(matrix.as_of),
        "rows": [_row(row, matrix) for row in rows],
        "sources": {each: matrix.sources[each].url for each in cited},
    }


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


def _dumped_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _dumped_yaml(content: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, width=110)
    return text


def _json(rows: Sequence[Entry], matrix: Matrix, today: date) -> str:
    return _dumped_json(_content(rows, matrix, today))


def _yaml(rows: Sequence[Entry], matrix: Matrix, today: date) -> str:
    return _dumped_yaml(_content(rows, matrix, today))


def _markdown(rows: Sequence[Entry], matrix: Matrix, _today: date) -> str:
    return render_markdown(rows, matrix=matrix)


_RENDERERS: Final[Mapping[str, Callable[[Sequence[Entry], Matrix, date], str]]] = {
    "table": _table,
    "json": _json,
    "yaml": _yaml,
    "markdown": _markdown,
}
