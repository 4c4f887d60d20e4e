"""What the operator reports of itself: whether it is ready, and its own numbers for the metrics.

Both are read from the parts at each request; nothing is kept here.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final, get_args

from winpool.cluster.pool_kind import NOT_INSTALLED
from winpool.control.memory.figures import CAPABILITIES, STATES
from winpool.control.memory.stats import BUCKETS, EvictionResult
from winpool.control.stats import PassResult
from winpool.objects.upgrades import SurpriseKind
from winpool.serve import definitions, sample_definitions, upgrade_definitions
from winpool.serve.access import Result
from winpool.serve.definition import Distribution

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from winpool.cluster.events import EventRecorder
    from winpool.cluster.guard import Guard
    from winpool.cluster.lister import ReflectorStats
    from winpool.cluster.pool_kind import PoolKind
    from winpool.cluster.reflector import NodeReflector
    from winpool.cluster.stats import RequestStats
    from winpool.cluster.transport import Transport
    from winpool.control.memory.collector import MemoryCollector
    from winpool.control.memory.stats import Durations
    from winpool.control.pod_survey.pod_pass import PodPassStats
    from winpool.control.relist.pools import Pools
    from winpool.control.relist.relister import Relister
    from winpool.control.stats import ControlStats
    from winpool.control.upgrades.sights import UpgradeStats
    from winpool.feed.supervisor import Feed
    from winpool.lease.seat import Seat
    from winpool.objects.pool import Pool
    from winpool.report.figures import Figures
    from winpool.serve.access import Access
    from winpool.serve.definition import Definition, Labels, Value
    from winpool.serve.tls import ServingTls

SILENCE_SECONDS: Final = 90.0
"""The operator is not ready when nothing came on the node watch for so long: the watch ends a silent
connection after 70 s, and needs a moment to list again."""


class Telemetry:
    """Reads the parts of one running operator. It is the ``Sources`` of the metrics."""

    def __init__(
        self,
        *,
        transport: Transport,
        pools: Pools,
        pool_kind: PoolKind,
        nodes: NodeReflector,
        guard: Guard,
        recorder: EventRecorder,
        relister: Relister,
        feed: Feed,
        stats: ControlStats,
        pod_passes: PodPassStats,
        access: Access | None = None,
        tls: ServingTls | None = None,
        seat: Seat,
        memory: MemoryCollector | None = None,
        upgrades: UpgradeStats | None = None,
    ) -> None:
        self._transport = transport
        self._pools = pools
        self._pool_kind = pool_kind
        self._nodes = nodes
        self._guard = guard
        self._recorder = recorder
        self._relister = relister
        self._feed = feed
        self._stats = stats
        self._pod_passes = pod_passes
        self._access = access
        self._tls = tls
        self._seat = seat
        self._memory = memory
        self._upgrades = upgrades

    def unready(self) -> list[str]:
        """Return why the operator is not ready, as texts for people; an empty list where it is."""
        reasons = []
        if pools := NOT_INSTALLED if self._pool_kind.is_missing else self._relister.problem:
            reasons.append(f"pools: {pools}")
        if not self._nodes.synced:
            reasons.append(f"nodes: {self._nodes.last_error or 'not listed yet'}")
        elif self._nodes.last_error is not None:
            reasons.append(f"nodes: {self._nodes.last_error}")
        elif self._nodes.last_contact_seconds > SILENCE_SECONDS:
            reasons.append(f"nodes: nothing heard for {self._nodes.last_contact_seconds:.0f} s")
        return reasons

    def pools(self) -> Collection[Pool]:
        """Return all pools that are known."""
        return self._pools.all()

    def figures(self) -> Mapping[str, Figures]:
        """Return what the last passes have found, by the name of the pool."""
        return self._stats.figures

    def numbers(self) -> Mapping[Definition, Mapping[Labels, Value]]:
        """Return the operator's own numbers, by metric and label values."""
        return {
            definitions.RECONCILES: {(result,): n for result, n in self._stats.passes.items()},
            definitions.RECONCILE_SECONDS: {(): self._stats.seconds},
            definitions.LAST_SUCCESS: {(): self._stats.last_success},
            definitions.WATCH_RESTARTS: {
                ("nodes",): self._nodes.stats.restarts,
                ("windowsnodepools",): self._feed.restarts,
            },
            definitions.NODES_CONTACT_AGE: {(): self._nodes.last_contact_seconds},
            definitions.GUARD_IN_FORCE: {(): float(bool(self._guard.identity))},
            definitions.CRD_LACKING_FIELDS: {(): float(len(self._pool_kind.lacking_fields or ()))},
            definitions.EVENTS_POSTED: {(): self._recorder.posted},
            definitions.EVENTS_DROPPED: {(cause,): n for cause, n in self._recorder.dropped.items()},
            **of_requests(self._transport.stats),
            **of_nodes(self._nodes.stats),
            **of_pod_passes(self._pod_passes),
            **of_access(self._access),
            **of_tls(self._tls),
            **of_lease(self._seat),
            **of_memory(self._memory),
            **of_upgrades(self._upgrades),
        }


