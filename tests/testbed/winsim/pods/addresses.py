"""Addresses of simulated pods, from 10.128.0.0/9: every pod has its own, and nobody listens there."""

from __future__ import annotations

from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network
from typing import Final

# Far from the service range of the testbed, 10.96.0.0/16.
_NETWORK: Final = IPv4Network("10.128.0.0/9")
_FIRST: Final = int(_NETWORK.network_address)


class PodAddresses:
    """Gives out addresses that no pod has, as far as has been seen.

    The first is chosen by a hash of ``seed``, so that two processes that cannot see each other's pods yet
    most likely begin far apart.
    """

    def __init__(self, *, seed: str) -> None:
        self._next = int.from_bytes(sha256(seed.encode()).digest()[:4], "big") % _NETWORK.num_addresses
        self._used: set[int] = set()

    def note(self, address: str) -> None:
        """Take note of an address that a pod has."""
        if address:
            self._used.add(int(IPv4Address(address)))

    def free(self, address: str) -> None:
        """Take an address back."""
        if address:
            self._used.discard(int(IPv4Address(address)))

    def take(self) -> str:
        """Return an address that nobody has."""
        while True:
            number = _FIRST + self._next
            self._next = (self._next + 1) % _NETWORK.num_addresses
            # What ends in 0 or 255 looks like a network or a broadcast to people.
            if number not in self._used and number % 256 not in (0, 255):
                self._used.add(number)
                return str(IPv4Address(number))
