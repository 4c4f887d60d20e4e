"""Reads from the parts of the operator whether it is ready, and its own numbers for the metrics.

Both are read from the parts at each request; nothing is kept here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, get_args

import msgspec

from winpool import __version__
from winpool.controllers.evictions import DrainResult
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import EvictionResult
from winpool.controllers.pod_pass import PodPassStats
from winpool.controllers.services import Services
from winpool.kube.client import Transport
from winpool.kube.feed import Feed
from winpool.kube.leader_election import Elector
from winpool.kube.pools import NOT_INSTALLED, PoolKind
from winpool.kube.request import RequestStats
from winpool.kube.watch import WatchStats
from winpool.loops import Durations, PassResult
from winpool.model.pool import SurpriseKind
from winpool.serve import definitions as metric
from winpool.serve.access import Access, Result
from winpool.serve.definitions import Definition, Distribution, Labels, Value
from winpool.serve.metrics import WinpoolCollector
from winpool.serve.tls import ServingTls

SILENCE_SECONDS: Final = 90.0
"""The operator is not ready when nothing came on the node watch for so long: the watch ends a silent
connection after 70 s, and needs a moment to list again."""


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Reads the parts of one running operator. It is the ``Source`` of the metrics."""

    services: Services
    transport: Transport
    pool_kind: PoolKind
    feed: Feed
    elector: Elector
    access: Access | None = None
    tls: ServingTls | None = None

    def unready(self) -> list[str]:
        """Return why the operator is not ready, as texts for people; an empty list where it is."""
        reasons = []
        if pools := NOT_INSTALLED if self.pool_kind.is_missing else self.services.relister.problem:
            reasons.append(f"pools: {pools}")
        if not self.services.nodes.synced:
            reasons.append(f"nodes: {self.services.nodes.last_error or 'not listed yet'}")
        elif self.services.nodes.last_error is not None:
            reasons.append(f"nodes: {self.services.nodes.last_error}")
        elif self.services.nodes.last_contact_seconds > SILENCE_SECONDS:
            reasons.append(f"nodes: nothing heard for {self.services.nodes.last_contact_seconds:.0f} s")
        return reasons

    def snapshot(self) -> WinpoolCollector:
        """Return a collector of the metrics as they are now."""
        return WinpoolCollector(
            self.services.pools.all(),
            figures=self.services.stats.figures,
            numbers={
                **self.numbers(),
                metric.READY: {(): float(not self.unready())},
                metric.BUILD_INFO: {(__version__,): 1.0},
            },
        )

    def numbers(self) -> Mapping[Definition, Mapping[Labels, Value]]:
        """Return the operator's own numbers, by metric and label values."""
        return {
            metric.RECONCILES: {(result,): n for result, n in self.services.stats.passes.items()},
            metric.RECONCILE_SECONDS: {(): self.services.stats.seconds},
            metric.LAST_SUCCESS: {(): self.services.stats.last_success},
            metric.WATCH_RESTARTS: {
                ("nodes",): self.services.nodes.stats.restarts,
                ("windowsnodepools",): self.feed.restarts,
            },
            metric.NODES_CONTACT_AGE: {(): self.services.nodes.last_contact_seconds},
            metric.GUARD_IN_FORCE: {(): float(bool(self.services.guard.identity))},
            metric.CRD_LACKING_FIELDS: {(): float(len(self.pool_kind.lacking_fields or ()))},
            metric.EVENTS_POSTED: {(): self.services.recorder.posted},
            metric.EVENTS_DROPPED: {(reason,): n for reason, n in self.services.recorder.dropped.items()},
            **of_requests(self.transport.stats),
            **of_nodes(self.services.nodes.stats),
            **of_pod_passes(self.services.pod_pass.stats),
            **of_access(self.access),
            **of_tls(self.tls),
            **of_lease(self.elector),
            **of_memory(self.services.memory),
            **of_upgrades(self.services.upgrades.surprises),
            **of_drains(self.services.stats.drains, self.services.evictions.answers.drains),
        }


