"""Asks a Prometheus for the memory of all Windows nodes at once.

URL, CA, token and matchers come from the operator's settings. A pool names such a data source, and the label
that names the node; it never brings a URL or a credential.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from yarl import URL

from winpool.kubelet.connection import Token, Wire, connected, header_of, request_of, within
from winpool.kubelet.exporter import Matchers, Point, Query, parse_vector, samples_of
from winpool.kubelet.samples import Outcome, PollError
from winpool.model.pressure import MemorySample

MAX_BODY_BYTES: Final = 16 * 2**20
"""Bytes of an answer. A series has some 300 bytes, so those of 5,000 nodes have 1.5 MB; labels can be
longer."""

MAX_QUERIES: Final = 4
"""Queries at once, of the nine that belong together. Prometheus runs 20 at once by default, for all its
users."""

CONNECT_SECONDS: Final = 2.0
"""For one address of several, so that one that does not answer leaves the time for the next."""

_QUERY_PATH: Final = "api/v1/query"


def parse_url(text: str, *, has_token: bool) -> URL:
    """Read the URL of a data source, which may have a path, such as that of a tenant.

    Raises ValueError, whose message does not have the URL: it may contain a password.
    """
    try:
        url = URL(text)
    except ValueError:
        raise ValueError("it is not a URL; write it like https://prometheus.monitoring.svc:9090") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("it is not a URL; write it like https://prometheus.monitoring.svc:9090")
    if url.user is not None or url.password is not None:
        raise ValueError("it has a user or a password; set a token file or basicAuth instead")
    if url.raw_query_string or url.raw_fragment:
        raise ValueError("it has a query or a fragment; remove what follows the path")
    if has_token and url.scheme != "https":
        raise ValueError("a token or a password is sent by HTTPS only; write https://, or set neither")
    return url


@dataclass(eq=False)
class PrometheusClient:
    """Queries one data source. Everything it raises is a PollError, and it never repeats a query.

    ``url`` is of ``parse_url``. Without ``token`` it sends no credentials; with ``user``, that is the
    password of the user. ``headers`` are sent with each query, such as that of a tenant. Only series that
    have the labels of ``matchers`` are read.
    """

    url: URL
    _: KW_ONLY
    matchers: Matchers
    token: Token | None
    context: Callable[[], ssl.SSLContext]
    user: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note the parts of the URL."""
        self._url = self.url / _QUERY_PATH
        # ``parse_url`` refuses a URL without them.
        self._host, self._port = self.url.raw_host or "", self.url.port or 0

    async def samples(self, *, label: str, deadline: float) -> dict[str, MemorySample]:
        """Return the sample of each node by the value of ``label``, within ``deadline`` seconds.

        One answer that is missing makes the others worthless, since it is not known of which nodes it would
        have been. Raises PollError.
        """
        async with within(deadline):
            authorization = None if self.token is None else await header_of(self.token, user=self.user)
            addresses = await self._addresses()
            left, found = [*Query], dict[Query, dict[str, Point]]()
            tasks = [
                asyncio.ensure_future(self._ask(left, found, addresses, authorization, label=label))
                for _ in range(MAX_QUERIES)
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return samples_of(found)

    async def _addresses(self) -> list[str]:
        """Return the IP addresses of the data source, the preferred first. Raises PollError."""
        loop = asyncio.get_running_loop()
        try:
            told = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise PollError(Outcome.NO_CONNECTION, "the host has no address") from None
        return [str(each[4][0]) for each in told]

    async def _ask(
        self,
        left: list[Query],
        found: dict[Query, dict[str, Point]],
        addresses: list[str],
        authorization: str | None,
        *,
        label: str,
    ) -> None:
        """Ask what is ``left`` over one connection at a time, until nothing is. Raises PollError."""
        wire: Wire | None = None
        try:
            while left:
                query = left.pop()
                wire = wire or await self._connected(addresses)
                path = self._url.with_query(query=query.of(self.matchers)).raw_path_qs
                request = request_of(
                    self._host, self._port, path, authorization=authorization, headers=self.headers
                )
                body, may_stay = await wire.ask(request, limit=MAX_BODY_BYTES)
                try:
                    found[query] = parse_vector(body, label=label)
                finally:
                    # An error would keep it until the garbage collector runs.
                    body.clear()
                if not may_stay:
                    wire.close()
                    wire = None
        finally:
            # The next queries are seconds away.
            if wire is not None:
                wire.close()

    async def _connected(self, addresses: list[str]) -> Wire:
        """Return a connection to the first address that accepts one. Raises PollError."""
        context = self.context() if self._url.scheme == "https" else None
        *others, last = addresses
        for address in others:
            with suppress(PollError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await connected(address, self._port, context=context, name=self._host)
        return await connected(last, self._port, context=context, name=self._host)
