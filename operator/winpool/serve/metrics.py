"""Gives Prometheus the metrics of the table, computed at scrape from what the operator has in memory.

Their number depends on the number of pools, never of nodes. A pool that is gone is in none of the sources
any more, and so leaves no series.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from winpool import __version__
from winpool.api.conditions import ConditionType
from winpool.api.history import HistoryResult
from winpool.api.upgrade import Gate, Trigger, UpgradeState
from winpool.api.v1alpha1 import MAX_BUILDS, Mode
from winpool.objects.pressure import Axis, Level
from winpool.objects.upgrades import SurpriseKind
from winpool.serve import definitions, memory_definitions, upgrade_definitions
from winpool.serve.definition import Distribution
from winpool.serve.definitions import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from prometheus_client.core import Metric

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.pool import Pool
    from winpool.report.figures import Figures
    from winpool.report.upgrade_figures import UpgradeFigures
    from winpool.serve.definition import Definition, Labels, Value

    Sample = tuple[Definition, Labels, float]
    """A value, with its labels except the name of the pool."""

BUILDS_SHOWN: Final = 10
"""A limit, so that the number of series is limited; a pool in the middle of an upgrade has two builds."""

NODE_STATES: Final = 7
"""States that nodes are counted by: see ``NODES``."""

CONDITION_STATUSES: Final = ("True", "False", "Unknown")

MAX_SERIES_PER_POOL: Final = (
    NODE_STATES
    + BUILDS_SHOWN
    + 1  # 'other', for the rest of the builds
    + MAX_BUILDS  # each may be of a release with an end of support of its own
    + len(Mode)
    + len(ConditionType) * (len(CONDITION_STATUSES) + 1)  # and when it last changed
    + 5  # the lag, misplaced pods and the three figures
    + len(Axis) * (len(Level) + 1)  # memory, and unknown
    + 1  # and whether too much of it is short
    + len(UpgradeState)
    + 1  # whether a node is due is unknown
    + len(Trigger)
    + 1  # since when
    + len(Gate)
    + 2  # overrides, in force and expired
    + len(SurpriseKind)
)
"""The most series that a pool can add, with any nodes: for people who pay for their Prometheus by series."""


class Sources(Protocol):
    """Where the numbers come from; the running application is one."""

    def pools(self) -> Collection[Pool]:
        """Return all pools that are known."""

    def figures(self) -> Mapping[str, Figures]:
        """Return what the last passes have found, by the name of the pool."""

    def numbers(self) -> Mapping[Definition, Mapping[Labels, Value]]:
        """Return the operator's own numbers, by metric and label values, copied: they are read later."""


class WinpoolMetrics:
    """The metrics of the table, from what ``sources`` have at the moment of the scrape."""

    def __init__(self, sources: Sources, *, is_ready: Callable[[], bool]) -> None:
        self._sources = sources
        self._is_ready = is_ready

    def snapshot(self) -> WinpoolCollector:
        """Return a collector of what is known now, which no change reaches any more."""
        return WinpoolCollector(
            pools=tuple(self._sources.pools()),
            figures={**self._sources.figures()},
            numbers={
                **self._sources.numbers(),
                definitions.READY: {(): float(self._is_ready())},
                definitions.BUILD_INFO: {(__version__,): 1.0},
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # a registry finds collectors by identity
class WinpoolCollector(Collector):
    """Gives Prometheus what was known at one moment, in any thread: pools and figures are frozen."""

    pools: tuple[Pool, ...]
    figures: Mapping[str, Figures]
    numbers: Mapping[Definition, Mapping[Labels, Value]]

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the table, those without a sample too."""
        samples: dict[Definition, Mapping[Labels, Value]] = {
            **self.numbers,
            **of_pools(self.pools, figures=self.figures),
        }
        for definition in DEFINITIONS:
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
    yield definitions.GENERATION_LAG, (), pool.generation - max(pool.status.observed_generation, 0)
    for mode in Mode:
        yield definitions.MODE, (mode,), float(pool.spec is not None and pool.spec.mode is mode)
    # Before the first pass they are not known, and a 0 would mean that there is no problem (P4).
    if figures is not None:
        yield memory_definitions.RESERVED_MEMORY_MISMATCHED, (), figures.reserved_memory_mismatched
        yield definitions.TAINT_MISSING, (), figures.taint_missing
        yield definitions.OVERLAPPING, (), figures.overlapping
        yield definitions.NODES, ("upgrade_due",), figures.upgrade_due
        for (axis, level), nodes in figures.memory_levels.items():
            name = "unknown" if level is None else level.name.lower()
            yield memory_definitions.NODES_BY_MEMORY_LEVEL, (axis.name.lower(), name), nodes
        if figures.is_memory_systemic is not None:
            yield memory_definitions.SYSTEMIC_PRESSURE, (), float(figures.is_memory_systemic)
        if figures.upgrades is not None:
            yield from _upgrades(figures.upgrades, pool.status)


def _upgrades(figures: UpgradeFigures, status: WindowsNodePoolStatus) -> Iterator[Sample]:
    for state, nodes in figures.states.items():
        yield upgrade_definitions.UPGRADE_NODES, (state,), nodes
    for trigger, nodes in figures.due.items():
        yield upgrade_definitions.UPGRADE_DUE, (trigger,), nodes
    for gate in Gate:
        yield upgrade_definitions.GATE_CLOSED, (gate,), float(gate in figures.closed)
    yield upgrade_definitions.OVERRIDES, ("in_force",), figures.overrides_in_force
    yield upgrade_definitions.OVERRIDES, ("expired",), figures.overrides_expired
    for kind, nodes in figures.surprised.items():
        yield upgrade_definitions.SURPRISED, (kind,), nodes
    for entry in status.history[:1]:
        if entry.result is HistoryResult.IN_PROGRESS:
            yield upgrade_definitions.UPGRADE_DUE_SINCE, (), entry.start_time.timestamp()


def _counts(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    yield definitions.NODES, ("selected",), status.nodes
    yield definitions.NODES, ("ready",), status.ready_nodes
    yield definitions.NODES, ("up_to_date",), status.up_to_date_nodes
    yield definitions.NODES, ("up_to_date_and_ready",), status.up_to_date_and_ready_nodes
    yield definitions.NODES, ("available",), status.available_nodes
    yield definitions.NODES, ("pressured",), status.pressured_nodes
    yield definitions.MISPLACED_PODS, (), status.misplaced_pods


def _builds(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    shown = status.builds[:BUILDS_SHOWN]
    for build in shown:
        yield definitions.NODES_BY_BUILD, (build.build, build.os_version or ""), build.nodes
    if (rest := status.nodes - sum(build.nodes for build in shown)) > 0:
        yield definitions.NODES_BY_BUILD, ("other", ""), rest
    for build in status.builds:
        if build.os_version and (end := _end_of_day(build.end_of_support or "")) is not None:
            yield definitions.SUPPORT_END, (build.os_version,), end


def _conditions(status: WindowsNodePoolStatus) -> Iterator[Sample]:
    for condition in status.conditions:
        yield definitions.CONDITION_SINCE, (condition.type,), condition.last_transition_time.timestamp()
        for value in CONDITION_STATUSES:
            yield definitions.CONDITION, (condition.type, value), float(condition.status == value)


def _end_of_day(day: str) -> float | None:
    """Return the end of ``day`` as Unix time; None for an invalid date: anyone may edit a status."""
    try:
        return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
