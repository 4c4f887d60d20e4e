"""Has what verbs share on the command line: exit codes, errors, the layout of help, flags, names."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from winpool.api.keys import GROUP, PLURAL, SHORT_NAME, SINGULAR, VERSION
from winpool.api.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Subparsers: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name

_HELP_COLUMN: Final = 28
"""Where the explanations begin: after the longest of our flags with its value."""

_HELP_WIDTH: Final = 80

POOL_RESOURCES: Final = frozenset(
    f"{name}{group}"
    for name in (SHORT_NAME, SINGULAR, PLURAL)
    for group in ("", f".{GROUP}", f".{VERSION}.{GROUP}")
)
"""What kubectl takes before the slash of a pool."""


HANDED_THROUGH: Final = """\
All flags that kubectl options lists, such as --context, --kubeconfig and --as,
are handed through to kubectl."""


NODE_RESOURCES: Final = frozenset({"node", "nodes", "no"})
"""What kubectl takes before the slash of a node."""


class Exit(IntEnum):
    """How the plugin ends: its answer to the question of the verb, or why it has none.

    A no is not 1, since a shell, kubectl and Python end with 1 for whatever goes wrong.
    """

    YES = 0
    """Also of a verb that only shows something: it is shown."""
    UNKNOWN = 1
    """The plugin could not tell: it could not ask, read or judge, or there is not what was asked for."""
    USAGE = 2
    NO = 3
    INTERRUPTED = 130
    """What a shell reports for a command that Ctrl-C ended."""


class EndError(Exception):
    """A verb ends without an answer; each of ``lines`` says why. ``code`` is the exit code of the plugin.

    ``names_verb`` says that a line is shown behind the name of the verb.
    """

    code = Exit.UNKNOWN
    names_verb = True

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class UsageError(EndError):
    """The command line is wrong, or a file that it names cannot be opened."""

    code = Exit.USAGE


class RefusedError(EndError):
    """There is not what was asked for."""

    names_verb = False


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples, and aligns the explanations of flags."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN)
        # argparse does not count the indent of verbs.
        self._action_max_length = _HELP_COLUMN - 2


class Verb(Protocol):
    """What the module of a verb has.

    ``EXITS`` says what each exit code means, beside those that mean the same for all verbs. Each of
    ``EXAMPLES`` is a command and what it does. ``run`` returns the exit code.
    """

    DESCRIPTION: str
    EXITS: Mapping[Exit, str]
    EXAMPLES: Sequence[tuple[str, str]]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_verb(subparsers: Subparsers, name: str, summary: str, verb: Verb) -> None:
    """Add the parser of a verb."""
    lines = [f"  # {meaning}\n  {command}" for command, meaning in verb.EXAMPLES]
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{verb.DESCRIPTION}\n\n{_exit_codes(verb.EXITS)}",
        epilog="\n\n".join(("examples:", *lines, HANDED_THROUGH)),
        formatter_class=HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add_help(parser)
    verb.add_arguments(parser)
    parser.set_defaults(verb=name, run=verb.run, refuse=parser.error)


def _exit_codes(exits: Mapping[Exit, str]) -> str:
    """Return the list of exit codes, in the same form for every verb."""
    said = {Exit.USAGE: "the command line is wrong", Exit.INTERRUPTED: "Ctrl-C stopped it", **exits}
    lines = (
        line
        for code in Exit
        if code in said
        for line in textwrap.wrap(
            said[code], _HELP_WIDTH, initial_indent=f"  {code:<5}", subsequent_indent=" " * 7
        )
    )
    return "\n".join(("exit codes:", *lines))


def add_help(parser: argparse.ArgumentParser) -> None:
    """Add ``--help``, with a sentence like those of our own flags."""
    parser.add_argument("-h", "--help", action="help", help="Show this help.")


def add_filename(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add ``-f`` and ``-R``, as kubectl has them, for the verbs that read manifests."""
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        required=required,
        help="Read manifests from this file or folder, or from standard input if it is -. Can be repeated.",
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="Also read the folders below a folder of -f."
    )


ANSWER: Final = ("text", "json", "yaml")
"""The formats of ``-o`` for any answer: for people, and one object for programs in two spellings."""

TABLE: Final = ("text", "wide", "json", "yaml", "name")
"""Those of an answer that is a table. ``console.write`` has what each means."""


def add_output(parser: argparse.ArgumentParser, choices: Sequence[str] = ANSWER) -> None:
    """Add ``-o``. The first of ``choices`` is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=tuple(choices),
        default=choices[0],
        help=f"Print in this format. Default: {choices[0]}.",
    )


def add_watch(parser: argparse.ArgumentParser, *, help_text: str) -> None:
    """Add ``-w``, for the verbs that show the same again and again."""
    parser.add_argument("-w", "--watch", action="store_true", help=help_text)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the settings that judge upgrades."""
    parser.add_argument(
        "--support-matrix-file",
        metavar="FILE",
        help="Use these rows of the support matrix for all pools. Give it if the operator has this flag.",
    )


def pool_name(text: str) -> str:
    """Return the name in ``NAME``, ``wnp/NAME`` or ``windowsnodepools.winpool.dev/NAME``, as kubectl does."""
    return _name(text, POOL_RESOURCES, kind="pool", short=SHORT_NAME)


def node_name(text: str) -> str:
    """Return the name in ``NAME`` or ``node/NAME``, as kubectl does."""
    return _name(text, NODE_RESOURCES, kind="node", short="node")


def _name(text: str, resources: frozenset[str], *, kind: str, short: str) -> str:
    resource, slash, name = text.rpartition("/")
    if not name or (slash and resource.lower() not in resources):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a {kind}: write NAME or {short}/NAME")
    return name


def note_offline(given: argparse.Namespace, *, why: str) -> None:
    """Tell a person that the flags of kubectl that are given have no effect, and why."""
    names = list(dict.fromkeys(each.partition("=")[0] for each in given.flags))
    if names:
        note(f"{' and '.join(names)} {'have' if len(names) > 1 else 'has'} no effect: {why}")


def note(text: str) -> None:
    """Print what is no answer to standard error, beside the answer, which may be for programs."""
    try:
        sys.stderr.write(f"{printable(text)}\n")
    except OSError:
        # The answer is the same without it. At its end Python would flush once more, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
