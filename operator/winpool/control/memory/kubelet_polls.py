"""Polls the kubelets of the watched nodes: which, when and how many at once is ``kubelet.schedule``'s."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from winpool.control.loops.wake import Wake
from winpool.control.memory.pod_usage import listed
from winpool.control.memory.probes import LEAST_SECONDS, Probes
from winpool.control.memory.readings import of_kubelet
from winpool.kubelet.addresses import INTERNAL
from winpool.kubelet.outcome import PollError
from winpool.kubelet.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from winpool.control.memory.connections import Connections, KubeletReader
    from winpool.control.memory.stats import MemoryStats
    from winpool.control.memory.watched import WatchedNodes
    from winpool.control.memory.watched_node import WatchedNode
    from winpool.kubelet.addresses import Target
    from winpool.kubelet.samples import KubeletSample
    from winpool.kubelet.schedule import Poll

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.3
"""Between two looks at the schedule. At 105 polls a second thirty begin together. That takes 12 % less CPU
time than ten at a time, because what a poll runs through stays in the caches
(docs/adr/0034-polls-over-plain-sockets.md). 64 places every 0.3 s are twice as many polls."""

LOOKS_PER_INTERVAL: Final = 30
"""At least so many, so that no poll is later by more than a thirtieth of the shortest interval."""


class KubeletPolls:
    """Polls until cancelled. Then no connection is left."""

    def __init__(
        self,
        *,
        connections: Connections,
        watched: WatchedNodes,
        stats: MemoryStats,
        jitter: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._watched = watched
        self._stats = stats
        self._monotonic = monotonic
        self._look_seconds = min(LOOK_SECONDS, connections.intervals.hot / LOOKS_PER_INTERVAL)
        self._schedule = Schedule(jitter=jitter, intervals=connections.intervals)
        self._probes = Probes(monotonic=monotonic)
        self._polled: dict[str, str] = {}
        """The UIDs of the nodes that are polled, by their names."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_other_nodes = False
        self._wake = Wake()

    def nodes_changed(self) -> None:
        """Take note that other nodes are watched."""
        self._has_other_nodes = True
        self._wake.set()

    def heat_changed(self, watched: WatchedNode) -> None:
        """Take note that a node is nearer to the end of its memory than before, or less near."""
        self._schedule.set_heat(watched.node.name, watched.heat, now=self._monotonic())
        self._wake.set()

    def poll_soon(self, nodes: Iterable[WatchedNode]) -> None:
        """Bring the next polls of ``nodes`` forward: an eviction waits for what they show."""
        self._schedule.poll_soon([each.node.name for each in nodes], now=self._monotonic())
        self._wake.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        async with self._connections.kubelets() as client:
            try:
                while True:
                    self._follow(client)
                    for poll in self._schedule.due(now=self._monotonic()):
                        self._start(self._poll(client, poll), f"poll {poll.node}")
                    await asyncio.sleep(self._look_seconds)
                    await self._wake.wait(seconds=self._seconds_to_next())
            finally:
                await self._end()

    async def _end(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _seconds_to_next(self) -> float | None:
        now = self._monotonic()
        look = self._schedule.next_look(now=now)
        return None if look is None else max(look - now, 0.0)

    def _follow(self, client: KubeletReader) -> None:
        """Poll the nodes that are watched now. Another machine of the same name begins with nothing."""
        if not self._has_other_nodes:
            return
        self._has_other_nodes = False
        wanted = {name: each.node.uid for name, each in self._watched.of_kubelets().items()}
        now = self._monotonic()
        gone = [name for name, uid in self._polled.items() if wanted.get(name) != uid]
        if gone:
            self._schedule.set_nodes(self._polled.keys() - set(gone), now=now)
        for name in gone:
            self._start(client.forget(name), f"forget {name}")
        self._schedule.set_nodes(wanted.keys(), now=now)
        self._polled = wanted

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _poll(self, client: KubeletReader, poll: Poll) -> None:
        """Poll a kubelet, and make what comes of it known. It raises nothing."""
        sampled = False
        watched = self._watched.named(poll.node)
        try:
            if watched is not None and (source := watched.wanted.kubelet) is not None:
                sampled = await self._sample(client, poll, watched, source)
            if poll.node not in self._polled:
                # It was forgotten while this poll was under way, which has left its name with the client.
                await client.forget(poll.node)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the polls of other nodes
            self._watched.fault("" if watched is None else watched.wanted.pool, error)
        finally:
            self._schedule.done(poll.node, now=self._monotonic(), sampled=sampled)
            self._wake.set()

    async def _sample(self, client: KubeletReader, poll: Poll, watched: WatchedNode, source: str) -> bool:
        """Return whether the kubelet has answered with a sample."""
        began = self._monotonic()
        version = watched.node.versions.kubelet
        asks = poll.deadline >= LEAST_SECONDS and self._probes.take(watched.probe, version=version)
        try:
            target = self._target(watched)
            told = await client.summary(
                target,
                deadline=poll.deadline,
                pods=watched.wanted.evicts and watched.is_hot,
                keep=poll.keep,
                more=asks,
            )
        except PollError as error:
            log.debug("node %s: no sample of its kubelet: %s", poll.node, error)
            self._stats.note_sample(source, error.outcome)
            if self._watched.has(watched):
                watched.failed(source, error.outcome)
                self._watched.note(watched)
            return False
        finally:
            self._stats.note_poll(source, self._monotonic() - began)
        if self._watched.has(watched):
            self._took(watched, told, source)
            left = began + poll.deadline - self._monotonic()
            if asks and left >= LEAST_SECONDS:
                # Within the same poll: a kubelet gets one request at a time.
                watched.probe = await self._probes.ask(client, target, version=version, deadline=left)
                return True
        if asks:
            await client.release(poll.node)
        return True

    def _target(self, watched: WatchedNode) -> Target:
        endpoint = watched.node.kubelet
        addresses = [(INTERNAL, endpoint.address)] if endpoint.address else []
        return self._connections.rules.target(node=watched.node.name, addresses=addresses, port=endpoint.port)

    def _took(self, watched: WatchedNode, told: KubeletSample, source: str) -> None:
        now, node = self._monotonic(), watched.node
        sample = of_kubelet(
            told,
            source=source,
            arrived_at=now,
            interval=self._schedule.interval(node.name),
            capacity=node.memory.capacity,
        )
        self._stats.note_sample(source, watched.took(sample, cold_interval=self._connections.intervals.base))
        watched.has_commit_limit = told.commit is not None
        if told.pods is not None:
            watched.pods = listed(watched.pods, told.pods, at=now)
            watched.has_pods_commit = sample.pods_commit is not None
        self._watched.note(watched)