def of_requests(stats: RequestStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about requests to the API server."""
    return {
        definitions.API_REQUESTS: {key: n for key, n in stats.requests.items()},  # noqa: C416 - wider keys
        definitions.API_RETRIES: {(): stats.retries},
        definitions.API_IN_FLIGHT: {(): stats.in_flight},
    }


def of_nodes(stats: ReflectorStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the list and the watch of nodes."""
    return {
        definitions.NODE_LISTS: {(): stats.lists},
        definitions.NODE_WATCHES: {(): stats.watches},
        definitions.NODE_WATCH_EXPIRED: {(): stats.expired},
        definitions.NODE_EVENTS: {(): stats.events},
        definitions.NODE_STALE: {(): stats.dropped},
        definitions.NODE_UNREADABLE: {(): stats.undecodable},
    }


def of_lease(seat: Seat) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the Lease; the difference of clocks only where one was seen."""
    skew = seat.skew.seconds
    return {
        definitions.LEADER: {(): float(seat.leads)},
        definitions.LEASE_SKEW: {} if skew is None else {(): skew},
        definitions.SECOND_OPERATOR: {(): float(bool(seat.other))},
    }


def of_pod_passes(stats: PodPassStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about passes over all pods; each result starts at 0, so that its first one shows."""
    return {
        definitions.POD_PASSES: {
            (result,): float(stats.passes.get(result, 0)) for result in get_args(PassResult)
        },
        definitions.POD_PASS_SECONDS: {(): stats.seconds},
        definitions.PODS_SEEN: {(): float(stats.pods)},
        definitions.LAST_POD_PASS: {(): stats.finished},
    }


def of_memory(memory: MemoryCollector | None) -> Mapping[Definition, Mapping[Labels, Value]]:
    """Return the metrics about samples of memory and evictions; fixed sets of labels start at 0."""
    if memory is None:
        return {}
    figures = memory.figures()
    samples: dict[Labels, float] = {
        (source, outcome): float(n) for (source, outcome), n in memory.stats.samples.items()
    }
    return {
        sample_definitions.SAMPLES: samples,
        sample_definitions.POLL_SECONDS: {
            (source,): _distribution(taken) for source, taken in memory.stats.polls.items()
        },
        sample_definitions.OLDEST_SAMPLE: {(source,): age for source, age in figures.oldest.items()},
        sample_definitions.WATCHED: {(state,): float(figures.nodes[state]) for state in STATES},
        sample_definitions.CAPABLE: {
            (capability,): float(figures.capabilities[capability]) for capability in CAPABILITIES
        },
        sample_definitions.EVICTIONS: {
            (result,): float(memory.stats.evictions[result]) for result in get_args(EvictionResult)
        },
    }


def _distribution(taken: Durations) -> Distribution:
    bounds = (*map(str, BUCKETS), "+Inf")
    return Distribution(tuple(zip(bounds, accumulate(map(float, taken.counts)), strict=True)), taken.seconds)


def of_upgrades(stats: UpgradeStats | None) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics of surprises; each kind starts at 0, so that its first one shows."""
    if stats is None:
        return {}
    return {upgrade_definitions.SURPRISES: {(kind,): float(stats.surprises[kind]) for kind in SurpriseKind}}


def of_access(access: Access | None) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about reviews of tokens; each result starts at 0, so that its first one shows."""
    if access is None:
        return {}
    return {definitions.ACCESS_REVIEWS: {(each,): float(access.results[each]) for each in get_args(Result)}}


def of_tls(tls: ServingTls | None) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the served certificate."""
    if tls is None:
        return {}
    expiry: dict[Labels, float] = {} if tls.expires is None else {(): tls.expires}
    return {definitions.TLS_EXPIRY: expiry, definitions.TLS_RELOAD_ERRORS: {(): float(tls.errors)}}
