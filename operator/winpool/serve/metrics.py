"""Renders the metrics of the table, from a snapshot of what the operator has in memory.

The number of series depends on the number of pools, never of nodes. Rendering takes some 10 µs for each
series, so seconds with thousands of pools, and the event loop reads the watches and renews the Lease. So the
loop only copies what is known, a thread renders it, and all who request it at that time share the page.
"""

from __future__ import annotations

import asyncio
import gzip
import math
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Protocol

import msgspec
from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from winpool.api.spec import Mode
from winpool.api.status import MAX_BUILDS, HistoryResult, WindowsNodePoolStatus
from winpool.api.upgrade import Gate
from winpool.model.memory_report import level_name
from winpool.model.pool import Pool
from winpool.serve import definitions as metric
from winpool.serve.definitions import Definition, Distribution, Labels, Value
from winpool.status.status import UNKNOWN, Figures, UpgradeFigures

FRESH_SECONDS: Final = 1.0
"""How long a page is served at least: much less than any reasonable interval of its readers."""

_GZIP_LEVEL: Final = 1
"""The fastest: these texts repeat so much that a higher level gains little."""

_NO_GZIP: Final = re.compile(r"q=0(\.0*)?")


class Page(msgspec.Struct, frozen=True):
    """A text, and the same compressed."""

    plain: bytes
    gzipped: bytes

    def answer(self, request: web.BaseRequest, *, content_type: str) -> web.Response:
        """Return the answer to ``request``, compressed where the client accepts it."""
        headers = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            headers[hdrs.CONTENT_ENCODING] = "gzip"
            return web.Response(body=self.gzipped, headers=headers)
        return web.Response(body=self.plain, headers=headers)


@dataclass(slots=True)
class Pages:
    """Pages of one kind, the next one made from what is known then. ``monotonic`` returns seconds.

    ``make`` is called in the event loop and must return at once. What it returns is called in another
    thread and returns the text, so it may read nothing that the event loop changes.

    One page is rendered at a time. It is served for FRESH_SECONDS from then on, or for as long as it took to
    render if that is longer: clients without a pause keep a thread busy for half of the time at most.
    """

    make: Callable[[], Callable[[], bytes]]
    _: KW_ONLY
    name: str
    monotonic: Callable[[], float]
    _fresh_until: float = field(default=float("-inf"), init=False)
    _rendering: asyncio.Task[Page] | None = field(default=None, init=False)

    async def page(self) -> Page:
        """Return the page. Requests that come while one is rendered get that one."""
        task = self._rendering
        if task is None or (task.done() and self.monotonic() >= self._fresh_until):
            task = self._rendering = asyncio.create_task(self._render(), name=self.name)
        # A client that leaves does not end the rendering for the others that wait for it.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait no longer for a page. The thread that renders it does not keep the process from its end."""
        if self._rendering is not None:
            self._rendering.cancel()
            await asyncio.gather(self._rendering, return_exceptions=True)

    async def _render(self) -> Page:
        began = self.monotonic()
        try:
            render = self.make()
            return await _in_thread(lambda: _page_of(render()), name=self.name)
        finally:
            ended = self.monotonic()
            self._fresh_until = ended + max(FRESH_SECONDS, ended - began)


def takes_gzip(accept_encoding: str) -> bool:
    """Whether this header accepts gzip: it names it, and not with a weight of 0 (RFC 9110, 12.5.3)."""
    for part in accept_encoding.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return _NO_GZIP.fullmatch(weight.strip()) is None
    return False


def _page_of(plain: bytes) -> Page:
    return Page(plain, gzip.compress(plain, _GZIP_LEVEL, mtime=0))


