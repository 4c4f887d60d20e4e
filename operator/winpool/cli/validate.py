"""Checks pools in files as the operator does, or asks the API server: ``kubectl winpool validate``."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from winpool.api.keys import KIND
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.text import grouped, printable
from winpool.cli.counts import counted
from winpool.cli.manifests import Manifest, pools_in, without_nulls
from winpool.cli.parsing import Exit, add_filename, note, note_offline
from winpool.features.judge import rows_of, unknown_release
from winpool.features.reserved_memory import low_findings
from winpool.support.matrix import Matrix, built_in
from winpool.support.rows import layered
from winpool.support.servicing import class_reason, ended_reasons, worst

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from winpool.cli.kubectl import NotAskedError
    from winpool.support.versions import Minor

_QUERY: Final = "dryRun=All&fieldValidation=Strict&fieldManager=kubectl-winpool"

_REFUSALS: Final = frozenset({"Invalid", "BadRequest", "RequestEntityTooLarge"})
"""Reasons for which the API server would never accept a pool as it is."""

_INVALID: Final = re.compile(r'^The \S+ "[^"]*" is invalid: |^The request is invalid: ')
_WRAPPING: Final = re.compile(r"^Error from server \(\w+\): ")

DESCRIPTION: Final = f"""\
Check whether the API server and the operator would accept the
{KIND}s in files.

It needs no cluster: fields, types and all rules of the CRD are built in, and
what only the operator checks (schedules, time zones, rows of the support
matrix). Each error is one line with file, line, document and field. A
duplicate key is an error too, although kubectl drops the first one without a
warning. For a valid pool it prints the verdict of the support matrix on nodes
with the release of the pool, and a warning if it reserves little memory for
Windows.

