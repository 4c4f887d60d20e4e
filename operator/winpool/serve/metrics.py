"""All metrics, computed at scrape from what the operator holds anyway.

Their number depends on the number of pools, never of nodes. The table is also the source of
``docs/reference/metrics.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, Literal, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from winpool import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from prometheus_client.core import Metric

    from winpool.snapshot import Pool

BUILDS_SHOWN: Final = 10
"""So that the number of series stays bounded; a pool in the middle of an upgrade has two builds."""

Labels = tuple[str, ...]
Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: its name without the ``_total`` of counters, its labels, and what it means."""

    name: str
    kind: Kind
    labels: Labels
    help: str


NODES: Final = Definition(
    "winpool_nodes",
    "gauge",
    ("pool", "state"),
    "Nodes of the pool by state: selected, ready, up_to_date, up_to_date_and_ready, available. "
    "The states overlap.",
)
NODES_BY_BUILD: Final = Definition(
    "winpool_nodes_by_build",
    "gauge",
    ("pool", "build", "os_version"),
    "Nodes of the pool by build of Windows, for the ten builds with the most nodes; 'other' is the rest. "
    "os_version is empty where the build is not known.",
)
SUPPORT_END: Final = Definition(
    "winpool_os_support_end_timestamp_seconds",
    "gauge",
    ("pool", "os_version"),
    "Unix time at which the last day ends on which the Windows Server release is supported, for releases "
    "that nodes of the pool run.",
)
CONDITION: Final = Definition(
    "winpool_status_condition",
    "gauge",
    ("pool", "type", "status"),
    "1 for the status (True, False or Unknown) that the pool's condition of this type has, 0 for the others.",
)
CONDITION_SINCE: Final = Definition(
    "winpool_status_condition_last_transition_timestamp_seconds",
    "gauge",
    ("pool", "type"),
    "Unix time at which the status of the condition last changed.",
)
GENERATION_LAG: Final = Definition(
    "winpool_observed_generation_lag",
    "gauge",
    ("pool",),
    "Generations of the pool's spec that its status does not tell of yet. 0 where it is current.",
)
RECONCILES: Final = Definition(
    "winpool_reconcile",
    "counter",
    ("result",),
    "Passes over a pool, by result: success or error.",
)
RECONCILE_SECONDS: Final = Definition(
    "winpool_reconcile_seconds",
    "counter",
    (),
    "Seconds spent in passes, waiting for the API server included.",
)
LAST_SUCCESS: Final = Definition(
    "winpool_last_success_timestamp_seconds",
    "gauge",
    (),
    "Unix time of the last pass that succeeded, 0 before the first.",
)
API_REQUESTS: Final = Definition(
    "winpool_api_requests",
    "counter",
    ("verb", "resource", "code"),
    "Requests to the API server, those of the Kopf feed not counted, by verb, resource and HTTP status "
    "('error' where no answer came, 'timeout' where none came in time).",
)
WATCH_RESTARTS: Final = Definition(
    "winpool_watch_restarts",
    "counter",
    ("resource",),
    "Times that a watch was started again after it ended, by the resource watched.",
)
NODES_CONTACT_AGE: Final = Definition(
    "winpool_node_watch_age_seconds",
    "gauge",
    (),
    "Seconds since the node watch last heard from the API server. +Inf before the first time.",
)
EVENTS_POSTED: Final = Definition(
    "winpool_events_posted", "counter", (), "Events that the API server has taken."
)
EVENTS_DROPPED: Final = Definition(
    "winpool_events_dropped", "counter", ("cause",), "Events that were not posted, by cause."
)
READY: Final = Definition("winpool_ready", "gauge", (), "1 while the operator is ready, see /readyz.")
BUILD_INFO: Final = Definition("winpool_build_info", "gauge", ("version",), "1, with the operator's version.")

DEFINITIONS: Final = (
    NODES,
    NODES_BY_BUILD,
    SUPPORT_END,
    CONDITION,
    CONDITION_SINCE,
    GENERATION_LAG,
    RECONCILES,
    RECONCILE_SECONDS,
    LAST_SUCCESS,
    API_REQUESTS,
    WATCH_RESTARTS,
    NODES_CONTACT_AGE,
    EVENTS_POSTED,
    EVENTS_DROPPED,
    READY,
    BUILD_INFO,
)


class Sources(Protocol):
    """Where the numbers come from; the running application is one."""

    def pools(self) -> Collection[Pool]:
        """Return all pools that are known."""

    def numbers(self) -> Mapping[Definition, Mapping[Labels, float]]:
        """Return the operator's own numbers, by metric and label values."""


class WinpoolCollector(Collector):
    """Hands Prometheus what ``sources`` holds at the moment of the scrape."""

    def __init__(self, sources: Sources, *, is_ready: Callable[[], bool]) -> None:
        self._sources = sources
        self._is_ready = is_ready

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the table, those without a sample too."""
        samples: dict[Definition, Mapping[Labels, float]] = {
            **self._sources.numbers(),
            **of_pools(self._sources.pools()),
            READY: {(): float(self._is_ready())},
            BUILD_INFO: {(__version__,): 1.0},
        }
        for definition in DEFINITIONS:
            family = _family(definition)
            for labels, value in samples.get(definition, {}).items():
                family.add_metric(labels, value)
            yield family


def _family(definition: Definition) -> GaugeMetricFamily | CounterMetricFamily:
    make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    return make(definition.name, definition.help, labels=definition.labels)


def of_pools(pools: Collection[Pool]) -> dict[Definition, Mapping[Labels, float]]:
    """Return the metrics about pools: what their status says, and nothing that it does not."""
    nodes: dict[Labels, float] = {}
    conditions: dict[Labels, float] = {}
    since: dict[Labels, float] = {}
    lag: dict[Labels, float] = {}
    by_build: dict[Labels, float] = {}
    ends: dict[Labels, float] = {}
    for pool in pools:
        status = pool.status
        nodes[pool.name, "selected"] = status.nodes
        nodes[pool.name, "ready"] = status.ready_nodes
        nodes[pool.name, "up_to_date"] = status.up_to_date_nodes
        nodes[pool.name, "up_to_date_and_ready"] = status.up_to_date_and_ready_nodes
        nodes[pool.name, "available"] = status.available_nodes
        lag[(pool.name,)] = pool.generation - max(status.observed_generation, 0)
        shown = status.builds[:BUILDS_SHOWN]
        by_build |= {(pool.name, each.build, each.os_version or ""): each.nodes for each in shown}
        if (rest := status.nodes - sum(each.nodes for each in shown)) > 0:
            by_build[pool.name, "other", ""] = rest
        for build in status.builds:
            if build.os_version and (end := _end_of_day(build.end_of_support or "")) is not None:
                ends[pool.name, build.os_version] = end
        for condition in status.conditions:
            since[pool.name, condition.type] = condition.last_transition_time.timestamp()
            for value in ("True", "False", "Unknown"):
                conditions[pool.name, condition.type, value] = float(condition.status == value)
    return {
        NODES: nodes,
        NODES_BY_BUILD: by_build,
        SUPPORT_END: ends,
        CONDITION: conditions,
        CONDITION_SINCE: since,
        GENERATION_LAG: lag,
    }


def _end_of_day(day: str) -> float | None:
    """Return the end of ``day`` as Unix time; None for what is no date: anybody may have edited a status."""
    try:
        return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
