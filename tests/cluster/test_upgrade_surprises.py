"""Machines that are started again or get another Windows without an announcement are told, others are not."""

from __future__ import annotations

import pytest

from cluster.told import about, issues
from cluster.upgrade_ground import QUICK, REQUESTED, ground_in, upgrade
from cluster.upgrade_told import expect_allowed, expect_states
from harness.waiting import eventually
from harness.world import World
from testbed.winsim.control import FleetControl

KINDS = ("SurpriseReboot", "SurpriseOSChange")


@pytest.mark.nightly
def test_what_happens_to_a_machine_unannounced_is_told_by_event_issue_and_metric(world: World) -> None:
    with ground_in(world) as ground:
        rebooted = ground.first
        kept, renewed, cordoned, requested = (ground.join("2022", 4052) for _ in range(4))
        required = ground.join("2022", 1607)
        ground.wait_settled()
        ground.annotate(requested, REQUESTED, "a driver waits for a reboot")
        world.kubectl("cordon", cordoned)
        asked = upgrade(world, method="Replace", maxUnavailable="100%")
        pool = world.apply(world.pool(os={"version": "2022", "targetRevision": 4052}, upgrade=asked))
        world.operator.start()
        expect_allowed(world, pool, "True", "UpgradeAllowed")
        quiet = dict.fromkeys((rebooted, kept, renewed, cordoned), "UpToDate")
        expect_states(world, {**quiet, required: "Required", requested: "Required"})
        counted = {kind: count(world, kind) for kind in KINDS}
        assert issues(world.status(pool), "SurpriseReboot") == []

        fleet = ground.fleet
        fleet.reboot([rebooted, cordoned, requested], outage=QUICK)
        fleet.patch(required, revision=4052, outage=QUICK)
        fleet.reimage(kept, release="2019", revision=6000, keep_node=True, outage=QUICK)
        fleet.reimage(renewed, release="2025", revision=4652, outage=QUICK)
        fleet.wait_ready(list(world.nodes()))
        await_boots(world, fleet)

        wanted = {"SurpriseReboot": {rebooted}, "SurpriseOSChange": {kept, renewed}}
        for kind, nodes in wanted.items():
            await_told(world, pool, kind, nodes)
        expect_states(world, {required: "UpToDate"})
        # By then all machines have been back for a while, and whatever would be told of the others has been.
        for kind, nodes in wanted.items():
            assert about(world.status(pool), kind) == nodes
            assert count(world, kind) - counted[kind] == len(nodes)
        for node in (cordoned, requested, required):
            assert not {*KINDS} & {*world.reasons(kind="Node", name=node)}, node
        assert not {"SurpriseOSChange"} & {*world.reasons(kind="Node", name=rebooted)}
        world.delete(pool)


def test_after_a_time_without_an_operator_another_windows_is_told_and_a_reboot_is_not(world: World) -> None:
    with ground_in(world) as ground:
        kept = ground.join("2022", 4052)
        ground.wait_settled()
        pool = world.apply(world.pool(upgrade=upgrade(world, method="Replace")))
        world.operator.start()
        expect_allowed(world, pool, "True", "NothingDue")
        expect_states(world, {ground.first: "UpToDate", kept: "UpToDate"})
        world.operator.kill()
        ground.fleet.reboot(ground.first, outage=QUICK)
        ground.fleet.reimage(kept, release="2025", revision=4652, keep_node=True, outage=QUICK)
        eventually(
            lambda: (
                [world.node(name)["status"]["nodeInfo"]["bootID"] for name in (ground.first, kept)]
                == ["2", "1"]
                and world.node(kept)["status"]["nodeInfo"]["kernelVersion"] == "10.0.26100.4652"
            ),
            what="both machines back",
        )
        ground.fleet.wait_ready()
        world.operator.start()
        await_told(world, pool, "SurpriseOSChange", {kept})
        assert about(world.status(pool), "SurpriseReboot") == set()
        assert not {*KINDS} & {*world.reasons(kind="Node", name=ground.first)}
        world.delete(pool)


def await_told(world: World, pool: str, kind: str, nodes: set[str]) -> None:
    """Return when an issue of the pool and an event of each node tell of a surprise of this kind."""
    eventually(lambda: about(world.status(pool), kind) >= nodes, what=f"the issue {kind}")
    eventually(
        lambda: all(kind in world.reasons(kind="Node", name=node) for node in nodes),
        what=f"the events {kind}",
    )


def count(world: World, kind: str) -> float:
    """Return how many surprises of a kind the operator has counted."""
    found = world.operator.metric("winpool_upgrade_surprises_total", reason=kind)
    assert found is not None, "from the start on there is a number"
    return found


def await_boots(world: World, fleet: FleetControl) -> None:
    """Return when every node reports the machine that it has now, and is Ready."""

    def back() -> bool:
        infos = {name: node["status"]["nodeInfo"] for name, node in world.nodes().items()}
        boots = sorted(info["bootID"] for info in infos.values())
        # Two new systems count from the first start; four machines have been started again.
        assert boots == ["1", "1", "2", "2", "2", "2"], infos
        builds = sorted(info["kernelVersion"].rpartition(".")[0] for info in infos.values())
        assert builds == ["10.0.17763", *["10.0.20348"] * 4, "10.0.26100"]
        return True

    eventually(back, what="all machines back")
    fleet.wait_ready()
