"""Lists all pods of the cluster, page by page: each is shown once and let go.

Half a list says nothing. So does one with a pod of which not even the node can be read: it may be on any.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster.errors import StreamGarbled
from winpool.cluster.pager import Listing, Pager
from winpool.cluster.pods import decode_pod_page
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from winpool.cluster.pods import PodPage, UnreadablePod
    from winpool.pods.pod import Pod

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

MOST: Final = 1_500_000
"""Pods of a list, ten times as many as Kubernetes is made for. They are held by nobody: this is against a
list without an end. https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

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
        self._pager = Pager(request, LISTING)

    async def list(self, *, see: Callable[[Pod], None]) -> ListedPods:
        """Show every pod there is to ``see``, once each, all as of one moment.

        Raises ApiErrors, at any page: what was shown by then is to be forgotten. Gone is among them: the
        list took longer than the API server keeps its version, and the rest would be as of another moment.
        After TooLarge a new list, of smaller pages, is worth a try.
        """
        count = pages = 0
        unreadable: dict[str, UnreadablePod] = {}

        def take(page: PodPage) -> None:
            nonlocal count, pages
            for pod in page.pods:
                see(pod)
            for lost in page.unreadable:
                _note(lost, unreadable)
            pages += 1
            count += page.size

        await self._pager.show(take)
        if unreadable:
            example = next(iter(unreadable.values()))
            log.warning("list pods: %s; what is on %d nodes counts as unknown", example, len(unreadable))
        return ListedPods(count, pages, frozenset(unreadable))


def list_request(*, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"fieldSelector": BOUND, "limit": str(limit), **({"continue": token} if token else {})}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, reply_limit=PAGE_BYTES)


LISTING: Final = Listing(
    resource="pods",
    request=lambda limit, token: list_request(limit=limit, token=token),
    decode=decode_pod_page,
    page_limit=PAGE_LIMIT,
    page_bytes=PAGE_BYTES,
    most=MOST,
)


def _note(lost: UnreadablePod, unreadable: dict[str, UnreadablePod]) -> None:
    """Put ``lost`` under its node; raise StreamGarbled where the list means nothing for it."""
    if not lost.node:
        raise StreamGarbled(f"list pods: {lost}")
    unreadable.setdefault(lost.node, lost)
    if len(unreadable) > UNREADABLE_MOST:
        raise StreamGarbled(f"list pods: {lost}, and the same on {UNREADABLE_MOST} other nodes")
