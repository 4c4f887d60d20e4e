"""The TLS context of a connection, made again when its files change, as CAs and certificates are rotated.

What is loaded into a context stays in it. So a change makes a new context. Connections that were made
with the old one are not used for new requests, since aiohttp distinguishes them by their context.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the files are checked, as often as a token file. An old CA or certificate is valid for hours
beside the new one in any rotation that is done with care."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the CAs to trust (None: those of the system), our certificate and its key."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verified: bool = True
    """False: the server's certificate is not verified."""


class Tls:
    """Makes the context for a new connection.

    If a file is unreadable, or a certificate does not match its key (they are written one after the
    other), the context from before stays; without one it is a CredentialsError.
    """

    __slots__ = ("_complained", "_context", "_files", "_looked_at", "_monotonic", "_seen")

    def __init__(self, files: TlsFiles, *, monotonic: Callable[[], float]) -> None:
        """Read the files. Raises CredentialsError."""
        self._files = files
        self._monotonic = monotonic
        self._complained = False
        self._looked_at = monotonic()
        self._seen = _look(files)
        self._context = _load(files)

    def context(self) -> ssl.SSLContext:
        """Return the context, a new one after a change of a file. Files are checked every LOOK_SECONDS."""
        now = self._monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look_again()
        return self._context

    def _look_again(self) -> None:
        # A few stats, and after a change a few milliseconds of parsing: this needs no thread.
        seen = _look(self._files)  # before they are read: a change in between is then found the next time
        if seen == self._seen:
            return
        try:
            self._context = _load(self._files)
        except CredentialsError as error:
            if not self._complained:
                log.warning("%s; winpool continues with the files as read before", error.message)
            self._complained = True
            return
        self._seen = seen
        self._complained = False
        log.info("the files for TLS to the API server have changed; new connections use the new ones")


def _look(files: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when a file does; None for one that does not exist."""
    return tuple(_stat(path) for path in (files.ca, files.certificate, files.key) if path)


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(files: TlsFiles) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=files.ca)
        if files.certificate:
            # With the empty password, OpenSSL does not ask for one on a terminal if the key is encrypted.
            tls.load_cert_chain(files.certificate, files.key, password="")
    except OSError as error:  # ssl.SSLError is one
        paths = ", ".join(path for path in (files.ca, files.certificate, files.key) if path)
        raise CredentialsError(
            f"a certificate or key for the API server cannot be read ({paths}): {error.strerror or error}"
        ) from None
    # Python 3.13 demands extensions of RFC 5280 that the CAs of real clusters lack; client-go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not files.verified:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
