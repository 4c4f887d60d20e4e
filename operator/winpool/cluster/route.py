"""How a request reaches the API server: the present TLS context, the server's expected name, and the proxy.

Our own session and those of guests use the same class of request, since guests do not set these.
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
    """Return the class of requests that use the TLS, name and proxy of ``connection`` in any session.

    The proxy's password is a header of its own, and not part of a URL: aiohttp's errors quote URLs.
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
            """What errors and answers contain of the request: not its headers, which have the token."""
            return aiohttp.RequestInfo(self.url, self.method, _NO_HEADERS, self.original_url)

    def proxy_headers() -> CIMultiDict[str]:
        # New for each request: aiohttp adds to them.
        headers = CIMultiDict({hdrs.USER_AGENT: user_agent})
        if proxy is not None and proxy.authorization is not None:
            headers[hdrs.PROXY_AUTHORIZATION] = proxy.authorization
        return headers

    return Routed
