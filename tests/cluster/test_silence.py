"""Converged means silent (P2), while the nodes themselves go on talking."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from harness.nodes import labels_of
from harness.operator import USER
from harness.waiting import eventually, holds
from harness.world import World

pytestmark = pytest.mark.xdist_group("silence")
"""Groups run before single tests: the minute shall not be what the other worker waits for at the end."""

SILENCE = timedelta(seconds=60)
GUARD = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
BY_NAME = (*GUARD, "leases")
WATCHES = {"windowsnodepools": 2, "nodes": 2, "customresourcedefinitions": 2, **dict.fromkeys(BY_NAME, 2)}
"""How often each may be watched anew in a minute: watches end after 70 s without a word, or 290 s at most."""
LISTS = {"windowsnodepools": 1, "nodes": 2, "pods": 1, "daemonsets": 1, **dict.fromkeys(BY_NAME, 1)}
"""Re-lists that P2 allows: pools every 5 minutes, nodes every 10, of these once Windows and once the rest,
one look at all pods and DaemonSets in 10 minutes, and in as many the guard and the Lease, by name."""


def test_a_converged_fleet_of_12_is_silent_for_a_minute_while_heartbeats_go_on(world: World) -> None:
    names = world.fleet(windows=12, linux=2)
    name = world.apply(
        world.pool(
            labels={"example.com/team": "payments"},
            taints=[
                {"key": "os", "value": "windows", "effect": "NoSchedule"},
                {"key": "os", "value": "windows", "effect": "NoExecute"},
            ],
            startupTaints=[{"key": "example.com/starting", "effect": "NoSchedule"}],
            validation={"readySeconds": 0},
            reservedMemory={"onMismatch": "Taint"},
        )
    )
    world.operator.start()
    world.wait_up_to_date(name, nodes=12)
    eventually(
        lambda: world.reasons(kind="WindowsNodePool", name=name) == ["NodeValidated", "RolloutCompleted"],
        what="the one event of each kind",
    )
    before = world.get("wnp", name)

    start = world.now()
    heartbeat(world, names)
    holds(lambda: world.operator.running, seconds=SILENCE.total_seconds(), every=1)
    end = world.now()

    assert end - start >= SILENCE
    asked = world.requests(since=start, until=end)
    assert [f"{each.verb} {each.uri}" for each in asked if each.verb not in ("watch", "list") and
            each.resource != "leases"] == []  # fmt: skip
    for verb, allowed in (("watch", WATCHES), ("list", LISTS)):
        resources = [each.resource for each in asked if each.verb == verb]
        assert set(resources) <= set(allowed)
        assert {
            each: resources.count(each) for each in resources if resources.count(each) > allowed[each]
        } == {}
    assert world.get("wnp", name)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert world.operator.ready()

    # The silence means something only if the nodes were not silent.
    others = world.testbed.audit.writes(since=start, until=end)
    leases = [each.name for each in others if each.resource == "leases" and each.code == 200]
    assert min(leases.count(node) for node in names) >= 3
    statuses = [each for each in others if (each.resource, each.subresource) == ("nodes", "status")]
    assert {each.name for each in statuses if each.code == 200 and each.user != USER} == set(names)


def test_a_restart_of_a_converged_fleet_writes_nothing(world: World) -> None:
    names = world.fleet(windows=4)
    name = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    world.wait_up_to_date(name, nodes=4)
    eventually(lambda: world.reasons(kind="WindowsNodePool", name=name), what="the event RolloutCompleted")
    world.operator.kill()

    start = world.now()
    world.operator.start()
    holds(lambda: world.operator.running, seconds=3)
    end = world.now()
    # It was at work in that time: it repairs what is now taken away.
    world.kubectl("label", "node", names[0], "example.com/team-")
    eventually(lambda: "example.com/team" in labels_of(world.node(names[0])), what="the label repaired")

    assert [f"{each.verb} {each.uri}" for each in world.writes(since=start, until=end)] == []


def test_passes_over_a_converged_fleet_write_and_get_nothing(world: World) -> None:
    world.fleet(windows=4)
    name = world.apply(world.pool(labels={"example.com/team": "payments"}))
    world.operator.start()
    world.wait_up_to_date(name, nodes=4)
    eventually(lambda: world.reasons(kind="WindowsNodePool", name=name), what="the event RolloutCompleted")

    start = world.now()
    for note in ("first", "second"):
        before = passes(world)
        world.kubectl("annotate", "wnp", name, f"example.com/note={note}", "--overwrite")
        wait_for_more_passes(world, than=before)
    end = world.now()

    asked = world.requests(since=start, until=end)
    assert [f"{each.verb} {each.uri}" for each in asked if each.verb not in ("watch", "list") and
            each.resource != "leases"] == []  # fmt: skip


def passes(world: World) -> float:
    """Return how many passes there were."""
    return world.operator.metric("winpool_reconcile_total", result="Success") or 0


def wait_for_more_passes(world: World, *, than: float) -> None:
    """Return when there were more."""
    eventually(lambda: passes(world) > than, what="a pass")


def heartbeat(world: World, names: list[str]) -> None:
    """Renew a condition of every node, as kubelets do every few minutes."""
    condition = {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"}
    renewed = {**condition, "lastHeartbeatTime": world.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    patch = json.dumps({"status": {"conditions": [renewed]}})
    world.kubectl("patch", "node", *names, "--subresource=status", "--type=strategic", "-p", patch)
