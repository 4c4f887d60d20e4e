"""The way to the API server: a few pooled TLS connections that speak for every simulated node.

All requests carry one front-proxy client certificate; who speaks is said per request by
``X-Remote-User`` and ``X-Remote-Group``. Through ``kubectl proxy`` a person speaks, who impersonates the
nodes. To the API server each node is a user of its own, so that the Node authorizer and NodeRestriction
judge it as they judge a real kubelet.
"""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Final, Self

import aiohttp
import msgspec
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.identities import Identity

# Requests in flight, and so connections: more gained nothing on two cores (32 against 100: +9 %).
IN_FLIGHT: Final = 32
# One of the nodes, one of the pods, and one of the VolumeAttachments.
WATCHES: Final = 3
# A kubelet's heartbeat client gives a request one status interval.
REQUEST_SECONDS: Final = 10.0
# Bookmarks come every 60 s, so that 70 s without a byte means that nobody is there.
WATCH_SILENCE_SECONDS: Final = 70.0
# client-go's number of tries for answers that carry Retry-After.
_BUSY_TRIES: Final = 10
# Longer pauses are cut: the server may ask for more than a Lease lasts.
_LONGEST_PAUSE_SECONDS: Final = 15.0
# Go closes idle connections of a server after 90 s; the earlier end is ours, so that no request meets it.
_KEEPALIVE_SECONDS: Final = 60.0
# One lost request is no outage: not a word before the server was silent for this long.
_OUTAGE_SECONDS: Final = 1.0
# One watch event is one line; a Node may grow far beyond 7 kB, up to etcd's limit of 1.5 MB.
_READ_BUFFER_BYTES: Final = 2 * 1024 * 1024

JSON: Final = "application/json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
# The reply of a PATCH is read by nobody: without spec and status it costs the server less.
METADATA_ONLY: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class UnreachableError(Exception):
    """No answer: refused, reset, or none within the time allowed."""


class ApiError(Exception):
    """The API server answered with an error; the text is its own."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


class Wire:
    """Requests to one API server; use it as an async context manager.

    A request is tried again only where the server asks for that (429, or 5xx with Retry-After);
    everything else is the caller's to judge. ``say`` is told once when the server goes away and
    once when it is back. ``proxy`` is the socket of a ``kubectl proxy``; None: there is none, and ``tls``
    has the front proxy's certificate.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        clock: Clock,
        random: Random,
        say: Callable[[str], None],
        proxy: Path | None = None,
    ) -> None:
        self._server = server.rstrip("/")
        self._tls = tls
        self._proxy = proxy
        self._clock = clock
        self._random = random
        self._say = say
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._session: aiohttp.ClientSession | None = None
        self._last_answer: float | None = None
        self._outage_told = False

    async def __aenter__(self) -> Self:
        # More connections than requests in flight: each watch holds its own for minutes.
        limit = IN_FLIGHT + WATCHES
        connector = (
            aiohttp.TCPConnector(ssl=self._tls or True, limit=limit, keepalive_timeout=_KEEPALIVE_SECONDS)
            if self._proxy is None
            else aiohttp.UnixConnector(str(self._proxy), limit=limit, keepalive_timeout=_KEEPALIVE_SECONDS)
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "winsim", "Accept-Encoding": "identity"},
            read_bufsize=_READ_BUFFER_BYTES,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        identity: Identity,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send one request and return the body of the answer.

        Raises:
            UnreachableError: there was no answer within ``REQUEST_SECONDS``.
            ApiError: the answer was an error, or "try again later" too many times.

        """
        headers = {**self._speaking_as(identity), "Accept": accept, "Content-Type": content_type}
        data = None if body is None else msgspec.json.encode(body)
        url = self._url(path, query)
        for busy in count(1):
            code, retry_after, content = await self._exchange(method, url, headers, data)
            if code < HTTPStatus.BAD_REQUEST:
                break
            pause = pause_before_retry(code, retry_after)
            if pause is None or busy >= _BUSY_TRIES:
                raise _api_error(code, content)
            # Only ever longer than asked for: a fleet that was sent away must not return as one.
            await self._clock.sleep(pause * (1 + self._random.random() / 2))
        return content

    async def _exchange(
        self, method: str, url: URL, headers: Mapping[str, str], data: bytes | None
    ) -> tuple[int, str | None, bytes]:
        session = self._open_session()
        async with self._slots:
            try:
                async with session.request(
                    method, url, data=data, headers=headers, timeout=_REQUEST_TIMEOUT
                ) as response:
                    content = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(error) from error
        self._answered()
        return response.status, response.headers.get("Retry-After"), content

    async def stream(
        self, path: str, *, identity: Identity, query: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it.

        Raises:
            UnreachableError: there was no answer, or ``WATCH_SILENCE_SECONDS`` without a byte.
            ApiError: the answer was an error.

        """
        headers = {**self._speaking_as(identity), "Accept": JSON}
        try:
            async with self._open_session().get(
                self._url(path, query), headers=headers, timeout=_WATCH_TIMEOUT
            ) as response:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise _api_error(response.status, await response.read())
                self._answered()
                async for line in response.content:
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    def _speaking_as(self, identity: Identity) -> dict[str, str]:
        return identity.headers if self._proxy is None else identity.impersonation

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        if query:
            return URL(self._server + path).with_query(query)
        return URL(self._server + path, encoded=True)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("a Wire is used inside 'async with'")
        return self._session

    def _unreachable(self, error: Exception) -> UnreachableError:
        text = str(error) or type(error).__name__
        if not self._outage_told and self._silent_seconds() >= _OUTAGE_SECONDS:
            self._outage_told = True
            self._say(f"API server at {self._server} does not answer ({text}); kubelets keep trying")
        return UnreachableError(text)

    def _answered(self) -> None:
        if self._outage_told:
            self._outage_told = False
            self._say(f"API server at {self._server} answers again")
        self._last_answer = self._clock.monotonic()

    def _silent_seconds(self) -> float:
        return inf if self._last_answer is None else self._clock.monotonic() - self._last_answer


_REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
_WATCH_TIMEOUT: Final = aiohttp.ClientTimeout(
    total=None, sock_connect=REQUEST_SECONDS, sock_read=WATCH_SILENCE_SECONDS
)


def pause_before_retry(code: int, retry_after: str | None) -> float | None:
    """Return the seconds that an answer asks to wait, or None where the request is not to be repeated.

    client-go's rule: 429 and any 5xx, if Retry-After holds whole seconds. A 429 without it
    counts as one second.
    """
    if code != HTTPStatus.TOO_MANY_REQUESTS and code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return None
    if retry_after is not None and retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_PAUSE_SECONDS)
    return 1.0 if code == HTTPStatus.TOO_MANY_REQUESTS else None


def _api_error(code: int, content: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(content, type=_Status)
    except msgspec.DecodeError:
        return ApiError(code, "no Status", content[:200].decode(errors="replace"))
    return ApiError(code, status.reason or "no reason", status.message)


def tls_context(*, ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Trust this CA for the server, and present the front proxy's certificate.

    Raises:
        OSError: a file is missing or is not what it should be.

    """
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(str(certificate), str(key))
    return context
