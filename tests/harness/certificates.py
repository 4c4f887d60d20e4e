"""Certificates to serve with, in files that are replaced as the kubelet and cert-manager do it."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

from testbed.pki import Authority, Pair
from winpool.serve.tls import TlsFiles


class Mounted:
    """A directory as the kubelet mounts a Secret: its files are links through a link to a directory."""

    def __init__(self, path: Path, authority: Authority) -> None:
        self._path = path
        self._authority = authority
        self._generation = 0
        path.mkdir()
        for name in ("tls.crt", "tls.key"):
            (path / name).symlink_to(Path("..data", name))

    @property
    def files(self) -> TlsFiles:
        """The paths that do not change."""
        return TlsFiles(certificate=self._path / "tls.crt", key=self._path / "tls.key")

    def renew(self, *, now: datetime) -> None:
        """Replace the certificate and its key at once, by ones of this time."""
        pair = self.issued(now=now)
        self.put(certificate=pair.certificate.read_bytes(), key=pair.key.read_bytes())

    def issued(self, *, now: datetime) -> Pair:
        """Return a new certificate and its key, elsewhere."""
        self._generation += 1
        place = self._path.with_name(f"{self._path.name}-{self._generation}")
        place.mkdir()
        pair = Pair(place / "tls.crt", place / "tls.key")
        return self._authority.issue_serving(pair, common_name="winpool", now=now)

    def put(self, *, certificate: bytes, key: bytes) -> None:
        """Replace both files at once."""
        self._generation += 1
        data = self._path / f"..{self._generation}"
        data.mkdir()
        (data / "tls.crt").write_bytes(certificate)
        (data / "tls.key").write_bytes(key)
        link = self._path / "..data_tmp"
        link.symlink_to(data.name)
        link.rename(self._path / "..data")

    def trust(self) -> ssl.SSLContext:
        """Return the TLS of a client that trusts the authority."""
        return ssl.create_default_context(cafile=str(self._authority.paths.certificate))


def a_mount(directory: Path, *, now: datetime) -> Mounted:
    """Make an authority, and a mounted certificate of it."""
    directory.mkdir(exist_ok=True)
    authority = Authority.create(
        Pair(directory / "ca.crt", directory / "ca.key"), common_name="authority of the test", now=now
    )
    mounted = Mounted(directory / "tls", authority)
    mounted.renew(now=now)
    return mounted
