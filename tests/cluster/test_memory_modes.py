"""A leak under Observe, Signal and Evict, and what one step less takes back (P2, P3, P5, P9)."""

from __future__ import annotations

import pytest

from cluster.memory_pods import LEAK, SOFT, TEAM, WARNING
from cluster.memory_scene import Scene, signal_of
from cluster.memory_world import (
    CLEARED,
    DETECTED,
    EVERY_SECONDS,
    EVICTED,
    HEALTHY,
    HOLD_SECONDS,
    LONG_SECONDS,
    NEVER_HARD,
)
from cluster.together import WHOLE_FILE, Together
from harness.nodes import annotations_of, labels_of
from harness.waiting import eventually, holds
from harness.watcher import version_of
from winpool.api.keys import MEMORY_ANNOTATION, POOL_LABEL

pytestmark = [WHOLE_FILE, pytest.mark.long]
together = Together()

ONCE_EACH = ["patch nodes", "patch nodes/status"]
"""What a transition costs: the taint, and the condition."""
INTENTS_BYTES = 2048
"""The most that the annotation may have."""


@together()
def test_observe_reports_a_leak_in_the_pool_and_writes_nothing_to_the_node(scene: Scene) -> None:
    scene.pool("Observe")
    scene.await_members()
    eventually(lambda: scene.condition(HEALTHY).get("status") == "True", what="healthy memory", every=1)
    since = scene.world.now()
    leaking = scene.pods.run("leak", scene.node, LEAK)
    scene.await_pressured(1)
    assert scene.condition(HEALTHY)["status"] == "False"
    assert scene.issues(about=scene.node)
    scene.spares(leaking)
    assert scene.signal() == ("", False)
    assert scene.writes_to_nodes(since=since) == []


@together()
def test_a_warning_is_reported_and_nothing_else_happens(scene: Scene) -> None:
    scene.pool("Evict")
    scene.await_calm()
    since = scene.world.now()
    warned = scene.pods.run("large", scene.node, WARNING)
    eventually(lambda: scene.issues(about=scene.node), what="an issue about the node", seconds=120, every=1)
    scene.spares(warned)
    assert scene.status()["pressuredNodes"] == 0
    assert scene.signal() == ("", False)
    assert scene.writes_to_nodes(since=since) == []


@together()
def test_signal_writes_condition_and_taint_when_pressure_begins_and_ends_and_not_between(
    scene: Scene,
) -> None:
    scene.pool("Signal", commit=NEVER_HARD)  # from Soft to Hard the reason of the condition changes as well
    scene.await_members()
    since = scene.world.now()
    leaking = scene.pods.run("leak", scene.node, LEAK)
    scene.await_marked()
    scene.spares(leaking)
    assert sorted(scene.writes_to_nodes(since=since)) == ONCE_EACH
    assert scene.status()["pressuredNodes"] == 1
    scene.await_event(DETECTED)

    scene.pods.end("leak")
    since = scene.world.now()
    scene.await_unmarked()
    holds(lambda: not scene.signal()[1], seconds=HOLD_SECONDS, every=EVERY_SECONDS)
    assert sorted(scene.writes_to_nodes(since=since)) == ONCE_EACH
    scene.await_pressured(0)
    scene.await_event(CLEARED)


@together()
def test_evict_tells_the_node_whom_and_then_evicts_the_leaking_pod_before_anything_is_denied(
    scene: Scene,
) -> None:
    scene.pool("Evict")
    scene.await_members()
    since = scene.world.now()
    scene.world.kubectl("create", "namespace", TEAM)
    leaking = scene.pods.run("leak", scene.node, LEAK, namespace=TEAM)
    eviction = scene.await_evicted(leaking)
    assert len(eviction.intents.encode()) <= INTENTS_BYTES
    # Its ReplicaSet makes another one, which the taint keeps away.
    eventually(
        lambda: [each for each in scene.pods.staying() if each != leaking], what="another pod", every=1
    )
    holds(
        lambda: set(scene.pods.staying().values()) <= {""} or not scene.signal()[1],
        seconds=HOLD_SECONDS,
        every=EVERY_SECONDS,
    )
    scene.await_event(EVICTED)
    # Who owns the pod may not see nodes.
    eventually(
        lambda: scene.pods.events(leaking, namespace=TEAM) == {EVICTED},
        what="an event about the pod",
        every=1,
    )
    assert scene.fleet.truth(scene.node).allocations_denied == 0

    scene.pods.end("leak", namespace=TEAM)
    scene.await_unmarked()
    eventually(
        lambda: MEMORY_ANNOTATION not in annotations_of(scene.read()),
        what="no intents after their period",
        seconds=LONG_SECONDS,
        every=EVERY_SECONDS,
    )
    assert [each.pod_uid for each in scene.evictions()] == [leaking]
    assert scene.deletions(since=since) == []


