"""``kubectl winpool``: kubectl runs the program ``kubectl-winpool`` that it finds on the PATH."""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import TYPE_CHECKING, Final

from winpool import __version__
from winpool.cli import check, join_config, matrix, memory, plan, status, uninstall, validate, why
from winpool.cli.parsing import Exit, HelpFormatter, add_connection, add_help

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROG: Final = "kubectl winpool"

DESCRIPTION: Final = """\
Show the pools of Windows nodes in a cluster, and check manifests and pods
before you apply them.

No verb changes the cluster: use kubectl apply to create or change a
WindowsNodePool. Write the name of a pool as for kubectl: NAME, wnp/NAME or
windowsnodepools.winpool.dev/NAME."""

_VERBS: Final = (check, join_config, matrix, memory, plan, status, uninstall, validate, why)
"""In the order in which ``--help`` lists them."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog=PROG, description=DESCRIPTION, formatter_class=HelpFormatter, add_help=False, allow_abbrev=False
    )
    add_help(top)
    add_connection(top)
    top.add_argument(
        "--version", action="version", version=f"{PROG} {__version__}", help="Show the version of the plugin."
    )
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in _VERBS:
        verb.add_to(verbs)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb named in ``arguments`` (default: those of the process); return the exit code.

    1 where nobody read the output to its end, so that a verdict that was not seen is no good one.
    130 where Ctrl-C ended it, without a word.
    Raises SystemExit where argparse ends by itself: after ``--help`` and ``--version``, and with 2
    where the command line makes no sense.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a locale cannot print is written out, so that no fault is lost for its letters.
            stream.reconfigure(errors="backslashreplace")
    given = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = given.run
    try:
        code = run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has enough, as in `| head`. At its end Python would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.REFUSED
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # after the ^C of the terminal
        return Exit.INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
