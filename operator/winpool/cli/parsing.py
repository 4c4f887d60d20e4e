"""What all verbs share on the command line: exit codes, the layout of help, and what a terminal is sent."""

from __future__ import annotations

import argparse
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    Subparsers: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name

_HELP_COLUMN: Final = 28
"""Where the explanations begin: after the longest of our flags with its value."""


class Exit(IntEnum):
    """How the plugin ends."""

    DONE = 0
    REFUSED = 1
    USAGE = 2


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples, and aligns the explanations of flags."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN)


def add_verb(
    subparsers: Subparsers, name: str, *, summary: str, description: str, examples: Sequence[tuple[str, str]]
) -> argparse.ArgumentParser:
    """Add the parser of a verb; each example is a command and what it is good for."""
    lines = [f"  # {meaning}\n  {command}" for command, meaning in examples]
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog="examples:\n" + "\n\n".join(lines),
        formatter_class=HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add_help(parser)
    return parser


def add_help(parser: argparse.ArgumentParser) -> None:
    """Add ``--help``, with a sentence in the voice of ours."""
    parser.add_argument("-h", "--help", action="help", help="Show this text.")


def add_filename(parser: argparse.ArgumentParser) -> None:
    """Add ``-f``, as kubectl has it, for the verbs that read manifests."""
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        required=True,
        help="A file, a folder, or - for what is piped in; can be given more than once.",
    )
