"""An eviction that waits for its turn: what changes meanwhile is seen before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node
from harness.memory_fleet import Stage, a_watching_pool
from harness.services import some_services
from harness.virtual_time import run_virtually, running
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_ANNOTATION
from winpool.api.upgrade import UpgradeState
from winpool.controllers.evictions import EVICTIONS_IN_FLIGHT, eviction_answers, make_evictor
from winpool.controllers.pool import Executor
from winpool.controllers.status import Announcer
from winpool.controllers.writes import Outcome
from winpool.decide import Decision
from winpool.features.memory.eviction import VALID_SECONDS
from winpool.features.upgrade.claims import Claim, Limits, Machine, Target, text_of
from winpool.features.upgrade.drain import WHY
from winpool.kube.client import Transport
from winpool.kube.events import EventRecord, EventRecorder
from winpool.kube.request import Request
from winpool.kubelet.samples import Outcome as PollOutcome
from winpool.kubelet.samples import PollError
from winpool.loops import Clock
from winpool.model.node import Eviction, Node, Premise
from winpool.model.pressure import Axis
from winpool.plan_writes import Writes
from winpool.status.pods import Deletions

EVICTED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
WAIT_SECONDS = 5.0
HOT = 23.8
CALM = 12.0


class Nothing:
    """Writes of another kind."""

    async def run(self, *_: Any, **__: Any) -> Outcome[Any]:
        return Outcome()


class Recorder:
    """Keeps reason and object of each event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def record(self, event: EventRecord, **_: Any) -> None:
        self.events.append((event.reason, event.name))


def a_claim(state: UpgradeState) -> Claim:
    return Claim(
        claim="c1",
        target=Target(version="2022", revision=4171),
        state=state,
        since=NOON,
        before=Machine.of(a_node("w1")),
        limits=Limits(60, 60, 60, 60, 60, 60, 60, 60),
    )


NO_DELETIONS = Deletions("pool", "uid-of-pool", {}, {}, frozenset())


class Scene:
    """A node that is short of memory, and an Evictor whose places are all taken for some seconds."""

    def __init__(self, numbers: Iterable[int]) -> None:
        loop = asyncio.get_running_loop()
        self.stage = Stage(numbers)
        self.stage.machine(0).committed = lambda _: HOT
        self.node = self.stage.nodes[0]
        self.nodes: dict[str, Node] = {self.node.name: self.node}
        self.generation = 1
        self.sent: list[str] = []
        self.wakes = 0
        self.begun = loop.time()
        transport = cast(Transport, SimpleNamespace(request=self._request))
        clock = Clock(now=self.now, monotonic=loop.time)
        self.evictor = make_evictor(
            transport,
            answers=eviction_answers(self.stage.collector, clock=clock),
            memory=self.stage.collector,
            known=self.nodes,
            clock=clock,
        )
        nothing: Any = Nothing()
        services = some_services(
            patches=nothing,
            conditions=nothing,
            evictions=self.evictor,
            wake=self._wake,
        )
        self.recorder = Recorder()
        self.executor = Executor("pool", services, Announcer(cast(EventRecorder, self.recorder), "pool"))

    def now(self) -> datetime:
        return NOON + timedelta(seconds=asyncio.get_running_loop().time() - self.begun)

    def eviction(self, node: Node | None = None, *, intended_ago: float = 2.0) -> Eviction:
        intended_at = self.now() - timedelta(seconds=intended_ago)
        premise = Premise(node or self.node, Axis.COMMIT, intended_at, "20%")
        return Eviction(
            "shop", "hog", "uid-hog", self.node.name, "it uses most", self.node.uid, 4.0, premise=premise
        )

    async def perform(self, *evictions: Eviction) -> None:
        decision = cast(
            Decision,
            SimpleNamespace(writes=Writes(evictions=evictions), node_events={}, deletions=NO_DELETIONS),
        )
        self.executor.follow(decision)
        is_wanted = self._is_of(self.generation)
        backoff: Any = SimpleNamespace(failing=())
        await self.executor.perform(decision, backoff=backoff, is_wanted=is_wanted)

    def change(self, **changes: Any) -> None:
        self.nodes[self.node.name] = replace(self.node, **changes)

    def _is_of(self, generation: int) -> Callable[[], bool]:
        return lambda: self.generation == generation

    def _wake(self, _: str) -> None:
        self.wakes += 1

    async def _request(self, request: Request) -> bytes:
        self.sent.append(request.name)
        await asyncio.sleep(WAIT_SECONDS)
        return EVICTED


