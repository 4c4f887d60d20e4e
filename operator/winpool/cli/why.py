"""``kubectl winpool why``: what is due on one node, what keeps it, and what opens that."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from winpool.api.text import printable
from winpool.cli.operator_settings import SettingsError, add_settings, rows_of_settings
from winpool.cli.parsing import Exit, add_output, add_verb

if TYPE_CHECKING:
    from winpool.cli.parsing import Subparsers

_NODE_RESOURCES: Final = ("node", "nodes", "no")
"""What kubectl takes before the slash of a node."""

_DESCRIPTION: Final = """\
Show which pool a node belongs to, which upgrade is due on it and why, which
gates are closed and what opens each, what happens next, and what you can do.

It judges the gates itself, from what the API server has now, by the rules of
the operator. It needs the rights to list windowsnodepools and nodes, and, if
the pool has spec.upgrade, pods and poddisruptionbudgets."""

_EXITS: Final = {
    Exit.DONE: "nothing is due, or an upgrade is due and every gate is open",
    Exit.REFUSED: "there is no such node, or the API server cannot be read",
    Exit.USAGE: "the command line is wrong",
    Exit.BLOCKED: "an upgrade is due, or that is not known, and the node must not be upgraded now",
}

_EXAMPLES: Final = (
    ("kubectl winpool why akswin000003", "all about one node"),
    ("kubectl winpool why node/akswin000003 || exit", "in a script: stop if it must not be upgraded now"),
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "why",
        summary="Show what is due on a node, and what keeps it from being upgraded.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument("node", type=node_name, metavar="NODE", help="Show this node: NAME or node/NAME.")
    add_output(parser)
    add_settings(parser)
    parser.set_defaults(run=run)


def node_name(text: str) -> str:
    """Return the name in ``NAME`` or ``node/NAME``, as kubectl does."""
    resource, slash, name = text.rpartition("/")
    if not name or (slash and resource.lower() not in _NODE_RESOURCES):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a node: write NAME or node/NAME")
    return name


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    # Imported here: what asks a server takes half a second to load, and --help does not need it.
    from winpool.cli.console import look_of
    from winpool.cli.node_why import pools_of, why_of
    from winpool.cli.reasons import NotAskedError
    from winpool.cli.upgrade_reader import read_cluster
    from winpool.cli.why_json import as_json
    from winpool.cli.why_text import as_text

    try:
        rows = rows_of_settings(given)
    except SettingsError as error:
        return _failed(str(error), Exit.USAGE)
    name = given.node
    try:
        cluster = read_cluster(
            lambda seen: pools_of(seen, name), kubeconfig=given.kubeconfig, context=given.context, node=name
        )
    except NotAskedError as error:
        return _failed(str(error))
    why = why_of(cluster, name, rows=rows)
    if isinstance(why, str):
        return _failed(why)
    is_json = given.output == "json"
    sys.stdout.write(as_json(why) if is_json else as_text(why, look=look_of(sys.stdout)))
    return Exit.BLOCKED if why.standing.is_blocked else Exit.DONE


def _failed(text: str, code: Exit = Exit.REFUSED) -> Exit:
    sys.stderr.write(f"{printable(f'kubectl winpool why: {text}')}\n")
    return code
