"""Splits the flags that every command of kubectl takes off a command line, to hand them through.

The three tables are made from ``kubectl options`` by ``tests/harness/kubectl_options.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
