"""The operator's own numbers: whatever a part counts is served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast, get_args

import msgspec
import pytest

from harness.every import every
from harness.services import some_services
from winpool.controllers.memory_polls import EvictionResult
from winpool.controllers.pod_pass import PodPassStats
from winpool.controllers.services import DRAIN_BUCKETS, ControlStats
from winpool.kube.events import Drop
from winpool.kube.pools import NOT_INSTALLED
from winpool.kube.request import RequestStats
from winpool.kube.watch import WatchStats
from winpool.kubelet.samples import Outcome
from winpool.loops import Durations
from winpool.model.pool import SurpriseKind
from winpool.serve.access import Access
from winpool.serve.definitions import (
    ACCESS_REVIEWS,
    API_IN_FLIGHT,
    API_REQUESTS,
    API_RETRIES,
    CRD_LACKING_FIELDS,
    DRAIN_EVICTIONS,
    DRAIN_SECONDS,
    EVENTS_DROPPED,
    EVICTIONS,
    LAST_POD_PASS,
    LEADER,
    LEASE_SKEW,
    NODE_EVENTS,
    NODE_LISTS,
    NODE_STALE,
    NODE_UNREADABLE,
    NODE_WATCH_EXPIRED,
    NODE_WATCHES,
    POD_PASS_SECONDS,
    POD_PASSES,
    PODS_SEEN,
    SAMPLES,
    SECOND_OPERATOR,
    SURPRISES,
    TLS_EXPIRY,
    TLS_RELOAD_ERRORS,
    Definition,
    Distribution,
)
from winpool.telemetry import (
    Telemetry,
    of_access,
    of_drains,
    of_lease,
    of_nodes,
    of_pod_passes,
    of_requests,
    of_tls,
    of_upgrades,
)


@pytest.mark.parametrize(
    ("is_missing", "problem", "said"),
    [
        (False, "", []),
        (False, "403 nobody may", ["pools: 403 nobody may"]),
        (True, "", [f"pools: {NOT_INSTALLED}"]),
        (True, "403 nobody may", [f"pools: {NOT_INSTALLED}"]),
    ],
)
def test_it_is_not_ready_without_the_crd_although_pools_were_listed(
    is_missing: bool, problem: str, said: list[str]
) -> None:
    assert telemetry(is_missing=is_missing, problem=problem).unready() == said


def telemetry(*, is_missing: bool, problem: str) -> Telemetry:
    part: Any = SimpleNamespace
    return Telemetry(
        services=some_services(
            nodes=part(synced=True, last_error=None, last_contact_seconds=1.0),
            relister=part(problem=problem),
        ),
        transport=part(),
        pool_kind=part(is_missing=is_missing),
        feed=part(),
        elector=part(),
    )


def test_passes_over_pods_are_served_as_they_count_themselves() -> None:
    stats = PodPassStats(
        Counter({"Success": 3, "Error": 1}), seconds=2.5, pods=150_000, finished=1767323045.5
    )
    assert of_pod_passes(stats) == {
        POD_PASSES: {("Success",): 3, ("Error",): 1},
        POD_PASS_SECONDS: {(): 2.5},
        PODS_SEEN: {(): 150_000},
        LAST_POD_PASS: {(): 1767323045.5},
    }


def test_both_results_are_served_from_the_start() -> None:
    assert of_pod_passes(PodPassStats())[POD_PASSES] == {("Success",): 0, ("Error",): 0}


@every(
    ("definition", "label", "values"),
    [
        (SAMPLES, "result", Outcome),
        (EVICTIONS, "result", get_args(EvictionResult)),
        (EVENTS_DROPPED, "reason", get_args(Drop)),
    ],
)
def test_the_table_declares_the_values_that_are_counted(
    definition: Definition, label: str, values: Iterable[str]
) -> None:
    assert definition.values[label] == tuple(values)


def test_surprises_are_served_by_their_reason_and_both_from_the_start() -> None:
    surprises = Counter([SurpriseKind.REBOOT, SurpriseKind.REBOOT])
    served = {("SurpriseReboot",): 2, ("SurpriseOSChange",): 0}
    assert of_upgrades(surprises) == {SURPRISES: served}


def test_drains_are_served_by_how_long_they_took_and_their_evictions_by_result() -> None:
    times = Durations(DRAIN_BUCKETS)
    for seconds in (20.0, 45.0, 9000.0):
        times.note(seconds)
    served = of_drains(times, Counter({"Refused": 3}))
    assert served[DRAIN_EVICTIONS] == {
        ("Evicted",): 0,
        ("Refused",): 3,
        ("Gone",): 0,
        ("Failed",): 0,
        ("Unanswered",): 0,
        ("Forced",): 0,
    }
    found = served[DRAIN_SECONDS][()]
    assert isinstance(found, Distribution)
    assert dict(found.buckets) == {"30.0": 1.0, "60.0": 2.0, "+Inf": 3.0} | {
        f"{bound}": 2.0 for bound in DRAIN_BUCKETS if bound > 60
    }
    assert found.total == 9065.0


async def test_reviews_of_tokens_are_served_as_they_are_counted_and_all_results_from_the_start() -> None:
    access = Access(cast("Any", None), path="/metrics", role="winpool-metrics-reader", monotonic=lambda: 0.0)
    access.results.update(["Permitted", "Permitted", "Invalid"])
    counts = {"Permitted": 2, "Forbidden": 0, "Invalid": 1, "Failed": 0, "RateLimited": 0}
    assert of_access(access) == {ACCESS_REVIEWS: {(result,): n for result, n in counts.items()}}
    assert of_access(None) == {}


@pytest.mark.parametrize(("expires", "served"), [(1767323045.0, {(): 1767323045.0}), (None, {})])
def test_the_end_of_the_certificate_is_served_where_it_is_known(
    expires: float | None, served: dict[Any, float]
) -> None:
    tls: Any = SimpleNamespace(expires=expires, errors=3)
    assert of_tls(tls) == {TLS_EXPIRY: served, TLS_RELOAD_ERRORS: {(): 3}}
    assert of_tls(None) == {}


@pytest.mark.parametrize("leads", [True, False])
def test_the_lease_is_served_and_the_difference_of_clocks_where_one_was_seen(leads: bool) -> None:
    part: Any = SimpleNamespace
    seat = part(leads=leads, other=None if leads else "a", skew=part(seconds=None))
    assert of_lease(seat) == {
        LEADER: {(): leads},
        LEASE_SKEW: {},
        SECOND_OPERATOR: {(): not leads},
    }
    seat.skew.seconds = -7.5
    assert of_lease(seat)[LEASE_SKEW] == {(): -7.5}


def test_requests_are_served_as_they_are_counted() -> None:
    stats = RequestStats(in_flight=3, retries=2)
    stats.count(verb="list", resource="nodes", code="200")
    assert of_requests(stats) == {
        API_REQUESTS: {("list", "nodes", "200"): 1},
        API_RETRIES: {(): 2},
        API_IN_FLIGHT: {(): 3},
    }


def test_the_list_and_the_watch_of_nodes_are_served_as_they_are_counted() -> None:
    stats = WatchStats(lists=1, watches=2, restarts=3, expired=4, events=5, dropped=6, undecodable=7)
    assert of_nodes(stats) == {
        NODE_LISTS: {(): 1},
        NODE_WATCHES: {(): 2},
        NODE_WATCH_EXPIRED: {(): 4},
        NODE_EVENTS: {(): 5},
        NODE_STALE: {(): 6},
        NODE_UNREADABLE: {(): 7},
    }


SERVED_OTHERWISE = {"figures", "drains"}
"""What of the statistics is about pools, and served with them, and what is no number."""


@pytest.mark.parametrize("kind", [RequestStats, WatchStats, ControlStats, PodPassStats])
def test_no_counter_is_kept_that_nobody_can_see(kind: type[msgspec.Struct]) -> None:
    """Of each counter a value is taken that nothing else has, and looked for in what is served."""
    made: dict[type, Any] = {each: each() for each in (RequestStats, WatchStats, ControlStats, PodPassStats)}
    marks = {}
    for number, name in enumerate(kind.__struct_fields__):
        mark = 1_000_003 + number
        if name in SERVED_OTHERWISE:
            continue
        counter = getattr(made[kind], name)
        if isinstance(counter, Counter):
            counter["list", "nodes", "200"] = mark
            counter["Success"] = mark
        else:
            setattr(made[kind], name, mark)
        marks[name] = mark
    part: Any = SimpleNamespace
    numbers = Telemetry(
        services=some_services(
            nodes=part(stats=made[WatchStats], last_contact_seconds=0.0),
            recorder=part(posted=0, dropped={}),
            guard=part(identity="", known=True),
            stats=made[ControlStats],
            pod_pass=part(stats=made[PodPassStats]),
            upgrades=part(surprises=Counter()),
            evictions=part(answers=part(drains=Counter())),
        ),
        transport=part(stats=made[RequestStats]),
        pool_kind=part(is_missing=False, lacking_fields=(("status", "plan"), ("spec", "mode"))),
        feed=part(restarts=0),
        elector=part(leads=True, other="", skew=part(seconds=None)),
    ).numbers()
    assert numbers[CRD_LACKING_FIELDS] == {(): 2}
    served = {value for samples in numbers.values() for value in samples.values()}
    assert {name for name, mark in marks.items() if mark not in served} == set()
