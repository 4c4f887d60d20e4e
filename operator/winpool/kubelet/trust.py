"""Makes the TLS contexts for servers that samples come from, by a CA file that is read again when it changes.

What is loaded into a TLS context stays in it. So a change makes a new context.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the file is read. In a rotation that is done with care, the old CA is valid for hours beside the
new one. It is a few kilobytes."""


class TrustError(Exception):
    """The CA file cannot be used; the message names it and says why."""


class Trust:
    """The TLS context for new connections.

    If the file cannot be used after a change, the context from before stays.
    """

    def __init__(self, ca: Path | None, *, monotonic: Callable[[], float]) -> None:
        """Read ``ca``, a PEM file; None trusts the CAs of the system. Raises TrustError."""
        self._ca = ca
        self._monotonic = monotonic
        self._complained = False
        self._looked_at = monotonic()
        self._content = None if ca is None else _read(ca)
        self._context = None if ca is None else _context(self._content, source=ca)

    def context(self) -> ssl.SSLContext:
        """Return the context, a new one after a change of the file, which is read every LOOK_SECONDS."""
        now = self._monotonic()
        if self._ca is not None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look(self._ca)
        if self._context is None:
            # Not before a connection needs them: the CAs of a system take 2 MB, and 20 ms to load.
            self._context = _context(None, source=None)
        return self._context

    def _look(self, ca: Path) -> None:
        try:
            content = _read(ca)
            if content != self._content:
                self._context = _context(content, source=ca)
                self._content = content
                log.info("the CA file %s has changed; new connections use the new one", ca)
        except TrustError as error:
            if not self._complained:
                log.warning("%s; winpool continues with the file as read before", error)
            self._complained = True
        else:
            self._complained = False


def insecure_context() -> ssl.SSLContext:
    """Return a context that trusts every certificate. Anyone on the network path can then read the token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _read(ca: Path) -> str:
    # A few kilobytes from a local disk, at most every ten seconds: this needs no thread.
    try:
        return ca.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TrustError(f"the CA file {ca} cannot be read: {reason}") from None


def _context(content: str | None, *, source: Path | None) -> ssl.SSLContext:
    if content == "":
        raise TrustError(f"the CA file {source} is empty")
    try:
        context = ssl.create_default_context(cadata=content)
    except (ssl.SSLError, ValueError):
        raise TrustError(f"the CA file {source} does not hold certificates in PEM format") from None
    # Python 3.13 demands extensions of RFC 5280 that the CAs of real clusters lack; client-go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As in Go: a common name is no name of a server. That of a kubelet is a user name, or free text.
    context.hostname_checks_common_name = False
    return context
