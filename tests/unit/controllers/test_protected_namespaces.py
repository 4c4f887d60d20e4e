"""The namespaces that the settings protect, on their way to the passes that choose victims."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from harness.clock import Seconds
from harness.evicting import a_hot_node, a_pod, listed, step
from harness.memory_fleet import KUBELET_SOURCE, Fleet, a_watching_pool
from harness.virtual_time import in_virtual_time
from winpool.controllers.evictions import eviction_answers
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.node_pods import NodePodLists
from winpool.features.memory.eviction import EvictionState
from winpool.features.memory.victims import Exclusion, namespaces_of
from winpool.kube.tokens import ReaderToken
from winpool.loops import Clock
from winpool.sampling import make_sampling
from winpool.settings import Settings

POOL = a_watching_pool(mode="Evict", sources=[KUBELET_SOURCE])


def test_names_are_separated_by_commas() -> None:
    assert namespaces_of(" vault, payments,,") == {"vault", "payments"}
    assert namespaces_of("") == frozenset()


def test_what_connects_to_kubelets_knows_them() -> None:
    connect = make_sampling(Settings(protected_namespaces="vault"), monotonic=Seconds())
    found = connect(cast(ReaderToken, SimpleNamespace(close=None)), frozenset())
    assert found.protected_namespaces == {"vault"}


@in_virtual_time
async def test_each_pass_knows_them_and_evicts_no_pod_there() -> None:
    loop = asyncio.get_running_loop()
    clock = Clock(monotonic=loop.time)
    connections = replace(Fleet().connections(), protected_namespaces=frozenset({"vault"}))
    collector = MemoryCollector(connections, wake=lambda _: None, now=clock.now, monotonic=loop.time)
    nothing: Any = None
    lists = NodePodLists(
        list_pods=nothing,
        list_budgets=nothing,
        watched_budgets=lambda: None,
        pools=nothing,
        nodes={},
        answers=eviction_answers(collector, clock=clock),
        on_listed=nothing,
        ask_for_all=nothing,
        clock=clock,
    )
    known = lists.evictions_of(POOL)
    assert known.protected == {"vault"}
    found = step(a_hot_node(), pods=listed(a_pod("hog", namespace="vault")), protected=known.protected)
    assert found.state is EvictionState.BLOCKED
    assert found.choice is not None
    assert found.choice.excluded == {Exclusion.SYSTEM_NAMESPACE: 1}