@together()
def test_an_edit_to_observe_takes_condition_and_taint_off_while_pressure_lasts(scene: Scene) -> None:
    scene.pool("Signal")
    scene.pods.run("large", scene.node, SOFT)
    scene.await_marked()
    scene.pool("Observe")
    eventually(scene.bare, what="nothing of memory on the node", seconds=60, every=EVERY_SECONDS)
    assert scene.status()["pressuredNodes"] == 1
    holds(scene.bare, seconds=HOLD_SECONDS, every=EVERY_SECONDS)


@together()
def test_a_pool_without_the_block_any_more_takes_everything_off_and_reports_no_memory(scene: Scene) -> None:
    scene.pool("Evict", commit=NEVER_HARD)
    large = scene.pods.run("large", scene.node, SOFT)
    scene.await_marked()
    scene.pool(None)
    eventually(scene.bare, what="nothing of memory on the node", seconds=60, every=EVERY_SECONDS)
    eventually(
        lambda: scene.condition(HEALTHY) == {} and scene.status()["pressuredNodes"] == 0,
        what="no report of memory",
        every=EVERY_SECONDS,
    )
    scene.spares(large)
    assert labels_of(scene.read())[POOL_LABEL] == scene.name


@together()
def test_a_spec_that_is_not_accepted_takes_everything_off_and_evicts_nothing(scene: Scene) -> None:
    scene.pool("Evict", commit=NEVER_HARD)
    large = scene.pods.run("large", scene.node, SOFT)
    scene.await_marked()
    # More than half of the memory of every node: ReservedMemoryTooLarge. By its lines an eviction is due.
    scene.pool("Evict", spec={"reservedMemory": {"systemReserved": "12Gi"}})
    eventually(lambda: scene.condition("Accepted")["status"] == "False", what="not accepted", every=1)
    eventually(scene.bare, what="nothing of memory on the node", seconds=60, every=EVERY_SECONDS)
    scene.spares(large)
    scene.pool("Evict")
    scene.await_evicted(large)


@together(nodes=2)
def test_a_paused_pool_leaves_its_marks_and_adds_none(scene: Scene) -> None:
    stand_still(scene, mode="Paused")


@together(nodes=2)
def test_a_dry_run_leaves_its_marks_and_adds_none(scene: Scene) -> None:
    stand_still(scene, mode="DryRun")


def stand_still(scene: Scene, *, mode: str) -> None:
    """Check that in this mode a mark outlives its pressure, and pressure gets neither mark nor eviction."""
    marked, other = scene.nodes
    limits = {"maxPressuredNodes": "100%"}
    scene.pool("Signal", eviction=limits)
    scene.pods.run("first", marked, SOFT)
    scene.await_marked(marked)
    scene.pool("Evict", spec={"mode": mode}, eviction=limits)
    since = scene.world.now()
    large = scene.pods.run("second", other, SOFT)
    scene.await_pressured(2)
    scene.pods.end("first")
    scene.await_pressured(1, seconds=LONG_SECONDS)
    holds(
        lambda: (scene.signal(marked), scene.signal(other)) == (("True", True), ("", False)),
        seconds=HOLD_SECONDS,
        every=EVERY_SECONDS,
    )
    scene.spares(large, seconds=EVERY_SECONDS)
    assert scene.writes_to_nodes(since=since) == []
    said = scene.condition(HEALTHY)["message"]
    assert f"taint and condition stay as they are on 1 node ({marked})" in said
    scene.pool("Evict", eviction=limits)
    scene.await_evicted(large)
    scene.await_unmarked(marked)


