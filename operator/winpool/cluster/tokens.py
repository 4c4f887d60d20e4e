"""Where the Authorization header comes from, and how it stays fresh.

The client library reads a kubeconfig's ``tokenFile`` once and never again, so a token that
is renewed on disk (every projected ServiceAccount token is) would be lost after its hour.
The file is therefore re-read here. No token is ever part of a message or of a repr.
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
"""How long a token read from disk is used before the file is looked at again. kubelet renews a
projected token at 80 % of its life (an hour by default), so ten seconds are soon enough; a 401
does not wait for them."""


class Authorization(Protocol):
    """Where the value of the Authorization header comes from."""

    async def header(self, *, within: float | None = None) -> str | None:
        """Give the value to send now; None where a TLS client certificate speaks for us.

        Raises CredentialsError where there is none ``within`` that many seconds (None: as long as it
        takes): a request is never sent as anonymous.
        """

    def reject(self, header: str | None) -> None:
        """Tell that the server answered 401 to ``header``, so that it is obtained anew at once.

        Naming the value keeps the late answers of many requests in flight from throwing
        away a newer one.
        """

    async def close(self) -> None:
        """End what is still being done to get a value."""


class FixedHeader:
    """A header that cannot be renewed: a token or password written into the kubeconfig, or none."""

    __slots__ = ("_header",)

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def header(self, *, within: float | None = None) -> str | None:  # noqa: ARG002 - it is at hand
        """Give the value; None for TLS client certificates."""
        return self._header

    def reject(self, header: str | None) -> None:
        """Do nothing: there is no other value to be had."""

    async def close(self) -> None:
        """Do nothing."""


class TokenFile:
    """A bearer token in a file that somebody else renews.

    A file that is unreadable or empty for a moment (a renewal that is not atomic) does not
    take away the token already held; without one it is a CredentialsError.
    """

    __slots__ = ("_complained", "_header", "_monotonic", "_path", "_read_at")

    def __init__(self, path: Path, *, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._header: str | None = None
        self._read_at = float("-inf")
        self._complained = False

    async def header(self, *, within: float | None = None) -> str:  # noqa: ARG002 - a file does not wait
        """Give "Bearer <token>", from the file if the last look is REREAD_SECONDS ago."""
        now = self._monotonic()
        if self._header is not None and now - self._read_at < REREAD_SECONDS:
            return self._header
        try:
            self._header = bearer(self._read(), source=f"token file {self._path}")
        except CredentialsError as error:
            if self._header is None:
                raise
            if not self._complained:
                log.warning("%s; going on with the token read before", error.message)
            self._complained = True
        else:
            self._complained = False
        self._read_at = now
        return self._header

    def reject(self, header: str | None) -> None:
        """Read the file at the next request, whatever the time."""
        if header == self._header:
            self._read_at = float("-inf")

    async def close(self) -> None:
        """Do nothing: the file is closed after each look."""

    def _read(self) -> str:
        # A kilobyte from tmpfs or a local disk, at most every ten seconds: not worth a thread.
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
