"""Events as people see them: in ``kubectl describe``, in ``kubectl events``, and not in floods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from cluster.door import Object, a_node_manifest, a_transport, until
from harness.world import World
from winpool.kube import events
from winpool.kube.client import Transport
from winpool.kube.events import EventRecord, EventRecorder


@pytest.fixture
async def transport(world: World) -> AsyncIterator[Transport]:
    async with a_transport(world.testbed.kubeconfig("winpool")) as opened:
        yield opened


@asynccontextmanager
async def a_recorder(transport: Transport) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(transport, reporting_instance="test", now=lambda: datetime.now(UTC))
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await recorder.flush()


def about(thing: Object, *, reason: str = "DriftRepaired", note: str = "put the label back") -> EventRecord:
    return EventRecord(
        api_version=thing["apiVersion"],
        kind=thing["kind"],
        name=thing["metadata"]["name"],
        uid=thing["metadata"]["uid"],
        reason=reason,
        action="RepairNode",
        note=note,
    )


async def test_an_event_of_a_node_shows_in_describe(world: World, transport: Transport) -> None:
    name = f"w-{world.suffix}"
    world.kubectl("create", "-f", "-", stdin=a_node_manifest(name, labels=world.selector))
    try:
        async with a_recorder(transport) as recorder:
            recorder.record(about(world.node(name)))
            await until(lambda: recorder.posted, what="the event is posted")
        described = world.kubectl("describe", "node", name)
        assert "DriftRepaired" in described.partition("Events:")[2]
        assert "put the label back" in world.kubectl("events", "--for", f"node/{name}")
    finally:
        world.kubectl("delete", "node", name)


async def test_an_event_of_a_pool_shows_in_describe_and_repetitions_are_counted(
    world: World, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "REPETITION_SECONDS", 0.5)
    name = await asyncio.to_thread(world.apply, world.pool())
    pool = world.get("wnp", name)
    async with a_recorder(transport) as recorder:
        for _ in range(3):
            recorder.record(about(pool, reason="PoolOverlap", note="too long " * 300))
        await until(lambda: recorder.posted == 2, what="one event, and one repetition for two")
        recorder.record(about(pool, reason="PoolOverlap", note="too long " * 300))
        await until(lambda: recorder.posted == 3, what="a later repetition")
        assert recorder.dropped == {}
    (event,) = world.events(kind="WindowsNodePool", name=name)
    assert event["series"]["count"] == 4
    assert event["message"].endswith("…")
    assert event["reportingComponent"] == "winpool.dev/winpool"
    described = world.kubectl("describe", "wnp", name).partition("Events:")[2]
    assert "(x4 over" in described


async def test_a_repetition_of_an_event_that_is_gone_begins_anew(
    world: World, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "REPETITION_SECONDS", 0.1)
    name = await asyncio.to_thread(world.apply, world.pool())
    pool = world.get("wnp", name)
    async with a_recorder(transport) as recorder:
        recorder.record(about(pool))
        await until(lambda: recorder.posted == 1, what="the event is posted")
        (first,) = world.events(kind="WindowsNodePool", name=name)
        world.kubectl("delete", "event", first["metadata"]["name"], "-n", "default")
        recorder.record(about(pool))
        await until(lambda: recorder.posted == 2, what="the repetition is posted")
    (second,) = world.events(kind="WindowsNodePool", name=name)
    assert second["metadata"]["name"] != first["metadata"]["name"]


async def test_what_is_queued_is_sent_at_the_end(world: World, transport: Transport) -> None:
    name = await asyncio.to_thread(world.apply, world.pool())
    recorder = EventRecorder(transport, reporting_instance="test", now=lambda: datetime.now(UTC))
    recorder.record(about(world.get("wnp", name)))
    await recorder.flush()
    assert recorder.posted == 1
    assert len(world.events(kind="WindowsNodePool", name=name)) == 1


async def test_events_that_may_not_be_posted_are_dropped_at_once_and_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = world.testbed.user_kubeconfig(f"nobody-{world.suffix}")
    name = await asyncio.to_thread(world.apply, world.pool())
    pool = world.get("wnp", name)
    async with a_transport(nobody) as transport, a_recorder(transport) as recorder:
        for reason in ("One", "Two", "Three"):
            recorder.record(about(pool, reason=reason))
        await until(lambda: recorder.dropped["Failed"] == 3, what="all are dropped", seconds=5)
    assert recorder.posted == 0
    assert len([m for m in caplog.messages if "cannot create resource" in m]) == 1