@together(nodes=2)
def test_a_held_node_keeps_its_marks_and_gets_neither_mark_nor_eviction(scene: Scene) -> None:
    marked, other = scene.nodes
    limits = {"maxPressuredNodes": "100%"}
    scene.pool("Signal", eviction=limits)
    scene.pods.run("first", marked, SOFT)
    scene.await_marked(marked)
    for node in scene.nodes:
        scene.world.kubectl("annotate", "node", node, "winpool.dev/hold=")
    scene.pool("Evict", eviction=limits)
    since = scene.world.now()
    large = scene.pods.run("second", other, SOFT)
    scene.await_pressured(2)
    scene.pods.end("first")
    scene.await_pressured(1, seconds=LONG_SECONDS)
    scene.spares(large)
    assert (scene.signal(marked), scene.signal(other)) == (("True", True), ("", False))
    assert scene.writes_to_nodes(since=since) == []
    for node in scene.nodes:
        scene.world.kubectl("annotate", "node", node, "winpool.dev/hold-")
    scene.await_evicted(large)
    scene.await_unmarked(marked)


@together()
def test_deletion_takes_condition_taint_and_intents_off_before_the_label_of_the_pool(scene: Scene) -> None:
    scene.pool("Evict", eviction={"periodSeconds": 3600})
    large = scene.pods.run("large", scene.node, SOFT)
    scene.await_evicted(large)
    scene.await_signal("True", taint=True)
    assert large in annotations_of(scene.read())[MEMORY_ANNOTATION]
    before = version_of(scene.read())
    scene.world.delete(scene.name)
    scene.ground.watcher.catch_up([scene.read()])
    seen = [each for each in scene.ground.watcher.states[scene.node] if version_of(each) > before]
    assert POOL_LABEL not in labels_of(seen[-1])
    assert scene.bare()
    for state in seen:
        if POOL_LABEL not in labels_of(state):
            assert signal_of(state) == ("", False)
            assert MEMORY_ANNOTATION not in annotations_of(state)


@together()
def test_no_condition_of_the_pool_claims_a_generation_before_its_marks_are_off(scene: Scene) -> None:
    scene.pool("Signal")
    scene.pods.run("large", scene.node, SOFT)
    scene.await_marked()
    with scene.world.watch_pool(scene.name) as pool:
        scene.pool("Observe")
        generation = scene.world.get("wnp", scene.name)["metadata"]["generation"]
        eventually(scene.bare, what="nothing of memory on the node", seconds=60, every=EVERY_SECONDS)
        eventually(lambda: scene.condition("Reconciling")["status"] == "False", what="settled", every=1)
        pool.catch_up([scene.world.get("wnp", scene.name)])
    scene.ground.watcher.catch_up([scene.read()])
    claims = 0
    for state in pool.states[scene.name]:
        conditions = {each["type"]: each for each in state["status"]["conditions"]}
        newest = state["metadata"]["generation"]
        assert all(each["observedGeneration"] <= newest for each in conditions.values())
        reconciling = conditions["Reconciling"]
        if (reconciling["status"], reconciling["observedGeneration"]) == ("False", generation):
            claims += 1
            node = scene.ground.watcher.at(scene.node, version_of(state))
            assert signal_of(node) == ("", False)
    assert claims > 0


@together()
def test_a_data_source_that_the_settings_do_not_have_is_told_by_name_and_nothing_is_evicted(
    scene: Scene,
) -> None:
    source = {"type": "Prometheus", "prometheus": {"dataSource": "no-such-source"}}
    large = scene.pods.run("large", scene.node, SOFT)
    scene.pool("Evict", sources=[source])
    eventually(lambda: scene.condition("Accepted")["status"] == "False", what="not accepted", every=1)
    assert "no-such-source" in scene.condition("Accepted")["message"]
    scene.spares(large)
