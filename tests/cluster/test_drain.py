"""A drain against a real API server: its budgets, its answers, and the pods that it lists."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from cluster.door import a_transport
from cluster.pods import NAMESPACE, Pods
from harness.builders import a_body, a_pool
from harness.waiting import GUARD_SECONDS, eventually
from harness.world import World
from winpool.api.upgrade import Drain
from winpool.controllers.evictions import Answers, Evictor, eviction_answers
from winpool.controllers.node_pods import NodePodLists
from winpool.controllers.pools import Absences, Pools
from winpool.features.upgrade.drain import DrainBlock, DrainProgress, DrainView, drain
from winpool.kube.budgets import BudgetCache, BudgetLister
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError
from winpool.kube.nodes import decode_node
from winpool.kube.pods import PodLister
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import Eviction
from winpool.model.node_pods import PodListRequest

Object = dict[str, Any]

RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
)
"""All that a drain needs."""


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    mine = Pods(world)
    try:
        yield mine
    finally:
        selected = ("-n", NAMESPACE, "-l", f"example.com/pods={world.suffix}")
        world.kubectl("delete", "deployment,pdb", *selected, "--cascade=foreground", "--timeout=50s")
        mine.close()


@asynccontextmanager
async def a_drainer(world: World) -> AsyncIterator[Transport]:
    """Open the operator's own way to the API server, as a user who may do what a drain needs and no more."""
    name = f"drainer-{world.suffix}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    world.kubectl("create", "-f", "-", stdin=json.dumps({**role, "rules": RULES}))
    world.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    try:
        async with a_transport(world.testbed.user_kubeconfig(name)) as transport:
            yield transport
    finally:
        world.kubectl("delete", "clusterrole,clusterrolebinding", name)


def create(world: World, manifest: Object) -> None:
    world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))


def a_deployment(world: World, *, replicas: int) -> None:
    labels = {"example.com/pods": world.suffix, "app": "web"}
    containers = [{"name": "app", "image": "registry.example.com/team/app:1.2"}]
    spec = {"containers": containers, "nodeSelector": world.selector, "terminationGracePeriodSeconds": 2}
    create(
        world,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"web-{world.suffix}", "labels": labels},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    )


def a_budget(world: World, *, at_least: int) -> None:
    """Make a budget of the Deployment, and return once it has counted its pods."""
    name, labels = f"web-{world.suffix}", {"example.com/pods": world.suffix}
    create(
        world,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "labels": labels},
            "spec": {"minAvailable": at_least, "selector": {"matchLabels": {**labels, "app": "web"}}},
        },
    )

    def counted() -> bool:
        status = json.loads(world.kubectl("get", "pdb", name, "-n", NAMESPACE, "-o", "json"))["status"]
        return bool(status.get("currentHealthy") == status.get("expectedPods") == 4)

    eventually(counted, what="a budget that has counted its pods")


class Passes:
    """The passes of a pool that drains one node, which is cordoned."""

    def __init__(self, world: World, transport: Transport, node: str, spec: Drain) -> None:
        self.done: list[Eviction] = []
        self.refused: list[ApiError] = []
        self._clock, self._spec = Clock(), spec
        self._node = decode_node(json.dumps(world.node(node)).encode(), request="get node")
        self._cordoned_at = self._clock.now()
        self._pool = a_pool()
        pools = Pools(on_change=lambda *_, **__: None, absences=Absences(grace_seconds=0))
        pools.accept(a_body())
        answers: Answers = eviction_answers(None, clock=self._clock)
        budgets = BudgetCache(BudgetLister(transport.request).list, monotonic=time.monotonic)
        self._evictor = Evictor(writer=Writer(transport), monotonic=time.monotonic, answers=answers)
        self.lists = NodePodLists(
            list_pods=PodLister(transport.request).list_node,
            list_budgets=budgets.get,
            watched_budgets=lambda: None,
            pools=pools,
            nodes={node: self._node},
            answers=answers,
            on_listed=lambda _: None,
            ask_for_all=lambda: None,
            clock=self._clock,
        )

    async def until(self, check: Callable[[DrainProgress], bool]) -> DrainProgress:
        async with asyncio.timeout(GUARD_SECONDS):
            while not check(progress := await self._pass()):  # noqa: ASYNC110 - as often as a pool may pass
                await asyncio.sleep(0.3)
        return progress

    async def _pass(self) -> DrainProgress:
        known, now = self.lists.evictions_of(self._pool), self._clock.now()
        listed = known.pods.get(self._node.uid)
        view = DrainView(self._node, self._cordoned_at, listed, known.answers, now, known.read_at)
        progress = drain(view, self._spec)
        outcome = await self._evictor.run(progress.evictions)
        assert outcome.error is None
        self.done += outcome.done
        self.refused += [error for _, error in outcome.stopped]
        is_due = progress.list_at is not None and progress.list_at <= now
        looks = [PodListRequest(self._node, with_budgets=True)] if is_due else []
        self.lists.want_for_evictions(self._pool, looks)
        return progress


@pytest.mark.nightly
async def test_a_node_is_drained_with_one_request_for_each_pod_once_its_budget_lets_them_go(
    world: World, pods: Pods
) -> None:
    """Four pods of which three have to be there, a pod without a budget, and an agent that stays."""

    def prepare() -> str:
        first, second = world.fleet(windows=2)
        world.kubectl("cordon", second)
        a_deployment(world, replicas=4)
        pods.bind("bare", first, terminationGracePeriodSeconds=2)
        pods.wait_running(count=5)
        pods.daemon_set("agent")
        a_budget(world, at_least=4)
        world.kubectl("uncordon", second)
        pods.wait_running(count=7)
        world.cordon(first)
        return first

    node = await asyncio.to_thread(prepare)
    async with a_drainer(world) as transport:
        passes = Passes(world, transport, node, Drain.model_validate({"unmanagedPods": "Evict"}))
        running = asyncio.create_task(passes.lists.run())
        try:
            blocked = await passes.until(lambda found: len(found.leaving) == 4 and len(found.blockers) == 4)
            assert [(each.why, each.is_permanent) for each in blocked.blockers] == [
                (DrainBlock.BUDGET, True)
            ] * 4
            assert [each.name for each in passes.done] == [f"bare-{world.suffix}"]
            patch = ("patch", "pdb", f"web-{world.suffix}", "-n", NAMESPACE, "--type=merge", "-p")
            await asyncio.to_thread(world.kubectl, *patch, '{"spec":{"minAvailable":3}}')
            await passes.until(lambda found: found.is_drained)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    assert (len(passes.done), passes.refused) == (5, [])
    left = [pod for pod in pods.all().values() if pod["spec"]["nodeName"] == node]
    assert [pod["metadata"]["ownerReferences"][0]["kind"] for pod in left] == ["DaemonSet"]
