"""Completes command lines of the plugin: the program ``kubectl_complete-winpool``.

kubectl runs it with the words behind ``kubectl winpool``, of which the last is to be completed, and hands on
what it prints to bash, zsh, fish and PowerShell: a candidate on each line, with its meaning behind a tab, and
at the end a directive. What may follow is asked of the parser of the verb, so no flag is named here. Where
something cannot be read, there are no candidates, and not a word: a person is typing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from winpool.api.keys import CRD_NAME, OS_LABEL, OS_WINDOWS
from winpool.cli import parsing

REQUEST_SECONDS: Final = 2
"""How long the API server may take for names. A shell shows nothing until then, and a person types on."""

ANSWER_SECONDS: Final = REQUEST_SECONDS + 1
"""How long kubectl may take in all: an exec plugin may wait for a person to sign in."""

_READ_SECONDS: Final = 0.1
"""To read what a kubectl has printed that ran beside one that took all of the time."""

FILES: Final = 0
"""The directive by which the shell completes names of files (``ShellCompDirectiveDefault`` of cobra)."""

NO_FILES: Final = 4
"""The directive by which it completes nothing else (``ShellCompDirectiveNoFileComp``)."""

_KINDS: Final = {
    "POOL": (parsing.POOL_RESOURCES, (CRD_NAME,)),
    # As a table, of which a row is a fraction of the object: a cluster may have thousands.
    "NODE": (parsing.NODE_RESOURCES, ("nodes", "-l", f"{OS_LABEL}={OS_WINDOWS}")),
}
"""What arguments that are written so in the help name: before a slash, and how kubectl lists the names."""

_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""A name that a pool or a node can have (RFC 1123). A server that is no Kubernetes may send any other: shells
show it as it is, put it into the command line, and bash runs what is in it at the next completion."""

_OF_FILES: Final = frozenset({"FILE", "SCRIPT"})


@dataclass(frozen=True, slots=True)
class Answer:
    """Candidates, each with what it means, and the directive for the shell."""

    candidates: Mapping[str, str] = field(default_factory=dict)
    directive: int = NO_FILES

    def beginning(self, word: str) -> Answer:
        """Return the candidates that begin so."""
        found = {name: says for name, says in self.candidates.items() if name.startswith(word)}
        return Answer(found, self.directive)

    def lines(self) -> Iterator[str]:
        """Yield what kubectl reads."""
        for name, says in self.candidates.items():
            yield f"{name}\t{says}" if says else name
        yield f":{self.directive}"


def main() -> int:
    """Print what may stand for the last word of the command line; return the exit code."""
    sys.stdout.writelines(f"{line}\n" for line in answer_to(sys.argv[1:]).lines())
    return 0


def answer_to(words: Sequence[str]) -> Answer:
    """Return what may stand for the last of ``words``."""
    *before, word = words or [""]
    try:
        flags, others = parsing.split(before)
    except parsing.FlagError:
        return _of_last_flag(before, word)
    name, has_value, value = word.partition("=")
    if has_value and name in _flags_of_kubectl():
        return _of_kubectl(word, flags=flags).beginning(value)
    verb, *given = parsing.joined(others) or [""]
    if verb not in parsing.VERBS or verb == parsing.HELP:
        begun = [each for each in (verb, *given) if each not in ("", parsing.HELP)]
        return (_flags({}) if word.startswith("-") else Answer(_next_words(begun))).beginning(word)
    parser = parsing.Parser()
    parsing.loaded(verb).add_arguments(parser)
    found = _Line.read(parser, given).answer(word, flags=flags)
    more = {} if given or word.startswith("-") else _next_words([verb])
    return Answer({**Answer(more).beginning(word).candidates, **found.candidates}, found.directive)


def _of_last_flag(before: Sequence[str], word: str) -> Answer:
    """Return the values of the last word of ``before``, a flag of kubectl that has none yet."""
    try:
        flags, _ = parsing.split(before[:-1])
    except parsing.FlagError:  # it is one before it: what follows makes no sense
        return Answer()
    return _of_kubectl(before[-1], word, flags=flags)


def _next_words(begun: Sequence[str]) -> Mapping[str, str]:
    """Return the next words of the verbs that begin so; of several verbs the meaning is their last words."""
    found: dict[str, list[str]] = {}
    for verb in parsing.VERBS:
        words = verb.split()
        if words[: len(begun)] == [*begun] and len(words) > len(begun):
            found.setdefault(words[len(begun)], []).append(verb)
    return {
        word: parsing.VERBS[verbs[0]]
        if verbs[0].endswith(word)
        else ", ".join(each.split()[-1] for each in verbs)
        for word, verbs in found.items()
    }


