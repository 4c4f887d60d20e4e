"""One GET with a token from a server that may be hostile, by aiohttp: from a Prometheus.

What the GETs from kubelets need too is here as well (``wire``).

It follows no redirects, keeps no cookies, uses no proxies, and reads no more than a limit: of the body, and
of all that comes over the network. Nothing of an answer gets into an error, since a server can send back the
token that it was sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs
from aiohttp.http_exceptions import HttpProcessingError

from winpool import __version__
from winpool.kubelet.answer import refusal
from winpool.kubelet.metered import MeteredSocket
from winpool.kubelet.outcome import Outcome, PollError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from yarl import URL

    Token = Callable[[], Awaitable[str | None]]
    """Returns the bearer token to send now, None where there is none. It logs by itself why."""

HEADERS: Final = {
    hdrs.USER_AGENT: f"winpool/{__version__}",
    hdrs.ACCEPT: "application/json",
    # Uncompressed: the limit is for what is kept in memory.
    hdrs.ACCEPT_ENCODING: "identity",
}

_FAULTS: Final = (aiohttp.ClientError, OSError, HttpProcessingError, ValueError, RuntimeError)
"""What aiohttp may raise for a connection or an answer: also errors of its parsers, and RuntimeError for a
session that was closed meanwhile."""

_NAME_MISMATCHES: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL (x509_vfy.h)."""

BEARER: Final = "Bearer "
"""Before a token, in the header Authorization."""

WRAPPING_BYTES: Final = 128 * 1024
"""What may come before a body, and beside it: certificates, of which OpenSSL takes 100 kB, headers, and what
wraps each piece of a body, some 2 % of it."""

_OK: Final = 200


class OtherNameError(PollError):
    """The certificate is trusted, and for another name."""


async def header_of(token: Token) -> str:
    """Return the value of the Authorization header. Raises PollError (NO_TOKEN)."""
    text = (await token() or "").strip()
    if not text or not (text.isascii() and text.isprintable()) or " " in text:
        raise PollError(Outcome.NO_TOKEN, "there is no token to send")
    return BEARER + text


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Limit the time of a whole poll, from the token to the end of the body. Raises PollError (TIMEOUT)."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise PollError(Outcome.TIMEOUT, f"no complete answer within {seconds:.0f} s") from None


class Line:
    """The connections to one server, which are cut when it is closed. Make it inside a running event loop.

    asyncio sends a goodbye on a TLS connection that is closed, and waits 30 s for that of the other side. A
    server that never says it would keep 90 kB for that time, so the sockets themselves are shut down.
    """

    def __init__(self, *, limit: int, keep_alive: float) -> None:
        """Make a line of at most ``limit`` connections, which may idle for ``keep_alive`` seconds."""
        self._sockets: list[MeteredSocket] = []
        self._allowance = 0
        self._in_flight = 0
        connector = aiohttp.TCPConnector(
            limit=limit, keepalive_timeout=keep_alive, socket_factory=self._make_socket
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # each poll has a deadline of its own
            trust_env=False,  # no proxy may see the token
            auto_decompress=False,  # a kilobyte can become a gigabyte
        )

    async def close(self) -> None:
        """Cut all connections."""
        for each in self._sockets:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
        await self._session.close()

    async def get(
        self,
        url: URL,
        *,
        authorization: str | None,
        context: ssl.SSLContext | None,
        limit: int,
    ) -> bytearray:
        """Return the body of a 200, of at most ``limit`` bytes.

        The certificate must be for the host of the URL. The token is sent once the handshake has succeeded,
        so that only a server with such a certificate gets it. No more is received from the network than
        WRAPPING_BYTES before the body, and as many beside it. Raises PollError.
        """
        self._in_flight += 1
        self._allow(WRAPPING_BYTES)
        has_begun = False
        try:
            async with self._session.get(
                url,
                headers={} if authorization is None else {hdrs.AUTHORIZATION: authorization},
                allow_redirects=False,
                ssl=True if context is None else context,
            ) as response:
                has_begun = True
                self._allow(limit + WRAPPING_BYTES)
                if response.status != _OK:
                    raise refusal(response.status)
                return await _body(response.content, limit=limit)
        except (PollError, TimeoutError):
            raise
        except _FAULTS as error:
            if any(each.left < 0 for each in self._sockets):
                outcome = Outcome.TOO_LARGE if has_begun else Outcome.UNREADABLE
                raise PollError(outcome, "more comes than an answer has") from None
            raise _fault(error) from None
        finally:
            self._in_flight -= 1

    def _allow(self, count: int) -> None:
        """Have each connection receive so many bytes more, and one that is made as well.

        Where several requests are under way, none is allowed less than it was.
        """
        is_shared = self._in_flight > 1
        self._allowance = max(self._allowance, count) if is_shared else count
        for each in self._sockets:
            each.left = max(each.left, count) if is_shared else count

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        self._sockets = [each for each in self._sockets if each.fileno() >= 0]
        family, kind, protocol, *_ = address
        made = MeteredSocket(family, kind, protocol)
        made.left = self._allowance
        self._sockets.append(made)
        return made


async def _body(content: aiohttp.StreamReader, *, limit: int) -> bytearray:
    body = bytearray()
    try:
        while not content.at_eof():
            body += await content.readany()
            if len(body) > limit:
                raise PollError(Outcome.TOO_LARGE, f"the answer has more than {limit} bytes")
    except BaseException:
        # The error has this frame in its traceback, and lives until the garbage collector finds it.
        body.clear()
        raise
    return body


def _fault(error: Exception) -> PollError:
    """Say what is wrong with the connection, without any text of the other side."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        assert isinstance(cause, ssl.SSLCertVerificationError)
        return certificate_fault(cause)
    if isinstance(error, aiohttp.ClientConnectorError):
        found = error.os_error
        reason = found.reason if isinstance(found, ssl.SSLError) else found.strerror
        return PollError(Outcome.NO_CONNECTION, f"cannot connect: {reason or 'no reason given'}")
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return PollError(Outcome.UNREADABLE, "the answer is not HTTP")
    if isinstance(error, aiohttp.ClientPayloadError):
        return PollError(Outcome.NO_CONNECTION, "the answer broke off")
    return PollError(Outcome.NO_CONNECTION, "the connection broke off")


def certificate_fault(error: ssl.SSLCertVerificationError) -> PollError:
    """Return the error of a certificate that is refused: OtherNameError where only the name is wrong."""
    kind = OtherNameError if error.verify_code in _NAME_MISMATCHES else PollError
    return kind(Outcome.CERTIFICATE, error.verify_message)
