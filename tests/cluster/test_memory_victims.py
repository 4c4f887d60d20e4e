"""Which pod is evicted, and which never is, whatever it does (P5)."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from cluster.memory_pods import EXEMPT, HARD, LEAK, SOFT, growing, steady
from cluster.memory_scene import Scene
from cluster.memory_world import BLOCKED, EVERY_SECONDS, LONG_SECONDS, PATIENCE_SECONDS
from cluster.together import WHOLE_FILE, Together
from harness.waiting import eventually

pytestmark = [WHOLE_FILE, pytest.mark.long]
together = Together()

GIB = 1 << 30
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@together()
def test_a_pod_that_commits_all_there_is_is_evicted_while_most_of_the_ram_is_free(scene: Scene) -> None:
    hog = scene.pods.run("hog", scene.node, HARD)
    assert scene.exported("windows_memory_available_bytes") > 10 * GIB
    scene.pool("Evict", softGraceSeconds=3600)
    scene.await_evicted(hog)


@together()
def test_a_pod_with_a_day_of_grace_is_evicted_with_it_and_twelve_minutes_of_it_count(scene: Scene) -> None:
    """No author of a pod keeps the place of a node, of which the pool may have but one, for longer."""
    slow = scene.pods.run("slow", scene.node, HARD, terminationGracePeriodSeconds=86_400)
    scene.pool("Evict")
    scene.await_evicted(slow)
    [asked] = [each for each in scene.evictions() if each.pod_uid == slow]
    [intent] = json.loads(asked.intents)["evictions"]
    lasts = datetime.fromisoformat(intent["until"]) - datetime.fromisoformat(intent["at"])
    assert (intent["uid"], lasts, asked.grace) == (slow, timedelta(minutes=12), None)


@together()
def test_a_noisy_neighbour_is_evicted_and_the_pods_within_their_requests_are_not(scene: Scene) -> None:
    scene.pool("Evict")
    scene.await_calm()
    # Each is a third of the noisy one, and all of it is growth: their requests alone protect them.
    polite = {
        scene.pods.run(f"polite{number}", scene.node, steady("3500Mi"), request="3500Mi")
        for number in range(3)
    }
    leak = {**LEAK, "commit": "9Gi", "maximum": "10900Mi"}
    noisy = scene.pods.run("noisy", scene.node, leak, request="1Gi")
    scene.await_evicted(noisy)
    scene.spares(*polite)
    assert scene.fleet.truth(scene.node).allocations_denied == 0


@together()
def test_a_pod_that_a_budget_protects_is_passed_over_for_the_next(scene: Scene) -> None:
    # If it grew by more than half of what both do, no pod would go.
    slow = growing("11Gi", per_minute=30)
    protected = scene.pods.run("protected", scene.node, slow, labels={"tier": "batch"})
    scene.pods.protect("protected")
    other = scene.pods.run("other", scene.node, growing("10Gi"))
    # What is preferred is the first choice, so that the budget is met.
    preferred = {"podSelector": {"matchLabels": {"tier": "batch"}}, "behavior": "Prefer"}
    scene.pool("Evict", eviction={"rules": [preferred]})
    scene.await_evicted(other)
    scene.spares(protected)


@together()
def test_if_budgets_protect_all_pods_that_is_told_and_once_they_do_not_the_pod_is_evicted(
    scene: Scene,
) -> None:
    only = scene.pods.run("only", scene.node, SOFT)
    scene.pods.protect("only")
    scene.pool("Evict")
    scene.await_issue(BLOCKED)
    scene.await_event(BLOCKED)
    assert only in scene.pods.staying()
    assert scene.signal()[1], "the node is tainted all the same"
    scene.pods.expose("only")
    scene.await_evicted(only, seconds=LONG_SECONDS)


@together()
def test_agents_static_host_process_critical_naked_and_exempt_pods_are_never_evicted(scene: Scene) -> None:
    never = scene.pods.untouchable(scene.read())
    exempt = {"podSelector": {"matchLabels": EXEMPT}, "behavior": "Never"}
    # What goes is made again on this node, and would go again.
    scene.pool("Evict", eviction={"rules": [exempt], "maxPodsPerNode": 1})
    scene.await_pressured(1)
    scene.await_issue(BLOCKED)
    scene.spares(*never.values())
    # It would have evicted there: the first pod that may go, goes.
    ordinary = scene.pods.run("ordinary", scene.node, steady("1Gi"), tolerant=True)
    scene.await_evicted(ordinary, seconds=LONG_SECONDS)
    scene.spares(*never.values())
    assert scene.evicted() == {ordinary}


@together()
def test_a_small_pod_that_leaks_is_evicted_and_the_large_one_beside_it_that_does_not_grow_stays(
    scene: Scene,
) -> None:
    large = scene.pods.run("large", scene.node, steady("20Gi"))
    leaking = scene.pods.run("leaking", scene.node, growing("1Gi"))
    scene.pool("Evict")
    scene.await_evicted(leaking)
    scene.spares(large)


@together()
def test_if_a_budget_protects_the_pod_that_leaks_that_is_told_and_no_other_pod_goes(scene: Scene) -> None:
    large = scene.pods.run("large", scene.node, steady("19Gi"))
    leaking = scene.pods.run("leaking", scene.node, growing("1Gi"))
    scene.pods.protect("leaking")
    # Beside a pod that may be evicted, half as much growth would be enough.
    other = scene.pods.run("other", scene.node, growing("1Gi", per_minute=30))
    scene.pool("Evict")
    scene.await_issue(BLOCKED, says="Pods: default/leaking-")
    scene.spares(large, other)
    assert leaking in scene.pods.staying()
    scene.pods.expose("leaking")
    scene.await_evicted(leaking, seconds=LONG_SECONDS)
    scene.spares(large, other)


@together()
def test_if_a_pod_of_a_daemon_set_leaks_no_other_pod_goes_in_its_place(scene: Scene) -> None:
    agent = scene.pods.run("agent", scene.node, growing("1Gi"), kind="DaemonSet")
    large = scene.pods.run("large", scene.node, steady("19Gi"))
    other = scene.pods.run("other", scene.node, growing("1Gi", per_minute=30))
    # What goes is made again on this node, and would go again.
    scene.pool("Evict", eviction={"maxPodsPerNode": 1})
    scene.await_issue(BLOCKED, says="Pods: default/agent-")
    scene.spares(agent, large, other)
    assert scene.signal()[1], "the node is tainted nevertheless"
    # It would have evicted there: a pod that grows by more than the agent goes.
    ordinary = scene.pods.run("ordinary", scene.node, steady("1Gi"), tolerant=True)
    scene.await_evicted(ordinary, seconds=LONG_SECONDS)
    scene.spares(agent, large, other)
    assert scene.evicted() == {ordinary}


@together()
def test_pods_that_are_younger_than_the_pool_asks_are_not_evicted(scene: Scene) -> None:
    young = scene.pods.run("young", scene.node, SOFT)
    scene.pool("Evict", eviction={"minPodAgeSeconds": 86400})
    scene.await_pressured(1)
    scene.spares(young)
    scene.pool("Evict", eviction={"minPodAgeSeconds": 0})
    scene.await_evicted(young)


@together()
def test_of_two_pods_the_one_of_lower_priority_goes_and_the_other_stays(scene: Scene) -> None:
    name = f"upper-{scene.name}"
    api = scene.world.testbed.api()
    manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
    }
    api.create(PRIORITY_CLASSES, manifest)
    try:
        upper = scene.pods.run("upper", scene.node, growing("10700Mi"), priorityClassName=name)
        lower = scene.pods.run("lower", scene.node, growing("10700Mi"))
        scene.pool("Evict")
        scene.await_evicted(lower)
        scene.spares(upper)
    finally:
        api.delete(f"{PRIORITY_CLASSES}/{name}")


@together()
def test_a_node_gets_no_second_eviction_while_the_first_pod_still_ends(scene: Scene) -> None:
    """The pod that ends holds its memory, so the node is as full as before; the other would be the next."""
    scene.pool("Evict")
    scene.await_calm()
    uids = {scene.pods.run(name, scene.node, steady("10700Mi"), stop_seconds=30) for name in ("one", "two")}
    first = eventually(scene.evictions, what="an eviction", seconds=PATIENCE_SECONDS, every=EVERY_SECONDS)[0]
    assert first.pod_uid in uids
    eventually(
        lambda: first.pod_uid not in {each["metadata"]["uid"] for each in scene.pods.all()},
        what="the first pod gone",
        seconds=PATIENCE_SECONDS,
        every=EVERY_SECONDS,
    )
    scene.spares(*uids - {first.pod_uid})
    assert [each for each in scene.evictions() if each.ending - {each.pod_uid}] == []