def _flags_of_kubectl() -> Iterator[str]:
    yield from (f"--{name}" for name in sorted(parsing.VALUES | parsing.SWITCHES))
    yield from (f"-{letter}" for letter in parsing.SHORT)


def _flags(ours: Mapping[str, str]) -> Answer:
    return Answer({"--help": "", **ours, **dict.fromkeys(_flags_of_kubectl(), "")})


@dataclass(frozen=True, slots=True)
class _Line:
    """What was given to a verb. ``awaited`` is the flag whose value comes next."""

    options: Mapping[str, argparse.Action]
    places: Sequence[argparse.Action]
    given: Sequence[argparse.Action]
    names: Sequence[str]
    awaited: argparse.Action | None

    @classmethod
    def read(cls, parser: argparse.ArgumentParser, words: Iterable[str]) -> _Line:
        actions = parser._actions  # noqa: SLF001 - argparse tells it in no other way
        options = {name: each for each in actions for name in each.option_strings}
        given: list[argparse.Action] = []
        names: list[str] = []
        awaited = None
        for word in words:
            if awaited is not None:
                awaited = None
            elif word.startswith("-"):
                name, has_value, _ = word.partition("=")
                if (action := options.get(name)) is not None:
                    given.append(action)
                    awaited = None if has_value or action.nargs == 0 else action
            else:
                names.append(word)
        return cls(options, [each for each in actions if not each.option_strings], given, names, awaited)

    def answer(self, word: str, *, flags: Sequence[str]) -> Answer:
        """Return what may stand for ``word``."""
        if self.awaited is not None:
            return self._values(self.awaited, word, flags=flags)
        name, has_value, value = word.partition("=")
        if has_value and name in self.options:
            return self._values(self.options[name], value, flags=flags)
        if word.startswith("-"):
            again = (each for each in self.given if not isinstance(each, argparse._AppendAction))  # noqa: SLF001
            gone = {name for each in again for name in each.option_strings}
            ours = {name: each.help or "" for name, each in self.options.items() if name not in gone}
            return _flags(ours).beginning(word)
        if self.places and (not self.names or self.places[0].nargs == "*"):
            return self._values(self.places[0], word, flags=flags)
        return Answer()

    def _values(self, action: argparse.Action, word: str, *, flags: Sequence[str]) -> Answer:
        """Return the values of ``action`` that begin with ``word``."""
        if action.choices is not None:
            return Answer(dict.fromkeys(map(str, action.choices), "")).beginning(word)
        what = action.metavar.split("|") if isinstance(action.metavar, str) else []
        if _OF_FILES & set(what):
            return Answer(directive=FILES)
        found = (name for name in _names(what, word, flags=flags) if name not in self.names)
        return Answer(dict.fromkeys(found, "")).beginning(word)


def _names(what: Iterable[str], word: str, *, flags: Sequence[str]) -> Iterator[str]:
    """Yield the names in the cluster, as ``word`` begins: with or without a resource and a slash."""
    resource, slash, _ = word.rpartition("/")
    wanted = [
        command
        for resources, command in (_KINDS[each] for each in what if each in _KINDS)
        if not slash or resource.lower() in resources
    ]
    asked = [
        _Kubectl("get", *command, "--no-headers", *flags, f"--request-timeout={REQUEST_SECONDS}s")
        for command in wanted
    ]
    for each in asked:
        found = (line.partition(" ")[0] for line in each.lines())
        yield from (f"{resource}{slash}{name}" for name in found if _NAME.fullmatch(name))


def _of_kubectl(*words: str, flags: Sequence[str]) -> Answer:
    """Return what kubectl says of its own flags, such as the contexts of ``--context``."""
    *lines, last = _Kubectl("__complete", "get", *flags, *words).lines() or [f":{NO_FILES}"]
    found = (line.partition("\t") for line in lines)
    directive = last.removeprefix(":")
    return Answer(
        {name: says for name, _, says in found}, int(directive) if directive.isdecimal() else NO_FILES
    )


class _Kubectl:
    """A kubectl that runs beside others, without a terminal, and is given up after ``ANSWER_SECONDS``."""

    def __init__(self, *arguments: str) -> None:
        quiet = subprocess.DEVNULL
        self._until = time.monotonic() + ANSWER_SECONDS
        try:
            self._process: subprocess.Popen[str] | None = subprocess.Popen(
                ("kubectl", *arguments), stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True
            )
        except OSError:
            self._process = None

    def lines(self) -> list[str]:
        """Return what it prints, nothing where it fails or takes too long."""
        if self._process is None:
            return []
        with self._process as process:
            try:
                left = max(self._until - time.monotonic(), _READ_SECONDS)
                printed, _ = process.communicate(timeout=left)
            except (subprocess.TimeoutExpired, UnicodeDecodeError):
                process.kill()
                return []
        return [] if process.returncode else printed.splitlines()
