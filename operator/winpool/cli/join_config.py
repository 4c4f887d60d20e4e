"""``kubectl winpool join-config``: the kubelet settings that a joining node of a pool must have."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from winpool.api.keys import API_VERSION, KIND
from winpool.api.model import InvalidSpecError
from winpool.api.text import printable
from winpool.api.v1alpha1 import WindowsNodePool
from winpool.cli.files import UnreadableError, texts
from winpool.cli.judge import judge
from winpool.cli.kubelet_files import OUTPUTS, render
from winpool.cli.kubelet_settings import OLDEST, OLDEST_FILE, notes, settings_of
from winpool.cli.manifests import Manifest, ManifestError, read
from winpool.cli.parsing import Exit, add_filename, add_output, add_verb, offline_note, pool_name
from winpool.cli.structural import without_nulls
from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.cli.parsing import Subparsers

_NAME: Final = "join-config"
_FLAGS: Final = "flags"
"""The output that any kubelet understands."""

_DESCRIPTION: Final = """\
Print the kubelet settings that a node needs to join a pool.

These are the reserved memory, the taints and the labels of the pool. Set them
before the kubelet starts: the operator never changes settings of a kubelet.
What the settings cannot include is printed to standard error."""

_EXITS: Final = {
    Exit.DONE: "the settings are printed",
    Exit.REFUSED: "there is no such pool, or it is not valid",
    Exit.USAGE: "the command line is wrong, or a file or the API server cannot be read",
}

_EXAMPLES: Final = (
    ("kubectl winpool join-config win-2022", "part of a KubeletConfiguration"),
    ("kubectl winpool join-config win-2022 -o flags", "flags of the kubelet, one per line"),
    ("kubectl winpool join-config win-2022 -o powershell > join.ps1", "a script that writes the file"),
    ("kubectl winpool join-config win-2022 -f pool.yaml --kubelet-version 1.34", "without a cluster"),
)


class _RefusedError(Exception):
    """There is no such pool, or it is one that nobody can act on. ``lines`` say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class _UsageError(Exception):
    """What was asked for makes no sense, or cannot be read; the text says why."""


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        _NAME,
        summary="Print the kubelet settings that a node needs to join a pool.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "pool", type=pool_name, metavar="POOL", help="Print the settings for this pool: NAME or wnp/NAME."
    )
    add_output(parser, tuple(OUTPUTS))
    parser.add_argument(
        "--kubelet-version",
        type=_minor,
        metavar="MINOR",
        help="Print for this kubelet version, such as 1.34. Default: the version of the API server.",
    )
    add_filename(parser, required=False)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the settings; return the exit code."""
    try:
        content, kubelet = _from_file(given) if given.filename else _from_server(given)
        _check_form(given.output, kubelet)
        pool = WindowsNodePool.from_object(content)
    except _UsageError as error:
        _say(f"kubectl winpool {_NAME}: {error}")
        return Exit.USAGE
    except (_RefusedError, InvalidSpecError) as error:
        for line in error.lines if isinstance(error, _RefusedError) else error.problems:
            _say(line)
        return Exit.REFUSED
    settings = settings_of(pool.spec, pool=pool.metadata.name, kubelet=kubelet)
    sys.stdout.write(render(settings, given.output))
    for note in notes(settings):
        _say(note)
    return Exit.DONE


def _say(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")


def _minor(text: str) -> Minor:
    minor = parse_minor(text)
    if minor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a Kubernetes version: write it as 1.34")
    if minor < OLDEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is too old: Windows nodes are stable since Kubernetes {OLDEST}"
        )
    return minor


def _check_form(output: str, kubelet: Minor) -> None:
    """Refuse a file for a kubelet whose file lacks a field that it would need."""
    if output != _FLAGS and kubelet < OLDEST_FILE:
        raise _UsageError(
            f"the configuration file of a kubelet {kubelet} has no registerWithTaints, which {OLDEST_FILE} "
            f"added: use -o {_FLAGS}"
        )


def _from_server(given: argparse.Namespace) -> tuple[Mapping[str, Any], Minor]:
    """Return the pool of the cluster, and the minor of its kubelets."""
    # Imported here: what asks a server takes half a second to load, and with a file it is not needed.
    from winpool.cli.pool_reader import read_pool
    from winpool.cli.reasons import NoSuchPoolError, NotAskedError

    try:
        found = read_pool(given.pool, kubeconfig=given.kubeconfig, context=given.context)
    except NoSuchPoolError as error:
        raise _RefusedError(str(error)) from None
    except NotAskedError as error:
        raise _UsageError(str(error)) from None
    kubelet = given.kubelet_version or parse_minor(found.server_version)
    if kubelet is None:
        raise _UsageError(
            f"the API server's version {found.server_version!r} is not a Kubernetes version: use "
            "--kubelet-version"
        )
    return found.content, kubelet


def _from_file(given: argparse.Namespace) -> tuple[Mapping[str, Any], Minor]:
    """Return the pool of that name in the file, and the minor of its kubelets."""
    if note := offline_note(given, why="with -f no cluster is contacted"):
        _say(note)
    if given.kubelet_version is None:
        raise _UsageError("-f needs --kubelet-version too, such as --kubelet-version 1.34")
    file, manifest = _named(given)
    content: Mapping[str, Any] = without_nulls(manifest.content)
    twice = [f"line {each.line}: {each.message}" for each in manifest.problems]
    if refused := [*twice, *(f"{each.field}: {each.sentence}" for each in judge(content))]:
        name = "-" if file == "stdin" else file
        raise _RefusedError(*refused, f"to see the lines: kubectl winpool validate -f {name}")
    return content, given.kubelet_version


def _named(given: argparse.Namespace) -> tuple[str, Manifest]:
    """Return the only pool of that name in the files, and which file that is."""
    try:
        files = [text for name in given.filename for text in texts(name, recursive=given.recursive)]
    except UnreadableError as error:
        raise _UsageError(str(error)) from None
    found = [(file, each) for file, text in files for each in read(text)]
    broken = [
        f"{file}:{each.line}: {each.message}" for file, each in found if isinstance(each, ManifestError)
    ]
    if broken:
        raise _RefusedError(*broken)
    named = [(file, each) for file, each in found if _is_named(each, given.pool)]
    where = ", ".join("stdin" if name == "-" else name for name in given.filename)
    if not named:
        raise _RefusedError(f'there is no {KIND} "{given.pool}" in {where}')
    if len(named) > 1:
        raise _RefusedError(f'{KIND} "{given.pool}" is in {where} {len(named)} times')
    return named[0]


def _is_named(found: Manifest | Exception, pool: str) -> TypeGuard[Manifest]:
    if not isinstance(found, Manifest) or not isinstance(found.content, dict):
        return False
    head = (found.content.get("apiVersion"), found.content.get("kind"))
    metadata = found.content.get("metadata")
    return head == (API_VERSION, KIND) and isinstance(metadata, dict) and metadata.get("name") == pool
