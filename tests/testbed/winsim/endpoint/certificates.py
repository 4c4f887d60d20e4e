"""Serving certificates of simulated kubelets.

One key for all nodes of a process, and a certificate for each node, signed at the first connection: a
certificate with the names of a thousand nodes would be sent whole in every handshake.
"""

from __future__ import annotations

import os
import ssl
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testbed.signing import Signer, key_bytes

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from testbed.winsim.machines import Machine

_GROUP: Final = "system:nodes"
# Reserved names, in use by no machine: RFC 6761 and RFC 5737.
_STRANGER: Final = "stranger.invalid"
_STRANGERS_ADDRESS: Final = "192.0.2.1"


class Certificates:
    """Makes the TLS settings of nodes. It keeps none of them: the caller does.

    ``authority`` signs them. ``clients`` is the file of the authority that signs the certificates of clients,
    as ``authentication.x509.clientCAFile`` of a kubelet; None: it asks clients for none.
    """

    def __init__(self, authority: Signer, *, clients: Path | None = None) -> None:
        self._authority = authority
        self._clients = clients
        self._key = ec.generate_private_key(ec.SECP256R1())

    def of(self, machine: Machine, *, now: datetime) -> ssl.SSLContext:
        """Return those with a certificate for name and address of a node, as the cluster signs them."""
        return self._context(self._authority, machine.name, machine.name, machine.address, now)

    def for_another(self, machine: Machine, *, now: datetime) -> ssl.SSLContext:
        """Return those with a certificate that is good, but for another machine."""
        return self._context(self._authority, machine.name, _STRANGER, _STRANGERS_ADDRESS, now)

    def of_unknown_authority(self, machine: Machine, *, now: datetime) -> ssl.SSLContext:
        """Return those with a certificate for the node, signed by an unknown authority."""
        stranger = Signer.new(common_name="unknown-authority", now=now)
        return self._context(stranger, machine.name, machine.name, machine.address, now)

    def _context(
        self, authority: Signer, node: str, name: str, address: str, now: datetime
    ) -> ssl.SSLContext:
        certificate = authority.sign_serving(
            self._key,
            common_name=f"system:node:{node}",
            organizations=(_GROUP,),
            names=[x509.DNSName(name), x509.IPAddress(ip_address(address))],
            now=now,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self._clients is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(self._clients)
        # ssl reads certificates from files only; this one exists in memory.
        descriptor = os.memfd_create("kubelet-serving")
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(certificate.public_bytes(serialization.Encoding.PEM) + key_bytes(self._key))
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context
