"""``kubectl winpool matrix``: which Windows runs where, until when, and who says so. Works offline."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

from winpool.cli.parsing import add_verb
from winpool.support.matrix import built_in
from winpool.support.table import Entry, entries, kep116_says, render_markdown
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from winpool.cli.parsing import Subparsers
    from winpool.support.matrix import Matrix

_DESCRIPTION: Final = """\
Print which releases of Windows Server run with which Kubernetes, whether that
is supported today, until when, where KEP-116 says otherwise, and the sources.

It is the matrix that is built into winpool, without the rows of your cluster
and your pools. It needs no cluster and no kubeconfig."""

_EXAMPLES: Final = (
    ("kubectl winpool matrix", "everything"),
    ("kubectl winpool matrix --kubernetes 1.35", "one minor of Kubernetes"),
    ("kubectl winpool matrix --kubernetes 1.34 --os 2019", "one cell, with the reasons"),
    ("kubectl winpool matrix --os 2022 -o json", "for a program"),
)

_GAP: Final = "   "
"""Between columns, as in the tables of kubectl."""

_HEAD: Final = ("KUBERNETES", "OS", "STATUS", "TODAY", "END-OF-SUPPORT", "KEP-116", "SOURCES")


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "matrix",
        summary="Print which Windows runs with which Kubernetes, and until when.",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    parser.add_argument("--kubernetes", type=_minor, metavar="MINOR", help="Only this minor, such as 1.35.")
    parser.add_argument("--os", type=_release, metavar="RELEASE", help="Only this release, such as 2022.")
    parser.add_argument(
        "-o", "--output", choices=tuple(_RENDERERS), default="table", help="How to print it (default: table)."
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print what was asked for, as of today in UTC; return the exit code."""
    today = datetime.now(UTC).date()
    sys.stdout.write(render(given.output, today=today, kubernetes=given.kubernetes, release=given.os))
    return 0


def render(output: str, *, today: date, kubernetes: Minor | None = None, release: str | None = None) -> str:
    """Return the entries of one minor or all and of one release or all, as ``output`` on ``today``."""
    matrix = built_in()
    rows = tuple(entries(matrix, today=today, kubernetes=kubernetes, release=release))
    return _RENDERERS[output](rows, matrix, today)


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    if minor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version of Kubernetes: write it as 1.35")
    return minor


def _release(text: str) -> str:
    releases = built_in().releases
    found = next((name for name in releases if name.lower() == text.lower()), None)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not in the matrix: use one of {', '.join(releases)}")
    return found


def _table(rows: Sequence[Entry], _matrix: Matrix, _today: date) -> str:
    if not rows:
        return "Nothing is listed for that. Ask for minor and release together to see why.\n"
    lines = [
        _HEAD,
        *(
            (
                str(row.kubernetes),
                row.release,
                str(row.status),
                str(row.verdict),
                str(row.end_of_support),
                kep116_says(row) or "-",
                ",".join(row.sources) or "-",
            )
            for row in rows
        ),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = "".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )
    return text + _why(rows[0]) if len(rows) == 1 else text


def _why(row: Entry) -> str:
    """Return every reason of a row that stands alone, and what KEP-116 has to do with it."""
    said = [f"{reason.code}: {reason.text}" for reason in row.reasons]
    if row.kep116 is not None:
        said.append(row.kep116.message)
    return "\n" + "".join(f"{each}\n" for each in said)


def _content(rows: Sequence[Entry], matrix: Matrix, today: date) -> Mapping[str, Any]:
    """Return what programs get: names and values as the API writes them."""
    cited = sorted({each for row in rows for each in row.sources})
    return {
        "date": str(today),
        "rows": [
            {
                "kubernetesVersion": str(row.kubernetes),
                "osVersion": row.release,
                "status": str(row.status),
                "verdict": str(row.verdict),
                "endOfSupport": str(row.end_of_support),
                "reasons": [
                    {"code": each.code, "verdict": str(each.verdict), "message": each.text}
                    for each in row.reasons
                ],
                "kep116": row.kep116.message if row.kep116 else "",
                "note": row.note,
                "sources": list(row.sources),
            }
            for row in rows
        ],
        "sources": {each: matrix.sources[each].url for each in cited},
    }


def _json(rows: Sequence[Entry], matrix: Matrix, today: date) -> str:
    return json.dumps(_content(rows, matrix, today), indent=2) + "\n"


def _yaml(rows: Sequence[Entry], matrix: Matrix, today: date) -> str:
    return yaml.safe_dump(_content(rows, matrix, today), sort_keys=False, width=110)


def _markdown(rows: Sequence[Entry], matrix: Matrix, _today: date) -> str:
    return render_markdown(rows, matrix=matrix)


_RENDERERS: Final[Mapping[str, Callable[[Sequence[Entry], Matrix, date], str]]] = {
    "table": _table,
    "json": _json,
    "yaml": _yaml,
    "markdown": _markdown,
}
