"""Answers /memory with the memory of every node that is watched, for those who may read it.

Only the operator that leads polls, so the others answer with who leads. The page names nodes, which
/metrics does not. So without reviews of tokens only clients of the operator's own network namespace read it:
those of ``kubectl port-forward``, whom the API server has permitted to be there
(``docs/adr/0029-who-reads-the-memory-of-nodes.md``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

import msgspec
from aiohttp import hdrs, web

from winpool.model.memory_report import MemoryReport
from winpool.serve.access import Access
from winpool.serve.metrics import Pages, takes_gzip

MEMORY_PATH: Final = "/memory"

CONTENT_TYPE: Final = "application/json"

MOST_PLAIN_BYTES: Final = 1024 * 1024
"""Of an answer that is not compressed: some 2,000 nodes. What a client does not read stays in the operator's
memory, on 32 connections. Compressed, 10,000 nodes are far less."""


class MemorySource(Protocol):
    """Knows the memory of nodes."""

    def snapshot(self) -> Callable[[], MemoryReport]:
        """Return what makes the report of what is known now, in another thread than the event loop.

        It is called in the event loop and must return at once. No change reaches the report any more.
        """


class Memory:
    """Answers /memory. Make it inside a running event loop.

    ``standby`` returns why this process has no data, as a sentence; nothing where it leads. Without
    ``access``, only clients on this host, or in this Pod, are answered.
    """

    def __init__(
        self,
        source: MemorySource,
        *,
        standby: Callable[[], str],
        access: Access | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._standby = standby
        self._access = access

        def snapshot() -> Callable[[], bytes]:
            report = source.snapshot()
            return lambda: msgspec.json.encode(report())

        self._pages = Pages(snapshot, name="memory", monotonic=monotonic)

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request that is not permitted; None for one that is."""
        if self._access is not None:
            return await self._access.refusal(request)
        if _is_loopback(request.remote):
            return None
        return web.Response(
            status=HTTPStatus.FORBIDDEN,
            text="/memory is for kubectl winpool memory, which connects by kubectl port-forward; clients of "
            "the network may read it if the operator runs with --metrics-auth=token\n",
        )

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the answer to a request."""
        if (refusal := await self.refusal(request)) is not None:
            return refusal
        if why := self._standby():
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{why}\n")
        page = await self._pages.page()
        wish = request.headers.get(hdrs.ACCEPT_ENCODING, "")
        if len(page.plain) > MOST_PLAIN_BYTES and not takes_gzip(wish):
            return web.Response(
                status=HTTPStatus.NOT_ACCEPTABLE,
                text=f"the answer has {len(page.plain)} bytes and is served compressed only: send the header "
                "Accept-Encoding: gzip\n",
            )
        return page.answer(request, content_type=CONTENT_TYPE)

    async def close(self) -> None:
        """End what is under way."""
        await self._pages.close()
        if self._access is not None:
            await self._access.close()


def _is_loopback(address: str | None) -> bool:
    """Whether a client is on this host, in this network namespace; False where that is not known."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
