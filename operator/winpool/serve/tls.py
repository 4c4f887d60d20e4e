"""Reads the certificate that the port of the metrics serves, again when its files change.

cert-manager and the kubelet renew a certificate by replacing a directory behind a symlink, so files are
compared by their content. A change makes a new context: what is loaded into a context stays in it, and a pair
that cannot be loaded must not damage the context in use.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the files are read. A certificate is renewed days or hours before it expires, and the kubelet
itself updates the files of a Secret only once a minute. Reading a few kilobytes costs less than a
millisecond."""

_CERTIFICATE_FLAG: Final = "--tls-cert-file"
_KEY_FLAG: Final = "--tls-key-file"

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which the module ssl has no name: the end of an expired
certificate is of interest too."""


class TlsFilesError(Exception):
    """The certificate or its key cannot be used; the message names the flag and says what to do."""


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of PEM files: a certificate, with those between it and its CA, and its key."""

    certificate: Path
    key: Path


class ServingTls:
    """The ``context`` for new connections, while ``run`` runs that of the present files.

    ``listening`` is a context to listen with, which gives each new connection the present one. If the files
    cannot be used after a change, the context from before stays. ``expires`` is the Unix time at which the
    served certificate expires, None where that cannot be read. ``errors`` counts the checks that found files
    that could not be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises TlsFilesError."""
        self.errors = 0
        self.expires: float | None = None
        self._files = files
        self._complained = False
        # Read before it is loaded: a change in between is found at the next look.
        self._seen = _content(files)
        self.context = self.listening = self._load()
        self.listening.sni_callback = self._select

    def _select(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> None:
        """Give a connection the present context. OpenSSL calls it in each handshake."""
        connection.context = self.context

    async def run(self) -> None:
        """Read the files every LOOK_SECONDS until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the files, and load them if they have changed."""
        try:
            found = _content(self._files)
            if found != self._seen:
                self.context = self._load()
                log.info("the files for TLS of /metrics have changed; new connections use the new ones")
        except TlsFilesError as error:
            self.errors += 1
            if not self._complained:
                log.warning("%s; /metrics is served with the certificate from before", error)
            self._complained = True
        else:
            self._seen, self._complained = found, False

    def _load(self) -> ssl.SSLContext:
        context = _context_of(self._files)
        self.expires = _expiry(context, self._files.certificate)
        return context


def _content(files: TlsFiles) -> bytes:
    """Return a digest of both files, so that the key itself is not kept. Raises TlsFilesError."""
    certificate = _read(files.certificate, flag=_CERTIFICATE_FLAG, holds="CERTIFICATE", what="a certificate")
    key = _read(files.key, flag=_KEY_FLAG, holds="PRIVATE KEY", what="a private key")
    if b"ENCRYPTED" in key:
        raise TlsFilesError(f"{_KEY_FLAG} {files.key}: the key is encrypted; use one without a password")
    return hashlib.sha256(certificate).digest() + hashlib.sha256(key).digest()


def _read(path: Path, *, flag: str, holds: str, what: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TlsFilesError(f"{flag} {path} cannot be read: {error.strerror or error}") from None
    if f"{holds}-----".encode() not in content:
        raise TlsFilesError(f"{flag} {path} does not hold {what} in PEM format")
    return content


def _context_of(files: TlsFiles) -> ssl.SSLContext:
    """Make a context. Raises TlsFilesError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could ask for one new key after the other on a connection, each at the cost of a handshake.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # With the empty password, OpenSSL does not ask for one on a terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        pair = f"{_CERTIFICATE_FLAG} {files.certificate} and {_KEY_FLAG} {files.key}"
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsFilesError(f"{pair} do not match: the key is of another certificate") from None
        raise TlsFilesError(f"{pair} cannot be loaded: {error.reason or error.strerror}") from None
    except OSError as error:
        raise TlsFilesError(
            f"{_CERTIFICATE_FLAG} {files.certificate} or {_KEY_FLAG} {files.key} cannot be read: "
            f"{error.strerror or error}"
        ) from None
    return context


def _expiry(context: ssl.SSLContext, certificate: Path) -> float | None:
    """Return when the certificate of ``context`` expires; None where it cannot be read.

    The module ssl shows the fields of a certificate only to a client that has verified it. So this is a
    handshake in memory, with a client that trusts the certificate itself, whatever its dates and names.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cadata=certificate.read_text(encoding="ascii"))
        asks = client.wrap_bio(to_client, to_server)
        answers = context.wrap_bio(to_server, to_client, server_side=True)
        # What the client sends, what the server answers, and the client's verification of that.
        for side in (asks, answers, asks):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        found = asks.getpeercert()
    except (OSError, ValueError):  # such as a certificate that is not for servers
        return None
    until = (found or {}).get("notAfter")
    return float(ssl.cert_time_to_seconds(until)) if isinstance(until, str) else None
