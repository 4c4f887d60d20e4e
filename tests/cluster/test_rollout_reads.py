"""What a rollout reads of the real API server beside nodes and pods: controllers, volumes and budgets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from cluster.door import a_transport, until
from harness.waiting import eventually
from harness.world import World
from testbed.api import Api
from winpool.features.upgrade.settle import baseline_of, settled
from winpool.kube.budgets import BudgetWatch
from winpool.kube.client import Transport
from winpool.kube.listers import AttachmentLister, WorkloadLister
from winpool.kube.pods import PodLister
from winpool.model.budgets import BudgetIndex
from winpool.model.pods import Block, BlockedBy, Pod
from winpool.model.rollout import Controller, Workloads

Object = dict[str, Any]
ATTACHMENTS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
POD: Final[Object] = {
    "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
    "terminationGracePeriodSeconds": 1,
}


@pytest.fixture
async def transport(world: World) -> AsyncIterator[Transport]:
    async with a_transport(world.testbed.kubeconfig("admin")) as opened:
        yield opened


@pytest.fixture
def namespace(world: World) -> Iterator[str]:
    name = f"rollout-{world.suffix}"
    world.kubectl("create", "namespace", name)
    yield name
    world.kubectl("delete", "namespace", name, "--wait=false")


async def workloads_of(transport: Transport) -> Workloads:
    return await WorkloadLister(transport.request).list(started=datetime.now(UTC), began=time.monotonic())


def of(workloads: Workloads, title: str) -> Controller | None:
    mark = workloads.marks.get(title)
    return None if mark is None else workloads.controllers[mark]


def a_controller(kind: str, *, api_version: str = "apps/v1", on: World | None = None, **spec: Any) -> Object:
    """Return one whose pods run on the nodes of a world, or on none."""
    where = {"nodeSelector": {"example.com/none": "none"} if on is None else on.selector}
    labels = {"app": kind.lower()}
    template = {"metadata": {"labels": labels}, "spec": {**POD, **where}}
    selector: Object = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    if kind == "ReplicationController":
        selector = {"selector": labels}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"template": template, **selector, **spec},
    }


async def create(world: World, namespace: str, *manifests: Object) -> None:
    text = "\n".join(map(json.dumps, manifests))
    await asyncio.to_thread(world.kubectl, "create", "-n", namespace, "-f", "-", stdin=text)


async def test_every_kind_of_controller_is_read_as_the_api_server_has_it(
    world: World, transport: Transport, namespace: str
) -> None:
    pod = {**POD, "restartPolicy": "Never", "nodeSelector": {"example.com/none": "none"}}
    job = a_controller("Job", api_version="batch/v1", parallelism=2, completions=4)
    job["spec"]["template"]["spec"] = pod
    await create(
        world,
        namespace,
        a_controller("Deployment", replicas=3, paused=True),
        a_controller("ReplicaSet", replicas=2),
        a_controller("StatefulSet", replicas=4, serviceName="web"),
        a_controller("ReplicationController", api_version="v1", replicas=1),
        job,
    )
    found = await workloads_of(transport)
    read = {each.kind: each for each in found.controllers.values() if each.name == f"{namespace}/web"}
    assert {kind: (each.wanted, each.ready) for kind, each in read.items()} == {
        "Deployment": (3, 0),
        "ReplicaSet": (2, 0),
        "StatefulSet": (4, 0),
        "ReplicationController": (1, 0),
        "Job": (2, 0),
    }
    assert [kind for kind, each in read.items() if each.is_paused] == ["Deployment"]
    assert all(each.uid for each in read.values())


async def test_a_deployment_that_loses_a_pod_is_not_back_before_it_has_another(
    world: World, transport: Transport, namespace: str
) -> None:
    [node] = await asyncio.to_thread(world.fleet, windows=1)
    title = f"Deployment {namespace}/web"
    await create(world, namespace, a_controller("Deployment", on=world, replicas=2))

    async def known(*, ready: int) -> Workloads:
        found = await workloads_of(transport)
        while (deployment := of(found, title)) is None or deployment.ready != ready:
            await asyncio.sleep(0.2)
            found = await workloads_of(transport)
        return found

    async with asyncio.timeout(60):
        before = await known(ready=2)
        page = await PodLister(transport.request).list_node(node)
        pods = [each for each in page.pods if each.namespace == namespace]
        assert len(pods) == 2
        baseline = baseline_of(pods, before)
        assert [*baseline.ready.values()] == [2]
        await asyncio.to_thread(world.kubectl, "cordon", node)
        await asyncio.to_thread(world.kubectl, "delete", "pod", "-n", namespace, pods[0].name, "--wait=false")
        evicted = datetime.now(UTC)
        found = settled(baseline, await known(ready=1), last_eviction=evicted, now=datetime.now(UTC))
        assert found.waiting == (f"{title} (1 of 2 Ready)",)
        await asyncio.to_thread(world.kubectl, "uncordon", node)
        assert settled(
            baseline, await known(ready=2), last_eviction=evicted, now=datetime.now(UTC)
        ).is_settled


async def test_an_attached_volume_is_known_by_its_node_until_its_attachment_is_gone(
    world: World, transport: Transport
) -> None:
    api, name = world.testbed.api(), f"csi-{world.suffix}"
    node = f"no-such-node-{world.suffix}"
    source = {"persistentVolumeName": f"pv-{world.suffix}"}
    spec = {"attacher": "disk.csi.example.com", "nodeName": node, "source": source}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    api.create(ATTACHMENTS, {**head, "metadata": {"name": name}, "spec": spec})

    async def volumes() -> tuple[str, ...]:
        lister = AttachmentLister(transport.request)
        return (await lister.list(started=datetime.now(UTC), began=0.0)).volumes.get(node, ())

    assert await volumes() == (f"pv-{world.suffix}",)
    api.delete(f"{ATTACHMENTS}/{name}")
    await asyncio.to_thread(_gone, api, f"{ATTACHMENTS}/{name}")
    assert await volumes() == ()


def _gone(api: Api, path: str) -> None:
    collection, _, name = path.rpartition("/")
    eventually(
        lambda: name not in [each["metadata"]["name"] for each in api.get(collection)["items"]],
        what="the attachment to go",
    )


async def test_a_watch_keeps_budgets_as_they_are(world: World, transport: Transport, namespace: str) -> None:
    changes: list[float] = []
    watch = BudgetWatch(
        transport, on_change=lambda: changes.append(time.monotonic()), monotonic=time.monotonic
    )
    pod = Pod(namespace, "web-1", "w1", labels={"app": "web"})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }

    def block() -> Block | None:
        return BudgetIndex(watch.all()).block_of(pod)

    watching = asyncio.create_task(watch.run())
    try:
        await until(lambda: watch.is_in_step, what="the watch in step")
        assert block() is None
        await create(world, namespace, budget)
        blocked = await until(block, what="the budget")
        assert blocked is not None
        assert (blocked.why, blocked.budgets) == (BlockedBy.NONE_ALLOWED, ("web",))
        edit = '{"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}'
        await asyncio.to_thread(
            world.kubectl, "patch", "pdb", "-n", namespace, "web", "--type=merge", "-p", edit
        )
        await until(lambda: block() is None, what="the budget that lets pods go that are not Ready")
        await asyncio.to_thread(world.kubectl, "delete", "pdb", "-n", namespace, "web")
        await until(lambda: not [each for each in watch.all() if each.namespace == namespace], what="none")
        assert changes
        assert watch.problem is None
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
