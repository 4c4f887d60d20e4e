"""How a request reaches the API server: the present TLS context, the server's expected name, and the proxy.

Our own session and those of guests use the same class of request, since guests do not set these. It also is
the last place before a request is sent, and so where a write of a process that may not write ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from winpool.cluster.errors import NotLeading, NotWanted
from winpool.cluster.last_check import last_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection as Socket

    from winpool.cluster.credentials import Connection
    from winpool.cluster.errors import ApiError
    from winpool.cluster.proxies import Proxy


_NO_HEADERS: Final = CIMultiDictProxy(CIMultiDict[str]())


_READS: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_REVIEWS: Final = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
"""Reviews of tokens and rights are POSTs that change nothing."""


def _is_write(method: str, url: URL, *, below: str) -> bool:
    """Whether a request may change something; ``below`` is the path of the API server's own address."""
    return method not in _READS and not url.path.removeprefix(below).startswith(_REVIEWS)


def _fail(conn: Socket, error: ApiError) -> None:
    """End a request on whose connection nothing was sent: what waits for the answer raises ``error``."""
    if conn.protocol is not None:
        conn.protocol.set_exception(error)
    conn.close()


def _proxy_headers(proxy: Proxy, user_agent: str) -> CIMultiDict[str]:
    # New for each request: aiohttp adds to them.
    headers = CIMultiDict({hdrs.USER_AGENT: user_agent})
    if proxy.authorization is not None:
        headers[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
    return headers


def requests_over(
    connection: Connection, *, user_agent: str, may_write: Callable[[], bool] = lambda: True
) -> type[aiohttp.ClientRequest]:
    """Return the class of requests that use the TLS, name and proxy of ``connection`` in any session.

    A write raises NotLeading where ``may_write`` returns False. It is asked when the connection is there and
    nothing was sent on it: waiting for credentials or for a connection can take half a minute. It is asked
    again where head and body go out, because a process can be frozen between the two, for hours. So is the
    check of the task that sends (``last_check``).

    The proxy's password is a header of its own, and not part of a URL: aiohttp's errors quote URLs.
    """
    proxy = connection.proxy
    below = URL(connection.server).path.rstrip("/")

    class Routed(aiohttp.ClientRequest):
        def __init__(self, method: str, url: URL, **options: Any) -> None:
            options.update(ssl=connection.ssl, server_hostname=connection.server_hostname)
            if proxy is not None:
                options.update(proxy=proxy.url, proxy_headers=_proxy_headers(proxy, user_agent))
            super().__init__(method, url, **options)
            self._check_wanted = last_check()

        async def send(self, conn: Socket) -> aiohttp.ClientResponse:
            """Send it, unless it is a write that may not be, or is not wanted any more."""
            self._check()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Socket, content_length: int | None = None
        ) -> None:
            """Write head and body. aiohttp does it in a task of its own, which begins after ``send``."""
            try:
                self._check()
            except (NotLeading, NotWanted) as error:
                _fail(conn, error)
                return
            await super().write_bytes(writer, conn, content_length)

        def _check(self) -> None:
            if _is_write(self.method, self.url, below=below) and not may_write():
                raise NotLeading(
                    f"{self.method} {self.url.path}: not sent: this operator does not hold the Lease"
                    " winpool-system/winpool"
                )
            self._check_wanted(f"{self.method} {self.url.path}")

        @property
        def request_info(self) -> aiohttp.RequestInfo:
            """What errors and answers contain of the request: not its headers, which have the token."""
            return aiohttp.RequestInfo(self.url, self.method, _NO_HEADERS, self.original_url)

    return Routed
