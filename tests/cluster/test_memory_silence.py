"""Healthy memory is silent (P2), and what is asked for it is bounded (P7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

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
)
from harness.waiting import eventually, holds

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


def test_a_healthy_fleet_that_is_polled_is_written_nothing_and_each_node_is_asked_once_an_interval(
    stage: Ground,
) -> None:
    scene = Scene(stage, key="quiet", nodes=list(stage.fleets))
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

    polls = Counter(
        each.user.removeprefix("system:node:")
        for each in scene.world.testbed.audit.requests(since=start, resource="tokenreviews")
    )
    expected = SILENCE.total_seconds() / POLL_SECONDS
    assert polls.keys() == {*scene.nodes}, "or nobody polled"
    assert all(expected / 2 <= count <= expected * 1.25 + 1 for count in polls.values()), polls
    assert scene.ground.asked_by(READER_USER, since=start) == [], "its token goes to kubelets only"
    scene.close()
