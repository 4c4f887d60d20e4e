"""Polls kubelets and queries data sources for the memory of the watched nodes.

Polls the kubelets of the watched nodes: which, when and how many at once is ``kubelet.schedule``'s.

Queries Prometheus: one set of queries brings the samples of all nodes that have the same label.

One set at a time for each data source: it is nine queries, of which four run at once, and Prometheus runs 20
at once for all its users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from winpool.controllers.memory_sources import (
    LEAST_SECONDS,
    Connections,
    DataSource,
    KubeletReader,
    MemoryStats,
    Probes,
    listed,
    of_exporter,
    of_kubelet,
)
from winpool.controllers.services import Wake
from winpool.controllers.watched_nodes import Series, WatchedNode, WatchedNodes
from winpool.kubelet.addresses import INTERNAL, Target
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.samples import ExporterSample, KubeletSample
from winpool.kubelet.schedule import JITTER_SHARE, LONGEST_BACKOFF, Poll, Schedule

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


BASE_INTERVAL: Final = 30.0
"""Between two sets of queries: the interval at which the Prometheus Operator scrapes by default."""

HOT_INTERVAL: Final = 10.0
"""The same while one of the nodes is hot. The two samples that an eviction needs are at most 45 s old, and
may be scraped 30 s apart: so the second has to be known within 15 s."""

DEADLINE: Final = 8.0
"""For one set: less than the shortest interval."""

AT_ONCE: Final = 50
"""Nodes whose detectors are stepped before other tasks run: some 5 ms."""


@dataclass(slots=True)
class _Turn:
    """When a set of queries is due, and how many have failed in a row."""

    due: float
    failures: int = 0


class SourcePolls:
    """Queries data sources until cancelled."""

    def __init__(
        self,
        *,
        connections: Connections,
        watched: WatchedNodes,
        stats: MemoryStats,
        jitter: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._sources = connections.data_sources
        self._base = min(BASE_INTERVAL, connections.intervals.base)
        self._hot = min(HOT_INTERVAL, connections.intervals.hot)
        self._watched = watched
        self._stats = stats
        self._jitter = jitter
        self._monotonic = monotonic
        self._turns: dict[Series, _Turn] = {}
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        """By the names of the data sources."""
        self._wake = Wake()

    def nodes_changed(self) -> None:
        """Take note that other nodes are watched, or other series are read."""
        self._wake.set()

    async def run(self) -> None:
        """Query until cancelled."""
        try:
            while True:
                self._follow()
                self._start_due()
                await self._wake.wait(seconds=self._seconds_to_next())
        finally:
            tasks = tuple(self._in_flight.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self) -> None:
        """Query the series that pools read now, of data sources that there are."""
        wanted = [each for each in self._watched.series() if each.data_source in self._sources]
        now = self._monotonic()
        self._turns = {each: self._turns.get(each) or _Turn(now) for each in wanted}

    def _start_due(self) -> None:
        now = self._monotonic()
        for series, turn in sorted(self._turns.items(), key=lambda each: each[1].due):
            if turn.due <= now and series.data_source not in self._in_flight:
                self._in_flight[series.data_source] = asyncio.create_task(
                    self._query(series, turn), name=f"query {series.data_source}"
                )

    def _seconds_to_next(self) -> float | None:
        free = (turn.due for each, turn in self._turns.items() if each.data_source not in self._in_flight)
        soonest = min(free, default=None)
        return None if soonest is None else max(0.0, soonest - self._monotonic())

    async def _query(self, series: Series, turn: _Turn) -> None:
        """Make one set of queries, and what comes of it known. It raises nothing."""
        began = self._monotonic()
        has_answered = False
        try:
            has_answered = await self._samples(series, self._sources[series.data_source])
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the queries of others
            self._watched.fault(self._watched.readers_of(series), error)
        finally:
            turn.failures = 0 if has_answered else turn.failures + 1
            turn.due = began + self._interval(series, turn)
            del self._in_flight[series.data_source]
            self._wake.set()

    def _interval(self, series: Series, turn: _Turn) -> float:
        """Return the seconds to the next set: after one failure as usual, then twice as long each time."""
        is_hot = any(each.is_hot for each in self._watched.of_series(series))
        doublings = min(max(turn.failures - 1, 0), 10)  # a thousand times is beyond the limit already
        seconds = min((self._hot if is_hot else self._base) * (1 << doublings), LONGEST_BACKOFF)
        return seconds * (1 + JITTER_SHARE * (2 * self._jitter() - 1))

    async def _samples(self, series: Series, source: DataSource) -> bool:
        """Return whether Prometheus has answered."""
        name, began = self._watched.series().get(series), self._monotonic()
        if name is None:
            return True  # No pool reads it any more, since this was started.
        try:
            found = await source.client.samples(label=series.label, deadline=DEADLINE)
        except PollError as error:
            log.debug("data source %s: no samples: %s", series.data_source, error)
            outcome = error.outcome
            await self._each(series, name, lambda watched: self._failed(watched, name, outcome))
            return False
        finally:
            self._stats.note_poll(name, self._monotonic() - began)
        arrived_at = self._monotonic()
        interval = max(self._base, source.scrape_interval_seconds)
        await self._each(
            series,
            name,
            lambda watched: self._took(watched, found, name, arrived_at=arrived_at, interval=interval),
        )
        return True

    async def _each(self, series: Series, name: str, step: Callable[[WatchedNode], Outcome]) -> None:
        """Take a step for every node, a few at a time: 5,000 of them would keep all else from running."""
        for number, watched in enumerate(self._watched.of_series(series), start=1):
            if self._watched.has(watched):
                try:
                    self._stats.note_sample(name, step(watched))
                    self._watched.note(watched)
                except Exception as error:  # noqa: BLE001 - a bug of ours must not cost other nodes
                    self._watched.fault(watched.wanted.pool, error)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _failed(self, watched: WatchedNode, name: str, outcome: Outcome) -> Outcome:
        watched.failed(name, outcome)
        return outcome

    def _took(
        self,
        watched: WatchedNode,
        found: Mapping[str, ExporterSample],
        name: str,
        *,
        arrived_at: float,
        interval: float,
    ) -> Outcome:
        told = found.get(watched.node.name)
        if told is None:
            return self._failed(watched, name, Outcome.NO_SERIES)
        capacity = watched.node.memory.capacity
        sample = of_exporter(told, source=name, arrived_at=arrived_at, interval=interval, capacity=capacity)
        return watched.took(sample)
