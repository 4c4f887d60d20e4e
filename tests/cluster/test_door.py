"""Reading and writing nodes and pools through ``winpool.kube``, under the operator's own rights."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from msgspec.structs import replace

from cluster.door import Reflected, a_node_manifest, a_reflector, a_transport, until
from harness.world import World
from winpool.api.keys import PLURAL, RELEASE_FINALIZER
from winpool.kube.client import Transport
from winpool.kube.errors import Conflict, Forbidden, Invalid, NotFound
from winpool.kube.request import Request
from winpool.kube.writer import METADATA_ONLY, Writer
from winpool.model.node import NodePatch, Taint


@pytest.fixture
async def transport(world: World) -> AsyncIterator[Transport]:
    async with a_transport(world.testbed.kubeconfig("winpool")) as opened:
        yield opened


@pytest.fixture
async def reflected(transport: Transport) -> AsyncIterator[Reflected]:
    async with a_reflector(transport) as running:
        yield running


@pytest.fixture
def node(world: World) -> Iterator[str]:
    """A Windows node of this test without a kubelet."""
    name = f"w-{world.suffix}"
    world.kubectl("create", "-f", "-", stdin=a_node_manifest(name, labels=world.selector))
    yield name
    world.kubectl("delete", "node", name, "--ignore-not-found")


async def kubectl(world: World, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl as an admin while the loop goes on."""
    return await asyncio.to_thread(world.kubectl, *arguments, stdin=stdin)


# Nodes, read


async def test_nodes_are_listed_followed_and_let_go(world: World, reflected: Reflected, node: str) -> None:
    await until(lambda: node in reflected.reflector.objects, what="the node is seen")
    assert reflected.node(node).labels["kubernetes.io/os"] == "windows"

    await kubectl(world, "label", "node", node, "team=payments")
    await until(lambda: reflected.node(node).labels.get("team") == "payments", what="the label is seen")
    await kubectl(world, "cordon", node)
    await until(lambda: reflected.node(node).unschedulable, what="the cordon is seen")

    uid = reflected.node(node).uid
    await kubectl(world, "delete", "node", node)
    await until(lambda: node not in reflected.reflector.objects, what="the deletion is seen")
    manifest = a_node_manifest(node, labels=world.selector)
    await kubectl(world, "create", "-f", "-", stdin=manifest)
    await until(lambda: node in reflected.reflector.objects, what="its successor is seen")
    assert reflected.node(node).uid != uid
    stats = reflected.reflector.stats
    assert (stats.lists, stats.watches, stats.restarts, stats.undecodable) == (1, 1, 0, 0)


async def test_what_is_not_windows_is_not_there(world: World, reflected: Reflected, node: str) -> None:
    await until(lambda: node in reflected.reflector.objects, what="the node is seen")
    await kubectl(world, "label", "node", node, "kubernetes.io/os=linux", "--overwrite")
    await until(lambda: node not in reflected.reflector.objects, what="a node that is not Windows is let go")
    assert reflected.about(node)[-1][1] is None
    await kubectl(world, "label", "node", node, "kubernetes.io/os=windows", "--overwrite")
    await until(lambda: node in reflected.reflector.objects, what="it is taken back")


async def test_a_heartbeat_wakes_nobody(world: World, reflected: Reflected) -> None:
    (name,) = await asyncio.to_thread(world.fleet, windows=1)
    await until(lambda: name in reflected.reflector.objects, what="the node is seen")
    told = 0

    async def beat(second: int) -> None:
        nonlocal told
        told, version = len(reflected.about(name)), reflected.version(name)
        condition = {"type": "Ready", "lastHeartbeatTime": f"2026-11-01T12:00:{second}Z"}
        patch = json.dumps({"status": {"conditions": [condition]}})
        await kubectl(world, "patch", "node", name, "--subresource=status", "-p", patch)
        await until(lambda: reflected.version(name) != version, what="the heartbeat has arrived")

    for second in range(10, 40):
        await beat(second)
        if len(reflected.about(name)) == told:
            return
    pytest.fail("thirty heartbeats, and each was told as a change")


