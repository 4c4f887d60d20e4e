"""Credentials on the requests of a library that brings its own session, and nowhere else.

A session follows redirects by itself, and asks us again for each step; and libraries log errors whole,
with the request inside. So the token goes to our server only, a redirect is an error, and no error
that carries a request gets through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs
from yarl import URL

from winpool.cluster.answers import describe
from winpool.cluster.errors import CredentialsError, error_of
from winpool.cluster.request import namespace_of

if TYPE_CHECKING:
    from winpool.cluster.credentials import Connection
    from winpool.cluster.first_refusals import FirstRefusals

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""What aiohttp follows."""


class GuestCredentials:
    """Middleware for a guest's session. What fails does so in its words: as a failure that may pass."""

    def __init__(self, connection: Connection, *, seconds: float) -> None:
        """Make the middleware; a request waits ``seconds`` for credentials."""
        self._origin = URL(connection.server).origin()
        self._authorization = connection.authorization
        self._impersonation = connection.impersonation
        self._seconds = seconds

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send ``request``, and after a 401 send it once more if other credentials are to be had."""
        origin = request.url.origin()
        if origin != self._origin:
            raise aiohttp.ClientConnectionError(f"{origin} is not the API server {self._origin}")
        request.headers.extend(self._impersonation)
        header = await self._authorize(request)
        response = await _answer(request, handler)
        if response.status != _UNAUTHORIZED:
            return response
        self._authorization.reject(header)
        try:
            fresh = await self._authorize(request)
        except BaseException:
            response.close()
            raise
        if fresh == header:
            return response
        response.close()
        return await _answer(request, handler)

    async def _authorize(self, request: aiohttp.ClientRequest) -> str | None:
        try:
            header = await self._authorization.header(within=self._seconds)
        except CredentialsError as error:
            raise aiohttp.ClientConnectionError(error.message) from None
        if header is not None:
            request.headers[hdrs.AUTHORIZATION] = header
        return header


class GuestRefusals:
    """Middleware for a guest's session: a refusal that has not lasted fails as a connection would.

    Ours are judged where they are read; a guest tells of its own, and would tell of it at once.
    """

    def __init__(self, refusals: FirstRefusals) -> None:
        """Make the middleware over what is known of all refusals, ours too."""
        self._refusals = refusals

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send ``request``."""
        response = await handler(request)
        if response.ok and request.method == hdrs.METH_GET:
            verb = "watch" if "watch" in request.url.query else "list"
            self._refusals.permitted(
                verb=verb, resource=request.url.name, namespace=namespace_of(request.url.raw_path)
            )
        if response.status != _FORBIDDEN:
            return response
        label = f"{request.method} {request.url.path}"
        # The session keeps what was read, so a guest can read it once more.
        told = error_of(status=response.status, body=await response.read(), request=label)
        judged = self._refusals.judge(told)
        if judged is told:
            return response
        response.close()
        raise aiohttp.ClientConnectionError(judged.message)


async def _answer(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        response = await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ClientResponseError) as error:
        # In these may be the headers that the proxy was sent. Others must pass as they are: by them
        # a session knows that it may send a request again.
        raise aiohttp.ClientConnectionError(describe(error)) from None
    if response.status in _REDIRECTS:
        response.close()
        raise aiohttp.ClientConnectionError(
            f"the API server answered {response.status}, a redirect, which is not followed:"
            " the token is for this server and no other"
        )
    return response
