"""The operator is killed between intent and eviction, and right after the eviction (P5, P8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.evictions import Eviction, Evictions
from cluster.memory_pods import growing, steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    EVERY_SECONDS,
    HOLD_SECONDS,
    LONG_SECONDS,
    PATIENCE_SECONDS,
    control_plane,
    machines,
    watching_operator,
)
from harness.nodes import annotations_of
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.keys import MEMORY_ANNOTATION

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
"""Guards in the tests end before: each waits for some minutes at most, one after the other."""

HOLDS_MEMORY_SECONDS = 25
"""So long a pod that was evicted holds its memory: to the next operator the node is as full as before."""


@pytest.fixture(scope="module")
def memory_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with control_plane(tmp_path_factory.mktemp("crash")) as running:
        yield running


@pytest.fixture
def scene(memory_testbed: Testbed, tmp_path: Path) -> Iterator[Scene]:
    """A node with three pods that grow, of which one is to go, and an operator that has not started."""
    world = World(memory_testbed, directory=tmp_path)
    world.operator = watching_operator(world)
    try:
        with machines(world, seeing=1) as stage:
            found = Scene(stage, key="crash", nodes=list(stage.fleets))
            for number in range(3):
                found.pods.run(
                    f"pod{number}",
                    found.node,
                    growing("7300Mi", per_minute=40),
                    stop_seconds=HOLDS_MEMORY_SECONDS,
                )
            yield found
            found.pods.close()
    finally:
        world.close()


class Gate:
    """Keeps the first eviction waiting until it is opened, and refuses it then; lets all others pass."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self._open = threading.Event()

    def admit(self, _: Eviction) -> bool:
        if self.arrived.is_set():
            return True
        self.arrived.set()
        self._open.wait(timeout=25)
        return False

    def open(self) -> None:
        self._open.set()


def start(scene: Scene) -> None:
    """Start the operator with a pool that permits one eviction on the node in an hour."""
    scene.world.operator.start()
    scene.pool("Evict", eviction={"maxPodsPerNode": 1, "periodSeconds": 3600})


def test_a_kill_between_intent_and_eviction_leads_to_that_one_eviction(scene: Scene) -> None:
    gate = Gate()
    with Evictions(scene.world.testbed, admit=gate.admit) as evictions:
        start(scene)
        assert gate.arrived.wait(PATIENCE_SECONDS)
        [held] = evictions.seen
        assert held.pod_uid in annotations_of(scene.read())[MEMORY_ANNOTATION]
        scene.world.operator.kill()
        gate.open()
        scene.world.operator.start()
        eventually(lambda: evictions.admitted, what="an eviction", seconds=LONG_SECONDS, every=EVERY_SECONDS)
        others = {*scene.pods.staying()} - {held.pod_uid}
        scene.spares(*others, seconds=HOLDS_MEMORY_SECONDS + HOLD_SECONDS)
        assert [each.pod_uid for each in evictions.admitted] == [held.pod_uid]


def test_a_kill_right_after_the_eviction_leads_to_no_other(scene: Scene) -> None:
    with Evictions(scene.world.testbed) as evictions:
        start(scene)
        # What is admitted is not carried out yet, and is given up where the client is gone.
        eventually(
            lambda: [each for each in evictions.admitted if each.pod_uid not in scene.pods.staying()],
            what="a pod that ends",
            seconds=PATIENCE_SECONDS,
            every=0.05,
        )
        scene.world.operator.kill()
        [evicted] = evictions.admitted
        assert evicted.pod_uid in evicted.intents
        others = {*scene.pods.staying()} - {evicted.pod_uid}
        scene.world.operator.start()
        scene.spares(*others, seconds=HOLDS_MEMORY_SECONDS + HOLD_SECONDS)
        assert [each.pod_uid for each in evictions.admitted] == [evicted.pod_uid]
        eventually(
            lambda: not scene.signal()[1], what="the taint off", seconds=LONG_SECONDS, every=EVERY_SECONDS
        )


def test_a_restart_with_a_full_node_and_a_used_limit_evicts_nobody(scene: Scene) -> None:
    """Each restart begins with detectors that know nothing; what was done is on the node."""
    with Evictions(scene.world.testbed) as evictions:
        start(scene)
        eventually(
            lambda: evictions.admitted, what="an eviction", seconds=PATIENCE_SECONDS, every=EVERY_SECONDS
        )
        [evicted] = evictions.admitted
        for _ in range(2):
            scene.world.operator.kill()
            scene.world.operator.start()
        scene.pods.run("more", scene.node, steady("8Gi"), tolerant=True)
        eventually(
            lambda: evicted.pod_uid not in {each["metadata"]["uid"] for each in scene.pods.all()},
            what="the evicted pod gone",
            seconds=PATIENCE_SECONDS,
            every=EVERY_SECONDS,
        )
        scene.await_pressured(1)
        scene.spares(*(uid for uid, node in scene.pods.staying().items() if node))
        assert [each.pod_uid for each in evictions.admitted] == [evicted.pod_uid]
