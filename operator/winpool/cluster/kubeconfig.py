"""A kubeconfig's user and cluster, as far as the client library does not read them, or reads them once.

Tokens that are renewed are removed from the user's entry before the loader sees it. Impersonation
(``as``) is read here: the loader ignores it, and requests would be sent with more rights than they
should have.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from winpool.cluster.errors import CredentialsError
from winpool.cluster.exec_plugin import ExecPlugin, PluginCommand
from winpool.cluster.tokens import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from winpool.cluster.tokens import Authorization

log = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]

_USER_FIELDS: Final = frozenset(
    {
        *("token", "tokenFile", "exec", "auth-provider", "username", "password", "extensions"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    }
)
_CLUSTER_FIELDS: Final = frozenset(
    {
        *("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"),
        *("certificate-authority", "certificate-authority-data"),
        # These have no effect here: no answer is requested compressed.
        *("disable-compression", "extensions"),
    }
)

_KEY_CHARACTERS: Final = "!#$&'*+-.^_`|~"
"""Characters of a key of ``as-user-extra`` that are not escaped, beside letters and digits: those that a
header's name may have, without the percent sign (client-go: transport/round_trippers.go, headerKeyEscape)."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks for credentials that expire."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class User:
    """What a user's entry has beyond what the loader reads.

    ``authorization`` is None where there is nothing to renew. ``impersonation`` are the headers with which
    the API server treats us as another user.
    """

    authorization: Authorization | None = field(repr=False)
    impersonation: Headers


def take_user(merged: Any, *, context: str | None, clocks: Clocks) -> User:
    """Read the entry of the context's user, and remove from it what the loader must not see.

    Raises CredentialsError, and any Python error for a file of another shape.
    """
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    user_name = chosen.safe_get("user")
    entry = merged["users"].get_with_name(user_name, safe=True) if user_name else None
    if entry is None:
        raise CredentialsError(f"kubeconfig has no user named {user_name!r} for its context")
    user = entry["user"]
    settings: dict[str, Any] = user.value
    base = Path(user.path).absolute().parent
    cluster = merged["clusters"].get_with_name(chosen["cluster"])["cluster"].value
    _tell_unknown(settings, known=_USER_FIELDS, of=f"user {user_name!r}")
    _tell_unknown(cluster, known=_CLUSTER_FIELDS, of=f"cluster {chosen['cluster']!r}")
    for name in ("client-certificate", "client-key"):
        if name in settings:  # the loader looks for them in the folder of the cluster's file
            settings[name] = str(base / settings[name])
    return User(
        authorization=_take_renewed(settings, user_name=user_name, base=base, clocks=clocks),
        impersonation=tuple(_impersonation(settings, user_name=user_name)),
    )


def _tell_unknown(settings: Mapping[str, Any], *, known: frozenset[str], of: str) -> None:
    for name in sorted(str(name) for name in settings if name not in known):
        log.warning("kubeconfig %s: winpool does not know the field %r and ignores it", of, name)


def _take_renewed(
    settings: dict[str, Any], *, user_name: str, base: Path, clocks: Clocks
) -> Authorization | None:
    """Remove the credentials that have to be renewed from the user's entry and return them."""
    provider = settings.get("auth-provider")
    if provider is not None:
        raise CredentialsError(
            f"kubeconfig user {user_name!r} has the auth-provider {provider.get('name')!r},"
            " a form that Kubernetes removed in 1.26: use an exec plugin"
        )
    token_file, plugin = settings.pop("tokenFile", None), settings.pop("exec", None)
    if plugin is not None:
        command = PluginCommand.parse(plugin, base=base)
        return ExecPlugin(command, monotonic=clocks.monotonic, now=clocks.now)
    if token_file is not None:
        # It has precedence over an inline token, as in client-go (clientcmd/api AuthInfo.TokenFile).
        return TokenFile(base / token_file, monotonic=clocks.monotonic)
    return None


def _impersonation(settings: Mapping[str, Any], *, user_name: str) -> Iterator[tuple[str, str]]:
    """Yield the headers for ``as`` and the related fields (Kubernetes: "User impersonation").

    Raises CredentialsError for what client-go refuses too: the related fields without ``as``.
    """
    name, uid = settings.get("as"), settings.get("as-uid")
    groups, extra = settings.get("as-groups") or [], settings.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise CredentialsError(
                f"kubeconfig user {user_name!r} has as-uid, as-groups or as-user-extra, but no `as`:"
                " name the user to act as"
            )
        return
    fits = isinstance(groups, list) and isinstance(extra, dict)
    if not fits or not all(isinstance(values, list) for values in extra.values()):
        raise CredentialsError(
            f"kubeconfig user {user_name!r}: as-groups is a list of names,"
            " as-user-extra has a list for each key"
        )
    asked = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        asked.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        header = f"Impersonate-Extra-{quote(str(key), safe=_KEY_CHARACTERS)}"
        asked.extend((header, value) for value in values)
    for header, value in asked:
        if not isinstance(value, str) or not value.isprintable():
            raise CredentialsError(
                f"kubeconfig user {user_name!r}: what is to be sent as {header} is not a line of text"
            )
        yield header, value
