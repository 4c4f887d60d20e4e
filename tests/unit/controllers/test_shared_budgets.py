"""How often PodDisruptionBudgets are listed, and what those who wait for one list get of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from harness.builders import a_body, a_node, a_pool
from harness.evicting import a_pod
from harness.virtual_time import in_virtual_time, running
from winpool.controllers.evictions import eviction_answers
from winpool.controllers.node_pods import ListPods, NodePodLists
from winpool.controllers.pools import Absences, Pools
from winpool.features.memory.eviction import SPACING_SECONDS
from winpool.kube.budgets import FAILED_SECONDS, SHARED_SECONDS, BudgetCache, BudgetLister
from winpool.kube.errors import ApiError, Forbidden, Unavailable
from winpool.kube.pods import PodLister, PodPage
from winpool.kube.request import Request
from winpool.loops import Clock
from winpool.model.budgets import Budget, BudgetIndex
from winpool.model.node import Node
from winpool.model.node_pods import PodListRequest

LISTS = {"pods": ("PodList", "v1"), "poddisruptionbudgets": ("PodDisruptionBudgetList", "policy/v1")}
DOWN = Unavailable("list poddisruptionbudgets: cannot connect", reason="NoConnection")


class Cluster:
    """Lists of ``seconds`` each; ``error`` is how they end."""

    def __init__(self, *budgets: Budget, seconds: float = 0.5) -> None:
        self.budgets = budgets
        self.seconds = seconds
        self.error: ApiError | None = None
        self.lists: list[float] = []
        self.cancelled = self.under_way = 0
        self.began = asyncio.get_running_loop().time()
        self.shared = BudgetCache(self._list, monotonic=asyncio.get_running_loop().time)

    async def _list(self) -> Sequence[Budget]:
        self.lists.append(round(asyncio.get_running_loop().time() - self.began, 3))
        self.under_way += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        if self.error is not None:
            raise self.error
        return self.budgets

    def ask(self) -> asyncio.Task[BudgetIndex]:
        return asyncio.create_task(self.shared.get())


def about(found: BudgetIndex) -> tuple[str, ...]:
    """Return the names of the budgets that a pod is about, of those that permit nothing."""
    block = found.block_of(a_pod())
    return () if block is None else block.budgets


def lists_of(nodes: Sequence[Node], *, list_pods: ListPods, budgets: BudgetCache) -> NodePodLists:
    clock = Clock(monotonic=asyncio.get_running_loop().time)
    pools = Pools(on_change=_ignore, absences=Absences(grace_seconds=0))
    pools.accept(a_body())
    return NodePodLists(
        list_pods=list_pods,
        list_budgets=budgets.get,
        watched_budgets=lambda: None,
        pools=pools,
        nodes={node.name: node for node in nodes},
        answers=eviction_answers(None, clock=clock),
        on_listed=lambda _: None,
        ask_for_all=lambda: None,
        clock=clock,
    )


def _ignore(name: str, *, for_rivals: bool) -> None:
    pass


@in_virtual_time
async def test_fifty_nodes_that_become_hot_at_once_cost_one_list() -> None:
    cluster, pool = Cluster(Budget("shop", "web")), a_pool()
    nodes = [a_node(f"w{number:02}") for number in range(50)]

    async def list_pods(_: str, /, *, for_eviction: bool = False) -> PodPage:
        await asyncio.sleep(0.3)
        return PodPage((a_pod(),), (), "9", "")

    lists = lists_of(nodes, list_pods=list_pods, budgets=cluster.shared)
    async with running(lists.run()):
        lists.want_for_evictions(pool, [PodListRequest(node, with_budgets=True) for node in nodes])
        await asyncio.sleep(4)
        found = lists.evictions_of(pool).pods
        assert len(found) == 50
        assert all(each.blocked == frozenset({"uid-hog"}) for each in found.values())
        assert len(cluster.lists) == 1


@in_virtual_time
async def test_the_operator_asks_for_budgets_once_and_for_the_pods_of_each_node() -> None:
    asked = Counter[str]()

    async def request(sent: Request) -> bytes:
        asked[sent.resource] += 1
        await asyncio.sleep(0.1)
        kind, version = LISTS[sent.resource]
        return json.dumps(
            {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "9"}, "items": []}
        ).encode()

    nodes = [a_node(f"w{number:02}") for number in range(50)]
    budgets = BudgetCache(BudgetLister(request).list, monotonic=asyncio.get_running_loop().time)
    lists = lists_of(nodes, list_pods=PodLister(request).list_node, budgets=budgets)
    async with running(lists.run()):
        lists.want_for_evictions(a_pool(), [PodListRequest(node, with_budgets=True) for node in nodes])
        await asyncio.sleep(4)
    assert asked == {"pods": 50, "poddisruptionbudgets": 1}


@in_virtual_time
async def test_a_list_is_used_for_some_seconds_after_its_begin_and_no_longer() -> None:
    cluster = Cluster(Budget("shop", "old"))
    await cluster.ask()
    cluster.budgets = (Budget("shop", "new"),)
    await asyncio.sleep(SHARED_SECONDS - 0.6)
    assert about(await cluster.ask()) == ("old",)
    await asyncio.sleep(0.1)
    assert about(await cluster.ask()) == ("new",)
    assert cluster.lists == [0.0, SHARED_SECONDS]


@in_virtual_time
async def test_pods_that_are_listed_later_have_the_time_at_which_the_list_of_budgets_began() -> None:
    """What was evicted since then is not counted in it."""
    cluster, pool, nodes = Cluster(Budget("shop", "web"), seconds=1.5), a_pool(), [a_node("w1"), a_node("w2")]

    async def list_pods(_: str, /, *, for_eviction: bool = False) -> PodPage:
        return PodPage((a_pod(),), (), "9", "")

    lists = lists_of(nodes, list_pods=list_pods, budgets=cluster.shared)
    async with running(lists.run()):
        for node in nodes:
            lists.want_for_evictions(pool, [PodListRequest(node, with_budgets=True)])
            await asyncio.sleep(3)
        pods = lists.evictions_of(pool).pods
    assert [pods[f"uid-of-{name}"].began - cluster.began for name in ("w1", "w2")] == [0.0, 3.0]
    assert [pods[f"uid-of-{name}"].budgets_began - cluster.began for name in ("w1", "w2")] == [0.0, 0.0]


@in_virtual_time
async def test_looks_without_end_cost_one_list_in_some_seconds() -> None:
    cluster = Cluster()
    for _ in range(600):
        await asyncio.gather(*(cluster.ask() for _ in range(5)))
        await asyncio.sleep(0.1)
    minutes = (asyncio.get_running_loop().time() - cluster.began) / 60
    assert len(cluster.lists) <= minutes * 60 / SHARED_SECONDS + 1


@in_virtual_time
async def test_a_list_that_takes_longer_than_it_may_be_used_is_made_once_at_a_time() -> None:
    cluster = Cluster(seconds=12)
    for _ in range(100):
        cluster.ask()
        await asyncio.sleep(0.5)
        assert cluster.under_way <= 1
    assert len(cluster.lists) == 5
    await asyncio.sleep(12)


def test_the_next_eviction_of_a_pool_is_decided_on_another_list() -> None:
    assert SHARED_SECONDS < SPACING_SECONDS


@in_virtual_time
async def test_all_that_wait_for_a_list_get_its_error() -> None:
    cluster = Cluster()
    cluster.error = Forbidden("403", status=403)
    outcomes = await asyncio.gather(*(cluster.ask() for _ in range(50)), return_exceptions=True)
    assert outcomes == [cluster.error] * 50
    assert len(cluster.lists) == 1


@in_virtual_time
async def test_a_list_that_failed_is_made_again_after_a_second_and_not_before() -> None:
    cluster = Cluster(seconds=0.01)
    cluster.error = DOWN
    with pytest.raises(Unavailable):
        await cluster.ask()
    cluster.error = None
    await asyncio.sleep(FAILED_SECONDS - 0.1)
    with pytest.raises(Unavailable):
        await cluster.ask()
    await asyncio.sleep(0.2)
    assert about(await cluster.ask()) == ()
    assert len(cluster.lists) == 2


@in_virtual_time
async def test_one_that_waits_no_longer_leaves_the_list_to_the_others() -> None:
    cluster = Cluster(Budget("shop", "web"))
    first, second = cluster.ask(), cluster.ask()
    await asyncio.sleep(0.1)
    first.cancel()
    assert about(await second) == ("web",)
    assert first.cancelled()
    assert (len(cluster.lists), cluster.cancelled) == (1, 0)


@in_virtual_time
async def test_a_list_that_nobody_waits_for_any_more_ends() -> None:
    cluster = Cluster()
    asked = [cluster.ask(), cluster.ask()]
    await asyncio.sleep(0.1)
    for each in asked:
        each.cancel()
    later = cluster.ask()
    await asyncio.gather(*asked, return_exceptions=True)
    assert about(await later) == ()
    assert (len(cluster.lists), cluster.cancelled, cluster.under_way) == (2, 1, 0)


@in_virtual_time
async def test_nothing_is_kept_of_a_list_that_is_not_used_any_more() -> None:
    cluster = Cluster(Budget("shop", "web"))
    await cluster.ask()
    await asyncio.sleep(SHARED_SECONDS)
    kept: Any = cluster.shared
    assert kept._flight is None
