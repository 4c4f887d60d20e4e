"""How a request gets to the API server: TLS as it is now, the name expected there, and the proxy.

One class of request for our own session and for those of guests, which do not know of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy

if TYPE_CHECKING:
    from yarl import URL

    from winpool.cluster.credentials import Connection


_NO_HEADERS: Final = CIMultiDictProxy(CIMultiDict[str]())


def requests_over(connection: Connection, *, user_agent: str) -> type[aiohttp.ClientRequest]:
    """Return the class of requests that go the way of ``connection``, whatever a session says of it.

    The proxy's password is a header of its own, and no part of a URL: aiohttp's errors quote URLs.
    """
    proxy = connection.proxy

    class Routed(aiohttp.ClientRequest):
        def __init__(self, method: str, url: URL, **options: Any) -> None:
            options.update(ssl=connection.ssl, server_hostname=connection.server_hostname)
            if proxy is not None:
                options.update(proxy=proxy.url, proxy_headers=proxy_headers())
            super().__init__(method, url, **options)

        @property
        def request_info(self) -> aiohttp.RequestInfo:
            """What errors and answers say of the request: not its headers, in which the token is."""
            return aiohttp.RequestInfo(self.url, self.method, _NO_HEADERS, self.original_url)

    def proxy_headers() -> CIMultiDict[str]:
        # New for each request: aiohttp adds to them.
        headers = CIMultiDict({hdrs.USER_AGENT: user_agent})
        if proxy is not None and proxy.authorization is not None:
            headers[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
        return headers

    return Routed
