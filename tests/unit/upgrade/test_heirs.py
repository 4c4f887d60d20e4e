"""A machine that is handed over comes back as another one: under its own name, or under another."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any, Final

import pytest

from harness.builders import RED, Nodes, edited
from harness.restless_rollouts import Cluster, Operator, state_of
from harness.rollout_world import PATCHED, RolloutWorld, rolling_pool
from winpool.api.conditions import ConditionType
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import Slot
from winpool.features.upgrade.claims import Claim, claim_of, read
from winpool.model.node import NodeVersions
from winpool.ownership.record import Record, record_of

MINUTE: Final = timedelta(minutes=1)
OLD: Final = NodeVersions(kernel="10.0.20348.4052", kubelet="v1.36.3", runtime="containerd://2.3.0")
ACTOR: Final = {"type": "External", "external": {"timeoutSeconds": 3600}}


def handed_over(number: int = 2, *, handed: int = 1, method: str = "Replace", **upgrade: Any) -> RolloutWorld:
    """Return a pool whose first nodes are handed over."""
    block = {"method": method, "actuator": ACTOR, "maxUnavailable": handed, **upgrade}
    world = RolloutWorld(rolling_pool(block), Nodes())
    for place in range(1, number + 1):
        world.join(f"w{place}", boot_id="1")
    world.list_pods()
    world.pass_time(14 * MINUTE)
    for _ in range(30):
        if [world.state(f"w{place}") for place in range(1, handed + 1)] == ["Upgrading"] * handed:
            return world
        world.pass_time(MINUTE)
    raise AssertionError("never handed over")


def remove(world: RolloutWorld, *names: str) -> None:
    for name in names:
        del world.nodes[name]
    world.settle()


def bring(world: RolloutWorld, *names: str, versions: NodeVersions = PATCHED) -> None:
    """New machines join, Ready at the target by default."""
    for name in names:
        world.join(name, boot_id=name, created=world.now, ready_since=world.now, versions=versions)


def held(world: RolloutWorld) -> dict[str, Slot]:
    return {each.node: each for each in world.pool.status.slots if each.is_held}


def first_step(world: RolloutWorld, name: str) -> tuple[object, object, str]:
    """Return the label, the cordon and the claim of the first patch by which a node takes a place."""
    for _, patch in world.writes:
        text = patch.annotations.get(UPGRADE_ANNOTATION)
        if patch.node.name == name and isinstance(claim := read(text), Claim):
            return patch.labels.get(UPGRADE_STATE_LABEL), patch.unschedulable, claim.claim
    raise AssertionError(f"{name} takes no place")


def names(world: RolloutWorld) -> dict[str, str]:
    """Return the claim that each slot has."""
    found = {name: claim_of(world.nodes[name]) for name in held(world) if name in world.nodes}
    return {name: each.claim for name, each in found.items() if isinstance(each, Claim)}


def test_a_machine_of_another_name_takes_the_place_of_one_that_is_gone() -> None:
    world = handed_over()
    claim = world.claim("w1")
    assert claim is not None
    remove(world, "w1")
    assert [*held(world)] == ["w1"]
    world.pass_time(MINUTE)
    bring(world, "n1")
    world.settle()

    assert first_step(world, "n1") == ("Rejoining", True, claim.claim)
    slot = held(world)["n1"]
    assert (slot.uid, len(held(world))) == (world.nodes["n1"].uid, 1)
    world.pass_time(5 * MINUTE)
    assert world.state("n1") == "UpToDate"
    assert not world.nodes["n1"].unschedulable


def test_an_heir_is_cordoned_by_the_operator_and_a_person_s_cordon_of_it_stays() -> None:
    world = handed_over()
    remove(world, "w1")
    bring(world, "n1")
    world.turn("n1", unschedulable=True)
    world.settle()
    assert world.claim("n1") is not None
    record = record_of(world.nodes["n1"])
    assert not (isinstance(record, Record) and record.unschedulable)
    world.pass_time(10 * MINUTE)
    assert world.nodes["n1"].unschedulable


def test_one_that_comes_first_takes_the_place_once_the_old_node_is_gone() -> None:
    world = handed_over()
    bring(world, "n1")
    world.pass_time(5 * MINUTE)
    assert not world.nodes["n1"].unschedulable
    assert world.claim("n1") is None
    assert [*held(world)] == ["w1"]
    claim = world.claim("w1")
    assert claim is not None
    remove(world, "w1")
    assert [*held(world)] == ["n1"]
    assert first_step(world, "n1") == ("Rejoining", True, claim.claim)


@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
def test_two_nodes_that_are_gone_have_distinct_heirs(order: tuple[str, str]) -> None:
    world = handed_over(3, handed=2)
    before = names(world)
    remove(world, "w1", "w2")
    bring(world, order[0])
    world.pass_time(timedelta(seconds=5))
    bring(world, order[1])
    world.settle()
    assert names(world) == {order[0]: before["w1"], order[1]: before["w2"]}


def test_the_only_new_machine_goes_to_the_node_that_is_gone() -> None:
    """The other one is still there, with the one that comes in its place."""
    world = handed_over(3, handed=2)
    before = names(world)
    bring(world, "n1")
    world.settle()
    remove(world, "w2")
    assert names(world) == {"w1": before["w1"], "n1": before["w2"]}


def test_a_node_that_was_there_before_the_drain_is_no_heir() -> None:
    world = handed_over()
    claim = world.claim("w1")
    assert claim is not None
    assert claim.drained_at is not None
    bring(world, "n1")
    world.turn("n1", created=claim.drained_at - timedelta(seconds=1))
    remove(world, "w1")
    world.pass_time(MINUTE)
    assert world.claim("n1") is None
    assert [*held(world)] == ["w1"]


def test_in_place_no_machine_of_another_name_is_an_heir() -> None:
    world = handed_over(method="InPlace")
    remove(world, "w1")
    bring(world, "n1")
    world.pass_time(MINUTE)
    assert [*held(world)] == ["w1"]


def test_what_the_claim_was_made_for_counts_and_not_the_spec_as_it_is() -> None:
    world = handed_over()
    spec = rolling_pool({"method": "InPlace", "actuator": ACTOR}).spec
    assert spec is not None
    world.edit(edited(world.pool, spec))
    remove(world, "w1")
    bring(world, "n1")
    world.settle()
    assert first_step(world, "n1")[0] == "Rejoining"


def test_an_heir_that_does_not_reach_the_target_fails() -> None:
    world = handed_over(rejoinTimeoutSeconds=600)
    remove(world, "w1")
    bring(world, "n1", versions=OLD)
    world.pass_time(9 * MINUTE)
    assert world.state("n1") == "Rejoining"
    world.pass_time(2 * MINUTE)
    assert world.state("n1") == "Failed"
    assert world.nodes["n1"].unschedulable


@pytest.mark.parametrize("method", ["InPlace", "Replace"])
def test_without_an_heir_the_slot_ends_at_its_deadline_and_people_learn_of_it(method: str) -> None:
    world = handed_over(method=method)
    slot = held(world)["w1"]
    remove(world, "w1")
    assert slot.deadline is not None
    assert held(world)["w1"].deadline == slot.deadline
    world.pass_time(slot.deadline - world.now - timedelta(seconds=2))
    assert [*held(world)] == ["w1"]
    world.pass_time(timedelta(seconds=10))

    [lost] = world.pool.status.slots
    assert (lost.node, lost.state, lost.is_held) == ("w1", "Lost", False)
    [issue] = [each for each in world.pool.status.issues if each.reason == IssueReason.UPGRADE_FAILED]
    assert issue.nodes == ("w1",)
    stalled = world.pool.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", "UpgradeFailed")
    world.pass_time(50 * MINUTE)
    assert world.state("w2") == "Gated", "maxFailedNodes is 0"
    world.pass_time(30 * MINUTE)
    assert world.state("w2") == "Upgrading"
    assert "w1" not in {each.node for each in world.pool.status.slots}


def test_a_lost_node_that_comes_back_under_its_name_stops_nothing_any_more() -> None:
    world = handed_over()
    remove(world, "w1")
    world.pass_time(65 * MINUTE)
    assert [each.state for each in world.pool.status.slots] == ["Lost"]
    bring(world, "w1")
    world.settle()
    assert "Lost" not in [each.state for each in world.pool.status.slots]
    assert world.state("w2") == "Claimed"


def test_a_machine_that_is_replaced_once_more_in_validation_is_cordoned_at_once() -> None:
    world = handed_over()
    world.reboot("w1")
    world.pass_time(MINUTE)
    world.ready("w1")
    world.settle()
    assert world.state("w1") == "Validating"
    remove(world, "w1")
    bring(world, "n1")
    world.settle()
    assert world.state("n1") == "Validating"
    assert world.nodes["n1"].unschedulable
    world.pass_time(10 * MINUTE)
    assert world.state("n1") == "UpToDate"
    assert not world.nodes["n1"].unschedulable


def test_while_a_machine_is_replaced_the_operator_has_work_and_no_other_node_begins() -> None:
    world = handed_over()
    remove(world, "w1")
    world.pass_time(10 * MINUTE)
    found = world.pool.status.condition(ConditionType.RECONCILING)
    assert found is not None
    assert found.status == "True"
    told = world.condition()
    assert told is not None
    assert "w1 (Upgrading)" in told.message
    assert world.state("w2") == "Gated"


# Nodes that leave the pool


def leave(world: RolloutWorld, name: str) -> None:
    """Someone takes the label away by which the pool selects the node."""
    rest = {key: text for key, text in world.nodes[name].labels.items() if key not in RED}
    world.turn(name, labels=rest)
    world.settle()


def test_a_node_that_leaves_the_pool_keeps_its_slot_until_its_machine_is_back() -> None:
    world = handed_over(method="InPlace")
    leave(world, "w1")
    world.pass_time(10 * MINUTE)
    assert [*held(world)] == ["w1"]
    assert world.nodes["w1"].unschedulable
    assert world.state("w2") == "Gated"
    world.reboot("w1")
    world.pass_time(MINUTE)
    assert [*held(world)] == ["w1"]
    world.ready("w1")
    world.settle()
    assert "w1" not in held(world)
    assert not world.nodes["w1"].unschedulable


def test_a_node_that_has_left_the_pool_keeps_its_slot_to_its_deadline_at_most() -> None:
    world = handed_over(method="InPlace")
    leave(world, "w1")
    world.pass_time(70 * MINUTE)
    assert "w1" not in held(world)
    assert not world.nodes["w1"].unschedulable


def test_a_node_that_has_left_the_pool_and_is_deleted_has_an_heir_in_it() -> None:
    world = handed_over()
    leave(world, "w1")
    remove(world, "w1")
    bring(world, "n1")
    world.settle()
    assert [*held(world)] == ["n1"]


# Races


def a_race() -> tuple[Cluster, Operator, Operator]:
    """Return a cluster whose only node is handed over, and two operators."""
    drain = {"timeoutSeconds": 300, "volumeDetachTimeoutSeconds": 60}
    block = {"topologyKey": "", "method": "Replace", "maxFailedNodes": 5, "drain": drain, "actuator": ACTOR}
    cluster = Cluster(Random(1), 1, block, {"readySeconds": 30, "timeoutSeconds": 300})
    cluster.pods.clear()
    cluster.volumes.clear()
    fast, slow = Operator(cluster, "a"), Operator(cluster, "b")
    fast.list_all()
    slow.list_all()
    for _ in range(300):
        if state_of(cluster.nodes["w1"]) == "Upgrading":
            fast.see()
            slow.see()
            return cluster, fast, slow
        fast.see()
        fast.act()
        fast.receive()
        cluster.pass_time(1)
    raise AssertionError("never handed over")


def join(cluster: Cluster, name: str) -> None:
    cluster.join(name, 5000)
    cluster.turn(name, created=cluster.now, ready_since=cluster.now)


def slots_in(cluster: Cluster) -> list[str]:
    return [each.node for each in cluster.pool.status.slots if each.is_held]


def test_a_machine_that_another_operator_has_found_under_its_own_name_has_the_claim_alone() -> None:
    """The one has late news of the nodes and names an heir; the other has late news of the pool."""
    cluster, fast, slow = a_race()
    cluster.remove("w1")
    join(cluster, "w7")
    slow.see()
    fast.see()
    join(cluster, "w1")
    slow.act()
    assert slots_in(cluster) == ["w7"]
    fast.see_nodes()
    fast.act()
    assert state_of(cluster.nodes["w1"]) == "Rejoining"
    for _ in range(4):
        slow.see()
        slow.act()
    assert state_of(cluster.nodes["w7"]) == "gone"
    assert slots_in(cluster) == ["w1"]


@pytest.mark.parametrize("is_first", [False, True], ids=["the new one comes later", "it comes first"])
def test_an_operator_that_still_sees_the_old_node_leaves_the_slot_of_the_new_one(*, is_first: bool) -> None:
    cluster, fast, slow = a_race()
    if is_first:
        join(cluster, "w7")
        slow.see()
    cluster.remove("w1")
    if not is_first:
        join(cluster, "w7")
    fast.see()
    fast.act()
    assert slots_in(cluster) == ["w7"]
    slow.see_pool()
    for _ in range(4):
        slow.act()
    assert slots_in(cluster) == ["w7"]


def test_a_slot_that_someone_has_moved_comes_back_to_the_node_that_has_the_claim() -> None:
    cluster, fast, _ = a_race()
    join(cluster, "w7")
    [slot] = cluster.pool.status.slots
    moved = slot.model_copy(update={"node": "w7", "uid": cluster.nodes["w7"].uid})
    status = cluster.pool.status.model_copy(update={"slots": (moved,)})
    cluster.change_pool(status=status, written_status=status.to_object())
    for _ in range(8):
        fast.see()
        fast.act()
        cluster.pass_time(5)
    assert slots_in(cluster) == ["w1"]
    assert not cluster.nodes["w7"].unschedulable


@pytest.mark.parametrize("method", ["InPlace", "Replace"])
def test_a_machine_that_comes_after_the_upgrades_were_removed_from_the_spec_takes_its_place(
    method: str,
) -> None:
    world = handed_over(method=method)
    claim, spec = world.claim("w1"), world.pool.spec
    assert claim is not None
    assert spec is not None
    world.edit(edited(world.pool, spec.model_copy(update={"upgrade": None})))
    world.settle()
    assert [*held(world)] == ["w1"]
    remove(world, "w1")
    assert [*held(world)] == ["w1"]
    name = "w1" if method == "InPlace" else "n1"
    world.writes.clear()
    bring(world, name)
    world.settle()
    assert first_step(world, name) == ("Rejoining", True, claim.claim)
    world.pass_time(15 * MINUTE)
    assert not held(world)
    assert not world.nodes[name].unschedulable


def test_a_claim_that_is_overwritten_after_the_upgrades_were_removed_ends_by_its_slot() -> None:
    world = handed_over()
    claim, spec = world.claim("w1"), world.pool.spec
    assert claim is not None
    assert spec is not None
    world.edit(edited(world.pool, spec.model_copy(update={"upgrade": None})))
    world.settle()
    world.write("w1", annotations={UPGRADE_ANNOTATION: "garbage"})
    world.settle()
    assert world.claim("w1") == claim
    assert world.nodes["w1"].unschedulable
    world.actor()
    world.pass_time(15 * MINUTE)
    assert not held(world)
    assert not world.nodes["w1"].unschedulable
