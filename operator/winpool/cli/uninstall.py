"""``kubectl winpool uninstall --plan``: what winpool has on nodes, and in what order to remove it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from winpool.api.text import printable
from winpool.cli.paper import look_of
from winpool.cli.parsing import Exit, add_output, add_verb

if TYPE_CHECKING:
    import argparse

    from winpool.cli.parsing import Subparsers

_NAME: Final = "uninstall"

_DESCRIPTION: Final = """\
Show what winpool has in the cluster, and the steps that remove it, in order.

It changes nothing: you run the commands that it prints, and run it again to
check. It lists pools, all nodes, and what deploy/operator and crds have
installed, and needs the rights to list windowsnodepools and nodes. If another
right is missing, a warning says which."""

_EXITS: Final = {
    Exit.DONE: "no pool is left and no node has anything of winpool: deploy/operator can be removed",
    Exit.REFUSED: "there are pools, or nodes with something of winpool, or nodes that cannot be read",
    Exit.USAGE: "the command line is wrong, --plan is missing, or pools or nodes cannot be listed",
}

_EXAMPLES: Final = (
    ("kubectl winpool uninstall --plan", "what is there, what to know, and the steps"),
    ("kubectl winpool uninstall --plan -o json", "for programs"),
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        _NAME,
        summary="Show what is to be removed to uninstall winpool, in order.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--plan", action="store_true", help="Print the plan. Required, since this verb only plans."
    )
    add_output(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the plan; return the exit code."""
    if not given.plan:
        return _usage("it only plans an uninstallation and removes nothing: add --plan")
    # Imported here: what asks a server takes half a second to load, and --help does not need it.
    from winpool.cli.reasons import NotAskedError
    from winpool.cli.uninstall_plan import plan_of
    from winpool.cli.uninstall_reader import read_facts
    from winpool.cli.uninstall_text import as_content, as_text

    try:
        facts = read_facts(kubeconfig=given.kubeconfig, context=given.context)
    except NotAskedError as error:
        return _usage(str(error))
    plan = plan_of(facts)
    if given.output == "json":
        sys.stdout.write(json.dumps(as_content(plan, facts), indent=2) + "\n")
    else:
        sys.stdout.write(as_text(plan, facts, look=look_of(sys.stdout)))
    return Exit.DONE if plan.is_ready else Exit.REFUSED


def _usage(text: str) -> int:
    sys.stderr.write(f"{printable(f'kubectl winpool {_NAME}: {text}')}\n")
    return Exit.USAGE
