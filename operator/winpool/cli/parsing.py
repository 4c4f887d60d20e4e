"""Has what verbs share on the command line: their names, exit codes, errors, the layout of help, flags.

The three tables of the flags of kubectl are made by ``tests/harness/kubectl_options.py``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias, cast

from winpool.api.keys import GROUP, PLURAL, SHORT_NAME, SINGULAR, VERSION
from winpool.api.text import printable

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


class Parser(argparse.ArgumentParser):
    """Reads arguments as they are, not abbreviated. ``--help`` has a sentence like those of our own flags."""

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=HelpFormatter, add_help=False, allow_abbrev=False, **more)
        self.add_argument("-h", "--help", action="help", help="Show this help.")


class Verb(NamedTuple):
    """What a verb has: one of these, or a module with these names.

    ``EXITS`` says what each exit code means, beside those that mean the same for all verbs. Each of
    ``EXAMPLES`` is a command and what it does. ``run`` returns the exit code.
    """

    DESCRIPTION: str
    EXITS: Mapping[Exit, str]
    EXAMPLES: Sequence[tuple[str, str]]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


_Parsers: TypeAlias = argparse._SubParsersAction  # noqa: SLF001 - has no other name


def add_verb(subparsers: _Parsers[Parser], name: str, summary: str, verb: Verb) -> None:
    """Add the parser of a verb."""
    lines = [f"  # {meaning}\n  {command}" for command, meaning in verb.EXAMPLES]
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{verb.DESCRIPTION}\n\n{_exit_codes(verb.EXITS)}",
        epilog="\n\n".join(("examples:", *lines, HANDED_THROUGH)),
    )
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


HELP: Final = "help"
"""The verb that stands for ``--help``, and has no module."""

VERBS: Final[Mapping[str, str]] = {
    "audit": "Find what of workloads does not run on Windows as written.",
    "diagnose": "Find why Windows nodes do not work.",
    "help": "Show the help of a verb.",
    "join-config": "Print the kubelet settings that a node needs to join a pool.",
    "matrix": "Print which Windows releases run with which Kubernetes versions.",
    "memory": "Show how much memory is left on nodes, the worst first.",
    "memory replay": "Say when the operator would have signalled or evicted, by recorded samples.",
    "plan": "Show how the nodes of a pool would be upgraded, and what keeps them.",
    "rollout abort": "Give up the nodes in work of a pool, and begin with no further one.",
    "rollout pause": "Begin with no further upgrade of a pool; nodes in work finish.",
    "rollout resume": "Remove the request by which a pool is paused or aborted.",
    "rollout retry": "Try the upgrade of a node again that has failed.",
    "rollout status": "Show how far the upgrades of a pool are, node by node.",
    "runtimeclass": "Print the RuntimeClass that fits a pool.",
    "status": "Show the state of pools, their issues and the fixes.",
    "uninstall": "Show what is to be removed to uninstall winpool, in order.",
    "validate": "Check pool manifests without a cluster.",
    "version": "Print the versions of the plugin, the operator and the CRD.",
    "why": "Show why a node does not work or is not upgraded, and what to do.",
}
"""What each does, in the order in which ``--help`` lists them."""

_REQUESTS: Final = ("rollout abort", "rollout pause", "rollout resume", "rollout retry")
"""Verbs that are in ``rollout_requests``. Each other one is a module."""


def loaded(name: str) -> Verb:
    """Return the verb of that name."""
    if name in _REQUESTS:
        return cast("Verb", import_module("winpool.cli.rollout_requests").VERBS[name])
    return cast("Verb", import_module(f"winpool.cli.{re.sub('[- ]', '_', name)}"))


def of_group(word: str) -> Mapping[str, str]:
    """Return the verbs of two words that begin with ``word``, if that is no verb itself."""
    return {} if word in VERBS else {name: VERBS[name] for name in VERBS if name.startswith(f"{word} ")}


def joined(words: list[str]) -> list[str]:
    """Return the words of a command line with a verb of two words as one."""
    first = " ".join(words[:2])
    return [first, *words[2:]] if first in VERBS else words


# From here on generated.
VALUES: Final = frozenset({
    "as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority",
    "client-certificate", "client-key", "cluster", "context", "kubeconfig", "kuberc",
    "log-flush-frequency", "namespace", "password", "profile", "profile-output", "proxy-url",
    "request-timeout", "server", "tls-server-name", "token", "user", "username", "v", "vmodule",
})  # fmt: skip
SWITCHES: Final = frozenset({
    "disable-compression", "insecure-skip-tls-verify", "match-server-version", "warnings-as-errors",
})  # fmt: skip
SHORT: Final[Mapping[str, str]] = {"n": "namespace", "s": "server", "v": "v"}
# Until here generated.

_HIDDEN: Final = frozenset({"namespace", "password", "token", "v"})
"""Flags that are not in commands which are shown: secrets, and what does not choose the cluster."""


class FlagError(Exception):
    """A flag of kubectl without its value; the text says which."""


def split(arguments: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the flags of kubectl in ``arguments``, each as ``--name=value``, and all other arguments.

    They are read as kubectl reads them: a switch takes a value only behind ``=``. Raises FlagError.
    """
    flags: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return tuple(flags), [*others, argument, *rest]
        name, given, value = _named(argument)
        if name in SWITCHES:
            flags.append(f"--{name}={value if given else 'true'}")
        elif name in VALUES:
            if not given:
                value = next(rest, "")
                if not value or (name == "server" and value.startswith("-")):
                    raise FlagError(_without_value(name))
            flags.append(f"--{name}={value}")
        else:
            others.append(argument)
    return tuple(flags), others


def shown(flags: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``flags`` that choose the cluster and are no secret: for commands that are shown."""
    return tuple(each for each in flags if each[2:].partition("=")[0] not in _HIDDEN)


def _named(argument: str) -> tuple[str, bool, str]:
    """Return the long name of a flag, whether a value is given with it, and that value."""
    if argument.startswith("--"):
        name, given, value = argument[2:].partition("=")
        return name, bool(given), value
    if argument.startswith("-") and argument[1:2] in SHORT:
        value = argument[2:].removeprefix("=")
        return SHORT[argument[1:2]], bool(value), value
    return "", False, ""


def _without_value(name: str) -> str:
    if name == "server":
        return "--server needs the address of an API server; to have it validate a pool: --dry-run=server"
    return f"--{name} needs a value"
