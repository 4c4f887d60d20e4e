"""Healthy memory is silent (P2), and what is asked for it is bounded (P7), also where two operators run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from cluster.memory_pods import steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    EVERY_SECONDS,
    HEALTHY,
    POLL_SECONDS,
    READER,
    READER_USER,
    Ground,
    ground,
    settings,
)
from harness.election import Pair, delete_lease, identity_of, wait_leading
from harness.operator import Operator
from harness.waiting import eventually, holds
from testbed.audit import AuditRecord

NODES = 6
SILENCE = timedelta(seconds=60)
"""Twenty polls of each node: as many as in 20 minutes at the usual interval."""


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    # Kubelets that trust nobody for long ask the API server about the token of every poll: its log has each.
    with ground(
        tmp_path_factory.mktemp("silence"), seeing=NODES, extra=("--kubelet-trust-seconds=0",)
    ) as made:
        yield made


@pytest.fixture
def pair(stage: Ground) -> Iterator[Pair]:
    """Two operators in place of the one of the stage, not started yet."""
    world = stage.world
    world.operator.close()
    made = Pair(world, environment=settings(world.testbed))
    try:
        yield made
    finally:
        made.first.close()
        made.second.close()
        delete_lease(world)
        world.operator.start()


def healthy_pool(stage: Ground, key: str) -> Scene:
    """Return a pool of all nodes, with a pod on each, once their memory is known and well."""
    scene = Scene(stage, key=key, nodes=list(stage.fleets))
    for number, node in enumerate(scene.nodes):
        scene.pods.run(f"small{number}", node, {**steady("1Gi"), "jitterPercent": 20})
    scene.pool("Evict")
    scene.await_members()
    eventually(
        lambda: scene.condition(HEALTHY).get("status") == "True",
        what="healthy memory",
        seconds=60,
        every=EVERY_SECONDS,
    )
    return scene


def polls(stage: Ground, *, since: datetime) -> Counter[str]:
    """Return how often each node was polled: its kubelet has asked about the token each time."""
    stage.world.testbed.settle_audit()
    found = stage.world.testbed.audit.requests(since=since, resource="tokenreviews")
    return Counter(each.user.removeprefix("system:node:") for each in found)


def assert_polled_once_an_interval(scene: Scene, *, since: datetime) -> None:
    """Assert that the nodes were polled by one operator during ``SILENCE``."""
    found = polls(scene.ground, since=since)
    expected = SILENCE.total_seconds() / POLL_SECONDS
    assert found.keys() == {*scene.nodes}, "or nobody polled"
    assert all(expected / 2 <= count <= expected * 1.25 + 1 for count in found.values()), found


def tokens_of(operator: Operator, stage: Ground, *, since: datetime) -> list[AuditRecord]:
    """Return the requests of an operator for a token of the reader."""
    agent = identity_of(operator)
    asked = stage.asked(since=since)
    return [each for each in asked if each.name == READER and agent in each.user_agent]


def test_a_healthy_fleet_that_is_polled_is_written_nothing_and_each_node_is_asked_once_an_interval(
    stage: Ground,
) -> None:
    scene = healthy_pool(stage, "quiet")
    eventually(lambda: scene.told() >= {"RolloutCompleted"}, what="the events of the start", every=1)
    before = scene.world.get("wnp", scene.name)["metadata"]["resourceVersion"]

    start = scene.world.now()
    holds(lambda: scene.world.operator.running, seconds=SILENCE.total_seconds(), every=1)
    asked = scene.ground.asked(since=start)
    assert [
        f"{each.verb} {each.uri}"
        for each in asked
        if each.verb not in ("watch", "list") and each.resource != "leases" and each.name != READER
    ] == []
    assert [each for each in asked if each.name == READER][1:] == [], "one renewal of the token at most"
    assert scene.world.get("wnp", scene.name)["metadata"]["resourceVersion"] == before

    assert_polled_once_an_interval(scene, since=start)
    assert scene.ground.asked_by(READER_USER, since=start) == [], "its token goes to kubelets only"
    scene.close()


def test_of_two_operators_only_the_one_that_leads_polls_and_the_other_does_once_it_has_ended(
    stage: Ground, pair: Pair
) -> None:
    begin = stage.world.now()
    pair.start()
    scene = healthy_pool(stage, "pair")
    start = stage.world.now()
    holds(lambda: pair.first.running and pair.second.running, seconds=SILENCE.total_seconds(), every=1)
    assert_polled_once_an_interval(scene, since=start)
    assert tokens_of(pair.first, stage, since=begin)
    assert tokens_of(pair.second, stage, since=begin) == []

    end = stage.world.now()
    pair.first.kill()
    wait_leading(pair.second)
    token = eventually(
        lambda: tokens_of(pair.second, stage, since=end), what="the second asks for a token", every=1
    )[0]
    eventually(
        lambda: polls(stage, since=token.received).keys() == {*scene.nodes},
        what="the second polls each node",
        every=1,
    )
    scene.close()
