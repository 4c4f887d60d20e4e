"""What is served about samples of memory: numbers of nodes and of sources, and no names of nodes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest

from harness.memory_fleet import KUBELET_SOURCE, PROMETHEUS_SOURCE, Stage, a_mixed_stage, a_watching_pool
from harness.virtual_time import in_virtual_time, running
from winpool.controllers.evictions import eviction_answers, make_evictor
from winpool.controllers.memory_polls import MemoryStats
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, DisruptionBudget
from winpool.kube.request import Request
from winpool.kubelet.samples import Outcome, PollError
from winpool.loops import Clock
from winpool.model.node import Eviction
from winpool.serve.definitions import (
    CAPABLE,
    EVICTIONS,
    OLDEST_SAMPLE,
    POLL_SECONDS,
    SAMPLES,
    WATCHED,
    Distribution,
)
from winpool.serve.metrics import WinpoolCollector
from winpool.telemetry import of_memory

POOL = a_watching_pool(mode="Evict", sources=[KUBELET_SOURCE, PROMETHEUS_SOURCE])
EVICTED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
HOG = Eviction("shop", "hog", "uid-hog", "w1", "it uses most", node_uid="uid-of-w1", share=4.0)


@in_virtual_time
async def test_nodes_sources_and_capabilities_are_counted() -> None:
    stage = a_mixed_stage()
    stage.collector.want(POOL, stage.nodes)
    async with running(stage.collector.run()):
        await asyncio.sleep(299)
        found = of_memory(stage.collector)
    assert found[WATCHED] == {("Watched",): 5, ("Known",): 4, ("Hot",): 1}
    assert found[CAPABLE] == {
        ("CommitLimit",): 3,
        ("PodCommit",): 1,
        ("Paging",): 3,
        ("KubeletEviction",): 2,
        ("NoKubeletEviction",): 1,
    }
    samples = found[SAMPLES]
    assert samples["Kubelet", "NoConnection"] == len(stage.polls_of(2))
    assert samples["Kubelet", "Sampled"] == sum(len(stage.polls_of(number)) for number in (0, 1, 3, 4))
    assert samples["Prometheus/main", "NoSeries"] == 2 * len(stage.fleet.queries)
    assert samples["Prometheus/main", "Sampled"] == 3 * len(stage.fleet.queries)
    ages = found[OLDEST_SAMPLE]
    assert ages.keys() == {("Kubelet",), ("Prometheus/main",)}
    oldest = ages["Kubelet",]
    assert isinstance(oldest, float)
    assert 50 < oldest <= 61
    polls = found[POLL_SECONDS]["Prometheus/main",]
    assert isinstance(polls, Distribution)
    assert polls.buckets[-1] == ("+Inf", len(stage.fleet.queries))


@in_virtual_time
async def test_what_is_not_fresh_is_not_the_oldest() -> None:
    stage = Stage(range(2))
    stage.collector.want(a_watching_pool(), stage.nodes)
    async with running(stage.collector.run()):
        await asyncio.sleep(130)
        for machine in stage.fleet.machines.values():
            machine.error = PollError(Outcome.TIMEOUT, "")
        await asyncio.sleep(600)
        assert stage.collector.figures().oldest == {}


def test_a_poll_is_counted_in_each_bucket_that_it_is_not_above() -> None:
    stats = MemoryStats()
    for seconds in (0.05, 0.2, 7.0, 60.0):
        stats.note_poll("Kubelet", seconds)
    taken = stats.polls["Kubelet"]
    assert taken.counts == [1, 0, 1, 0, 0, 0, 0, 1, 0, 1]
    assert taken.seconds == 67.25


def test_the_histogram_is_served_as_prometheus_expects_it() -> None:
    value = Distribution((("0.05", 1.0), ("+Inf", 3.0)), 67.25)
    registry = CollectorRegistry()
    registry.register(WinpoolCollector(pools=(), figures={}, numbers={POLL_SECONDS: {("Kubelet",): value}}))
    served = [line for line in generate_latest(registry).decode().splitlines() if "memory_poll" in line]
    assert served[-4:] == [
        'winpool_memory_poll_seconds_bucket{le="0.05",source="Kubelet"} 1.0',
        'winpool_memory_poll_seconds_bucket{le="+Inf",source="Kubelet"} 3.0',
        'winpool_memory_poll_seconds_count{source="Kubelet"} 3.0',
        'winpool_memory_poll_seconds_sum{source="Kubelet"} 67.25',
    ]


@in_virtual_time
async def test_all_results_of_evictions_are_served_from_the_start_and_as_they_are_counted() -> None:
    collector = Stage(range(1)).collector
    none = {("Evicted",): 0, ("Refused",): 0, ("Gone",): 0, ("Failed",): 0, ("Unanswered",): 0}
    assert of_memory(collector)[EVICTIONS] == none
    answers = iter((DisruptionBudget("429", status=429), EVICTED))

    async def request(_: Request) -> bytes:
        answer = next(answers)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    transport = cast(Transport, SimpleNamespace(request=request))
    clock = Clock(monotonic=asyncio.get_running_loop().time)
    answers_kept = eviction_answers(collector, clock=clock)
    evictor = make_evictor(transport, answers=answers_kept, memory=collector, known={}, clock=clock)
    await evictor.run([HOG])
    await asyncio.sleep(60)
    await evictor.run([HOG])
    counted = {**none, ("Evicted",): 1, ("Refused",): 1}
    assert of_memory(collector)[EVICTIONS] == counted


def test_without_a_collector_nothing_is_served() -> None:
    assert of_memory(None) == {}
