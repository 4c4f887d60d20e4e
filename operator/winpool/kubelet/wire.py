"""A TLS connection to one server that may be hostile, without the TLS of asyncio.

That one, with aiohttp on it, takes a third more CPU time for a poll, and three times the memory for a
connection that is kept (docs/adr/0034-polls-over-plain-sockets.md). Here OpenSSL works in memory, and the
event loop moves the bytes. So all that comes is counted before OpenSSL reads it, which would take session
tickets without an end.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final

from winpool.kubelet.answer import Answer
from winpool.kubelet.exchange import WRAPPING_BYTES, certificate_fault
from winpool.kubelet.metered import PIECE_BYTES
from winpool.kubelet.outcome import Outcome, PollError

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_BYTES: Final = 4096
"""Given to OpenSSL at once. The buffer in between stays as large as it once was, and would be half of what a
connection takes that is kept: 58 kB where it gets whole pieces, 32 kB with these slices."""

RECORD_BYTES: Final = 16 * 1024
"""The most that a record of TLS has (RFC 8446, 5.1)."""


class _FloodError(Exception):
    """More has come than an answer has."""


class Wire:
    """A connection for one request at a time. Make it inside a running event loop, and close it."""

    def __init__(self, *, context: ssl.SSLContext, name: str) -> None:
        """Make one that is not connected yet. ``name`` is what the certificate must be for.

        Raises ValueError for what can be no name of a server.
        """
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._socket: socket.socket | None = None
        self._left = 0
        self._unseen = 0
        self._has_ended = False
        self._rest: asyncio.TimerHandle | None = None
        self._awaited: asyncio.Future[bytes] | None = None
        """What the reader waits for."""
        self._is_watched = False

    async def connect(self, host: str, port: int) -> None:
        """Connect to an IP address, and have the certificate checked.

        Raises PollError, and OtherNameError where only the name is wrong.
        """
        self._left = WRAPPING_BYTES
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setblocking(False)
        try:
            await self._loop.sock_connect(self._socket, (host, port))
            await self._shake_hands(self._socket)
        except _FloodError:
            raise PollError(Outcome.UNREADABLE, "more comes than a handshake has") from None
        except ssl.SSLCertVerificationError as error:
            raise certificate_fault(error) from None
        except OSError as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise PollError(Outcome.NO_CONNECTION, f"cannot connect: {reason or 'no reason given'}") from None

    async def ask(self, request: bytes, *, limit: int) -> tuple[bytearray, bool]:
        """Send a request; return the body of a 200, and whether another request may follow.

        The body has at most ``limit`` bytes. No more is received from the network than WRAPPING_BYTES before
        it, and as many beside it. Raises PollError.
        """
        assert self._socket is not None
        answer = Answer(limit=limit, loop=self._loop)
        self._left = WRAPPING_BYTES
        try:
            self._tls.write(request)
            await self._loop.sock_sendall(self._socket, self._outgoing.read())
            while not answer.is_complete:
                await self._read(self._socket, answer, limit=limit)
        except BaseException as error:
            # The error has this frame in its traceback, and lives until the garbage collector finds it.
            answer.body.clear()
            if isinstance(error, _FloodError):
                outcome = Outcome.TOO_LARGE if answer.has_begun else Outcome.UNREADABLE
                raise PollError(outcome, "more comes than an answer has") from None
            if isinstance(error, OSError):
                raise PollError(Outcome.NO_CONNECTION, "the connection broke off") from None
            raise
        return answer.body, not (answer.is_last or self._has_ended)

    def rest(self, *, seconds: float, on_end: Callable[[], None]) -> None:
        """Idle until ``wake``. The connection is closed, and ``on_end`` called, after so many seconds.

        So it is as soon as anything comes: it would be taken for the answer to the next request.
        """
        assert self._socket is not None

        def end() -> None:
            self.close()
            on_end()

        self._rest = self._loop.call_later(seconds, end)
        self._loop.add_reader(self._socket.fileno(), end)
        self._is_watched = True

    def wake(self) -> None:
        """End the idling."""
        if self._rest is not None and self._socket is not None:
            self._rest.cancel()
            self._rest = None
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def close(self) -> None:
        """Cut the connection, without a goodbye: a server that never says its own would keep it open."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if self._socket is not None:
            self._unwatch(self._socket)
            self._socket.close()
            self._socket = None

    async def _shake_hands(self, connection: socket.socket) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._loop.sock_sendall(connection, self._outgoing.read())
                self._incoming.write(await self._receive(connection))
            else:
                return  # our last words go with the request

    async def _read(self, connection: socket.socket, answer: Answer, *, limit: int) -> None:
        """Read what has come of an answer, or wait for more."""
        had_begun = answer.has_begun
        data = self._decrypted(await self._receive(connection))
        if data:
            answer.feed(data)
        if self._has_ended and not answer.is_complete:
            answer.end()
        if answer.has_begun and not had_begun:
            self._left = limit + WRAPPING_BYTES

    def _decrypted(self, received: bytes) -> bytes:
        parts: list[bytes] = []
        for start in range(0, len(received), SLICE_BYTES):
            self._incoming.write(received[start : start + SLICE_BYTES])
            try:
                while part := self._tls.read(RECORD_BYTES):
                    parts.append(part)
                self._has_ended = True  # it has said goodbye
                break
            except ssl.SSLWantReadError:
                continue
        return b"".join(parts)

    async def _receive(self, connection: socket.socket) -> bytes:
        """Return what comes next, at most PIECE_BYTES; after each so many, others have a turn."""
        if self._unseen >= PIECE_BYTES:
            self._unseen = 0
            await asyncio.sleep(0)
        received = await self._next(connection)
        self._unseen += len(received)
        self._left -= len(received)
        if self._left < 0:
            raise _FloodError
        if not received:
            self._has_ended = True
            self._incoming.write_eof()
        return received

    async def _next(self, connection: socket.socket) -> bytes:
        """Return what comes next.

        The event loop watches the socket from the first wait until it is closed. Its own ``sock_recv`` begins
        and ends to watch with every call, three times in a poll.
        """
        self._awaited = self._loop.create_future()
        if not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(connection.fileno(), self._on_readable)
        try:
            return await self._awaited
        finally:
            self._awaited = None

    def _on_readable(self) -> None:
        connection, awaited = self._socket, self._awaited
        if connection is None:
            return
        if awaited is None or awaited.done():
            self._unwatch(connection)  # until someone reads: the same bytes would be reported again and again
            return
        try:
            received = connection.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - the reader gets it, as from the loop's own sock_recv
            awaited.set_exception(error)
        else:
            awaited.set_result(received)

    def _unwatch(self, connection: socket.socket) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(connection.fileno())
