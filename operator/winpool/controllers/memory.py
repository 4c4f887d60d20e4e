"""Watches the memory of nodes: polls it, steps the detectors, and wakes pools where a level changes.

A pass says which nodes of its pool are to be watched, and reads what is known of them in its snapshot.
Between passes nothing is decided: a sample changes what is known, and only a change of level, guard, signal,
of whether something is known, or of why it is not, wakes the pool. Evictions are reported to the detectors,
which wait for the memory to return before they permit the next.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.controllers.memory_polls import Connections, MemoryStats, Poller
from winpool.controllers.watched_nodes import News, WatchedNode, WatchedNodes
from winpool.features.memory import detector
from winpool.features.memory.levels import fresh_seconds
from winpool.kubelet.connection import shrink_tls_buffers
from winpool.kubelet.samples import KubeletEviction
from winpool.kubelet.schedule import Waiting
from winpool.loops import Wake, soonest
from winpool.model.memory_report import MemoryReport, SeenNode, report_of
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.pressure import Capabilities, Capability, KnownMemory, NodePressure

KNOWN_SECONDS: Final = 5.0
"""How long a pool gathers news that something has become known, or is no longer known: it is for people."""

NODES_PER_GATHERED_SECOND: Final = 200
"""From 1,000 nodes on, a pool gathers such news for one second for each so many of its nodes. A pool of 5,000
has 83 first samples a second after a start, and each of its passes takes 0.1 s to 0.2 s of CPU time: less
than a hundredth of 25 s."""

CALM_SECONDS: Final = 30.0
"""How long a pool gathers news that nodes are calm, and the most for what becomes known. A calm node may
still carry a signal from before the start; it has waited five minutes for its removal by then."""


@dataclass(slots=True)
class Wakes:
    """Wakes pools for news about the memory of their nodes: for pressure at once, and else after a while.

    Whether something is known at all changes for every node within the first minutes, again when a network or
    a Prometheus fails, and all the time where many kubelets are slow. So that is gathered, and so is, for
    longer, that nodes are known to be calm. ``wake`` wakes a pool, ``on_wait`` is called when one has to be
    woken later. ``nodes_of`` returns how many nodes of a pool are watched.
    """

    wake: Callable[[str], None]
    _: KW_ONLY
    nodes_of: Callable[[str], int]
    on_wait: Callable[[], None]
    monotonic: Callable[[], float]
    _waiting: Waiting = field(default_factory=Waiting, init=False)

    def tell(self, pool: str, news: News) -> None:
        """Wake the pool now, or once such news was gathered."""
        if news is News.PRESSURE:
            self._waiting.remove(pool)
            self.wake(pool)
            return
        at, waits_until = self.monotonic() + self._gather_seconds(pool, news), self._waiting.number(pool)
        if waits_until is None or at < waits_until:
            self._waiting.add(pool, at)
            self.on_wait()

    def _gather_seconds(self, pool: str, news: News) -> float:
        if news is News.CALM:
            return CALM_SECONDS
        return min(max(KNOWN_SECONDS, self.nodes_of(pool) / NODES_PER_GATHERED_SECOND), CALM_SECONDS)

    def forget(self, pool: str) -> None:
        """Do not wake a pool that is watched no more."""
        self._waiting.remove(pool)

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a pool is to be woken; None where none is."""
        first = self._waiting.first()
        return None if first is None else max(0.0, first - self.monotonic())

    def wake_due(self) -> None:
        """Wake the pools that have waited."""
        for pool in tuple(self._waiting.until(self.monotonic())):
            self.wake(pool)


FIRST_SECONDS: Final = 600.0
"""The first report waits for a sample of each source of each node, and no longer: some give none."""

RENEW_SECONDS: Final = 3600.0
"""At most one status for it in an hour: what nodes can tell changes with their versions and settings. 5,000
kubelets are asked for their configuration for 83 minutes, and a converged pool is silent (P2)."""