@asynccontextmanager
async def a_scene(numbers: Iterable[int] = (0,)) -> AsyncIterator[Scene]:
    """Begin where an eviction is right; the first node of the pool is short of memory."""
    scene = Scene(numbers)
    pool = a_watching_pool(mode="Evict")
    async with running(scene.stage.collector.run()):
        scene.stage.collector.want(pool, scene.stage.nodes)
        await asyncio.sleep(120)
        assert scene.stage.known(pool).views[scene.node.uid].evictable
        yield scene


async def sent_after(
    scene: Scene, meanwhile: Callable[[Scene], None], *, eviction: Eviction | None = None, **how: Any
) -> bool:
    """Decide an eviction, let it wait for a place, and return whether it was sent at last."""
    others = [
        Eviction("shop", f"other-{each}", f"uid-{each}", "w9", "a drain")
        for each in range(EVICTIONS_IN_FLIGHT)
    ]
    busy = asyncio.create_task(scene.evictor.run(others))
    await asyncio.sleep(0.1)
    await scene.perform(eviction or scene.eviction(**how))
    await asyncio.sleep(1)
    assert "shop/hog" not in scene.sent, "it waits"
    meanwhile(scene)
    await busy
    await asyncio.sleep(2 * WAIT_SECONDS)
    return "shop/hog" in scene.sent


def nothing(_: Scene) -> None: ...


def held(scene: Scene) -> None:
    scene.change(annotations={HOLD_ANNOTATION: ""})


def cordoned(scene: Scene) -> None:
    scene.change(unschedulable=True)


def another_machine(scene: Scene) -> None:
    scene.change(uid="uid-of-the-next")


def left(scene: Scene) -> None:
    scene.change(labels={"kubernetes.io/os": "windows"})


def kubelet_evicts(scene: Scene) -> None:
    scene.change(kubelet_pressure="True")


def gone(scene: Scene) -> None:
    scene.nodes.clear()


def edited(scene: Scene) -> None:
    """Paused, another mode, deleted: each is another generation."""
    scene.generation = 2


def decided_otherwise(scene: Scene) -> None:
    scene.executor.follow(cast(Decision, SimpleNamespace(writes=Writes())))


def not_watched(scene: Scene) -> None:
    scene.stage.collector.forget("pool")


@pytest.mark.parametrize(
    "meanwhile",
    [
        held,
        cordoned,
        another_machine,
        left,
        kubelet_evicts,
        gone,
        edited,
        decided_otherwise,
        not_watched,
    ],
    ids=lambda each: each.__name__,
)
def test_what_happens_while_an_eviction_waits_is_seen(meanwhile: Callable[[Scene], None]) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            assert not await sent_after(scene, meanwhile)
            assert scene.wakes == 1, "another pass decides"
            assert scene.recorder.events == []

    run_virtually(play())


def uncordoned(scene: Scene) -> None:
    scene.change(unschedulable=False)


def given_up(scene: Scene) -> None:
    scene.change(annotations={})


def handed_over(scene: Scene) -> None:
    scene.change(annotations={UPGRADE_ANNOTATION: text_of(a_claim(UpgradeState.UPGRADING))})


def blocked(scene: Scene) -> None:
    scene.change(annotations={UPGRADE_ANNOTATION: text_of(a_claim(UpgradeState.DRAIN_BLOCKED))})


