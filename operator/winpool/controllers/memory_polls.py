"""Polls the kubelets and queries the data sources of the watched nodes, and steps their detectors.

Which kubelet is polled when, and how many at once, is for ``kubelet/schedule.py``. A data source is asked one
set of queries at a time, which brings the samples of all nodes that have the same label: it is nine queries,
of which four run at once, and Prometheus runs 20 at once for all its users.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from winpool.controllers.watched_nodes import Probe, Series, WatchedNode, WatchedNodes
from winpool.kubelet.addresses import AddressRules, Target
from winpool.kubelet.client import KubeletClient
from winpool.kubelet.prometheus import PrometheusClient
from winpool.kubelet.samples import Outcome, PollError
from winpool.kubelet.schedule import JITTER_SHARE, LONGEST_BACKOFF, Intervals, Poll, Schedule, next_answer
from winpool.loops import Durations, Wake, soonest
from winpool.model.pressure import MemorySample, PodUsage

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.3
"""Between two checks of the schedule. At 105 polls a second thirty begin together. That takes 12 % less CPU
time than ten at a time, because what a poll runs through stays in the caches
(docs/adr/0034-polls-over-plain-sockets.md). 64 slots every 0.3 s are twice as many polls."""

TICKS_PER_INTERVAL: Final = 30
"""At least so many, so that no poll is later by more than a thirtieth of the shortest interval."""

BASE_INTERVAL: Final = 30.0
"""Between two sets of queries: the interval at which the Prometheus Operator scrapes by default."""

HOT_INTERVAL: Final = 10.0
"""The same while one of the nodes is hot. The two samples that an eviction needs are at most 55 s old, and
may be scraped 30 s apart: so the second has to be known within 25 s."""

DEADLINE: Final = 8.0
"""For one set: less than the shortest interval."""

AT_ONCE: Final = 50
"""Nodes whose detectors are stepped before other tasks run: some 5 ms."""

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds. A kubelet that is well answers within the first few, one above 5 s is late, and the longest
deadline of one that was not late is 10 s (``kubelet/schedule.py``)."""

EvictionResult = Literal["Evicted", "Refused", "Gone", "Failed", "Unanswered"]
"""How a request to evict a pod ended, see ``controllers/evictions.py``."""


class MemoryStats(msgspec.Struct):
    """``samples`` are by source and outcome: one for each node and poll. ``polls`` are by source.

    A poll of Prometheus is one set of queries, for all nodes. ``evictions`` are requests, by result.
    """

    samples: Counter[tuple[str, Outcome]] = msgspec.field(default_factory=Counter)
    polls: dict[str, Durations] = msgspec.field(default_factory=dict)
    evictions: Counter[EvictionResult] = msgspec.field(default_factory=Counter)

    def note_poll(self, source: str, seconds: float) -> None:
        """Count a poll that has taken so long, whatever its outcome."""
        self.polls.setdefault(source, Durations(BUCKETS)).note(seconds)


class DataSource(msgspec.Struct, frozen=True):
    """A Prometheus of the operator's settings; it scrapes windows_exporter at this interval."""

    client: PrometheusClient
    scrape_interval_seconds: float


async def _nothing() -> None:
    """End nothing."""


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    """How samples are got, and what the settings keep from being done by them.

    ``kubelets`` makes the client of kubelets; it is called inside the running event loop. ``rules`` say to
    which addresses a token may be sent. ``data_sources`` has those of the operator's settings by their names.
    ``intervals`` are those between polls of kubelets; Prometheus is asked no more rarely.
    ``missing`` says which right the operator lacks to have a token for kubelets, empty where none is.
    ``close`` ends a request for that token, once nothing is polled any more.
    ``protected_namespaces`` are those whose pods are never evicted.
    """

    kubelets: Callable[[], KubeletClient]
    rules: AddressRules
    data_sources: Mapping[str, DataSource] = msgspec.field(default_factory=dict)
    intervals: Intervals = msgspec.field(default_factory=Intervals)
    missing: Callable[[], str] = str
    close: Callable[[], Awaitable[None]] = _nothing
    protected_namespaces: frozenset[str] = frozenset()


