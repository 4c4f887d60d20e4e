"""The nodes that are watched, by the pools that ask for it.

A node is of one pool at a time, the one that asked last. What is known of a node is by its UID: another
machine of the same name begins with nothing, and nodes and pools that are gone leave nothing behind (P7).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.control.faults import Faults
from winpool.control.memory.wanted import wanted_by
from winpool.control.memory.watched_node import NEVER, News, WatchedNode
from winpool.kubelet.waiting import Waiting
from winpool.objects.pressure import NOTHING_KNOWN, KnownMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from winpool.control.memory.wanted import Series, Wanted
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool

log = logging.getLogger(__name__)

ROUNDING_SECONDS: Final = 0.001
"""A sample is fresh until a moment and at it, so what is known is looked at this much later."""


AWAITED_SECONDS: Final = 60.0
"""For so long samples of the other nodes are taken sooner after an eviction became right. After that each was
polled in its turn, and one whose kubelet gives old numbers only is no reason to poll it often for ever."""


class WatchedNodes:
    """The watched nodes, what is known of each, and who has to know.

    ``on_news`` is called with the name of a pool where something has changed that it has to know.
    ``on_change`` is called when other nodes are watched than before, and ``on_heat`` when the heat of one has
    changed. ``on_awaited`` is called with nodes for whose samples an eviction in their pool waits.
    """

    def __init__(
        self,
        *,
        on_news: Callable[[str, News], None],
        on_change: Callable[[], None],
        on_heat: Callable[[WatchedNode], None],
        on_awaited: Callable[[Iterable[WatchedNode]], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._on_news = on_news
        self._on_change = on_change
        self._on_heat = on_heat
        self._on_awaited = on_awaited
        self._monotonic = monotonic
        self._wanted: dict[str, Wanted] = {}
        self._of_pool: dict[str, dict[str, WatchedNode]] = {}
        """By the names of pools, then by the UIDs of nodes."""
        self._by_name: dict[str, WatchedNode] = {}
        self._ready_since: dict[str, float] = {}
        """Since when the eviction of a pool is right that became so last, by the names of pools."""
        self._changing = Waiting()
        """UIDs of nodes, by when time alone changes something about them."""
        self._by_uid: dict[str, WatchedNode] = {}
        self._faults = Faults("the watch of the memory of a node", logger=log)

    def __len__(self) -> int:
        """Return how many nodes are watched."""
        return len(self._by_uid)

    def __iter__(self) -> Iterator[WatchedNode]:
        """Return all nodes that are watched."""
        return iter(tuple(self._by_uid.values()))

    def want(self, pool: Pool, nodes: Sequence[Node]) -> None:
        """Watch exactly these nodes for ``pool``."""
        wanted = self._wanted.get(pool.name)
        if wanted is None or not wanted.is_of(pool):
            wanted = wanted_by(pool)
        if wanted is None or not nodes:
            self.forget(pool.name)
            return
        is_other = wanted is not self._wanted.get(pool.name)
        self._wanted[pool.name] = wanted
        mine = self._of_pool.setdefault(pool.name, {})
        has_changed = is_other
        for gone in mine.keys() - {node.uid for node in nodes}:
            self._drop(mine[gone])
            has_changed = True
        for node in nodes:
            has_changed |= self._watch(node, wanted, mine)
        if has_changed:
            self._on_change()

    def forget(self, pool_name: str) -> None:
        """Watch no node for the pool of that name."""
        if self._wanted.pop(pool_name, None) is None:
            return
        for watched in tuple(self._of_pool[pool_name].values()):
            self._drop(watched)
        del self._of_pool[pool_name]
        self._ready_since.pop(pool_name, None)
        self._faults.ended(pool_name)
        self._on_change()

    def of_kubelets(self) -> dict[str, WatchedNode]:
        """Return the nodes whose kubelets are polled, by their names."""
        return {name: each for name, each in self._by_name.items() if each.wanted.kubelet is not None}

    def series(self) -> dict[Series, str]:
        """Return all series that pools read, with the names of their sources."""
        return {
            series: name
            for wanted in self._wanted.values()
            for name, series in wanted.sources.items()
            if series is not None
        }

    def of_series(self, series: Series) -> list[WatchedNode]:
        """Return the nodes that are read from ``series``."""
        return [each for each in self._by_uid.values() if series in each.wanted.sources.values()]

    def named(self, name: str) -> WatchedNode | None:
        """Return the watched node of that name."""
        return self._by_name.get(name)

    def with_uid(self, uid: str) -> WatchedNode | None:
        """Return the watched node with that UID."""
        return self._by_uid.get(uid)

    def beside(self, uid: str) -> Iterable[WatchedNode]:
        """Return the watched node with that UID and all others of its pool; none where it is not watched."""
        watched = self._by_uid.get(uid)
        return () if watched is None else self._of_pool[watched.wanted.pool].values()

    def of_pool(self, pool_name: str) -> Collection[WatchedNode]:
        """Return the watched nodes of the pool of that name."""
        return self._of_pool.get(pool_name, {}).values()

    def has(self, watched: WatchedNode) -> bool:
        """Whether it is watched still, and no other machine of its name instead."""
        return self._by_uid.get(watched.node.uid) is watched

    def note(self, watched: WatchedNode) -> None:
        """Look at a node after something has come of it, and tell its pool what has changed."""
        self._look(watched, self._monotonic())

    def readers_of(self, series: Series) -> str:
        """Return the names of the pools that read ``series``."""
        return ", ".join(name for name, wanted in self._wanted.items() if series in wanted.sources.values())

    def fault(self, pool: str, error: Exception) -> None:
        """Log a bug of ours that a node of that pool has brought out, once."""
        self._faults.failed(pool, error)

    def seconds_to_change(self) -> float | None:
        """Return in how many seconds time alone changes something; None for never."""
        first = self._changing.first()
        return None if first is None else max(0.0, first + ROUNDING_SECONDS - self._monotonic())

    def expire(self) -> None:
        """Look at each node about which time alone has changed something."""
        now = self._monotonic()
        for uid in tuple(self._changing.until(now - ROUNDING_SECONDS)):
            watched = self._by_uid[uid]
            try:
                self._look(watched, now)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the watch of other nodes
                self.fault(watched.wanted.pool, error)

    def known(self, pool_name: str) -> KnownMemory:
        """Return what is known of the nodes of that pool now."""
        mine, now = self._of_pool.get(pool_name), self._monotonic()
        if not mine:
            return NOTHING_KNOWN
        return KnownMemory(
            told={uid: each.told for uid, each in mine.items()},
            views={uid: each.view_at(now) for uid, each in mine.items()},
            problems={uid: each.problem for uid, each in mine.items() if each.problem},
            pods={uid: usage for uid, each in mine.items() if (usage := each.pods.usage(now=now))},
            read_at=now,
        )

    def _watch(self, node: Node, wanted: Wanted, mine: dict[str, WatchedNode]) -> bool:
        """Watch a node; return whether that is new."""
        watched = self._by_uid.get(node.uid)
        if watched is not None and watched.wanted.pool_uid == wanted.pool_uid:
            is_other = watched.wanted is not wanted
            watched.want(node, wanted)
            if is_other:
                self.note(watched)
            return False
        for other in (watched, self._by_name.get(node.name)):
            if other is not None and self.has(other):
                self._drop(other)
        watched = WatchedNode(node, wanted, self._monotonic())
        mine[node.uid] = self._by_uid[node.uid] = self._by_name[node.name] = watched
        return True

    def _drop(self, watched: WatchedNode) -> None:
        uid, name = watched.node.uid, watched.node.name
        self._of_pool.get(watched.wanted.pool, {}).pop(uid, None)
        self._by_uid.pop(uid, None)
        self._changing.remove(uid)
        if self._by_name.get(name) is watched:
            del self._by_name[name]

    def _look(self, watched: WatchedNode, now: float) -> None:
        heat, ready_since = watched.heat, watched.ready_since
        news = watched.look(now)
        if watched.heat != heat:
            self._on_heat(watched)
        self._await(watched, is_ready=watched.ready_since > ready_since, now=now)
        if watched.changes_at < NEVER:
            self._changing.add(watched.node.uid, watched.changes_at)
        else:
            self._changing.remove(watched.node.uid)
        if news is not News.NONE:
            self._on_news(watched.wanted.pool, news)

    def _await(self, watched: WatchedNode, *, is_ready: bool, now: float) -> None:
        """Have samples of the nodes of a pool taken soon that an eviction waits for.

        It waits for samples that were measured after it became right (docs/adr/0032-most-of-a-pool.md).
        """
        pool = watched.wanted.pool
        if is_ready and watched.wanted.evicts:
            self._ready_since[pool] = watched.ready_since
            self._on_awaited(self._of_pool[pool].values())
            return
        since = self._ready_since.get(pool)
        if since is not None and now - since < AWAITED_SECONDS and watched.was_sampled_before(since):
            self._on_awaited((watched,))
