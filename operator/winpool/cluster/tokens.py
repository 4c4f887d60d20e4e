"""Where the Authorization header comes from, and how it is renewed.

The client library reads a kubeconfig's ``tokenFile`` only once, so a token that is renewed on
disk (as every projected ServiceAccount token is) would expire after its hour. So this module
reads the file again. No token is ever part of a message or of a repr.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from winpool.cluster.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

REREAD_SECONDS: Final = 10.0
"""How long a token from disk is used before the file is read again. The kubelet renews a projected
token at 80 % of its life (an hour by default), so ten seconds are soon enough. After a 401 the file
is read at once."""


class Authorization(Protocol):
    """Where the value of the Authorization header comes from."""

    async def header(self, *, within: float | None = None) -> str | None:
        """Return the value to send now; None where a TLS client certificate authenticates us.

        Raises CredentialsError where there is none ``within`` that many seconds (None: without a limit):
        a request is never sent as anonymous.
        """

    def reject(self, header: str | None) -> None:
        """Note that the server answered 401 to ``header``, so that a new value is obtained at once.

        The value is an argument so that late answers to requests in flight do not reject a newer one.
        """

    async def close(self) -> None:
        """End any work that is under way to get a value."""


class FixedHeader:
    """A header that cannot be renewed: a token or password written into the kubeconfig, or none."""

    __slots__ = ("_header",)

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self, *, within: float | None = None) -> str | None:  # noqa: ARG002 - it is at hand
        """Return the value; None for TLS client certificates."""
        return self._header

    def reject(self, header: str | None) -> None:
        """Do nothing: there is no other value."""

    async def close(self) -> None:
        """Do nothing."""


class TokenFile:
    """A bearer token in a file that someone else renews.

    If the file is unreadable or empty for a moment (a renewal that is not atomic), the token
    that was read before stays; without one it is a CredentialsError.
    """

    __slots__ = ("_complained", "_header", "_monotonic", "_path", "_read_at")

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._header: str | None = None
        self._read_at = float("-inf")
        self._complained = False

    async def header(self, *, within: float | None = None) -> str:  # noqa: ARG002 - a file does not wait
        """Return "Bearer <token>", from the file if it was last read REREAD_SECONDS ago."""
        now = self._monotonic()
        if self._header is not None and now - self._read_at < REREAD_SECONDS:
            return self._header
        try:
            self._header = bearer(self._read(), source=f"token file {self._path}")
        except CredentialsError as error:
            if self._header is None:
                raise
            if not self._complained:
                log.warning("%s; winpool continues with the token read before", error.message)
            self._complained = True
        else:
            self._complained = False
        self._read_at = now
        return self._header

    def reject(self, header: str | None) -> None:
        """Have the next request read the file, whenever it was last read."""
        if header == self._header:
            self._read_at = float("-inf")

    async def close(self) -> None:
        """Do nothing: the file is closed after each read."""

    def _read(self) -> str:
        # A kilobyte from tmpfs or a local disk, at most every ten seconds: this needs no thread.
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise CredentialsError(f"token file {self._path} cannot be read: {reason}") from None


def bearer(token: str, *, source: str) -> str:
    """Make the header of a token, without the newline that files end with (HTTP refuses it).

    Raises CredentialsError, naming ``source`` and not the token, for what cannot be one.
    """
    stripped = token.strip()
    if not stripped:
        raise CredentialsError(f"{source} is empty")
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise CredentialsError(f"{source} does not hold a token: it has characters that no token has")
    return f"Bearer {stripped}"
