"""What Argo CD, Flux and kubectl wait make of a pool in every phase, by kstatus' rules."""

from __future__ import annotations

from typing import Any, Final

import pytest

from cluster.kstatus import Status, compute
from cluster.pods import pods_in
from cluster.told import expect
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, answer, on

TEAM: Final = "example.com/team"
HELD: Final[dict[str, Any]] = {"key": "os", "value": "windows", "effect": "NoExecute"}


def read(world: World, pool: str) -> Status:
    return compute(world.get("wnp", pool))


def test_a_pool_is_in_progress_until_the_operator_has_looked_and_done_and_current_then(
    world: World, proxy: FaultProxy
) -> None:
    world.fleet(windows=3)
    with proxy.add(on("patch", "nodes"), answer(503)):
        pool = world.apply(world.pool(labels={TEAM: "payments"}))
        assert read(world, pool) is Status.IN_PROGRESS  # nothing has written a status yet
        world.operator.start()
        expect(world, pool, Reconciling=("True", "RolloutInProgress"), Stalled=("False", "NotStalled"))
        assert read(world, pool) is Status.IN_PROGRESS
    world.wait_up_to_date(pool, nodes=3)
    assert read(world, pool) is Status.CURRENT
    world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=30s")
    world.kubectl("wait", "--for=condition=Reconciling=False", f"wnp/{pool}", "--timeout=30s")


def test_a_changed_spec_is_in_progress_from_the_moment_it_stands(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(labels={TEAM: "payments"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    world.operator.stop()
    world.apply(world.pool(labels={TEAM: "billing"}))
    assert read(world, pool) is Status.IN_PROGRESS
    timed_out = world.kubectl(
        "wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=1s", check=False
    )
    assert "timed out" in timed_out
    world.operator.start()
    eventually(lambda: read(world, pool) is Status.CURRENT, what="the pool current again")


@pytest.mark.nightly
def test_a_pool_that_waits_for_a_person_has_failed_and_goes_on_when_the_person_has_acted(
    world: World,
) -> None:
    names = world.fleet(windows=2)
    with pods_in(world) as pods:
        web = pods.bind("web", names[0])
        pods.wait_running(count=1)
        pool = world.apply(world.pool(taints=[HELD]))
        world.operator.start()
        expect(world, pool, Stalled=("True", "TaintsHeld"), Reconciling=("False", "Settled"))
        assert read(world, pool) is Status.FAILED
        assert world.condition(pool, "Ready")["status"] == "True"
        world.kubectl("wait", "--for=condition=Stalled", f"wnp/{pool}", "--timeout=30s")
        pods.delete(web)
        world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=60s")
        eventually(lambda: read(world, pool) is Status.CURRENT, what="the pool current")


def test_a_pool_that_is_paused_or_tried_out_keeps_nobody_waiting(world: World) -> None:
    world.fleet(windows=1)
    for mode in ("Paused", "DryRun"):
        pool = world.apply(world.pool(mode.lower(), mode=mode, labels={TEAM: "payments"}))
        if not world.operator.running:
            world.operator.start()
        expect(world, pool, NodesUpToDate=("False", mode), Reconciling=("False", "Settled"))
        assert read(world, pool) is Status.CURRENT
        world.delete(pool)


def test_a_pool_whose_nodes_wait_for_an_upgrade_keeps_gitops_green_and_is_not_up_to_date(
    world: World,
) -> None:
    """The labels and taints are on; that the machines are replaced is a person's turn."""
    names = world.fleet(windows=2)
    asked: dict[str, Any] = {"labels": {TEAM: "payments"}, "os": {"version": "2025"}}
    pool = world.apply(world.pool(**asked))
    world.operator.start()
    world.kubectl("wait", "--for=condition=Reconciling=False", f"wnp/{pool}", "--timeout=30s")
    status = expect(
        world,
        pool,
        Ready=("True", "UpgradeDue"),
        NodesUpToDate=("False", "WaitingForActor"),
        Stalled=("False", "NotStalled"),
    )
    assert (status["nodes"], status["upToDateNodes"]) == (2, 0)
    assert {labels_of(world.node(name))[TEAM] for name in names} == {"payments"}
    assert {each["reason"] for each in status["issues"]} >= {"OSVersionMismatch"}
    assert read(world, pool) is Status.CURRENT
    waited = world.kubectl(
        "wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=1s", check=False
    )
    assert "timed out" in waited
    eventually(
        lambda: "RolloutCompleted" in world.reasons(kind="WindowsNodePool", name=pool), what="the event"
    )
    table = world.kubectl("get", "wnp", pool).splitlines()[1].split()
    assert table[:-1] == [pool, "2025", "2", "2", "0", "UpgradeDue"]

    # A revision below the target is the same, until the target is one that they have.
    world.apply(world.pool(**asked | {"os": {"version": "2022", "targetRevision": 30000}}))
    status = expect(world, pool, Ready=("True", "UpgradeDue"), NodesUpToDate=("False", "WaitingForActor"))
    assert {each["reason"] for each in status["issues"]} >= {"OSRevisionBehind"}
    world.apply(world.pool(**asked | {"os": {"version": "2022", "targetRevision": 1607}}))
    world.kubectl("wait", "--for=condition=NodesUpToDate", f"wnp/{pool}", "--timeout=30s")
    expect(world, pool, Ready=("True", "UpToDate"))


def test_a_release_that_only_a_row_knows_is_told_apart(world: World) -> None:
    world.fleet(samples=["windows-11"])
    pool = world.apply(world.pool(os={"version": "2022"}))
    world.operator.start()
    expect(world, pool, NodesUpToDate=("Unknown", "BuildUnknown"), Reconciling=("False", "Settled"))
    named = {"osVersion": "2028", "build": "10.0.22631", "verdict": "Allow"}
    world.apply(world.pool(os={"version": "2028"}, supportMatrix=[named]))
    status = expect(world, pool, NodesUpToDate=("True", "UpToDate"))
    assert [each["osVersion"] for each in status["builds"]] == ["2028"]


def test_a_selector_that_matches_no_node_is_done(world: World) -> None:
    """Scale from zero."""
    nowhere = {"matchLabels": {**world.selector, "example.com/none": "none"}}
    pool = world.apply(world.pool(nodeSelector=nowhere))
    world.operator.start()
    expect(world, pool, Ready=("True", "NoNodesSelected"), NodesUpToDate=("True", "NoNodesSelected"))
    assert read(world, pool) is Status.CURRENT


def test_a_pool_that_is_being_deleted_is_terminating(world: World, proxy: FaultProxy) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(labels={TEAM: "payments"}))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    with proxy.add(on("patch", "nodes"), answer(503)):
        world.delete(pool, wait=False)
        expect(world, pool, Deleting=("True", "ReleasingNodes"), Ready=("False", "Deleting"))
        assert read(world, pool) is Status.TERMINATING
        world.kubectl("wait", "--for=condition=Deleting", f"wnp/{pool}", "--timeout=30s")
    world.kubectl("wait", "--for=delete", f"wnp/{pool}", "--timeout=60s")
