"""Addresses for simulated machines, one per node, from one network.

On the machine itself that is 127.0.0.0/8: Linux lets any process bind any address of it without set-up,
so that every simulated kubelet can listen on port 10250 of its own. In a private network namespace
(``python -m testbed exec --netns``) it is the network that the namespace routes to itself, which the API
server does not refuse to proxy to. The first and the last 256th of either are left to everybody else:
127.0.x.y is in use, and the last address of a network is a broadcast address.
"""

from __future__ import annotations

import os
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import TYPE_CHECKING, Final

from testbed.netns import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

LOOPBACK: Final = IPv4Network("127.0.0.0/8")


def machine_network(environment: Mapping[str, str] = os.environ) -> IPv4Network:
    """Return the network of all simulated machines: what the environment names, else loopback.

    Raises:
        ValueError: the environment names no network.

    """
    return IPv4Network(environment.get(VARIABLE) or LOOPBACK)


def assign_addresses(
    names: Sequence[str], *, seed: str, taken: Collection[str] = (), network: IPv4Network = LOOPBACK
) -> dict[str, str]:
    """Give each name an address of its own in the network, none of them ``taken``.

    A fleet gets one aligned block of addresses, chosen by a hash of ``seed`` (API server and
    prefix): the same fleet finds the same addresses again, and on loopback two fleets of fourteen
    nodes that start at the same moment, and so cannot see each other's nodes, meet once in a million.

    Raises:
        ValueError: so many nodes, or so many addresses taken, that no block is free.

    """
    margin = network.num_addresses // 256
    lowest = int(network.network_address) + margin
    size = 1 << max(len(names) - 1, 0).bit_length()
    blocks = (network.num_addresses - 2 * margin) // size
    occupied = {(int(address) - lowest) // size for address in map(ip_address, taken) if address in network}
    start = int.from_bytes(sha256(seed.encode()).digest()[:8], "big")
    for step in range(min(blocks, len(occupied) + 1)):
        block = (start + step) % blocks
        if block not in occupied:
            first = lowest + block * size
            return {name: str(IPv4Address(first + index)) for index, name in enumerate(names)}
    last = IPv4Address(int(network.broadcast_address) - margin)
    raise ValueError(f"no {len(names)} neighbouring addresses are free in {IPv4Address(lowest)}-{last}")