AGAIN_SECONDS: Final = 6 * 3600.0
"""A kubelet reads its configuration when it starts, and a restart without another version is rare."""

UNREACHED_SECONDS: Final = 300.0
"""After a request that got no answer: the kubelet has closed the connection just then, or was slow."""

UNREACHED: Final = (Outcome.NO_CONNECTION, Outcome.TIMEOUT)

REFUSED_SECONDS: Final = 3600.0
"""After any other failure. Before 1.33 the right is missing, until the kubelet has another version."""

PROBE_SPACING_SECONDS: Final = 1.0
"""Between two such requests to any nodes on average, so that 5,000 nodes get 109 requests a second after a
start of the operator, and not twice as many. They take 83 minutes; nothing waits for the answer."""

BURST: Final = 30
"""So many may come at once after a pause: a few nodes are polled in the same second, and asked in it."""

LEAST_SECONDS: Final = 1.0
"""What has to be left of the time of a poll, to ask within it."""


class Probes:
    """Asks kubelets for their configuration. What was found stays with the node."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next_at = float("-inf")

    def take(self, probe: Probe | None, *, version: str) -> bool:
        """Return whether a kubelet of that version is to be asked now; if so, this counts as asked.

        It counts also where the request does not follow, since the poll before it has failed. So no more
        polls than that keep their connection for it.
        """
        now = self._monotonic()
        if now < self._next_at - (BURST - 1) * PROBE_SPACING_SECONDS:
            return False
        if probe is not None and probe.version == version and now < probe.again_at:
            return False
        self._next_at = max(self._next_at, now) + PROBE_SPACING_SECONDS
        return True

    async def ask(self, client: KubeletClient, target: Target, *, version: str, deadline: float) -> Probe:
        """Ask a kubelet. What cannot be read is unknown."""
        try:
            found = await client.eviction(target, deadline=deadline)
        except PollError as error:
            log.debug("node %s: the configuration of its kubelet cannot be read: %s", target.node, error)
            pause = UNREACHED_SECONDS if error.outcome in UNREACHED else REFUSED_SECONDS
            return Probe(version, self._monotonic() + pause)
        return Probe(version, self._monotonic() + AGAIN_SECONDS, found)


class _Query(msgspec.Struct):
    """When a set of queries is due, and how many have failed in a row."""

    due: float
    failures: int = 0


@dataclass(kw_only=True, eq=False)
class Poller:
    """Polls until cancelled. Then no connection is left."""

    connections: Connections
    watched: WatchedNodes
    stats: MemoryStats
    jitter: Callable[[], float]
    monotonic: Callable[[], float]
    _polled: dict[str, str] = field(default_factory=dict, init=False)
    """The UIDs of the nodes whose kubelets are polled, by their names."""
    _queries: dict[Series, _Query] = field(default_factory=dict, init=False)
    _queried: set[str] = field(default_factory=set, init=False)
    """The names of the data sources of which a set of queries is under way."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _has_other_nodes: bool = field(default=False, init=False)
    _wake: Wake = field(default_factory=Wake, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to poll."""
        intervals = self.connections.intervals
        self._tick_seconds = min(TICK_SECONDS, intervals.hot / TICKS_PER_INTERVAL)
        self._base, self._hot = min(BASE_INTERVAL, intervals.base), min(HOT_INTERVAL, intervals.hot)
        self._schedule = Schedule(jitter=self.jitter, intervals=intervals)
        self._probes = Probes(monotonic=self.monotonic)

    def nodes_changed(self) -> None:
        """Take note that other nodes are watched, or other series are read."""
        self._has_other_nodes = True
        self._wake.set()

    def priority_changed(self, watched: WatchedNode) -> None:
        """Take note that a node is nearer to the end of its memory than before, or less near."""
        self._schedule.set_priority(watched.node.name, watched.priority, now=self.monotonic())
        self._wake.set()

    def poll_soon(self, nodes: Iterable[WatchedNode]) -> None:
        """Bring the next polls of ``nodes`` forward: an eviction waits for what they show."""
        self._schedule.poll_soon([each.node.name for each in nodes], now=self.monotonic())
        self._wake.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        async with self.connections.kubelets() as client:
            try:
                while True:
                    self._follow(client)
                    for poll in self._schedule.due(now=self.monotonic()):
                        self._start(self._poll(client, poll), f"poll {poll.node}")
                    self._start_queries()
                    await asyncio.sleep(self._tick_seconds)
                    await self._wake.wait(seconds=self._seconds_to_next())
            finally:
                tasks = tuple(self._tasks)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _seconds_to_next(self) -> float | None:
        now = self.monotonic()
        free = (each.due for series, each in self._queries.items() if series.data_source not in self._queried)
        due = soonest(self._schedule.next_due(now=now), *free)
        return None if due is None else max(due - now, 0.0)

    def _follow(self, client: KubeletClient) -> None:
        """Poll the nodes that are watched now. Another machine of the same name begins with nothing."""
        if not self._has_other_nodes:
            return
        self._has_other_nodes = False
        wanted = {name: each.node.uid for name, each in self.watched.of_kubelets().items()}
        now = self.monotonic()
        gone = [name for name, uid in self._polled.items() if wanted.get(name) != uid]
        if gone:
            self._schedule.set_nodes(self._polled.keys() - set(gone), now=now)
        for name in gone:
            self._start(client.forget(name), f"forget {name}")
        self._schedule.set_nodes(wanted.keys(), now=now)
        self._polled = wanted
        known = self.connections.data_sources
        read = (each for each in self.watched.series() if each.data_source in known)
        self._queries = {each: self._queries.get(each) or _Query(now) for each in read}

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _failed(self, watched: WatchedNode, source: str, outcome: Outcome) -> None:
        """Make known that a source gave no sample of a node."""
        self.stats.samples[source, outcome] += 1
        if self.watched.has(watched):
            watched.failed(source, outcome)
            self.watched.note(watched)

    # Kubelets.

    async def _poll(self, client: KubeletClient, poll: Poll) -> None:
        """Poll a kubelet, and make what comes of it known. It raises nothing."""
        sampled = False
        watched = self.watched.named(poll.node)
        try:
            if watched is not None and (source := watched.wanted.kubelet) is not None:
                sampled = await self._sample(client, poll, watched, source)
            if poll.node not in self._polled:
                # It was forgotten while this poll was under way, which has left its name with the client.
                await client.forget(poll.node)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the polls of other nodes
            self.watched.fault("" if watched is None else watched.wanted.pool, error)
        finally:
            self._schedule.done(poll.node, now=self.monotonic(), sampled=sampled)
            self._wake.set()

    async def _sample(self, client: KubeletClient, poll: Poll, watched: WatchedNode, source: str) -> bool:
        """Return whether the kubelet has answered with a sample."""
        began = self.monotonic()
        version = watched.node.versions.kubelet
        asks = poll.deadline >= LEAST_SECONDS and self._probes.take(watched.probe, version=version)
        try:
            target = self._target(watched)
            sample, pods = await client.summary(
                target,
                deadline=poll.deadline,
                pods=watched.lists_pods(began),
                keep=poll.keep,
                more=asks,
            )
        except PollError as error:
            log.debug("node %s: no sample of its kubelet: %s", poll.node, error)
            self._failed(watched, source, error.outcome)
            return False
        finally:
            self.stats.note_poll(source, self.monotonic() - began)
        if self.watched.has(watched):
            self._took(watched, sample, pods, source, seconds=self.monotonic() - began)
            left = began + poll.deadline - self.monotonic()
            if asks and left >= LEAST_SECONDS:
                # Within the same poll: a kubelet gets one request at a time.
                watched.probe = await self._probes.ask(client, target, version=version, deadline=left)
                return True
        if asks:
            await client.release(poll.node)
        return True

    def _target(self, watched: WatchedNode) -> Target:
        endpoint = watched.node.kubelet
        rules = self.connections.rules
        return rules.target(node=watched.node.name, address=endpoint.address, port=endpoint.port)

    def _took(
        self,
        watched: WatchedNode,
        told: MemorySample,
        pods: dict[str, PodUsage] | None,
        source: str,
        *,
        seconds: float,
    ) -> None:
        now, node = self.monotonic(), watched.node
        interval = self._schedule.interval(node.name)
        sample = told.arrived(
            source=source,
            at=now,
            interval=interval,
            ram=node.memory.capacity,
            seconds=seconds,
            following=next_answer(seconds),
        )
        outcome = watched.took(sample, cold_interval=self.connections.intervals.base)
        self.stats.samples[source, outcome] += 1
        watched.has_commit_limit = sample.commit_limit is not None
        if pods is not None:
            watched.listed(pods, at=now)
            watched.has_pods_commit = sample.pods_commit is not None
        self.watched.note(watched)

    # Data sources.

    def _start_queries(self) -> None:
        now = self.monotonic()
        for series, query in sorted(self._queries.items(), key=lambda each: each[1].due):
            if query.due <= now and series.data_source not in self._queried:
                self._queried.add(series.data_source)
                self._start(self._query(series, query), f"query {series.data_source}")

    async def _query(self, series: Series, query: _Query) -> None:
        """Make one set of queries, and what comes of it known. It raises nothing."""
        began = self.monotonic()
        has_answered = False
        try:
            has_answered = await self._samples(series, self.connections.data_sources[series.data_source])
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the queries of others
            self.watched.fault(self.watched.readers_of(series), error)
        finally:
            query.failures = 0 if has_answered else query.failures + 1
            query.due = began + self._interval(series, query)
            self._queried.discard(series.data_source)
            self._wake.set()

    def _interval(self, series: Series, query: _Query) -> float:
        """Return the seconds to the next set: after one failure as usual, then twice as long each time."""
        is_hot = any(each.is_hot for each in self.watched.of_series(series))
        doublings = min(max(query.failures - 1, 0), 10)  # a thousand times is beyond the limit already
        seconds = min((self._hot if is_hot else self._base) * (1 << doublings), LONGEST_BACKOFF)
        return seconds * (1 + JITTER_SHARE * (2 * self.jitter() - 1))

    async def _samples(self, series: Series, source: DataSource) -> bool:
        """Return whether Prometheus has answered."""
        name, began = self.watched.series().get(series), self.monotonic()
        if name is None:
            return True  # No pool reads it any more, since this was started.
        found: Mapping[str, MemorySample] = {}
        outcome, has_answered = Outcome.NO_SERIES, False
        try:
            found = await source.client.samples(label=series.label, deadline=DEADLINE)
            has_answered = True
        except PollError as error:
            log.debug("data source %s: no samples: %s", series.data_source, error)
            outcome = error.outcome
        finally:
            self.stats.note_poll(name, self.monotonic() - began)
        at, interval = self.monotonic(), max(self._base, source.scrape_interval_seconds)
        # A few nodes at a time: 5,000 of them would keep all else from running.
        for number, watched in enumerate(self.watched.of_series(series), start=1):
            try:
                if self.watched.has(watched):
                    told, ram = found.get(watched.node.name), watched.node.memory.capacity
                    sample = told and told.arrived(source=name, at=at, interval=interval, ram=ram)
                    self._scraped(watched, sample, name, outcome)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not cost other nodes
                self.watched.fault(watched.wanted.pool, error)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return has_answered

    def _scraped(
        self, watched: WatchedNode, sample: MemorySample | None, source: str, outcome: Outcome
    ) -> None:
        """Note the sample of a node; ``outcome`` is why there is none."""
        if sample is None:
            self._failed(watched, source, outcome)
            return
        self.stats.samples[source, watched.took(sample)] += 1
        self.watched.note(watched)
