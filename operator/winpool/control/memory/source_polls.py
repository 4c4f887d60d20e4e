"""Queries Prometheus: one set of queries brings the samples of all nodes that have the same label.

One set at a time for each data source: it is nine queries, of which four run at once, and Prometheus runs 20
at once for all its users.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.control.loops.wake import Wake
from winpool.control.memory.readings import of_exporter
from winpool.kubelet.limits import JITTER_SHARE, LONGEST_BACKOFF
from winpool.kubelet.outcome import Outcome, PollError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.control.memory.connections import Connections, DataSource
    from winpool.control.memory.stats import MemoryStats
    from winpool.control.memory.wanted import Series
    from winpool.control.memory.watched import WatchedNodes
    from winpool.control.memory.watched_node import WatchedNode
    from winpool.kubelet.samples import ExporterSample

log = logging.getLogger(__name__)

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
