"""Keys and certificates in memory: who signs, and what is in a certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY: Final = timedelta(days=365)
"""Longer than any testbed is left running; there is no renewal of certificates."""
BACKDATE: Final = timedelta(minutes=5)
"""Containers and virtual machines disagree about the time by seconds; five minutes forgive that."""


@dataclass(frozen=True, slots=True)
class Signer:
    """The certificate of an authority and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def new(*, common_name: str, now: datetime) -> "Signer":
        """Make a self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(common_name), issuer=_name(common_name), key=key, now=now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return Signer(certificate, key)

    def sign_client(
        self,
        key: ec.EllipticCurvePrivateKey,
        *,
        common_name: str,
        now: datetime,
        organizations: Sequence[str] = (),
    ) -> x509.Certificate:
        """Sign a client certificate: the common name is the user, the organizations are the groups."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return (
            self._leaf(_name(common_name, organizations), key=key, now=now)
            .add_extension(usage, critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def sign_serving(
        self,
        key: ec.EllipticCurvePrivateKey,
        *,
        common_name: str,
        names: Sequence[x509.GeneralName],
        now: datetime,
        organizations: Sequence[str] = (),
    ) -> x509.Certificate:
        """Sign a serving certificate for these names and addresses."""
        return (
            self._leaf(_name(common_name, organizations), key=key, now=now)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def _leaf(
        self, subject: x509.Name, *, key: ec.EllipticCurvePrivateKey, now: datetime
    ) -> x509.CertificateBuilder:
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            _builder(subject, issuer=self.certificate.subject, key=key, now=now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(issuer_key, critical=False)
        )


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Write a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + VALIDITY)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