async def test_a_silent_watch_is_listed_around_without_a_flap(
    world: World, transport: Transport, node: str
) -> None:
    async with a_reflector(transport, silence_seconds=1.0) as impatient:
        stats = impatient.reflector.stats
        await until(lambda: stats.lists >= 3, what="two lists anew")
        assert stats.restarts >= 2
        assert all(new is not None for _, new in impatient.about(node)), "nothing was taken for gone"
        await kubectl(world, "label", "node", node, "after=silence")
        await until(lambda: "after" in impatient.node(node).labels, what="changes still arrive")


# Nodes, written


async def test_a_patch_answers_with_the_node_as_it_now_stands(
    world: World, reflected: Reflected, transport: Transport
) -> None:
    (name,) = await asyncio.to_thread(world.fleet, windows=1)
    await until(lambda: name in reflected.reflector.objects, what="the node is seen")
    ours = Taint(key="os", effect="NoSchedule", value="windows")

    async def write() -> None:
        before = reflected.node(name)
        written = await Writer(transport).patch_node(
            NodePatch(
                node=before,
                labels={"team": "payments"},
                annotations={"winpool.dev/applied": "{}"},
                taints=(*before.taints, ours),
            )
        )
        reflected.reflector.accept_written(written)
        assert reflected.node(name) == written
        assert written.labels == {**before.labels, "team": "payments"}
        assert written.annotations == {"winpool.dev/applied": "{}"}

    await retried(write)
    told = len(reflected.about(name))
    version = reflected.version(name)
    await kubectl(world, "annotate", "node", name, "example.com/mark=1")
    await until(lambda: reflected.version(name) != version, what="the echo and a foreign annotation")
    assert len(reflected.about(name)) == told, "neither changes anything that is asked for"

    manifest = world.get("node", name, "--show-managed-fields")
    assert manifest["metadata"]["labels"]["team"] == "payments"
    assert {"key": "os", "value": "windows", "effect": "NoSchedule"} in manifest["spec"]["taints"]
    assert "winpool" in {field["manager"] for field in manifest["metadata"]["managedFields"]}


async def test_a_stale_patch_is_a_conflict_and_changes_nothing(
    world: World, reflected: Reflected, transport: Transport, node: str
) -> None:
    stale = await until(lambda: reflected.reflector.objects.get(node), what="the node is seen")
    assert stale is not None
    await kubectl(world, "label", "node", node, "somebody=else")
    writer = Writer(transport)
    with pytest.raises(Conflict, match=f"patch nodes {node}: 409 "):
        await writer.patch_node(NodePatch(node=stale, labels={"team": "x"}, annotations={}, taints=None))
    assert "team" not in world.node(node)["metadata"]["labels"]
    gone = replace(stale, name=f"{node}-gone")
    with pytest.raises(NotFound):
        await writer.patch_node(NodePatch(node=gone, labels={"team": "x"}, annotations={}, taints=None))


async def test_taints_of_others_go_back_as_they_came(
    world: World, reflected: Reflected, transport: Transport, node: str
) -> None:
    foreign = [
        {"key": "example.com/one", "effect": "NoSchedule", "timeAdded": "2026-11-01T12:00:00Z"},
        {"key": "example.com/one", "value": "x", "effect": "PreferNoSchedule"},
    ]
    patch = json.dumps({"spec": {"taints": foreign}})
    await kubectl(world, "patch", "node", node, "--type=merge", "-p", patch)

    def seen() -> bool:
        held = reflected.reflector.objects.get(node)
        return held is not None and {t.key for t in held.taints} >= {"example.com/one"}

    await until(seen, what="the taints are seen")
    writer = Writer(transport)
    ours = Taint(key="os", effect="NoSchedule", value="windows")

    async def add() -> None:
        held = reflected.node(node)
        await writer.patch_node(NodePatch(node=held, labels={}, annotations={}, taints=(*held.taints, ours)))

    await retried(add)
    taints = world.node(node)["spec"]["taints"]
    assert [taint for taint in taints if taint["key"] == "example.com/one"] == foreign
    assert {"key": "os", "value": "windows", "effect": "NoSchedule"} in taints


