"""Sends a GET with a token to a server that may be hostile, and reads the answer in bounded memory and time.

A ``Wire`` is a connection to a kubelet or a Prometheus without the TLS of asyncio. That one, with aiohttp on
it, takes a third more CPU time for a poll, and three times the memory for a connection that is kept
(docs/adr/0034-polls-over-plain-sockets.md).

It follows no redirects, keeps no cookies, uses no proxies, and reads no more than a limit: of the body, and
of all that comes over the network. Nothing of an answer gets into an error, since a server can send back the
token that it was sent.

``Trust`` has the TLS context for new connections, by a CA file that is read again when it changes. What is
loaded into a TLS context stays in it. So a change makes a new context.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import encode_basic_auth, hdrs
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

from winpool import __version__
from winpool.kubelet.samples import Outcome, PollError

TLS_BUFFER_BYTES: Final = 16 * 1024
"""About one record of TLS, the most that OpenSSL decrypts at once. asyncio has 256 KiB. With 16, a
connection was measured to take 90 kB instead of 330, and a poll no more time."""


def shrink_tls_buffers() -> None:
    """Give each TLS connection that this process makes from now on a read buffer of TLS_BUFFER_BYTES.

    Those are the connections to the API server. They read a page of 500 nodes in a hundred parts instead of
    six, which takes a millisecond. asyncio has no setting for it.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


PIECE_BYTES: Final = 32 * 1024
"""Received at once: the summary of a node with 15 pods is one piece. asyncio would receive 256 kB, and read
them before anyone else has a turn, which takes a tenth of a second if they are 10,000 interim answers."""


_OK: Final = 200
_OUTCOMES: Final = {401: Outcome.UNAUTHORIZED, 403: Outcome.FORBIDDEN}
_REDIRECTS: Final = range(300, 400)
_INTERIM: Final = frozenset(range(100, 200)) - {101}
"""Before the answer proper (RFC 9110, 15.2). After 101 comes another protocol."""

_NEVER_FULL: Final = 2**23
"""The parser asks its connection to pause at twice as many bytes, or at a sixteenth of it in chunks. The body
is taken out of it after each piece of a few kilobytes, so it has no connection to pause."""


def refusal(status: int) -> PollError:
    """Return the error of an answer with another status than 200."""
    outcome = Outcome.REDIRECTED if status in _REDIRECTS else _OUTCOMES.get(status, Outcome.SERVER_ERROR)
    return PollError(outcome, f"the answer has the status {status}")