@pytest.mark.parametrize(
    ("meanwhile", "is_sent"),
    [
        (nothing, True),
        (blocked, True),
        (uncordoned, False),
        (given_up, False),
        (handed_over, False),
        (another_machine, False),
        (gone, False),
        (edited, False),
        (decided_otherwise, False),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_an_eviction_of_a_drain_is_sent_only_while_its_node_is_drained(
    meanwhile: Callable[[Scene], None], is_sent: bool
) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            text = text_of(a_claim(UpgradeState.DRAINING))
            scene.node = replace(scene.node, unschedulable=True, annotations={UPGRADE_ANNOTATION: text})
            scene.change()
            of_drain = Eviction("shop", "hog", "uid-hog", scene.node.name, WHY, drained_uid=scene.node.uid)
            assert await sent_after(scene, meanwhile, eviction=of_drain) is is_sent

    run_virtually(play())


def test_an_eviction_that_takes_long_holds_up_none_that_is_decided_on_later() -> None:
    """Both are sent once."""

    async def play() -> None:
        async with a_scene() as scene:
            first = Eviction("shop", "slow", "uid-slow", "w9", WHY)
            later = Eviction("shop", "web", "uid-web", "w9", WHY)
            await scene.perform(first)
            await asyncio.sleep(1)
            await scene.perform(first, later)
            await asyncio.sleep(1)
            assert scene.sent == ["shop/slow", "shop/web"]
            await scene.perform(first, later)
            await asyncio.sleep(2 * WAIT_SECONDS)
            assert scene.sent == ["shop/slow", "shop/web"]

    run_virtually(play())


def test_an_eviction_that_waits_for_its_turn_is_not_queued_again() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            many = [Eviction("shop", f"web-{each}", f"uid-{each}", "w9", WHY) for each in range(12)]
            for _ in range(20):
                await scene.perform(*many)
                await asyncio.sleep(0.1)
            batches = [each for each in asyncio.all_tasks() if each.get_name() == "evictions of pool pool"]
            assert len(batches) == 1
            await asyncio.sleep(3 * WAIT_SECONDS)
            assert sorted(scene.sent) == sorted(each.full_name for each in many)

    run_virtually(play())


def test_an_eviction_that_waits_is_sent_where_all_is_as_it_was_and_an_event_tells_of_it() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            assert await sent_after(scene, nothing)
            assert scene.sent.count("shop/hog") == 1
            assert scene.recorder.events == [("PodEvicted", scene.node.name), ("PodEvicted", "hog")]

    run_virtually(play())


def test_an_eviction_that_a_later_pass_decided_on_the_changed_node_is_sent() -> None:
    """The pass itself has written the node, as with conditions: the eviction need not wait for another."""

    def written(scene: Scene) -> None:
        scene.change(annotations={"winpool.dev/memory": "as the pass has written it"})
        again = scene.eviction(scene.nodes[scene.node.name])
        scene.executor.follow(cast(Decision, SimpleNamespace(writes=Writes(evictions=(again,)))))

    async def play() -> None:
        async with a_scene() as scene:
            assert await sent_after(scene, written)

    run_virtually(play())


def test_samples_that_grow_stale_while_an_eviction_waits_are_seen() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            scene.stage.machine(0).error = PollError(PollOutcome.NO_CONNECTION, "")
            pool = a_watching_pool(mode="Evict")
            view = scene.stage.known(pool).views[scene.node.uid]
            sampled = view.axes[Axis.COMMIT].sampled_at
            assert sampled is not None
            age = asyncio.get_running_loop().time() - sampled
            await asyncio.sleep(25.0 - age - WAIT_SECONDS / 2)
            assert scene.stage.known(pool).views[scene.node.uid].evictable, "they are fresh"
            assert not await sent_after(scene, nothing)

    run_virtually(play())


def test_a_node_that_recovers_while_an_eviction_waits_keeps_its_pod() -> None:
    def calm(scene: Scene) -> None:
        scene.stage.machine(0).committed = lambda _: CALM

    async def play() -> None:
        async with a_scene() as scene:
            since = scene.stage.time - scene.stage.polls_of(0)[-1]
            await asyncio.sleep((7 - since) % 10)  # hot nodes are polled every ten seconds
            assert not await sent_after(scene, calm)

    run_virtually(play())


def test_an_intent_that_grows_too_old_while_its_eviction_waits_is_seen() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            assert not await sent_after(scene, nothing, intended_ago=VALID_SECONDS - WAIT_SECONDS / 2)

    run_virtually(play())


def test_a_surge_that_shows_while_an_eviction_waits_is_seen() -> None:
    """The other nodes were calm when it was decided, and are polled and found short of memory since."""

    async def play() -> None:
        async with a_scene(range(4)) as scene:
            for number in range(1, 4):
                scene.stage.machine(number).committed = lambda _: HOT
            last = scene.stage.polls_of(1)[-1]
            await asyncio.sleep(last + 60 - WAIT_SECONDS / 2 - scene.stage.time)
            assert not await sent_after(scene, nothing)

    run_virtually(play())


def test_calm_nodes_beside_do_not_keep_an_eviction_that_waits_from_being_sent() -> None:
    async def play() -> None:
        async with a_scene(range(4)) as scene:
            await asyncio.sleep(60)  # all were looked at since
            assert await sent_after(scene, nothing)

    run_virtually(play())