def of_requests(stats: RequestStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about requests to the API server."""
    return {
        metric.API_REQUESTS: {key: n for key, n in stats.requests.items()},  # noqa: C416 - wider keys
        metric.API_RETRIES: {(): stats.retries},
        metric.API_IN_FLIGHT: {(): stats.in_flight},
    }


def of_nodes(stats: WatchStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the list and the watch of nodes."""
    return {
        metric.NODE_LISTS: {(): stats.lists},
        metric.NODE_WATCHES: {(): stats.watches},
        metric.NODE_WATCH_EXPIRED: {(): stats.expired},
        metric.NODE_EVENTS: {(): stats.events},
        metric.NODE_STALE: {(): stats.dropped},
        metric.NODE_UNREADABLE: {(): stats.undecodable},
    }


def of_lease(elector: Elector) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the Lease; the difference of clocks only where one was seen."""
    skew = elector.skew.seconds
    return {
        metric.LEADER: {(): float(elector.leads)},
        metric.LEASE_SKEW: {} if skew is None else {(): skew},
        metric.SECOND_OPERATOR: {(): float(bool(elector.other))},
    }


def of_pod_passes(stats: PodPassStats) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about passes over all pods; each result starts at 0, so that its first one shows."""
    return {
        metric.POD_PASSES: {(result,): stats.passes[result] for result in get_args(PassResult)},
        metric.POD_PASS_SECONDS: {(): stats.seconds},
        metric.PODS_SEEN: {(): stats.pods},
        metric.LAST_POD_PASS: {(): stats.finished},
    }


def of_memory(memory: MemoryCollector | None) -> Mapping[Definition, Mapping[Labels, Value]]:
    """Return the metrics about samples of memory and evictions; fixed sets of labels start at 0."""
    if memory is None:
        return {}
    figures = memory.figures()
    return {
        metric.SAMPLES: {(source, result): n for (source, result), n in memory.stats.samples.items()},
        metric.POLL_SECONDS: {
            (source,): _distribution(taken) for source, taken in memory.stats.polls.items()
        },
        metric.OLDEST_SAMPLE: {(source,): age for source, age in figures.oldest.items()},
        metric.WATCHED: {(each,): figures.nodes[each] for each in metric.WATCHED.values["state"]},
        metric.CAPABLE: {(each,): figures.capabilities[each] for each in metric.CAPABLE.values["capability"]},
        metric.EVICTIONS: {(each,): memory.stats.evictions[each] for each in get_args(EvictionResult)},
    }


def _distribution(taken: Durations) -> Distribution:
    bounds = (*map(str, taken.bounds), "+Inf")
    return Distribution(tuple(zip(bounds, accumulate(map(float, taken.counts)), strict=True)), taken.seconds)


def of_upgrades(surprises: Counter[SurpriseKind]) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics of surprises; each reason starts at 0, so that its first one shows."""
    return {metric.SURPRISES: {(each,): surprises[each] for each in SurpriseKind}}


def of_drains(
    times: Durations, evictions: Counter[DrainResult]
) -> Mapping[Definition, Mapping[Labels, Value]]:
    """Return the metrics of drains; each result starts at 0, so that its first one shows."""
    return {
        metric.DRAIN_EVICTIONS: {(each,): evictions[each] for each in get_args(DrainResult)},
        metric.DRAIN_SECONDS: {(): _distribution(times)},
    }


def of_access(access: Access | None) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about reviews of tokens; each result starts at 0, so that its first one shows."""
    if access is None:
        return {}
    return {metric.ACCESS_REVIEWS: {(each,): access.results[each] for each in get_args(Result)}}


def of_tls(tls: ServingTls | None) -> Mapping[Definition, Mapping[Labels, float]]:
    """Return the metrics about the served certificate."""
    if tls is None:
        return {}
    expiry: dict[Labels, float] = {} if tls.expires is None else {(): tls.expires}
    return {metric.TLS_EXPIRY: expiry, metric.TLS_RELOAD_ERRORS: {(): float(tls.errors)}}
