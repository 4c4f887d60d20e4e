"""Keys and certificates of one testbed, made anew on every ``up``.

Three authorities on purpose: whoever holds a certificate of the front-proxy authority may name any user
in a header, so it must not be the one that signs ordinary clients. The simulated kubelets' certificates have
one of their own, so that who trusts the API server's does not trust them by accident.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testbed.paths import write_atomically
from testbed.signing import Signer, key_bytes

MASTERS: Final = "system:masters"
"""The group that the API server lets pass before any authorizer."""
FRONT_PROXY_CLIENT: Final = "front-proxy-client"
"""Common name in ``--requestheader-allowed-names``."""
SERVING_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVING_ADDRESSES: Final = ("127.0.0.1", "10.96.0.1")
"""Loopback, and the first address of the service range, which is the ``kubernetes`` service."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path


def _write_pair(pair: Pair, *, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_atomically(pair.key, key_bytes(key))
    write_atomically(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


@dataclass(frozen=True, slots=True)
class Authority(Signer):
    """A certificate authority: its certificate, its key and where they lie."""

    paths: Pair

    @classmethod
    def create(cls, paths: Pair, *, common_name: str, now: datetime) -> Self:
        """Make a new self-signed authority and write it."""
        made = Signer.new(common_name=common_name, now=now)
        _write_pair(paths, certificate=made.certificate, key=made.key)
        return cls(made.certificate, made.key, paths)

    @classmethod
    def load(cls, paths: Pair) -> Self:
        """Read an authority back, to sign one more client.

        Raises:
            FileNotFoundError: there is no authority, so no testbed was started here.

        """
        key = serialization.load_pem_private_key(paths.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{paths.key} holds no elliptic curve key; the testbed writes no other")
        return cls(x509.load_pem_x509_certificate(paths.certificate.read_bytes()), key, paths)

    def issue_client(
        self, paths: Pair, *, common_name: str, now: datetime, organizations: Sequence[str] = ()
    ) -> Pair:
        """Sign a client certificate: the common name is the user, the organizations are the groups."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.sign_client(key, common_name=common_name, organizations=organizations, now=now)
        _write_pair(paths, certificate=certificate, key=key)
        return paths

    def issue_serving(
        self,
        paths: Pair,
        *,
        common_name: str,
        now: datetime,
        names: Sequence[str] = SERVING_NAMES,
        addresses: Sequence[str] = SERVING_ADDRESSES,
    ) -> Pair:
        """Sign a serving certificate, by default for every name and address a component is called by."""
        key = ec.generate_private_key(ec.SECP256R1())
        subjects: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        subjects += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = self.sign_serving(key, common_name=common_name, names=subjects, now=now)
        _write_pair(paths, certificate=certificate, key=key)
        return paths


@dataclass(frozen=True, slots=True)
class Pki:
    """Paths of all keys and certificates of one testbed."""

    root: Path

    def pair(self, name: str) -> Pair:
        """Certificate and key of one name."""
        return Pair(self.root / f"{name}.crt", self.root / f"{name}.key")

    @property
    def ca(self) -> Pair:
        """The cluster's authority: serving certificates, ordinary clients."""
        return self.pair("ca")

    @property
    def front_proxy_ca(self) -> Pair:
        """The authority of those who may name any user in a header."""
        return self.pair("front-proxy-ca")

    @property
    def kubelet_ca(self) -> Pair:
        """The authority of the simulated kubelets' serving certificates."""
        return self.pair("kubelet-ca")

    @property
    def front_proxy_client(self) -> Pair:
        """What the simulated nodes connect with."""
        return self.pair("front-proxy-client")

    @property
    def serving(self) -> Pair:
        """Serving certificate of the API server, the controller manager and the scheduler."""
        return self.pair("serving")

    @property
    def kubelet_client(self) -> Pair:
        """What the API server shows to kubelets."""
        return self.pair("apiserver-kubelet-client")

    @property
    def service_account_key(self) -> Path:
        """Private key that signs ServiceAccount tokens."""
        return self.root / "service-account.key"

    @property
    def service_account_public_key(self) -> Path:
        """Public key that ServiceAccount tokens are checked with."""
        return self.root / "service-account.pub"

    def create(self, *, now: datetime | None = None) -> None:
        """Make the authorities, the servers' certificates and the key for ServiceAccount tokens."""
        now = now or datetime.now(UTC)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        ca = Authority.create(self.ca, common_name="winpool-testbed", now=now)
        front_proxy = Authority.create(
            self.front_proxy_ca, common_name="winpool-testbed-front-proxy", now=now
        )
        Authority.create(self.kubelet_ca, common_name="winpool-testbed-kubelets", now=now)
        front_proxy.issue_client(self.front_proxy_client, common_name=FRONT_PROXY_CLIENT, now=now)
        ca.issue_serving(self.serving, common_name="kubernetes", now=now)
        ca.issue_client(
            self.kubelet_client,
            common_name="system:kube-apiserver-kubelet-client",
            organizations=(MASTERS,),
            now=now,
        )
        key = ec.generate_private_key(ec.SECP256R1())
        write_atomically(self.service_account_key, key_bytes(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_atomically(self.service_account_public_key, public, mode=0o644)