It skips objects of other kinds, with a note. The API server can still refuse
a valid pool: its CRD can have another version, and policies can apply."""

EXITS: Final = {
    Exit.YES: "every pool is valid",
    Exit.UNKNOWN: "a document cannot be read, there is no pool, or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or a file cannot be opened",
    Exit.NO: "a pool is not valid",
}

EXAMPLES: Final = (
    ("kubectl winpool validate -f pool.yaml", "check one file"),
    ("kubectl winpool validate -f pools/ -f more.json", "check a folder (.yaml, .yml, .json) and a file"),
    ("kubectl winpool validate -R -f environments/", "check a folder and all folders below it"),
    (
        "kubectl kustomize overlays/prod | kubectl winpool validate -f -",
        "check the output of another program",
    ),
    ("kubectl winpool validate -f pool.yaml --dry-run=server", "ask the API server, which stores nothing"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    add_filename(parser)
    parser.add_argument(
        "--dry-run",
        choices=("server",),
        help="Ask the API server instead, which stores nothing. It needs the right to create pools.",
    )


def run(given: argparse.Namespace) -> int:
    """Check the files; return the exit code."""
    if not given.dry_run:
        note_offline(given, why="without --dry-run=server no cluster is contacted")
    found = pools_in(given.filename, recursive=given.recursive, judged=not given.dry_run)
    refusals, problem = _by_server(found.pools, given) if given.dry_run else ([], None)
    faults, is_refused = found.faults + refusals, found.has_invalid or bool(refusals)
    sys.stdout.writelines(f"{printable(each)}\n" for each in faults)
    for each in found.skipped:
        note(each)
    if not given.dry_run:
        for pool in found.pools:
            spec = WindowsNodePoolSpec.model_validate(without_nulls(pool.content["spec"]))
            said = outlook(spec, matrix=built_in(), today=datetime.now(UTC).date())
            note(pool.at(pool.line, said))
            for finding in low_findings(spec.reserved_memory) if spec.reserved_memory else ():
                note(pool.at(pool.line, f"warning: {finding.text}"))
    if problem is not None:
        if not is_refused:
            raise problem
        note(f"not every pool could be judged: {problem}")
    code = _sum_up(len(found.pools), faults=len(faults), is_refused=is_refused)
    if not given.dry_run:
        note("The API server makes the final decision: ask it with --dry-run=server.")
    return code


def _by_server(
    pools: Sequence[Manifest], given: argparse.Namespace
) -> tuple[list[str], NotAskedError | None]:
    """Return what the API server has against the pools, and why it does not judge all of them.

    It gets a create of each as a dry run, also where the pool exists already: validation and admission come
    before the name is looked up, so AlreadyExists means that the API server had nothing against it.
    """
    # Imported here: offline it is not needed.
    from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError
    from winpool.kube.pools import POOLS_PATH

    def refusal(number: int, pool: Manifest) -> str | None:
        file = Path(folder, f"{number}.json")
        file.write_text(json.dumps(pool.content), encoding="utf-8")
        try:
            kubectl.run("create", "--raw", f"{POOLS_PATH}?{_QUERY}", "-f", str(file))
        except KubectlError as error:
            if error.reason in _REFUSALS or _INVALID.match(error.said):
                return faults_of(error.said)
            if error.reason != "AlreadyExists":
                raise
        return None

    refusals: list[str] = []
    problem: NotAskedError | None = None
    with TemporaryDirectory() as folder, Kubectl(given.flags) as kubectl:
        # In files: standard input is for an exec plugin that asks something.
        begun = [kubectl.begin(partial(refusal, number, pool)) for number, pool in enumerate(pools)]
        for pool, answer in zip(pools, begun, strict=True):
            try:
                if (said := answer.result()) is not None:
                    refusals.append(pool.at(pool.line, said))
            except NotAskedError as error:
                problem = error
                if not (isinstance(error, KubectlError) and error.reason):
                    break  # the others would get no answer either, each after a while
    return refusals, problem


def faults_of(said: str) -> str:
    """Return the faults that kubectl lists of an invalid object, or all that the API server says."""
    faults, is_list = _INVALID.subn("", said)
    if not is_list:
        return _WRAPPING.sub("", said)
    return faults.removeprefix("* ").replace(" * ", ", ")


def _sum_up(pools: int, *, faults: int, is_refused: bool) -> int:
    if faults:
        note(counted(faults, "error"))
        return Exit.NO if is_refused else Exit.UNKNOWN
    if not pools:
        sys.stdout.write(f"no {KIND} found\n")
        return Exit.UNKNOWN
    note(f"{counted(pools, 'pool')} valid")
    return Exit.YES


def outlook(spec: WindowsNodePoolSpec, *, matrix: Matrix, today: date) -> str:
    """Say how nodes of the release would be judged, with each Kubernetes minor that is maintained today.

    With the rows of the pool, and without what only a node knows: its revision, kubelet and runtime. It ends
    with the day that the data is of. A release that nobody knows is a warning, with the fix.
    """
    asked = spec.os.version
    name = matrix.judged_as(asked)
    layers = layered(matrix, (), rows_of(spec.support_matrix))
    if unknown := unknown_release(spec.os, layers=layers):
        return f"warning: {unknown.text}"
    said = layers.end_of_support(name)
    ended = tuple(ended_reasons(name, said[0], layer=said[1], today=today)) if said else ()
    found = grouped(
        (worst((class_reason(minor, name, layers=layers), *ended)), str(minor))
        for minor in _maintained(matrix, today)
    )
    verdicts = ", ".join(f"{verdict} with Kubernetes {' and '.join(on)}" for verdict, on in found.items())
    title = asked if asked == name else f"{asked}, judged as {name}, which has the same build"
    support = "end of support unknown"
    if said:
        support = f"{'support ended on' if ended else 'supported until'} {said[0]}"
    return f"Windows Server {title}: {verdicts}; {support}; data from {matrix.as_of}"


def _maintained(matrix: Matrix, today: date) -> list[Minor]:
    """Return the minors that still get patches, or the newest that is known where the data is that old."""
    released = [minor for minor, each in matrix.minors.items() if each.released]
    live = [minor for minor in released if (matrix.minors[minor].end_of_life or today) >= today]
    return live or released[-1:]
