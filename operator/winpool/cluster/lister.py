"""Lists all Windows nodes, page by page, into the store.

Each page is stored as it arrives, since it is true even if the rest of the list fails. Only a
complete list shows that a node is gone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.node_requests import WINDOWS_SELECTOR, listing_of
from winpool.cluster.pager import Pager, PageTooLarge
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

    ``restarts`` are watches that ended with an error, ``expired`` the 410s, ``dropped`` states
    older than the known one, ``undecodable`` nodes that could not be read.
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
    log.warning("%s; the node is kept as last seen", error)


class NodeLister:
    """Lists into ``store``. ``on_page`` is called for each page that arrived."""

    def __init__(
        self,
        transport: Transport,
        store: NodeStore,
        *,
        stats: ReflectorStats,
        on_page: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._stats = stats
        self._on_page = on_page
        self._pager = Pager(transport.request, listing_of(WINDOWS_SELECTOR))
        self._rewind = Rewind("nodes", monotonic=monotonic)

    async def list(self, *, seen: str) -> str:
        """Store all nodes that exist, and return the resourceVersion of the list.

        ``seen`` is the latest resourceVersion known from before: an older list is refused
        (StreamGarbled), until it has come several times in a row (see ``rewind``). Begins again where a page
        was too large. Raises ApiErrors; the pages before the error stay stored.
        """
        while True:
            try:
                return await self._list(seen=seen)
            except PageTooLarge:
                continue

    async def _list(self, *, seen: str) -> str:
        self._stats.lists += 1
        names: set[str] = set()
        rewound: bool | None = None

        def take(page: NodePage) -> None:
            nonlocal rewound
            self._on_page()
            if rewound is None:
                rewound = self._rewind.check(page.resource_version, seen=seen)
            self._take(page, names, even_older=rewound)

        version = await self._pager.show(take)
        # A node whose name could not be read may be any of those that the list seems to lack.
        if "" not in names:
            self._store.keep_only(names, resource_version=version, even_newer=bool(rewound))
        self._rewind.done()
        return version

    def _take(self, page: NodePage, names: set[str], *, even_older: bool) -> None:
        """Store a page; ``names`` gets the names of its nodes, "" for a node without a readable name."""
        for node in page.nodes:
            names.add(node.name)
            self._stats.dropped += not self._store.put(node, even_older=even_older)
        for error in page.undecodable:
            names.add(error.name)
            report_undecodable(error, self._stats)
