"""Where an eviction would not help, or is not ours to make: nothing is evicted, and it is told (P4)."""

from __future__ import annotations

import re

import pytest

from cluster.memory_pods import BRIM, SOFT, steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    BLOCKED,
    EVERY_SECONDS,
    HEALTHY,
    HOLD_SECONDS,
    LONG_SECONDS,
    NEVER_HARD,
    SYSTEMIC,
    UNATTRIBUTED,
)
from cluster.simulated import condition
from cluster.together import WHOLE_FILE, Together
from harness.waiting import eventually, holds

pytestmark = [WHOLE_FILE, pytest.mark.long]
together = Together()

ADVICE = re.compile(r"(?i)\b(restart|reboot|recycle|replace)\b")
"""What can be done about a node whose memory is lost outside of pods."""


@together()
def test_memory_that_windows_itself_has_lost_evicts_nobody_and_the_advice_is_to_recycle_the_node(
    scene: Scene,
) -> None:
    scene.pool("Evict")
    scene.await_calm()
    decoy = scene.pods.run("decoy", scene.node, steady("5Gi"))
    scene.fleet.lose_memory([scene.node], growth_per_minute="60Gi", into="Processes")
    scene.await_pressured(1)
    issue = scene.await_issue(UNATTRIBUTED)
    assert scene.node in issue["nodes"]
    assert ADVICE.search(issue["fix"])
    scene.await_event(UNATTRIBUTED)
    scene.spares(decoy)
    assert scene.evictions() == []
    assert scene.signal()[1], "no more pods are to come to it"


@together(blind=True)
def test_where_no_kubelet_tells_the_commit_of_pods_none_is_evicted_for_what_grows_outside_of_them(
    scene: Scene,
) -> None:
    scene.pool("Evict")
    scene.await_calm()
    # All that they have is growth, less than a tenth of that of the node, and large enough for an eviction.
    for number in range(2):
        scene.pods.run(f"decoy{number}", scene.node, {**steady("250Mi"), "touchedPercent": 80})
    scene.fleet.lose_memory([scene.node], growth_per_minute="60Gi", into="Processes")
    assert "Windows itself or a service" in scene.await_issue(BLOCKED)["fix"]
    holds(lambda: not scene.evictions(), seconds=HOLD_SECONDS, every=EVERY_SECONDS)


@together(nodes=3)
def test_pressure_on_most_of_a_pool_evicts_nobody_and_once_it_is_one_node_its_pod_goes(scene: Scene) -> None:
    hogs = [scene.pods.run(f"hog{number}", node, SOFT) for number, node in enumerate(scene.nodes)]
    # Once all three are seen, an eviction would be right on each.
    scene.pool("Evict", commit=NEVER_HARD)
    scene.await_pressured(3)
    eventually(
        lambda: scene.condition("Ready")["reason"] == SYSTEMIC, what=SYSTEMIC, seconds=60, every=EVERY_SECONDS
    )
    for node in scene.nodes:
        scene.await_marked(node)
    scene.pool("Evict")
    scene.spares(*hogs, seconds=20 + HOLD_SECONDS)
    for number in (0, 1):
        scene.pods.end(f"hog{number}")
    scene.await_evicted(hogs[2], seconds=LONG_SECONDS)
    assert scene.evicted() == {hogs[2]}


@together()
def test_while_the_kubelet_evicts_by_itself_we_do_not(scene: Scene) -> None:
    scene.fleet.restart([scene.node], eviction_hard="500Mi")
    scene.fleet.wait_ready([scene.node])
    brim = scene.pods.run("brim", scene.node, BRIM)
    eventually(
        lambda: kubelet_pressure(scene) == "True", what="MemoryPressure by the kubelet", seconds=60, every=1
    )
    eventually(
        lambda: all(each["metadata"]["uid"] != brim or each["status"]["phase"] == "Failed"
                    for each in scene.pods.all()),
        what="the kubelet has evicted the pod",
        every=EVERY_SECONDS,
    )  # fmt: skip
    second = scene.pods.run("second", scene.node, SOFT, tolerant=True)
    scene.pool("Evict")
    scene.await_pressured(1)
    scene.spares(second)
    assert kubelet_pressure(scene) == "True", "or nothing was shown"
    scene.fleet.restart([scene.node], eviction_hard="none")
    # Its process begins again, and has to grow beyond what it had in the first list.
    scene.await_evicted(second, seconds=LONG_SECONDS)


@together()
def test_a_node_that_somebody_has_cordoned_is_left_to_him(scene: Scene) -> None:
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.world.kubectl("cordon", scene.node)
    scene.pool("Evict")
    scene.await_pressured(1)
    scene.spares(hog)
    scene.world.kubectl("uncordon", scene.node)
    scene.await_evicted(hog)


@together()
def test_on_a_node_that_is_not_ready_nothing_is_evicted(scene: Scene) -> None:
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.fleet.set_ready([scene.node], ready=False)
    eventually(lambda: kubelet_says(scene, "Ready") == "False", what="not Ready", every=EVERY_SECONDS)
    scene.pool("Evict")
    scene.spares(hog, seconds=2 * HOLD_SECONDS)
    scene.fleet.set_ready([scene.node], ready=True)
    scene.await_evicted(hog)


@together()
def test_when_the_metrics_go_the_condition_is_unknown_the_taint_stays_and_nobody_is_evicted(
    scene: Scene,
) -> None:
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict", commit=NEVER_HARD)
    scene.await_marked()
    since = scene.world.now()
    scene.fleet.set_endpoint_fault([scene.node], fault="hang")
    scene.await_signal("Unknown", taint=True)
    # A pass acts, and reports afterwards.
    eventually(lambda: scene.condition(HEALTHY)["status"] == "Unknown", what="MemoryHealthy Unknown")
    # It would be at Hard, if that were known.
    scene.pool("Evict")
    scene.spares(hog, seconds=60 + HOLD_SECONDS)
    assert scene.signal() == ("Unknown", True)
    assert scene.writes_to_nodes(since=since) == ["patch nodes/status"]
    scene.fleet.set_endpoint_fault([scene.node], fault="none")
    scene.await_signal("True", taint=True, seconds=LONG_SECONDS)
    scene.await_evicted(hog, seconds=LONG_SECONDS)


@together(nodes=3)
def test_nodes_that_are_unknown_count_towards_the_breaker(scene: Scene) -> None:
    hog = scene.pods.run("hog", scene.node, SOFT)
    silent = scene.nodes[1:]
    scene.fleet.set_endpoint_fault(silent, fault="server_error")
    scene.pool("Evict")
    scene.await_marked()
    scene.spares(hog)
    scene.fleet.set_endpoint_fault(silent, fault="none")
    scene.await_evicted(hog, seconds=LONG_SECONDS)


def kubelet_pressure(scene: Scene) -> str:
    """Return what the kubelet says about memory by itself."""
    return kubelet_says(scene, "MemoryPressure")


def kubelet_says(scene: Scene, kind: str) -> str:
    """Return the status of a condition of the node."""
    return str(condition(scene.read(), kind)["status"])
