"""Lists all pods of the cluster, page by page: each is passed on once and not kept.

A part of a list means nothing. Neither does a list with a pod whose node cannot be read: it may be on any
node.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster.errors import StreamGarbled
from winpool.cluster.pager import Listing, Pager
from winpool.cluster.pods import decode_pod_page
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from winpool.cluster.pods import PodPage, UnreadablePod
    from winpool.pods.pod import Pod

log = logging.getLogger(__name__)

PODS_PATH: Final = "/api/v1/pods"

BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded"
"""Pods that are on a node and have not succeeded. Failed ones are needed: a kubelet that refuses a pod for
its operating system sets it to Failed."""

PAGE_LIMIT: Final = 500
"""Pods per page: what client-go and kubectl ask for. A page takes the event loop some 10 ms."""

PAGE_BYTES: Final = 16 * 1024 * 1024
"""In memory at once. Real pods have 5 to 20 kB, so a page of 500 fits; where it does not, the next list asks
for smaller pages."""

MOST: Final = 1_500_000
"""Pods of a list, ten times as many as Kubernetes supports. They are not kept: the limit is against a list
without an end. https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

UNREADABLE_MOST: Final = 1000
"""Nodes with pods that cannot be read. With more, the server that answers is not an API server that we
know."""


@dataclass(frozen=True, slots=True)
class ListedPods:
    """A complete list: how many pods, on how many pages.

    ``unreadable_nodes`` are the nodes with a pod that could not be read, and was not passed on.
    """

    count: int
    pages: int
    unreadable_nodes: frozenset[str] = frozenset()


class PodLister:
    """Lists all pods that are on nodes. After a page that was too large it asks for smaller ones.

    ``request`` sends a request to the API server and returns its answer, as ``Transport.request`` does.
    """

    def __init__(self, request: Callable[[Request], Awaitable[bytes | bytearray]]) -> None:
        self._with_work: Collection[str] = ()
        self._pager = Pager(request, replace(LISTING, decode=self._decode))

    def _decode(self, body: bytes | bytearray) -> PodPage:
        return decode_pod_page(body, with_work=self._with_work)

    async def list(self, *, see: Callable[[Pod], None], with_work: Collection[str] = ()) -> ListedPods:
        """Call ``see`` with every pod that exists, once each, all as of one moment.

        ``with_work`` names the nodes whose pods are read with their work. One list at a time.
        Raises ApiErrors, at any page: the pods until then do not count. Gone is among them: the list took
        longer than the API server keeps its version, and the rest would be as of another moment. After
        TooLarge a new list, of smaller pages, may succeed.
        """
        self._with_work = with_work
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
            log.warning("list pods: %s; the pods of %d nodes count as unknown", example, len(unreadable))
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
    """Note ``lost`` under its node; raise StreamGarbled where the list means nothing because of it."""
    if not lost.node:
        raise StreamGarbled(f"list pods: {lost}")
    unreadable.setdefault(lost.node, lost)
    if len(unreadable) > UNREADABLE_MOST:
        raise StreamGarbled(f"list pods: {lost}, and the same on {UNREADABLE_MOST} other nodes")
