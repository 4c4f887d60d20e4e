"""How often PodDisruptionBudgets are listed, and what those who wait for one list get of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.builders import NOON, a_node, a_pool
from harness.evicting import a_pod
from harness.virtual_time import in_virtual_time, running
from winpool.controllers.evictions import eviction_parts
from winpool.controllers.memory import NoDetectors
from winpool.controllers.pressured_pods import (
    FAILED_SECONDS,
    SHARED_SECONDS,
    Answers,
    SharedBudgets,
    VictimLooks,
)
from winpool.controllers.services import Clock
from winpool.features.memory.feature import SPACING_SECONDS
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, Unavailable
from winpool.kube.request import Request
from winpool.model.budgets import Budget
from winpool.model.node_pods import NodePod, VictimLook

SHOP = frozenset({"shop"})
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
        self.shared = SharedBudgets(self._list, monotonic=asyncio.get_running_loop().time)

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

    def ask(self, namespaces: frozenset[str] = SHOP) -> asyncio.Task[tuple[Budget, ...]]:
        return asyncio.create_task(self.shared.of(namespaces))


@in_virtual_time
async def test_fifty_nodes_that_become_hot_at_once_cost_one_list() -> None:
    cluster = Cluster(Budget("shop", "web"))
    loop, pool = asyncio.get_running_loop(), a_pool()
    nodes = [a_node(f"w{number:02}") for number in range(50)]

    async def list_pods(_: str) -> tuple[NodePod, ...]:
        await asyncio.sleep(0.3)
        return (a_pod(),)

    looks = VictimLooks(
        list_pods=list_pods,
        list_budgets=cluster.shared.of,
        answers=Answers(detectors=NoDetectors(), results=Counter(), monotonic=loop.time),
        on_looked=lambda _: None,
        now=lambda: NOON + timedelta(seconds=loop.time()),
        monotonic=loop.time,
    )
    async with running(looks.run()):
        looks.want(pool, [VictimLook(node, with_budgets=True) for node in nodes])
        await asyncio.sleep(4)
        found = looks.known(pool).pods
        assert len(found) == 50
        assert all(pod.is_blocked for each in found.values() for pod in each.pods)
        assert len(cluster.lists) == 1


@in_virtual_time
async def test_the_operator_asks_for_budgets_once_and_for_the_pods_of_each_node() -> None:
    loop, asked = asyncio.get_running_loop(), Counter[str]()

    async def request(sent: Request) -> bytes:
        asked[sent.resource] += 1
        await asyncio.sleep(0.1)
        kind, version = LISTS[sent.resource]
        return json.dumps(
            {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "9"}, "items": []}
        ).encode()

    parts = eviction_parts(
        cast(Transport, SimpleNamespace(request=request)),
        memory=None,
        known={},
        on_looked=lambda _: None,
        clock=Clock(monotonic=loop.time),
    )
    async with running(parts.looks.run()):
        nodes = [a_node(f"w{number:02}") for number in range(50)]
        parts.looks.want(a_pool(), [VictimLook(node, with_budgets=True) for node in nodes])
        await asyncio.sleep(4)
    assert asked == {"pods": 50, "poddisruptionbudgets": 1}


@in_virtual_time
async def test_each_look_gets_the_budgets_of_its_namespaces() -> None:
    web, other, third = Budget("shop", "web"), Budget("other", "x"), Budget("third", "y")
    cluster = Cluster(web, other, third)
    asked = [cluster.ask(), cluster.ask(frozenset({"other", "third", "none"}))]
    assert await asyncio.gather(*asked) == [(web,), (other, third)]
    assert len(cluster.lists) == 1


@in_virtual_time
async def test_a_list_is_used_for_some_seconds_after_its_begin_and_no_longer() -> None:
    cluster = Cluster(Budget("shop", "old"))
    await cluster.ask()
    cluster.budgets = (Budget("shop", "new"),)
    await asyncio.sleep(SHARED_SECONDS - 0.6)
    assert [each.name for each in await cluster.ask()] == ["old"]
    await asyncio.sleep(0.1)
    assert [each.name for each in await cluster.ask()] == ["new"]
    assert cluster.lists == [0.0, SHARED_SECONDS]


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
    assert await cluster.ask() == ()
    assert len(cluster.lists) == 2


@in_virtual_time
async def test_one_that_waits_no_longer_leaves_the_list_to_the_others() -> None:
    cluster = Cluster(Budget("shop", "web"))
    first, second = cluster.ask(), cluster.ask()
    await asyncio.sleep(0.1)
    first.cancel()
    assert [each.name for each in await second] == ["web"]
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
    assert await later == ()
    assert (len(cluster.lists), cluster.cancelled, cluster.under_way) == (2, 1, 0)


@in_virtual_time
async def test_nothing_is_kept_of_a_list_that_is_not_used_any_more() -> None:
    cluster = Cluster(Budget("shop", "web"))
    await cluster.ask()
    await asyncio.sleep(SHARED_SECONDS)
    kept: Any = cluster.shared
    assert kept._flight is None
