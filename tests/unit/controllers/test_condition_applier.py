"""Conditions of nodes: each node waits for itself, and only with what was to stand there already."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, by_name
from harness.virtual_time import in_virtual_time
from winpool.controllers.backoff import LOOK_SECONDS
from winpool.controllers.writes import ConditionApplier
from winpool.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import ConditionsPatch, Node, NodeCondition

IN_FLIGHT = 8

HIGH = NodeCondition("WindowsMemoryPressure", "True", "CommitHigh")
CALM = NodeCondition("WindowsMemoryPressure", "False", "Enough")
DRAINED = NodeCondition("Drained", "True")
CONFLICT = Conflict("patch nodes/status w1: 409", status=409)
BROKEN = Unavailable("patch nodes/status w1: 500", status=500)
BUSY = TooManyRequests("patch nodes/status w1: 429", status=429, retry_after=5.0)


class ConditionWriter(Writer):
    """Takes ``seconds`` for each write. ``answers`` are the errors to come, by the name of the node."""

    def __init__(self, *, seconds: float) -> None:
        self.asked: list[tuple[str, str, tuple[NodeCondition, ...]]] = []
        self.times: list[datetime] = []
        self.answers: dict[str, list[ApiError]] = {}
        self.most = 0
        self._seconds = seconds
        self._now = 0

    async def apply_node_conditions(self, patch: ConditionsPatch, *, now: datetime) -> Node:
        node = patch.node
        self.asked.append((node.name, node.resource_version, patch.conditions))
        self.times.append(now)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds)
        self._now -= 1
        if answers := self.answers.get(node.name):
            raise answers.pop(0)
        version = str(int(node.resource_version) + 1)
        return replace(node, resource_version=version, conditions=patch.conditions)


@dataclass
class Scene:
    """A ConditionApplier and what it knows; make it inside a running event loop."""

    nodes: dict[str, Node]
    seconds: float = 0.0
    accepted: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = ConditionWriter(seconds=self.seconds)
        self.applier = ConditionApplier(
            writer=self.writer,
            known=self.nodes,
            accept_written=self.accept,
            clock=Clock(now=lambda: NOON, monotonic=asyncio.get_running_loop().time),
        )

    def accept(self, node: Node) -> None:
        self.accepted.append(node)
        self.nodes[node.name] = node

    def patch(self, *conditions: NodeCondition, name: str = "w1") -> ConditionsPatch:
        return ConditionsPatch(self.nodes[name], conditions)

    async def write(self, *conditions: NodeCondition) -> int:
        """Have these stand on w1; return how many writes that has led to."""
        before = len(self.writer.asked)
        await self.applier.run([self.patch(*conditions)])
        return len(self.writer.asked) - before

    def undo(self) -> None:
        """Take all conditions off w1, as somebody else."""
        node = self.nodes["w1"]
        self.nodes["w1"] = replace(node, conditions=(), resource_version=str(int(node.resource_version) + 1))

    def heartbeat(self) -> None:
        node = self.nodes["w1"]
        self.nodes["w1"] = replace(node, resource_version=str(int(node.resource_version) + 1))


def a_scene(number: int = 1, *, seconds: float = 0.0) -> Scene:
    return Scene(dict(by_name(*(a_node(f"w{each}") for each in range(1, number + 1)))), seconds)


@in_virtual_time
async def test_of_all_pools_together_8_writes_are_in_flight_and_no_more() -> None:
    scene = a_scene(90, seconds=0.1)
    patches = [scene.patch(HIGH, name=name) for name in scene.nodes]
    await asyncio.gather(*(scene.applier.run(patches[each::3]) for each in range(3)))
    assert (len(scene.writer.asked), scene.writer.most) == (90, IN_FLIGHT)


@in_virtual_time
async def test_what_is_written_is_handed_on_and_remembered() -> None:
    scene = a_scene()
    outcome = await scene.applier.run([scene.patch(HIGH, DRAINED)])
    assert [act.conditions for act in outcome.done] == [(HIGH, DRAINED)]
    assert [node.conditions for node in scene.accepted] == [(HIGH, DRAINED)]
    assert scene.applier.standing.get("uid-of-w1") == (DRAINED, HIGH)
    assert scene.applier.standing.get("uid-of-w2") is None
    assert scene.writer.times == [NOON]


@in_virtual_time
async def test_a_set_that_was_taken_off_stands_as_none() -> None:
    scene = a_scene()
    await scene.write(HIGH)
    await scene.write()
    assert scene.applier.standing.get("uid-of-w1") == ()


@in_virtual_time
async def test_a_write_that_failed_is_not_remembered_as_standing() -> None:
    scene = a_scene()
    scene.writer.answers["w1"] = [BROKEN]
    await scene.write(HIGH)
    assert (scene.applier.standing.get("uid-of-w1"), scene.accepted) == (None, [])


@in_virtual_time
async def test_it_is_sent_on_the_newest_state_and_not_where_that_is_another_to_look_at() -> None:
    scene = a_scene()
    stale = scene.patch(HIGH)
    scene.heartbeat()
    await scene.applier.run([stale])
    assert scene.writer.asked == [("w1", "2", (HIGH,))]
    stale = scene.patch(CALM)
    scene.nodes["w1"] = replace(scene.nodes["w1"], ready="False")
    outcome = await scene.applier.run([stale])
    assert (len(scene.writer.asked), outcome.remaining) == (1, 1)


@in_virtual_time
async def test_a_node_that_fails_waits_with_the_same_and_not_with_another_set() -> None:
    scene = a_scene(2)
    scene.writer.answers["w1"] = [BROKEN, BROKEN]
    patches = [scene.patch(HIGH), scene.patch(HIGH, name="w2")]
    outcome = await scene.applier.run(patches)
    assert [act.node.name for act in outcome.done] == ["w2"]
    assert (outcome.stopped, outcome.error) == ([(patches[0], BROKEN)], None)
    assert scene.applier.seconds_to_next(patches) == 2.0
    assert await scene.write(HIGH) == 0
    assert await scene.write(CALM) == 1, "another set: it fails as well"
    assert [await scene.write(HIGH), await scene.write(CALM)] == [0, 0]
    await asyncio.sleep(2)
    assert scene.applier.seconds_to_next([scene.patch(HIGH)]) == 0.0
    assert await scene.write(HIGH) == 1
    assert scene.applier.seconds_to_next([scene.patch(HIGH)]) is None


@in_virtual_time
async def test_a_failure_comes_later_and_later_up_to_five_minutes() -> None:
    scene = a_scene()
    scene.writer.answers["w1"] = [BROKEN] * 10
    waits = []
    for _ in range(10):
        assert await scene.write(HIGH) == 1
        waits.append(scene.applier.seconds_to_next([scene.patch(HIGH)]) or 0.0)
        await asyncio.sleep(waits[-1])
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]


@in_virtual_time
async def test_a_conflict_waits_for_a_newer_state_and_no_longer() -> None:
    scene = a_scene()
    scene.writer.answers["w1"] = [CONFLICT, CONFLICT]
    assert await scene.write(HIGH) == 1
    assert (await scene.write(HIGH), scene.applier.seconds_to_next([scene.patch(HIGH)])) == (0, LOOK_SECONDS)
    scene.heartbeat()
    assert scene.applier.seconds_to_next([scene.patch(HIGH)]) == 0.0
    assert await scene.write(HIGH) == 1
    scene.heartbeat()
    assert await scene.write(HIGH) == 1
    assert scene.applier.standing.get("uid-of-w1") == (HIGH,)


@in_virtual_time
async def test_a_conflict_on_one_and_the_same_state_is_tried_later_and_later() -> None:
    scene = a_scene()
    scene.writer.answers["w1"] = [CONFLICT] * 3
    waits = []
    loop, looks = asyncio.get_running_loop(), 0
    for _ in range(3):
        begun = loop.time()
        assert await scene.write(HIGH) == 1
        while wait := scene.applier.seconds_to_next([scene.patch(HIGH)]):
            looks += 1
            await asyncio.sleep(wait)
            if scene.applier.seconds_to_next([scene.patch(HIGH)]):
                assert await scene.write(HIGH) == 0, "a look is no try"
        waits.append(loop.time() - begun)
    assert waits == pytest.approx([2.0, 4.0, 8.0])
    assert looks < 12, "a dead watch costs few looks"


@in_virtual_time
async def test_a_node_that_is_gone_stops_no_other() -> None:
    scene = a_scene(3)
    gone = NotFound("patch nodes/status w1: 404", status=404)
    scene.writer.answers["w1"] = [gone]
    outcome = await scene.applier.run([scene.patch(HIGH, name=name) for name in scene.nodes])
    assert [act.node.name for act in outcome.done] == ["w2", "w3"]
    assert [error for _, error in outcome.stopped] == [gone]


@in_virtual_time
async def test_an_error_of_the_cluster_ends_the_work_and_nobody_has_to_wait_for_it() -> None:
    scene = a_scene(50, seconds=0.1)
    scene.writer.answers["w2"] = [BUSY]
    patches = [scene.patch(HIGH, name=name) for name in scene.nodes]
    outcome = await scene.applier.run(patches)
    assert outcome.error is BUSY
    assert len(scene.writer.asked) < 2 * IN_FLIGHT
    assert outcome.remaining == 50 - len(outcome.done)
    assert scene.applier.seconds_to_next(patches) is None


@in_virtual_time
async def test_whoever_undoes_our_conditions_is_answered_later_and_later() -> None:
    scene = a_scene()
    waits = []
    for _ in range(5):
        assert await scene.write(HIGH) == 1
        scene.undo()
        waits.append(scene.applier.seconds_to_next([scene.patch(HIGH)]))
        await asyncio.sleep(waits[-1] or 0.0)
    assert waits == [None, 2.0, 4.0, 8.0, 16.0]


@in_virtual_time
async def test_back_and_forth_is_no_quarrel() -> None:
    scene = a_scene()
    for _ in range(10):
        assert [await scene.write(HIGH), await scene.write(CALM), await scene.write()] == [1, 1, 1]


@in_virtual_time
async def test_conditions_that_change_all_the_time_are_written_later_and_later() -> None:
    """A kubelet that lies chooses when they change: after 32 changes each one waits."""
    scene = a_scene()
    first, waits = 1 + 32, list[float]()
    for turn in range(first + 3):
        now = (HIGH, CALM)[turn % 2]
        waits.append(scene.applier.seconds_to_next([scene.patch(now)]) or 0.0)
        scene.heartbeat()
        await asyncio.sleep(waits[-1])
        assert await scene.write(now) == 1
    assert waits == [0.0] * (first + 1) + [2.0, 4.0]


@in_virtual_time
async def test_of_two_pauses_of_a_node_the_longer_one_counts() -> None:
    """Or passes would follow each other without a break until the longer one is over."""
    scene = a_scene()
    for turn in range(1 + 32 + 3):
        now = (HIGH, CALM)[turn % 2]
        await asyncio.sleep(scene.applier.seconds_to_next([scene.patch(now)]) or 0.0)
        assert await scene.write(now) == 1
    await asyncio.sleep(8)
    scene.writer.answers["w1"] = [CONFLICT]
    assert await scene.write(HIGH) == 1
    assert await scene.write(DRAINED) == 1
    scene.heartbeat()
    await asyncio.sleep(3)
    assert (scene.applier.seconds_to_next([scene.patch(HIGH)]) or 0.0) > 10
    assert await scene.write(HIGH) == 0


@in_virtual_time
async def test_a_quarrel_ends_with_another_set() -> None:
    scene = a_scene()
    for _ in range(2):
        await scene.write(HIGH)
        scene.undo()
    assert await scene.write(HIGH) == 0
    assert [await scene.write(CALM), await scene.write(HIGH)] == [1, 1]


@in_virtual_time
async def test_what_is_remembered_of_nodes_that_are_gone_is_forgotten() -> None:
    scene = a_scene(10)
    scene.writer.answers |= {f"w{each}": [CONFLICT] for each in (4, 5)}
    await scene.applier.run([scene.patch(HIGH, name=name) for name in scene.nodes])
    for name in scene.nodes.keys() - {"w3", "w4"}:
        del scene.nodes[name]
    await scene.applier.run([])
    assert [scene.applier.standing.get(f"uid-of-w{each}") for each in (2, 3)] == [None, (HIGH,)]
    assert scene.applier._overtaken.keys() == {"uid-of-w4"}


def test_each_trouble_is_logged_once_and_a_conflict_never(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="winpool.controllers.writes")

    @in_virtual_time
    async def scene() -> None:
        scene = a_scene()
        scene.writer.answers["w1"] = [CONFLICT, BROKEN, BROKEN, BROKEN]
        for second in range(200):
            await scene.write(HIGH)
            if scene.applier.standing.get("uid-of-w1") and second % 10 == 0:
                scene.undo()
            await asyncio.sleep(1)

    scene()
    assert caplog.messages == [
        f"node w1: the operator cannot write its conditions: {BROKEN}; it tries again after longer and "
        "longer pauses",
        "node w1: someone changed conditions of winpool; the operator restored them",
    ]