async def _in_thread(render: Callable[[], Page], *, name: str) -> Page:
    """Return what ``render`` returns or raises, from a thread of its own.

    The threads of asyncio's executors would keep a process that ends until their work is done, here for
    seconds. This one is a daemon.
    """
    found: Future[Page] = Future()
    found.set_running_or_notify_cancel()  # from now on it cannot be cancelled while the thread renders

    def work() -> None:
        try:
            found.set_result(render())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            found.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(found)


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The only format, which every Prometheus reads. Each further format would need a rendering of its own."""


class Source(Protocol):
    """Has the metrics."""

    def snapshot(self) -> Collector:
        """Return a collector of the metrics as they are now.

        It is called in the event loop and must return at once. The collector is used in another thread, so it
        may read nothing that the event loop changes.
        """


def exposition(source: Source, *, monotonic: Callable[[], float]) -> Pages:
    """Return the metrics of ``source`` as pages."""
    # Both read files of the kernel and constants, in any thread.
    of_process = (ProcessCollector(registry=None), PlatformCollector(registry=None))

    def snapshot() -> Callable[[], bytes]:
        registry = CollectorRegistry()
        for collector in (source.snapshot(), *of_process):
            registry.register(collector)
        return lambda: generate_latest(registry)

    return Pages(snapshot, name="metrics", monotonic=monotonic)


Sample = tuple[Definition, Labels, float]
"""A value, with its labels except the name of the pool."""

BUILDS_SHOWN: Final = 10
"""A limit, so that the number of series is limited; a pool in the middle of an upgrade has two builds."""

_MOST: Final = {
    metric.NODES_BY_BUILD: BUILDS_SHOWN + 1,  # 'Other', for the rest of the builds
    metric.SUPPORT_END: MAX_BUILDS,  # each may be of a release with an end of support of its own
}

MAX_SERIES_PER_POOL: Final = sum(
    _MOST.get(each) or math.prod(map(len, each.values.values()))
    for each in metric.DEFINITIONS
    if "pool" in each.labels
)
"""The most series that a pool can add, with any nodes: for people who pay for their Prometheus by series."""


class WinpoolCollector(Collector):
    """Gives Prometheus the metrics of the table, in any thread, as they are when it is made.

    No change reaches it any more: each pool and its figures are frozen, and the ``numbers`` are copies.
    """

    def __init__(
        self,
        pools: Collection[Pool],
        *,
        figures: Mapping[str, Figures],
        numbers: Mapping[Definition, Mapping[Labels, Value]],
    ) -> None:
        self._pools, self._figures, self._numbers = tuple(pools), {**figures}, numbers

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the table, those without a sample too."""
        samples: dict[Definition, Mapping[Labels, Value]] = {
            **self._numbers,
            **of_pools(self._pools, figures=self._figures),
        }
        for definition in metric.DEFINITIONS:
            yield _family(definition, samples.get(definition, {}))


def _family(definition: Definition, samples: Mapping[Labels, Value]) -> Metric:
    if definition.kind == "histogram":
        histogram = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
        for labels, value in samples.items():
            if isinstance(value, Distribution):
                histogram.add_metric(labels, value.buckets, value.total)
        return histogram
    make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    family = make(definition.name, definition.help, labels=definition.labels)
    for labels, value in samples.items():
        if not isinstance(value, Distribution):
            family.add_metric(labels, value)
    return family


