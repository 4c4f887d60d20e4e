"""Addresses for simulated machines: 127.1.0.0 to 127.254.255.255, one per node.

Linux lets any process bind any address of 127.0.0.0/8 without set-up, so that later every
simulated kubelet can listen on port 10250 of its own address. 127.0.x.y is left to everybody
else, 127.255.x.y because its last address is a broadcast address.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_FIRST: Final = int(IPv4Address("127.1.0.0"))
_SIZE: Final = 254 * 65536


def assign_addresses(names: Sequence[str], *, seed: str, taken: Collection[str] = ()) -> dict[str, str]:
    """Give each name an address of its own, none of them ``taken``.

    A fleet gets one aligned block of addresses, chosen by a hash of ``seed`` (API server and
    prefix): the same fleet finds the same addresses again, and two fleets of fourteen nodes
    that start at the same moment, and so cannot see each other's nodes, meet once in a million.

    Raises:
        ValueError: so many nodes, or so many addresses taken, that no block is free.

    """
    size = 1 << max(len(names) - 1, 0).bit_length()
    blocks = _SIZE // size
    occupied = {(int(IPv4Address(each)) - _FIRST) // size for each in taken}
    start = int.from_bytes(sha256(seed.encode()).digest()[:8], "big")
    for step in range(min(blocks, len(occupied) + 1)):
        block = (start + step) % blocks
        if block not in occupied:
            first = _FIRST + block * size
            return {name: str(IPv4Address(first + index)) for index, name in enumerate(names)}
    raise ValueError(f"no {len(names)} neighbouring addresses are free in 127.1.0.0-127.254.255.255")
