"""Says at which address the kubelet of a node is polled, and to which addresses no token is sent.

A kubelet writes the addresses of its own node, so a hostile one may name any. It must not make the operator
connect to the API server, to services of the operator's own machine, or to the metadata service of a cloud.

What cannot be known here: the addresses of API servers behind the one that the operator uses, and those of
other machines. There the certificate decides, before the token is sent: it must be of the CA of the kubelets,
for that address or for the name of the node. An API server may have one. To it the token is no secret, and it
gives nothing for it.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import msgspec

from winpool.kubelet.samples import Outcome, PollError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

KUBELET_PORT: Final = 10250
"""The default port of the kubelet, for nodes that report none (``status.daemonEndpoints``)."""

_PORTS: Final = range(1, 65536)

_NO_NODES: Final = (
    ip_network("0.0.0.0/8"),  # "this host on this network" (RFC 1122); Linux takes 0.0.0.0 for itself
    ip_network("168.63.129.16/32"),  # Azure: WireServer
    ip_network("100.100.100.200/32"),  # Alibaba Cloud: metadata
    ip_network("192.0.0.0/24"),  # protocol assignments (RFC 6890); Oracle Cloud Classic: metadata
    ip_network("fd00:ec2::/32"),  # AWS: metadata, DNS and time
    ip_network("fd20:ce::254/128"),  # Google Cloud: metadata
    ip_network("2002::/16"),  # 6to4 (RFC 3056) and Teredo (RFC 4380): tunnels to any IPv4 address
    ip_network("2001::/32"),
)
"""Addresses that no node has, besides those that Python knows. The metadata services of clouds are at
link-local addresses and at these.
https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html,
https://docs.cloud.google.com/compute/docs/metadata/querying-metadata"""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet to poll. ``host`` is an IP address, in the usual form."""

    node: str
    host: str
    port: int


class AddressRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses are refused.

    ``api_server`` has the addresses and ports at which the operator knows the API server. ``allowed`` are
    ranges of loopback and link-local addresses that are not refused: those of a testbed, where all nodes are
    on one machine.
    """

    api_server: frozenset[tuple[Address, int]] = frozenset()
    allowed: tuple[Network, ...] = ()

    def target(self, *, node: str, address: str, port: int | None) -> Target:
        """Return where to poll the kubelet of ``node``.

        ``address`` is the InternalIP that the node reports, empty where it reports none. ``port`` is that of
        ``status.daemonEndpoints``, None or 0 where there is none.

        Raises PollError: NO_ADDRESS or REFUSED_ADDRESS.
        """
        if not address:
            raise PollError(Outcome.NO_ADDRESS, "the node reports no InternalIP")
        try:
            found = _plain(ip_address(address))
        except ValueError:
            raise PollError(Outcome.NO_ADDRESS, "the InternalIP of the node is not an IP address") from None
        port = port or KUBELET_PORT
        if port not in _PORTS:
            raise PollError(Outcome.NO_ADDRESS, "the port of the kubelet is not a port")
        if any((found, port) == (_plain(known), its_port) for known, its_port in self.api_server):
            raise PollError(Outcome.REFUSED_ADDRESS, "the node reports the address of the API server")
        if not self._may_be_a_node(found):
            raise PollError(Outcome.REFUSED_ADDRESS, "the node reports an address that no other machine has")
        return Target(node=node, host=str(found), port=port)

    def _may_be_a_node(self, address: Address) -> bool:
        """Whether it can be the address of one other machine in the network."""
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return False  # "fe80::1%eth0" names an interface of ours
        if address.is_loopback or address.is_link_local:
            return any(address in network for network in self.allowed)
        if address.is_unspecified or address.is_multicast or address.is_reserved:
            return False
        return not any(address in network for network in _NO_NODES)


def ranges_of(text: str) -> tuple[Network, ...]:
    """Read ranges of loopback and link-local addresses that are allowed, separated by commas.

    Raises ValueError, with what is wrong with which range.
    """
    return tuple([_range(each.strip()) for each in text.split(",") if each.strip()])


def _range(text: str) -> Network:
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a range of addresses; write it like 127.0.0.0/8") from None
    if not (network.is_loopback or network.is_link_local):
        raise ValueError(
            f"{text} has addresses that are neither loopback nor link-local; only those are refused without "
            "this setting"
        )
    return network


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it does, so that no rule misses it."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