def capabilities_of(nodes: Collection[WatchedNode]) -> Capabilities:
    """Count what the sources of ``nodes`` can tell."""
    return Capabilities(
        nodes=len(nodes),
        commit_limit=_counted(each.has_commit_limit for each in nodes),
        pod_commit=_counted(each.has_pods_commit for each in nodes),
        paging=_counted(map(reports_paging, nodes)),
        kubelet_eviction=_counted(map(kubelet_evicts, nodes)),
    )


def reports_paging(watched: WatchedNode) -> bool | None:
    """Whether an exporter reports the paging of the node; None where one is to, and has not."""
    samples = watched.memory.sources.values()
    if any(not each.is_first and each.hard_reads_per_second is not None for each in samples):
        return True
    has_exporter = any(series is not None for series in watched.wanted.sources.values())
    return None if has_exporter else False


def kubelet_evicts(watched: WatchedNode) -> bool | None:
    """Whether the kubelet of the node evicts pods for memory itself; None where that is not known."""
    found = KubeletEviction.UNKNOWN if watched.probe is None else watched.probe.found
    return None if found is KubeletEviction.UNKNOWN else found is KubeletEviction.ARMED


class ToldCapabilities:
    """What was reported of each pool, and when.

    It is kept for a while: passes that happen for other reasons must not write another status each time. No
    pass is woken for it.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told: dict[str, _Told] = {}

    def of(self, pool: str, nodes: Collection[WatchedNode]) -> Capabilities | None:
        """Return what to report of the ``nodes`` of ``pool``; None where that is not known yet.

        It is renewed after RENEW_SECONDS, when other nodes or sources are watched, and once when all sources
        have given a sample and all kubelets were asked.
        """
        if not nodes:
            self.forget(pool)
            return None
        now, watched = self._monotonic(), frozenset((each.node.uid, *each.wanted.sources) for each in nodes)
        told = self._told.setdefault(pool, _Told(now, watched))
        is_other = told.watched != watched
        was_complete = told.is_complete and not is_other
        is_sampled = was_complete or all(map(_is_sampled, nodes))
        is_complete = was_complete or (is_sampled and all(map(_was_asked, nodes)))
        if told.capabilities is None:
            is_due = is_sampled or now - told.at >= FIRST_SECONDS
        else:
            is_due = is_other or now - told.at >= RENEW_SECONDS
        if is_due or is_complete is not was_complete:
            told = self._told[pool] = _Told(now, watched, capabilities_of(nodes), is_complete=is_complete)
        return told.capabilities

    def forget(self, pool: str) -> None:
        """Forget what was reported of ``pool``."""
        self._told.pop(pool, None)


class _Told(msgspec.Struct, frozen=True):
    """``watched`` are the UIDs of the nodes, each with its sources."""

    at: float
    watched: frozenset[tuple[str, ...]]
    capabilities: Capabilities | None = None
    is_complete: bool = False


def _is_sampled(watched: WatchedNode) -> bool:
    """Whether each source of the node has given a sample."""
    return watched.wanted.sources.keys() <= watched.memory.sources.keys()


def _was_asked(watched: WatchedNode) -> bool:
    """Whether the kubelet of the node was asked for its configuration, or is not to be asked."""
    return watched.probe is not None or watched.wanted.kubelet is None


def _counted(each_has: Iterable[bool | None]) -> Capability:
    found = list(each_has)
    return Capability(have=found.count(True), unknown=found.count(None))


class MemoryFigures(msgspec.Struct, frozen=True):
    """Nodes by state and by capability, and the age of the oldest fresh sample of each source in seconds.

    The states overlap; Known is a node with a level of an axis at least. A node whose kubelet does not say
    whether it evicts pods is neither KubeletEviction nor NoKubeletEviction.
    """

    nodes: Counter[str]
    capabilities: Counter[str]
    oldest: dict[str, float]


def figures_of(watched: Collection[WatchedNode], *, now: float) -> MemoryFigures:
    """Count the nodes, at the monotonic time ``now``."""
    can = capabilities_of(watched)
    evict, unknown = can.kubelet_eviction.have, can.kubelet_eviction.unknown
    oldest: dict[str, float] = {}
    for each in watched:
        for source, sample in each.memory.sources.items():
            age = now - sample.measured_at
            if not sample.is_first and age <= fresh_seconds(sample):
                oldest[source] = max(oldest.get(source, 0.0), age)
    return MemoryFigures(
        nodes=Counter(state for each in watched for state in _states(each)),
        capabilities=Counter(
            CommitLimit=can.commit_limit.have,
            PodCommit=can.pod_commit.have,
            Paging=can.paging.have,
            KubeletEviction=evict,
            NoKubeletEviction=can.nodes - evict - unknown,
        ),
        oldest=oldest,
    )


def _states(watched: WatchedNode) -> Iterator[str]:
    yield "Watched"
    if any(axis.level is not None for axis in watched.memory.axes.values()):
        yield "Known"
    if watched.is_hot:
        yield "Hot"


TICK_SECONDS: Final = 1.0
"""How late it may be noticed that a sample has grown old. Each sample moves the time at which the next one
does, so the loop does not wait for that time alone."""

_jitter: Final = random.SystemRandom().random


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
        self._connections = connections
        self._now = now
        self._monotonic = monotonic
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
            on_priority=self._priority_changed,
            on_awaited=self._awaited,
            monotonic=monotonic,
        )
        self._poller = Poller(
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
            data_sources=frozenset(self._connections.data_sources),
            forbidden=self._connections.missing(),
            capabilities=self._capabilities.of(pool.name, self.watched.of_pool(pool.name)),
        )

    def beside(self, node_uid: str) -> dict[str, tuple[Node, NodePressure]]:
        """Return what is known now of the nodes of the pool of a node; nothing where it is not watched."""
        now = self._monotonic()
        return {each.node.uid: (each.node, each.memory_at(now)) for each in self.watched.beside(node_uid)}

    def snapshot(self) -> Callable[[], MemoryReport]:
        """Return what makes the report of all nodes as they are known now; it takes some 20 µs for each."""
        now = self._monotonic()
        nodes = tuple(
            SeenNode(each.node.name, each.wanted.pool, each.memory_at(now), each.problem)
            for each in self.watched
        )
        return partial(report_of, nodes, monotonic=now, now=self._now(), protected=self.protected_namespaces)

    def figures(self) -> MemoryFigures:
        """Return what is counted of the watched nodes now."""
        return figures_of(tuple(self.watched), now=self._monotonic())

    async def run(self) -> None:
        """Watch until cancelled; then no connection is left, and no request for a token."""
        shrink_tls_buffers()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poller.run(), name="polls of memory")
                group.create_task(self._follow_time(), name="age of samples")
        finally:
            await self._connections.close()

    async def _follow_time(self) -> None:
        """Have it known when samples grow old, and wake the pools that have waited."""
        while True:
            self.watched.expire()
            self._wakes.wake_due()
            seconds = soonest(self.watched.seconds_to_change(), self._wakes.seconds_to_next())
            if seconds is not None or len(self.watched):
                seconds = soonest(seconds, TICK_SECONDS)
            await self._timer.wait(seconds=seconds)

    def _priority_changed(self, watched: WatchedNode) -> None:
        self._poller.priority_changed(watched)

    def _awaited(self, nodes: Iterable[WatchedNode]) -> None:
        self._poller.poll_soon(nodes)

    def _nodes_changed(self) -> None:
        self._poller.nodes_changed()
        self._timer.set()

    # What becomes of evictions, for the detectors. A node that is not watched has none.

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Note that a pod is being deleted that was measured to have ``share`` bytes, None if unknown."""
        self._change(node_uid, partial(detector.eviction_begun, uid=pod_uid, share=share))

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod is gone."""
        self._change(node_uid, partial(detector.eviction_gone, uid=pod_uid, at=self._monotonic()))

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod was not evicted."""
        self._change(node_uid, partial(detector.eviction_refused, uid=pod_uid))

    def _change(self, node_uid: str, change: Callable[[NodePressure], NodePressure]) -> None:
        watched = self.watched.with_uid(node_uid)
        if watched is not None:
            watched.changed(change(watched.memory))
            self.watched.note(watched)
