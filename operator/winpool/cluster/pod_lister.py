"""Lists all pods of the cluster, page by page: each is shown once and let go.

Half a list says nothing. So does one with a pod of which not even the node can be read: it may be on any.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster.errors import StreamGarbled, TooLarge
from winpool.cluster.pods import decode_pod_page
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from winpool.cluster.pods import PodPage, UnreadablePod
    from winpool.contract.pods import Pod

log = logging.getLogger(__name__)

PODS_PATH: Final = "/api/v1/pods"

BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded"
"""Pods that are on a node and have not ended well. Failed ones are wanted: a kubelet that refuses a pod for
its operating system fails it."""

PAGE_LIMIT: Final = 500
"""Pods per page: what client-go and kubectl ask for. A page takes the event loop some 10 ms."""

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Held in memory at once. Real pods have 5 to 20 kB, so a page of 500 fits; where it does not, smaller
pages are asked for."""

UNREADABLE_MOST: Final = 1000
"""Nodes with pods that cannot be read. More are no accident: what answers is no API server that we know."""


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A complete list that was shown: how many pods, on how many pages.

    ``unreadable_nodes`` are the nodes with a pod that could not be read, and was not shown.
    """

    count: int
    pages: int
    unreadable_nodes: frozenset[str] = frozenset()


class PodLister:
    """Lists all pods that are on nodes. After a page that was too large it asks for smaller ones.

    ``request`` sends a request to the API server and gives its answer: that of the transport.
    """

    def __init__(self, request: Callable[[Request], Awaitable[bytes | bytearray]]) -> None:
        self._request = request
        self._page_limit = PAGE_LIMIT

    async def list(self, *, see: Callable[[Pod], None]) -> ListedPods:
        """Show every pod there is to ``see``, once each, all as of one moment.

        Raises ApiErrors, at any page: what was shown by then is to be forgotten. Gone is among them: the
        list took longer than the API server keeps its version, and the rest would be as of another moment,
        as a page of another version is. After TooLarge a new list, of smaller pages, is worth a try. This
        one cannot go on with them: the API promises to continue a list for unchanged parameters only.
        """
        count = pages = 0
        unreadable: dict[str, UnreadablePod] = {}
        version = token = ""
        while True:
            page = await self._page(token)
            version = version or page.resource_version
            if page.resource_version != version:
                raise StreamGarbled(
                    f"list pods: a page as of {page.resource_version} in a list as of {version}"
                )
            await asyncio.sleep(0)  # a page is decoded in one breath and looked at in another
            for pod in page.pods:
                see(pod)
            for lost in page.unreadable:
                _note(lost, unreadable)
            pages += 1
            count += len(page.pods) + len(page.unreadable)
            if not page.continue_token:
                break
            if page.continue_token == token:
                raise StreamGarbled("list pods: a page that continues with itself")
            token = page.continue_token
        if unreadable:
            example = next(iter(unreadable.values()))
            log.warning("list pods: %s; what is on %d nodes counts as unknown", example, len(unreadable))
        return ListedPods(count, pages, frozenset(unreadable))

    async def _page(self, token: str) -> PodPage:
        try:
            answer = await self._request(list_request(limit=self._page_limit, token=token))
        except TooLarge as error:
            if self._page_limit > 1:
                self._page_limit = max(1, self._page_limit // 5)
                log.warning("%s; asking for %d pods at a time from now on", error, self._page_limit)
            raise
        return decode_pod_page(answer)


def list_request(*, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"fieldSelector": BOUND, "limit": str(limit), **({"continue": token} if token else {})}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, reply_limit=PAGE_BYTES)


def _note(lost: UnreadablePod, unreadable: dict[str, UnreadablePod]) -> None:
    """Put ``lost`` under its node; raise StreamGarbled where the list means nothing for it."""
    if not lost.node:
        raise StreamGarbled(f"list pods: {lost}")
    unreadable.setdefault(lost.node, lost)
    if len(unreadable) > UNREADABLE_MOST:
        raise StreamGarbled(f"list pods: {lost}, and the same on {UNREADABLE_MOST} other nodes")