def of_pools(
    pools: Collection[Pool], *, figures: Mapping[str, Figures]
) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about pools: what their status and the last pass say, and nothing else.

    Figures of a pool that is not among ``pools`` are left out: a pass may end after its pool has.
    """
    found: defaultdict[Definition, dict[Labels, float]] = defaultdict(dict)
    for pool in pools:
        for definition, labels, value in _of_pool(pool, figures.get(pool.name)):
            found[definition][(pool.name, *labels)] = value
    return found


def _of_pool(pool: Pool, figures: Figures | None) -> Iterator[Sample]:
    yield from _counts(pool.status)
    yield from _builds(pool.status)
    yield from _conditions(pool.status)
    yield metric.GENERATION_LAG, (), pool.generation - max(pool.status.observed_generation, 0)
    for mode in Mode:
        yield metric.MODE, (mode,), float(pool.spec is not None and pool.spec.mode is mode)
    # Before the first pass they are not known, and a 0 would mean that there is no problem (P4).
    if figures is not None:
        yield metric.RESERVED_MEMORY_MISMATCHED, (), figures.reserved_memory_mismatched
        yield metric.TAINT_MISSING, (), figures.taint_missing
        yield metric.OVERLAPPING, (), figures.overlapping
        yield metric.NODES, ("UpgradeDue",), figures.upgrade_due
        for (axis, level), nodes in figures.memory_levels.items():
            yield metric.NODES_BY_MEMORY_LEVEL, (axis, level_name(level) or UNKNOWN), nodes
        if figures.is_memory_systemic is not None:
            yield metric.SYSTEMIC_PRESSURE, (), float(figures.is_memory_systemic)
        if (workloads := figures.workloads) is not None:
            if workloads.unselected_pods is not None:
                yield metric.UNSELECTED_PODS, (), workloads.unselected_pods
            if workloads.unlimited_containers is not None:
                yield metric.UNLIMITED_CONTAINERS, (), workloads.unlimited_containers
            yield metric.MEMORY_LIMIT_EXCESS, (), workloads.memory_limit_excess
        if figures.upgrades is not None:
            yield from _upgrades(figures.upgrades, pool.status)


def _upgrades(figures: UpgradeFigures, status: WindowsNodePoolStatus) -> Iterator[Sample]:
    for state, nodes in figures.states.items():
        yield metric.UPGRADE_NODES, (state,), nodes
    for trigger, nodes in figures.due.items():
        yield metric.UPGRADE_DUE, (trigger,), nodes
    for gate in Gate:
        yield metric.GATE_CLOSED, (gate,), float(gate in figures.closed)
    for state, slots in figures.slots.items():
        yield metric.UPGRADE_SLOTS, (state,), slots
    for cause, nodes in figures.blocked.items():
        yield metric.UPGRADE_BLOCKED, (cause,), nodes
    for cause, nodes in figures.stalled.items():
        yield metric.UPGRADE_STALLED, (cause,), nodes
    yield metric.DISRUPTIONS_LEFT, (), figures.disruptions_left
    yield metric.OVERRIDES, ("InForce",), figures.overrides_in_force
    yield metric.OVERRIDES, ("Expired",), figures.overrides_expired
    for reason, nodes in figures.surprised.items():
        yield metric.SURPRISED, (reason,), nodes
    for entry in status.history[:1]:
        if entry.result is HistoryResult.IN_PROGRESS:
            yield metric.UPGRADE_DUE_SINCE, (), entry.start_time.timestamp()


def _counts(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    yield metric.NODES, ("Selected",), status.nodes
    yield metric.NODES, ("Ready",), status.ready_nodes
    yield metric.NODES, ("UpToDate",), status.up_to_date_nodes
    yield metric.NODES, ("UpToDateAndReady",), status.up_to_date_and_ready_nodes
    yield metric.NODES, ("Available",), status.available_nodes
    yield metric.NODES, ("Pressured",), status.pressured_nodes
    yield metric.MISPLACED_PODS, (), status.misplaced_pods


def _builds(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    shown = status.builds[:BUILDS_SHOWN]
    for build in shown:
        yield metric.NODES_BY_BUILD, (build.build, build.os_version or ""), build.nodes
    if (rest := status.nodes - sum(build.nodes for build in shown)) > 0:
        yield metric.NODES_BY_BUILD, ("Other", ""), rest
    for build in status.builds:
        if build.os_version and (end := _end_of_day(build.end_of_support or "")) is not None:
            yield metric.SUPPORT_END, (build.os_version,), end


def _conditions(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    for condition in status.conditions:
        yield metric.CONDITION_SINCE, (condition.type,), condition.last_transition_time.timestamp()
        for value in metric.CONDITION.values["status"]:
            yield metric.CONDITION, (condition.type, value), float(condition.status == value)


def _end_of_day(day: str) -> float | None:
    """Return the end of ``day`` as Unix time; None for an invalid date: anyone may edit a status."""
    try:
        return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
