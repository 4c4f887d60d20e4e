"""Free ports for one testbed, kept for as long as it lives.

A component that was killed comes back on its old port, so a port must stay free while nobody listens on
it. Two dangers: outgoing connections, which take ports of the ephemeral range, and another testbed. So
the ports come in blocks below that range, and a block is reserved by a name in the abstract socket
namespace: the kernel releases it when the supervisor dies, however it dies, and it has the same scope as
the ports (the network namespace).
"""

import contextlib
import random
import socket
from dataclasses import dataclass
from typing import Final

from testbed.components import LOOPBACK, Ports
from testbed.errors import TestbedError

FIRST_PORT: Final = 20000
LAST_PORT: Final = 32000
"""Linux hands out ports from 32768 on for outgoing connections."""
BLOCK: Final = 8
"""Ports in a block; all are used."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Ports, and the socket that keeps other testbeds off them."""

    ports: Ports
    holder: socket.socket

    def release(self) -> None:
        """Let others have the ports."""
        self.holder.close()


def reserve() -> Reservation:
    """Find a block in which every port is free and keep it.

    Raises:
        TestbedError: there is none.

    """
    blocks = list(range(FIRST_PORT, LAST_PORT, BLOCK))
    random.shuffle(blocks)
    for first in blocks:
        if holder := _hold(first):
            names = list(Ports.model_fields)
            if all(_is_free(first + offset) for offset in range(len(names))):
                ports = {name: first + offset for offset, name in enumerate(names)}
                return Reservation(Ports.model_validate(ports), holder)
            holder.close()
    raise TestbedError(f"no free block of {BLOCK} ports between {FIRST_PORT} and {LAST_PORT} on {LOOPBACK}")


def _hold(first: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0winpool-testbed-ports-{first}")
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As servers do, so that a connection in TIME_WAIT does not count as somebody listening.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
