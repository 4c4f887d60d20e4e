"""Runs the verb that the command line names. kubectl finds the program by its name on the PATH."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from winpool.cli import parsing

PROG: Final = "kubectl winpool"

CHECK: Final = "check is part of audit: use audit -f FILE with --host-build BUILD or --pool POOL"
"""For people who type the verb of earlier versions."""

VERSION: Final = "--version is a verb here: use kubectl winpool version"

DESCRIPTION: Final = """\
Show the pools of Windows nodes in a cluster, find why nodes do not work, and
check manifests and pods before you apply them.

Only rollout pause, resume, abort and retry change the cluster: use kubectl
apply to create or change a WindowsNodePool. Write the name of a pool as for
kubectl: NAME, wnp/NAME or windowsnodepools.winpool.dev/NAME."""


def parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line. Of all verbs but ``verb`` it knows only the names.

    If its first word is one that several verbs have, such as rollout, it knows those only.
    """
    top = parsing.Parser(prog=PROG, description=DESCRIPTION, epilog=parsing.HANDED_THROUGH)
    top.set_defaults(refuse=top.error)
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, summary in (parsing.of_group((verb or "").partition(" ")[0]) or parsing.VERBS).items():
        if name == verb:
            parsing.add_verb(verbs, name, summary, parsing.loaded(name))
        else:
            verbs.add_parser(name, help=summary)
    return top


def _with_verb(others: list[str]) -> list[str]:
    """Return arguments whose first is a verb or ``--help``.

    Raises SystemExit for a verb that is gone, and for the flag that many programs have.
    """
    if others[:1] == ["check"]:
        parser().error(CHECK)
    if "--version" in others:
        parser().error(VERSION)
    if not others:
        return ["--help"]
    if others[0] == parsing.HELP:
        return [*_with_verb(others[1:]), "--help"]
    return parsing.joined(others)


def _parsed(others: list[str]) -> argparse.Namespace:
    """Return what the command line says, without the flags of kubectl. Raises SystemExit as argparse does."""
    words = _with_verb(others)
    if parsing.of_group(words[0]):
        if {*words[1:]} <= {"-h", "--help"}:
            parser(words[0]).parse_args(["--help"])
        words = [" ".join(words[:2]), *words[2:]]  # so that what was typed is named
    given, unknown = parser(words[0]).parse_known_args(words)
    if unknown:
        given.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    return given


def _reopen_closed() -> bool:
    """Open the streams that were closed before the start, as with ``>&-``; return whether stdout was open."""
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end
    return "stdout" not in closed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb named in ``arguments`` (default: those of the process); return the exit code.

    1 where nobody read the output to its end, or it cannot be written, so that an answer that was not seen
    is no yes.
    130 where Ctrl-C ended it, without a word.
    Raises SystemExit where argparse ends by itself: after ``--help``, and with 2 where
    the command line makes no sense.
    """
    is_seen = _reopen_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a locale cannot print is written out, so that no fault is lost for its letters.
            stream.reconfigure(errors="backslashreplace")
    try:
        flags, others = parsing.split(sys.argv[1:] if arguments is None else arguments)
    except parsing.FlagError as error:
        parser().error(str(error))
    given = _parsed(others)
    given.flags = flags
    # So that every kubectl ends with the plugin, however that is ended.
    with suppress(ValueError):  # it is not the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except parsing.EndError as error:
        for line in error.lines:
            parsing.note(f"{PROG} {given.verb}: {line}" if error.names_verb else line)
        return error.code
    except OSError as error:
        # Who read has enough, as in `| head`, or the disk is full. At its end Python would flush once more.
        if not isinstance(error, BrokenPipeError):
            parsing.note(f"{PROG} {given.verb}: {error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return parsing.Exit.UNKNOWN
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # after the ^C of the terminal
        return parsing.Exit.INTERRUPTED
    return code if is_seen else parsing.Exit.UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
