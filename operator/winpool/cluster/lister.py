"""Lists all Windows nodes, page by page, into the store.

Each page is taken in as it arrives, since what it says is true whatever becomes of the
rest. That a node is gone is concluded only from a list that was complete.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.errors import StreamGarbled, TooLarge
from winpool.cluster.node_requests import PAGE_LIMIT, WINDOWS_SELECTOR, list_request
from winpool.cluster.nodes import decode_page
from winpool.cluster.rewind import Rewind

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.nodes import NodePage, UndecodableNodeError
    from winpool.cluster.store import NodeStore
    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the start.

    ``restarts`` are watches that ended in trouble, ``expired`` the 410s, ``dropped`` news
    older than what was known, ``undecodable`` nodes that could not be read.
    """

    lists: int = 0
    watches: int = 0
    restarts: int = 0
    expired: int = 0
    events: int = 0
    dropped: int = 0
    undecodable: int = 0


def report_undecodable(error: UndecodableNodeError, stats: ReflectorStats) -> None:
    """Count and log a node that could not be read."""
    stats.undecodable += 1
    log.warning("%s; it is kept as last seen", error)


class NodeLister:
    """Lists into ``store``. ``on_page`` is called after each page that came in."""

    def __init__(
        self,
        transport: Transport,
        store: NodeStore,
        *,
        stats: ReflectorStats,
        on_page: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._store = store
        self._stats = stats
        self._on_page = on_page
        self._page_limit = PAGE_LIMIT
        self._rewind = Rewind("nodes", monotonic=monotonic)

    async def list(self, *, seen: str) -> str:
        """Take in all nodes there are and give the resourceVersion of the list.

        ``seen`` is the latest resourceVersion known from before: an older list is refused
        (StreamGarbled), until it has come several times in a row (see ``rewind``).
        Raises ApiErrors; what came in before stays taken in.
        """
        while True:
            try:
                return await self._list(seen=seen)
            except TooLarge as error:
                if self._page_limit == 1:
                    raise
                self._page_limit = max(1, self._page_limit // 5)
                log.warning("%s; asking for %d nodes at a time", error, self._page_limit)

    async def _list(self, *, seen: str) -> str:
        self._stats.lists += 1
        page = await self._page("")
        rewound = self._rewind.check(page.resource_version, seen=seen)
        names: set[str] = set()
        while True:
            self._take(page, names, even_older=rewound)
            token = page.continue_token
            if not token:
                break
            page = await self._page(token)
            if page.continue_token == token:
                raise StreamGarbled("list nodes: a page that continues with itself")
        # A node of which not even the name could be read may be any that seems to be gone.
        if "" not in names:
            self._store.keep_only(names, resource_version=page.resource_version, even_newer=rewound)
        self._rewind.done()
        return page.resource_version

    async def _page(self, token: str) -> NodePage:
        request = list_request(selector=WINDOWS_SELECTOR, limit=self._page_limit, token=token)
        answer = await self._transport.request(request)
        page = decode_page(answer)
        self._on_page()
        return page

    def _take(self, page: NodePage, names: set[str], *, even_older: bool) -> None:
        """Take in a page; ``names`` gets what is on it, "" for a node without a readable name."""
        for node in page.nodes:
            names.add(node.name)
            self._stats.dropped += not self._store.put(node, even_older=even_older)
        for error in page.undecodable:
            names.add(error.name)
            report_undecodable(error, self._stats)
