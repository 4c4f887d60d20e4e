"""A TLS connection from its first byte to the end of its handshake.

The event loop's own TLS servers show a connection to its owner only after the handshake. Handshakes that
never end would then have no limit, and anyone who reaches the port can begin as many as they want (P7). So a
connection is accepted without TLS, gets its place among all others, and begins the handshake in its turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HANDSHAKE_TURN_SECONDS: Final = 0.02
"""Between two handshakes on a port. Each takes one to two milliseconds of the event loop, so they take a
tenth of it at most (a quarter with an RSA key of 4096 bits). If all places of a port wait, the last one waits
0.6 s."""

GOODBYE_SECONDS: Final = 1.0
"""How long to wait for the client's part of closing a connection (close_notify). Clients that send it do so
at once."""


class Places(Protocol):
    """The server that a connection is for, which gives places to connections."""

    def admit(self, protocol: asyncio.BaseProtocol, transport: asyncio.Transport) -> None:
        """Give a place to a new connection."""

    def forget(self, protocol: asyncio.BaseProtocol) -> None:
        """Free the place of a connection."""

    def successor(self, protocol: asyncio.BaseProtocol) -> asyncio.Protocol:
        """Return what handles a connection from now on, in the same place."""

    async def handshake_turn(self) -> None:
        """Return when the next handshake may begin."""


class Handshake(asyncio.Protocol):
    """Makes the handshake of a connection, and then passes the connection on."""

    def __init__(self, places: Places, *, context: Callable[[], ssl.SSLContext], seconds: float) -> None:
        """``seconds`` is the limit of a handshake."""
        self._places = places
        self._context = context
        self._seconds = seconds
        self._early: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection. Nothing is read from it until its handshake begins."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._places.admit(self, transport)
        self._task = asyncio.get_running_loop().create_task(self._enter(transport), name="handshake")

    def data_received(self, data: bytes) -> None:
        """Keep what arrives, decrypted, right behind the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Forget a connection that ended before it was passed on."""
        self._places.forget(self)
        if self._task is not None:
            self._task.cancel()

    async def _enter(self, transport: asyncio.Transport) -> None:
        try:
            await self._places.handshake_turn()
            if transport.is_closing():
                return
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except OSError:
            # Whatever the client does wrong in a handshake. It is not logged, as invalid HTTP is not.
            self._places.forget(self)
            return
        if secured is None or secured.is_closing():  # it was closed meanwhile
            self._places.forget(self)
            return
        handler = self._places.successor(self)
        secured.set_protocol(handler)
        handler.connection_made(secured)
        for data in self._early:
            handler.data_received(data)
        self._early.clear()
