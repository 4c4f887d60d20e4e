"""``kubectl winpool validate``: would this manifest be taken, and if not, why and where."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from winpool.api.keys import KIND
from winpool.api.text import printable
from winpool.api.v1alpha1 import WindowsNodePoolSpec
from winpool.cli.counts import counted
from winpool.cli.files import UnreadableError, texts
from winpool.cli.judge import judge
from winpool.cli.manifests import Manifest, ManifestError, read
from winpool.cli.outlook import outlook
from winpool.cli.parsing import Exit, add_filename, add_verb, offline_note
from winpool.cli.pool_manifests import not_a_pool
from winpool.cli.structural import without_nulls
from winpool.features.judge import contradictory_rows
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from winpool.cli.parsing import Subparsers
    from winpool.cli.structural import Fault

_DESCRIPTION: Final = f"""\
Check whether the API server would accept the {KIND}s in files.

It needs no cluster: the schema and all rules of the CRD are built in. Each
error is one line with file, line, document and field, in the words of the API
server. A duplicate key is an error too, although kubectl drops the first one
without a warning. For a valid pool it prints the verdict of the support
matrix on nodes with the release of the pool.

It skips objects of other kinds, with a note. The API server can still refuse
a valid pool: its CRD can have another version, and policies can apply."""

_EXITS: Final = {
    Exit.DONE: "every pool is valid",
    Exit.REFUSED: "a pool is not valid, a document cannot be read, or there is no pool",
    Exit.USAGE: "the command line is wrong, or a file or the API server cannot be read",
}

_EXAMPLES: Final = (
    ("kubectl winpool validate -f pool.yaml", "check one file"),
    ("kubectl winpool validate -f pools/ -f more.json", "check a folder (.yaml, .yml, .json) and a file"),
    ("kubectl winpool validate -R -f environments/", "check a folder and all folders below it"),
    (
        "kubectl kustomize overlays/prod | kubectl winpool validate -f -",
        "check the output of another program",
    ),
    ("kubectl winpool validate -f pool.yaml --server", "ask the API server, which stores nothing"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """An object and the name of its file."""

    file: str
    manifest: Manifest

    @property
    def title(self) -> str:
        """The document, and the name of its object where it has one."""
        item = "" if self.manifest.item is None else f", item {self.manifest.item + 1}"
        content = self.manifest.content
        metadata = content.get("metadata") if isinstance(content, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"document {self.manifest.number}{item}" + (f" ({name})" if isinstance(name, str) else "")


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "validate",
        summary="Check pool manifests without a cluster.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    add_filename(parser)
    parser.add_argument(
        "--server",
        action="store_true",
        help="Ask the API server with a dry run instead. It needs the right to create pools.",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Judge the files; return the exit code."""
    if not given.server and (note := offline_note(given, why="without --server no cluster is contacted")):
        _note(note)
    try:
        found_texts = [text for name in given.filename for text in texts(name, recursive=given.recursive)]
    except UnreadableError as error:
        return _usage(str(error))
    refused = 0
    pools: list[_Found] = []
    for file, text in found_texts:
        for each in read(text):
            if isinstance(each, ManifestError):
                refused += _say(file, each.line, "", each.message)
                continue
            found = _Found(file, each)
            refusal = not_a_pool(each.content)
            if refusal is None:
                pools.append(found)
                for problem in each.problems:
                    refused += _say(file, problem.line, found.title, problem.message)
            elif refusal:
                refused += _say(file, each.line, found.title, refusal)
            else:
                kind = each.content["kind"]
                _note(f"{file}:{each.line}: {found.title}: skipped, {kind} is not {KIND}")
    if given.server:
        return _by_server(pools, given=given, refused=refused)
    return _offline(pools, refused=refused)


def _offline(pools: Sequence[_Found], *, refused: int) -> int:
    for found in pools:
        manifest = found.manifest
        faults = [(manifest.line_of(fault.path), fault) for fault in judge(manifest.content)]
        for line, fault in sorted(faults, key=itemgetter(0)):
            said = f"{fault.field}: {fault.sentence}{_fix(fault, manifest)}"
            refused += _say(found.file, line, found.title, said)
        if not faults:
            refused += _by_matrix(found)
    code = _sum_up(len(pools), refused=refused)
    _note("The API server makes the final decision: ask it with --server.")
    return code


def _by_matrix(found: _Found) -> int:
    """Say what the operator would refuse, and how it would judge the nodes; return the number of faults."""
    matrix, where = built_in(), ("spec", "supportMatrix")
    spec = WindowsNodePoolSpec.model_validate(without_nulls(found.manifest.content["spec"]))
    contradictory = contradictory_rows(spec, matrix=matrix)
    for said in contradictory:
        _say(found.file, found.manifest.line_of(where), found.title, said)
    if not contradictory:
        said = outlook(spec, matrix=matrix, today=datetime.now(UTC).date())
        _note(f"{found.file}:{found.manifest.line}: {found.title}: {said}")
    return len(contradictory)


def _by_server(pools: Sequence[_Found], *, given: argparse.Namespace, refused: int) -> int:
    # Imported here: what asks a server takes half a second to load, and offline it is not needed.
    from winpool.cli.reasons import NotAskedError
    from winpool.cli.server import ask

    try:
        answers = ask(
            [found.manifest.content for found in pools], kubeconfig=given.kubeconfig, context=given.context
        )
    except NotAskedError as error:
        return _usage(str(error))
    for found, answer in zip(pools, answers, strict=True):
        if answer is not None:
            refused += _say(found.file, found.manifest.line, found.title, answer)
    return _sum_up(len(pools), refused=refused)


def _fix(fault: Fault, manifest: Manifest) -> str:
    """Return what to write instead where only quotes are missing, or too many."""
    written = manifest.written(fault.path)
    if written is None:
        return ""
    if fault.wants == "string":
        return f'; write it in quotes: "{written}"'
    if fault.wants == "integer" and written.isascii() and written.isdecimal():
        return f"; write it without quotes: {written}"
    return ""


def _sum_up(pools: int, *, refused: int) -> int:
    if refused:
        _note(counted(refused, "error"))
        return Exit.REFUSED
    if not pools:
        sys.stdout.write(f"no {KIND} found\n")
        return Exit.REFUSED
    _note(f"{counted(pools, 'pool')} valid")
    return Exit.DONE


def _say(file: str, line: int, title: str, sentence: str) -> int:
    """Print a fault; return how many that is."""
    where = f"{file}:{line}: " + (f"{title}: " if title else "")
    sys.stdout.write(f"{printable(where + sentence)}\n")
    return 1


def _note(text: str) -> None:
    """Print what is no fault, beside the list of faults, which is for programs too."""
    sys.stderr.write(f"{printable(text)}\n")


def _usage(text: str) -> int:
    _note(f"kubectl winpool validate: {text}")
    return Exit.USAGE