async def retried(write: Callable[[], Awaitable[None]]) -> None:
    """Write again after a conflict, as every caller does: the control plane writes to nodes too."""
    for _ in range(20):
        try:
            await write()
        except Conflict:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError("twenty conflicts in a row")


async def test_an_answer_to_a_patch_is_only_metadata(transport: Transport, node: str) -> None:
    answer = await transport.request(
        Request(
            verb="patch",
            resource="nodes",
            path=f"/api/v1/nodes/{node}",
            body=b'{"metadata":{"labels":{"a":"b"}}}',
            content_type="application/merge-patch+json",
            accept=METADATA_ONLY,
        )
    )
    assert json.loads(answer)["kind"] == "PartialObjectMetadata"


async def test_what_the_operator_may_not_do_names_the_rule(transport: Transport, node: str) -> None:
    with pytest.raises(Forbidden) as caught:
        await transport.request(Request(verb="get", resource="nodes", path=f"/api/v1/nodes/{node}"))
    assert caught.value.permission is not None
    assert (caught.value.permission.verb, caught.value.permission.resource) == ("get", "nodes")


# Pools


async def test_pools_are_listed_and_their_finalizers_and_status_written(
    world: World, transport: Transport
) -> None:
    name = await asyncio.to_thread(world.apply, world.pool())
    writer = Writer(transport)
    listed = await writer.list_pools(tuple)
    (pool,) = [each for each in listed.items if each["metadata"]["name"] == name]
    stale = pool["metadata"]["resourceVersion"]
    assert int(listed.resource_version) >= int(stale)

    held = await writer.patch_pool_finalizers(
        name=name, resource_version=stale, finalizers=[RELEASE_FINALIZER]
    )
    assert held["metadata"]["finalizers"] == [RELEASE_FINALIZER]
    with pytest.raises(Conflict):
        await writer.patch_pool_finalizers(name=name, resource_version=stale, finalizers=[])
    with pytest.raises(Conflict):
        await writer.apply_pool_status(name=name, resource_version=stale, status={"nodes": 1})

    version = held["metadata"]["resourceVersion"]
    status = {"observedGeneration": 1, "nodes": 3, "readyNodes": 0}
    told = await writer.apply_pool_status(name=name, resource_version=version, status=status)
    assert told["status"]["nodes"] == 3
    version = told["metadata"]["resourceVersion"]
    again = await writer.apply_pool_status(name=name, resource_version=version, status=status)
    assert again["metadata"]["resourceVersion"] == version, "an equal status writes nothing"

    await asyncio.to_thread(world.delete, name, wait=False)
    going = next(p for p in (await writer.list_pools(tuple)).items if p["metadata"]["name"] == name)
    version = going["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match="finalizers"):
        await writer.patch_pool_finalizers(
            name=name, resource_version=version, finalizers=[RELEASE_FINALIZER, "example.com/another"]
        )
    await writer.patch_pool_finalizers(name=name, resource_version=version, finalizers=[])
    with pytest.raises(NotFound):
        await writer.patch_pool_finalizers(name=name, resource_version=version, finalizers=[])
    with pytest.raises(NotFound):
        await writer.apply_pool_status(name=name, resource_version=version, status=status)
    assert name not in {each["metadata"]["name"] for each in (await writer.list_pools(tuple)).items}


async def test_a_warning_of_the_server_is_logged_once(
    world: World, transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    name = await asyncio.to_thread(world.apply, world.pool())
    patch = json.dumps({"spec": {"noSuchField": 1}}).encode()
    for _ in range(3):
        await transport.request(
            Request(
                verb="patch",
                resource=PLURAL,
                path=f"/apis/winpool.dev/v1alpha1/{PLURAL}/{name}?fieldValidation=Warn",
                body=patch,
                content_type="application/merge-patch+json",
            )
        )
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f'the API server warns on patch {PLURAL}: unknown field "spec.noSuchField"']
