"""Credentials on the requests of a library that brings its own session (a guest), and nowhere else.

A session follows redirects by itself, and asks for credentials at each step; and libraries log whole errors,
with the request in them. So the token is sent to our server only, a redirect is an error, and no error
that contains a request is passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs
from yarl import URL

from winpool.cluster.answers import describe, read_body
from winpool.cluster.errors import CredentialsError, TooLarge, error_of
from winpool.cluster.request import REPLY_LIMIT, namespace_of

if TYPE_CHECKING:
    from winpool.cluster.credentials import Connection
    from winpool.cluster.first_refusals import FirstRefusals

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""What aiohttp follows."""


class GuestCredentials:
    """Middleware for a guest's session. Failures are errors of aiohttp, which a guest takes for temporary."""

    def __init__(self, connection: Connection, *, seconds: float) -> None:
        """Make the middleware; a request waits ``seconds`` for credentials."""
        self._origin = URL(connection.server).origin()
        self._authorization = connection.authorization
        self._impersonation = connection.impersonation
        self._seconds = seconds

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send ``request``, and after a 401 send it once more if other credentials are available."""
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
    """Middleware for a guest's session: a refusal that has not lasted is raised as a connection error.

    Our own refusals are judged where they are read; a guest logs its own, and would log them at once.
    """

    def __init__(self, refusals: FirstRefusals) -> None:
        """Make the middleware; ``refusals`` has all refusals, including those of our own requests."""
        self._refusals = refusals

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send ``request``."""
        response = await handler(request)
        verb = "watch" if "watch" in request.url.query else "list"
        if response.ok and request.method == hdrs.METH_GET:
            self._refusals.permitted(
                verb=verb, resource=request.url.name, namespace=namespace_of(request.url.raw_path)
            )
        if response.status != _FORBIDDEN:
            return response
        is_read = request.method == hdrs.METH_GET
        label = f"{verb} {request.url.name}" if is_read else f"{request.method} {request.url.path}"
        told = error_of(status=response.status, body=await _read(response, label), request=label)
        judged = self._refusals.judge(told)
        if judged is told:
            return response
        response.close()
        raise aiohttp.ClientConnectionError(judged.message)


async def _read(response: aiohttp.ClientResponse, label: str) -> bytes:
    """Read a refusal, and keep it in ``response``, so that a guest can read it once more."""
    try:
        body = bytes(await read_body(response, limit=REPLY_LIMIT, label=label))
    except TooLarge as error:
        response.close()
        raise aiohttp.ClientConnectionError(error.message) from None
    except BaseException:
        response.close()
        raise
    response._body = body  # noqa: SLF001 - only its own read() sets it, and that has no limit
    return body


async def _answer(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        response = await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ClientResponseError) as error:
        # These may contain the headers that were sent to the proxy. Others must be raised as they are: a
        # session needs them to know that it may send a request again.
        raise aiohttp.ClientConnectionError(describe(error)) from None
    if response.status in _REDIRECTS:
        response.close()
        raise aiohttp.ClientConnectionError(
            f"the API server answered {response.status}, a redirect, which is not followed:"
            " the token is for this server and no other"
        )
    return response
