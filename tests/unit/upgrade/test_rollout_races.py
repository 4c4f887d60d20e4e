"""Two operators with late news, and what people do in the middle of an upgrade, one case at a time."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from harness.builders import edited
from harness.restless_rollouts import Cluster, Operator, kernel, state_of
from harness.rollout_world import rolling_pool
from winpool.api.keys import UPGRADE_ANNOTATION, UPGRADE_RETRY_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.features.upgrade.claims import Claim, claim_of
from winpool.model.pool import GuardState

DRAIN: Final = {"timeoutSeconds": 300, "volumeDetachTimeoutSeconds": 60}


def a_cluster(number: int = 1, **upgrade: Any) -> tuple[Cluster, Operator]:
    block = {"topologyKey": "", "soakSeconds": 120, "maxFailedNodes": 5, "drain": DRAIN, **upgrade}
    cluster = Cluster(Random(1), number, block, {"readySeconds": 30, "timeoutSeconds": 300})
    cluster.pods.clear()
    cluster.volumes.clear()
    return cluster, Operator(cluster, "a")


def run(cluster: Cluster, operator: Operator, until: str, *, seconds: float = 1) -> None:
    """Make passes, each with the newest news, until the first node is in that state."""
    for _ in range(900):
        if state_of(cluster.nodes["w1"]) == until:
            return
        operator.see()
        if operator.survey is None or (cluster.now - operator.survey.started).total_seconds() > 600:
            operator.list_all()
        operator.act()
        operator.receive()
        cluster.answer()
        cluster.pass_time(seconds)
    raise AssertionError(f"never {until}: {state_of(cluster.nodes['w1'])}")


def passes(cluster: Cluster, operator: Operator, number: int = 6) -> None:
    for _ in range(number):
        operator.see()
        operator.act()
        operator.receive()
        cluster.answer()


def pass_without_status(cluster: Cluster, operator: Operator) -> None:
    """Make a pass while someone else writes the pool and is faster."""
    cluster.change_pool()
    operator.see_nodes()
    operator.act()
    operator.receive()
    cluster.pass_time(1)


def a_claim(cluster: Cluster) -> Claim:
    found = claim_of(cluster.nodes["w1"])
    assert isinstance(found, Claim)
    return found


def slots_in(cluster: Cluster) -> list[str]:
    return [each.node for each in cluster.pool.status.slots if each.is_held]


def restart(cluster: Cluster, revision: int = 5000) -> None:
    cluster.turn("w1", boot_id="another", versions=kernel(revision))


def test_a_slot_is_not_dropped_by_an_operator_that_has_not_seen_the_claim() -> None:
    cluster, fast = a_cluster(2)
    slow = Operator(cluster, "b")
    fast.list_all()
    slow.list_all()
    fast.act()
    slow.see()
    while not any(each.state == "Claimed" for each in cluster.pool.status.slots):
        fast.act()
        fast.receive()
        cluster.pass_time(0.5)
    slow.see_pool()
    slow.act()
    assert [(each.node, each.state) for each in cluster.pool.status.slots] == [("w1", "Claimed")]


@pytest.mark.parametrize("state", ["Claimed", "Draining"])
def test_late_news_of_a_node_that_is_gone_bring_no_slot_back_that_another_node_has(state: str) -> None:
    cluster, slow = a_cluster(2)
    run(cluster, slow, state)
    cluster.pass_time(16)
    slow.see()
    cluster.remove("w1")
    cluster.join("w1", 5000)
    fast = Operator(cluster, "b")
    fast.list_all()
    for _ in range(3):
        fast.see()
        fast.act()
    assert slots_in(cluster) == ["w2"]
    slow.see_pool()
    for _ in range(3):
        slow.act()
    assert slots_in(cluster) == ["w2"]


def test_of_claims_whose_slots_were_lost_no_more_get_one_back_than_the_spec_permits() -> None:
    cluster, operator = a_cluster(2, maxUnavailable=2)
    run(cluster, operator, "Claimed", seconds=0)
    assert state_of(cluster.nodes["w2"]) == "Claimed"
    tighter = rolling_pool({**cluster.upgrade, "maxUnavailable": 1}, more={"validation": cluster.validation})
    assert tighter.spec is not None
    empty = cluster.pool.status.model_copy(update={"slots": ()})
    pool = edited(cluster.pool, tighter.spec)
    cluster.change_pool(
        spec=pool.spec, generation=pool.generation, status=empty, written_status=empty.to_object()
    )
    passes(cluster, operator, 3)
    assert slots_in(cluster) == ["w1"]
    assert state_of(cluster.nodes["w2"]) == "gone"


def test_a_node_is_not_cordoned_before_its_slot_has_the_claim() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Claimed", seconds=0)
    (slot,) = cluster.pool.status.slots
    assert slot.state == "Reserved"
    for _ in range(10):
        pass_without_status(cluster, operator)
        assert not cluster.nodes["w1"].unschedulable
    run(cluster, operator, "Draining", seconds=0)
    (slot,) = cluster.pool.status.slots
    assert slot.state == "Claimed"


def test_of_nodes_that_are_claimed_no_more_are_cordoned_than_the_spec_permits_by_then() -> None:
    cluster, operator = a_cluster(2, maxUnavailable=2)
    run(cluster, operator, "Claimed", seconds=0)
    assert state_of(cluster.nodes["w2"]) == "Claimed"
    tighter = rolling_pool({**cluster.upgrade, "maxUnavailable": 1}, more={"validation": cluster.validation})
    assert tighter.spec is not None
    pool = edited(cluster.pool, tighter.spec)
    cluster.change_pool(spec=pool.spec, generation=pool.generation)
    operator.see()
    operator.list_all()
    for _ in range(20):
        passes(cluster, operator, 1)
        assert sum(each.unschedulable for each in cluster.nodes.values()) <= 1


def test_a_second_uncordon_is_an_answer() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Draining")
    deadline = a_claim(cluster).deadline
    cluster.turn("w1", unschedulable=False)
    cluster.pass_time(5)
    passes(cluster, operator, 2)
    assert cluster.nodes["w1"].unschedulable
    cordoned_for = a_claim(cluster)
    assert cordoned_for.deadline == deadline, "another cordon is no other drain"
    cluster.pass_time(30)  # what others undo is repaired after a pause, which has passed
    operator.see()
    cluster.turn("w1", unschedulable=False)
    for _ in range(6):
        passes(cluster, operator, 1)
        assert not cluster.nodes["w1"].unschedulable
    assert cordoned_for.uncordons == 1
    assert state_of(cluster.nodes["w1"]) == "gone"


def test_a_pod_that_comes_to_a_drained_node_gives_the_drain_no_other_deadline() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Draining")
    deadline = a_claim(cluster).deadline
    cluster._stays = lambda: True  # type: ignore[method-assign]
    cluster.volumes["pv"] = ("w1", "a pod of before")
    run(cluster, operator, "Drained")
    cluster.fill("w1", 1)
    cluster.pass_time(35)
    cluster.volumes.clear()
    run(cluster, operator, "Draining")
    assert a_claim(cluster).deadline == deadline


def test_a_node_whose_volumes_detach_late_is_handed_over_then() -> None:
    cluster, operator = a_cluster()
    cluster._stays = lambda: True  # type: ignore[method-assign]
    run(cluster, operator, "Draining")
    cluster.volumes["pv"] = ("w1", "a pod of before")
    run(cluster, operator, "DrainBlocked")
    cluster.pass_time(300)
    cluster.volumes.clear()
    run(cluster, operator, "Upgrading", seconds=5)


def test_a_node_is_not_handed_over_before_its_slot_has_the_claim_as_it_will_be() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Drained")
    for _ in range(10):
        pass_without_status(cluster, operator)
        assert state_of(cluster.nodes["w1"]) == "Drained"
    run(cluster, operator, "Upgrading")
    (slot,) = cluster.pool.status.slots
    assert slot.claim == cluster.nodes["w1"].annotations[UPGRADE_ANNOTATION]


def test_a_machine_that_says_less_of_itself_has_not_restarted() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    cluster.turn("w1", boot_id="")
    passes(cluster, operator)
    assert a_claim(cluster).state == "Upgrading"


def test_a_node_in_validation_is_looked_at_again_once_it_is_ready_for_long_enough() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    restart(cluster)
    cluster.turn("w1", ready_since=cluster.now)
    run(cluster, operator, "Validating", seconds=0)
    passes(cluster, operator, 3)
    assert operator.decision is not None
    assert operator.decision.look_again is not None
    assert (operator.decision.look_again - cluster.now).total_seconds() <= 30


def test_a_node_that_loses_the_target_while_it_soaks_is_not_up_to_date() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    restart(cluster)
    run(cluster, operator, "Soaking")
    cluster.turn("w1", versions=kernel(4052))
    run(cluster, operator, "Failed")


def test_a_failed_node_keeps_its_cordon_until_it_has_another_claim_and_then_counts_on() -> None:
    cluster, operator = a_cluster(actuator={"type": "External", "external": {"timeoutSeconds": 60}})
    run(cluster, operator, "Failed")
    assert a_claim(cluster).attempts == 1
    cluster.annotate("w1", UPGRADE_RETRY_ANNOTATION, "")
    for _ in range(200):
        operator.see()
        operator.act()
        operator.receive()
        cluster.pass_time(1)
        assert cluster.nodes["w1"].unschedulable
        if state_of(cluster.nodes["w1"]) == "Claimed":
            break
    assert a_claim(cluster).state == "Claimed"
    assert a_claim(cluster).attempts == 1


def test_a_node_that_is_tried_again_needs_no_room_beside_itself_in_the_budget() -> None:
    cluster, operator = a_cluster(2, actuator={"type": "External", "external": {"timeoutSeconds": 60}})
    run(cluster, operator, "Failed")
    cluster.annotate("w1", UPGRADE_RETRY_ANNOTATION, "")
    run(cluster, operator, "Claimed")
    assert state_of(cluster.nodes["w2"]) == "gone"


def test_a_failed_node_that_someone_uncordoned_is_validated_without_a_cordon() -> None:
    cluster, operator = a_cluster(actuator={"type": "External", "external": {"timeoutSeconds": 60}})
    run(cluster, operator, "Failed")
    cluster.turn("w1", unschedulable=False)
    restart(cluster)
    run(cluster, operator, "Validating")
    assert not cluster.nodes["w1"].unschedulable


@pytest.mark.parametrize("guard", [GuardState(), GuardState(is_unknown=True)], ids=["none", "unknown"])
def test_no_node_is_claimed_while_the_guard_is_not_known_to_be_in_force(guard: GuardState) -> None:
    cluster, operator = a_cluster()
    cluster.guard = guard
    operator.see()
    operator.list_all()
    passes(cluster, operator)
    assert UPGRADE_ANNOTATION not in cluster.nodes["w1"].annotations


def test_a_person_s_cordon_is_never_undone() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Claimed", seconds=0)
    cluster.turn("w1", unschedulable=True)
    operator.see()
    run(cluster, operator, "gone")
    assert cluster.nodes["w1"].unschedulable
    assert cluster.nodes["w1"].labels[UPGRADE_STATE_LABEL] == "Gated"
