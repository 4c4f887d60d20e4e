"""Whatever a kubelet answers: unknown evicts nobody, marks no node, costs other nodes nothing (P4, P7)."""

from __future__ import annotations

from typing import Final, get_args

import pytest

from cluster.memory_pods import SOFT, steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    EVERY_SECONDS,
    HEALTHY,
    HOLD_SECONDS,
    HOT_POLL_SECONDS,
    LONG_SECONDS,
)
from cluster.together import WHOLE_FILE, Together
from harness.waiting import eventually, holds
from testbed.winsim.endpoint.faults import FaultKind
from winpool.kubelet.schedule import DEADLINE_SHARE

pytestmark = [WHOLE_FILE, pytest.mark.long]
together = Together()

KNOWN: Final = "clock_behind"
"""A fault that hides nothing: the times of a kubelet are compared with each other only."""
SLOW: Final = "slow"
"""So does it: a kubelet whose poll has ended is waited for the next time."""
UNKNOWN: Final = tuple(each for each in get_args(FaultKind) if each not in (KNOWN, SLOW))
"""Faults of a node of which nothing is known."""
ANSWERS: Final = {"in-time": HOT_POLL_SECONDS * DEADLINE_SHARE / 2, "late": 6.0}
"""In half of the seconds that the shortest poll may take, and when it is over: the next one waits."""


@together.each(UNKNOWN)
def test_a_node_that_answers_so_is_unknown_and_once_it_is_well_its_pod_is_evicted(
    scene: Scene, fault: FaultKind
) -> None:
    scene.fleet.set_endpoint_fault([scene.node], fault=fault)
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict")
    scene.await_members()
    eventually(
        lambda: scene.issues(about=scene.node),
        what=f"what is wrong with the fault {fault} is told",
        seconds=LONG_SECONDS,
        every=EVERY_SECONDS,
    )
    assert scene.condition(HEALTHY)["status"] == "Unknown"
    since = scene.world.now()
    scene.spares(hog)
    assert scene.signal() == ("", False)
    assert scene.status()["pressuredNodes"] == 0
    assert scene.issues(about=scene.node)
    assert scene.writes_to_nodes(since=since) == []
    scene.fleet.set_endpoint_fault([scene.node], fault="none")
    scene.await_evicted(hog, seconds=LONG_SECONDS)


@together()
def test_a_node_whose_clock_is_an_hour_behind_is_watched_like_any_other(scene: Scene) -> None:
    scene.fleet.set_endpoint_fault([scene.node], fault=KNOWN)
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict")
    scene.await_evicted(hog)


@together.each(tuple(ANSWERS))
def test_a_node_that_answers_late_is_watched_like_any_other(scene: Scene, answer: str) -> None:
    scene.fleet.set_endpoint_fault([scene.node], fault=SLOW, seconds=ANSWERS[answer])
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict")
    scene.await_evicted(hog)


@together()
def test_a_healthy_node_beside_all_of_these_stays_known_and_well(scene: Scene) -> None:
    scene.pods.run("small", scene.node, steady("1Gi"))
    scene.pool("Evict")
    eventually(
        lambda: scene.condition(HEALTHY).get("status") == "True", what="healthy memory", every=EVERY_SECONDS
    )
    holds(lambda: scene.condition(HEALTHY)["status"] == "True", seconds=3 * HOLD_SECONDS, every=EVERY_SECONDS)