class Answer:
    """The answer to one GET, read piece by piece by the parser of aiohttp, which is compiled (llhttp).

    ``has_begun`` once its head is read, ``is_complete`` once its body is. Then ``is_last`` says whether the
    connection is of no use any more: the server says so, or has sent more than was asked for.
    """

    def __init__(self, *, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        """Read a body of at most ``limit`` bytes."""
        self.body = bytearray()
        self.has_begun = False
        self.is_complete = False
        self.is_last = False
        self._limit = limit
        self._content: StreamReader | None = None
        self._parser = HttpResponseParser(
            BaseProtocol(loop), loop, _NEVER_FULL, read_until_eof=True, auto_decompress=False
        )

    def feed(self, data: bytes) -> None:
        """Read what has come. Raises PollError."""
        try:
            messages, *_ = self._parser.feed_data(data)
        except (HttpProcessingError, ValueError):
            raise PollError(Outcome.UNREADABLE, "the answer is not HTTP") from None
        for message, content in messages:
            self._begin(message, content)
        self._take()

    def end(self) -> None:
        """Note that nothing more comes: some answers end so. Raises PollError."""
        self.is_last = True
        if self._content is None:
            raise PollError(Outcome.NO_CONNECTION, "the connection broke off")
        try:
            self._parser.feed_eof()
        except (HttpProcessingError, ValueError):
            raise PollError(Outcome.NO_CONNECTION, "the answer broke off") from None
        self._take()

    def _begin(self, message: RawResponseMessage, content: StreamReader) -> None:
        if self.has_begun:
            self.is_last = True
        elif message.code not in _INTERIM:
            if message.code != _OK:
                raise refusal(message.code)
            self.has_begun = True
            self.is_last = message.should_close
            self._content = content

    def _take(self) -> None:
        if self._content is None:
            return
        self.body += self._content.read_nowait()
        if len(self.body) > self._limit:
            raise PollError(Outcome.TOO_LARGE, f"the answer has more than {self._limit} bytes")
        self.is_complete = self._content.is_eof()


Token = Callable[[], Awaitable[str | None]]
"""Returns the bearer token to send now, None where there is none. It logs by itself why."""

_HEADERS: Final = (
    f"{hdrs.USER_AGENT}: winpool/{__version__}\r\n"
    f"{hdrs.ACCEPT}: application/json\r\n"
    f"{hdrs.ACCEPT_ENCODING}: identity\r\n"
)
"""Uncompressed: the limit is for what is kept in memory."""

_NAME_MISMATCHES: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL (x509_vfy.h)."""

BEARER: Final = "Bearer "
"""Before a token, in the header Authorization."""

WRAPPING_BYTES: Final = 128 * 1024
"""What may come before a body, and beside it: certificates, of which OpenSSL takes 100 kB, headers, and what
wraps each piece of a body, some 2 % of it."""


class OtherNameError(PollError):
    """The certificate is trusted, and for another name."""


async def header_of(token: Token, *, user: str | None = None) -> str:
    """Return the value of the Authorization header; with ``user``, ``token`` returns its password.

    Raises PollError (NO_TOKEN).
    """
    text = (await token() or "").strip()
    if not text or not (text.isascii() and text.isprintable()) or " " in text:
        raise PollError(Outcome.NO_TOKEN, "there is no token to send")
    return BEARER + text if user is None else encode_basic_auth(user, text)


def request_of(
    host: str, port: int, path: str, *, authorization: str | None, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return the bytes of a GET. ``authorization`` is of ``header_of``, so it ends no line.

    ``headers`` are sent beside those that every request has, and end no line either.
    """
    named = f"[{host}]" if ":" in host else host
    sent = dict(headers or {})
    if authorization is not None:
        sent[hdrs.AUTHORIZATION] = authorization
    more = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"GET {path} HTTP/1.1\r\nHost: {named}:{port}\r\n{_HEADERS}{more}\r\n".encode("ascii")


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Limit the time of a whole poll, from the token to the end of the body. Raises PollError (TIMEOUT)."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise PollError(Outcome.TIMEOUT, f"no complete answer within {seconds:.0f} s") from None


SLICE_BYTES: Final = 4096
"""Given to OpenSSL at once. The buffer in between stays as large as it once was, and would be half of what a
connection takes that is kept: 58 kB where it gets whole pieces, 32 kB with these slices."""

RECORD_BYTES: Final = 16 * 1024
"""The most that a record of TLS has (RFC 8446, 5.1)."""


class _FloodError(Exception):
    """More has come than an answer has."""


class Wire:
    """A connection for one request at a time, with TLS or without. Make it in a running event loop; close it.

    OpenSSL works in memory, and the event loop moves the bytes. So all that comes is counted before OpenSSL
    reads it, which would take session tickets without an end.
    """

    def __init__(self, *, context: ssl.SSLContext | None, name: str) -> None:
        """Make one that is not connected yet. ``name`` is what the certificate must be for.

        Without ``context`` it has no TLS. Raises ValueError for what can be no name of a server.
        """
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
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
            if self._tls is not None:
                await self._shake_hands(self._socket, self._tls)
        except _FloodError:
            raise PollError(Outcome.UNREADABLE, "more comes than a handshake has") from None
        except ssl.SSLCertVerificationError as error:
            kind = OtherNameError if error.verify_code in _NAME_MISMATCHES else PollError
            raise kind(Outcome.CERTIFICATE, error.verify_message) from None
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
            if self._tls is not None:
                self._tls.write(request)
                request = self._outgoing.read()
            await self._loop.sock_sendall(self._socket, request)
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

    async def _shake_hands(self, connection: socket.socket, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._loop.sock_sendall(connection, self._outgoing.read())
                self._incoming.write(await self._receive(connection))
            else:
                return  # our last words go with the request

    async def _read(self, connection: socket.socket, answer: Answer, *, limit: int) -> None:
        """Read what has come of an answer, or wait for more."""
        had_begun = answer.has_begun
        data = await self._receive(connection)
        if self._tls is not None:
            data = self._decrypted(data, self._tls)
        if data:
            answer.feed(data)
        if self._has_ended and not answer.is_complete:
            answer.end()
        if answer.has_begun and not had_begun:
            self._left = limit + WRAPPING_BYTES

    def _decrypted(self, received: bytes, tls: ssl.SSLObject) -> bytes:
        parts: list[bytes] = []
        for start in range(0, len(received), SLICE_BYTES):
            self._incoming.write(received[start : start + SLICE_BYTES])
            try:
                while part := tls.read(RECORD_BYTES):
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


async def connected(host: str, port: int, *, context: ssl.SSLContext | None, name: str) -> Wire:
    """Return a connection to an IP address, whose certificate is for ``name``.

    Raises PollError, and OtherNameError where only the name is wrong.
    """
    try:
        wire = Wire(context=context, name=name)
    except ValueError:
        raise PollError(Outcome.CERTIFICATE, "no certificate can have the name of the server") from None
    try:
        await wire.connect(host, port)
    except BaseException:
        wire.close()
        raise
    return wire


log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the file is read. In a rotation that is done with care, the old CA is valid for hours beside the
new one. It is a few kilobytes."""


class TrustError(Exception):
    """The CA file cannot be used; the message names it and says why."""


class Trust:
    """The TLS context for new connections.

    If the file cannot be used after a change, the context from before stays.
    """

    def __init__(self, ca: Path | None, *, monotonic: Callable[[], float]) -> None:
        """Read ``ca``, a PEM file; None trusts the CAs of the system. Raises TrustError."""
        self._ca = ca
        self._monotonic = monotonic
        self._complained = False
        self._looked_at = monotonic()
        self._content = None if ca is None else _read(ca)
        self._context = None if ca is None else _context(self._content, source=ca)

    def context(self) -> ssl.SSLContext:
        """Return the context, a new one after a change of the file, which is read every LOOK_SECONDS."""
        now = self._monotonic()
        if self._ca is not None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look(self._ca)
        if self._context is None:
            # Not before a connection needs them: the CAs of a system take 2 MB, and 20 ms to load.
            self._context = _context(None, source=None)
        return self._context

    def _look(self, ca: Path) -> None:
        try:
            content = _read(ca)
            if content != self._content:
                self._context = _context(content, source=ca)
                self._content = content
                log.info("the CA file %s has changed; new connections use the new one", ca)
        except TrustError as error:
            if not self._complained:
                log.warning("%s; winpool continues with the file as read before", error)
            self._complained = True
        else:
            self._complained = False


def insecure_context() -> ssl.SSLContext:
    """Return a context that trusts every certificate. Anyone on the network path can then read the token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _read(ca: Path) -> str:
    # A few kilobytes from a local disk, at most every ten seconds: this needs no thread.
    try:
        return ca.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TrustError(f"the CA file {ca} cannot be read: {reason}") from None


def _context(content: str | None, *, source: Path | None) -> ssl.SSLContext:
    if content == "":
        raise TrustError(f"the CA file {source} is empty")
    try:
        context = ssl.create_default_context(cadata=content)
    except (ssl.SSLError, ValueError):
        raise TrustError(f"the CA file {source} does not hold certificates in PEM format") from None
    # Python 3.13 demands extensions of RFC 5280 that the CAs of real clusters lack; client-go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As in Go: a common name is no name of a server. That of a kubelet is a user name, or free text.
    context.hostname_checks_common_name = False
    return context
