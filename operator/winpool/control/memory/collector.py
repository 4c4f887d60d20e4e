"""Watches the memory of nodes: polls their sources, steps their detectors, and wakes pools.

A pass says which nodes of its pool are to be watched, and reads what is known of them in its snapshot.
Between passes nothing is decided: a sample changes what is known, and only a change of level, guard, signal,
of whether something is known, or of why it is not, wakes the pool.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.control.loops.wake import Wake
from winpool.control.memory.capabilities import ToldCapabilities
from winpool.control.memory.figures import figures_of
from winpool.control.memory.kubelet_polls import KubeletPolls
from winpool.control.memory.source_polls import SourcePolls
from winpool.control.memory.stats import MemoryStats
from winpool.control.memory.wakes import Wakes
from winpool.control.memory.watched import WatchedNodes
from winpool.kubelet.buffers import shrink_tls_buffers
from winpool.objects.memory_report import SeenNode, report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from winpool.control.memory.connections import Connections
    from winpool.control.memory.figures import MemoryFigures
    from winpool.control.memory.watched_node import WatchedNode
    from winpool.objects.memory_report import MemoryReport
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.objects.pressure import KnownMemory

TICK_SECONDS: Final = 1.0
"""How late it may be noticed that a sample has grown old. Each sample moves the time at which the next one
does, so the loop does not wait for that time alone."""

_jitter: Final = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """What was known of all watched nodes at one moment, by both clocks."""

    nodes: tuple[SeenNode, ...]
    monotonic: float
    now: datetime

    def report(self) -> MemoryReport:
        """Return it as a report; it takes some 20 µs for each node."""
        return report_of(self.nodes, monotonic=self.monotonic, now=self.now)


class MemoryCollector:
    """Samples of memory, from the pass that asks for them to the pass that they wake.

    Without ``run`` nothing is polled: only the operator that leads runs it.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        wake: Callable[[str], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        """Make the loops; ``wake`` asks for a pass of the pool of a name."""
        self.stats = MemoryStats()
        self.protected_namespaces = connections.protected_namespaces
        self._data_sources = frozenset(connections.data_sources)
        self._now = now
        self._monotonic = monotonic
        self._missing = connections.missing
        self._close = connections.close
        self._capabilities = ToldCapabilities(monotonic=monotonic)
        self._timer = Wake()
        self._wakes = Wakes(
            wake,
            nodes_of=lambda pool_name: len(self.watched.of_pool(pool_name)),
            on_wait=self._timer.set,
            monotonic=monotonic,
        )
        self.watched = WatchedNodes(
            on_news=self._wakes.tell,
            on_change=self._nodes_changed,
            on_heat=self._heat_changed,
            on_awaited=self._awaited,
            monotonic=monotonic,
        )
        self._kubelets = KubeletPolls(
            connections=connections,
            watched=self.watched,
            stats=self.stats,
            jitter=jitter,
            monotonic=monotonic,
        )
        self._sources = SourcePolls(
            connections=connections,
            watched=self.watched,
            stats=self.stats,
            jitter=jitter,
            monotonic=monotonic,
        )

    def want(self, pool: Pool, nodes: Sequence[Node]) -> None:
        """Watch exactly these nodes for ``pool``, none where there are none."""
        self.watched.want(pool, nodes)

    def forget(self, pool_name: str) -> None:
        """Watch no node for the pool of that name, which is gone."""
        self.watched.forget(pool_name)
        self._wakes.forget(pool_name)
        self._capabilities.forget(pool_name)

    def known(self, pool: Pool) -> KnownMemory:
        """Return what is known of the nodes of ``pool`` now, for its snapshot."""
        return replace(
            self.watched.known(pool.name),
            data_sources=self._data_sources,
            forbidden=self._missing(),
            capabilities=self._capabilities.of(pool.name, self.watched.of_pool(pool.name)),
        )

    def snapshot(self) -> MemorySnapshot:
        """Return what is known of all nodes now, for those who read it."""
        now = self._monotonic()
        return MemorySnapshot(
            nodes=tuple(
                SeenNode(each.node.name, each.wanted.pool, each.view_at(now), each.problem)
                for each in self.watched
            ),
            monotonic=now,
            now=self._now(),
        )

    def figures(self) -> MemoryFigures:
        """Return what is counted of the watched nodes now."""
        return figures_of(self.watched, now=self._monotonic())

    async def run(self) -> None:
        """Watch until cancelled; then no connection is left, and no request for a token."""
        shrink_tls_buffers()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._kubelets.run(), name="polls of kubelets")
                group.create_task(self._sources.run(), name="queries of Prometheus")
                group.create_task(self._follow_time(), name="age of samples")
        finally:
            await self._close()

    async def _follow_time(self) -> None:
        """Have it known when samples grow old, and wake the pools that have waited."""
        while True:
            self.watched.expire()
            self._wakes.wake_due()
            times = (self.watched.seconds_to_change(), self._wakes.seconds_to_next())
            soonest = min((seconds for seconds in times if seconds is not None), default=None)
            if soonest is None and not len(self.watched):
                await self._timer.wait(seconds=None)
            else:
                await self._timer.wait(
                    seconds=TICK_SECONDS if soonest is None else min(soonest, TICK_SECONDS)
                )

    def _heat_changed(self, watched: WatchedNode) -> None:
        self._kubelets.heat_changed(watched)

    def _awaited(self, nodes: Iterable[WatchedNode]) -> None:
        self._kubelets.poll_soon(nodes)

    def _nodes_changed(self) -> None:
        self._kubelets.nodes_changed()
        self._sources.nodes_changed()
        self._timer.set()
