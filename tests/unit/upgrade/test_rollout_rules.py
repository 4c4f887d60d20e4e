"""Rules of a rollout that have no other test: ``tests/rules.yaml`` has all of them, by number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.every import every
from harness.restless_rollouts import Cluster, Operator, kernel, state_of
from harness.upgrade_feature import BEHIND
from unit.upgrade.test_rollout import a_world
from unit.upgrade.test_rollout_races import DRAIN, a_claim, a_cluster, passes, restart, run
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_DONE_ANNOTATION, UPGRADE_RETRY_ANNOTATION

OLD = 4052
TARGET = BEHIND["targetRevision"]


def until(cluster: Cluster, operator: Operator, holds: Callable[[], bool], *, seconds: float = 5) -> None:
    """Make passes, each with the newest news, until something holds."""
    for _ in range(400):
        if holds():
            return
        operator.see()
        operator.list_all()
        operator.act()
        operator.receive()
        cluster.answer()
        cluster.pass_time(seconds)
    raise AssertionError(f"never: {[state_of(node) for node in cluster.nodes.values()]}")


def state(cluster: Cluster, name: str) -> str:
    return state_of(cluster.nodes[name])


# Cordons and deadlines


def test_rule_5_a_drain_that_is_given_up_is_uncordoned_in_the_same_moment() -> None:
    cluster, operator = a_cluster(drain={**DRAIN, "onTimeout": "Restore"})
    run(cluster, operator, "Claimed", seconds=0)
    cluster.fill("w1", 1)
    cluster.is_closed = True
    run(cluster, operator, "Draining")
    cluster.pass_time(300)
    passes(cluster, operator)
    assert (state(cluster, "w1"), cluster.nodes["w1"].unschedulable) == ("gone", False)


def test_rule_7_an_uncordon_that_the_operator_has_not_seen_refuses_that_the_node_is_drained() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Draining")
    tried = False
    for _ in range(60):
        operator.see()
        cluster.turn("w1", unschedulable=False)
        operator.act()
        assert operator.decision is not None
        labels = [each.labels.get("winpool.dev/upgrade-state") for each in operator.decision.writes.patches]
        tried = tried or "Drained" in labels
        assert state(cluster, "w1") == "Draining"
        cluster.turn("w1", unschedulable=True)
        operator.receive()
        cluster.pass_time(1)
    assert tried, "it would have been written"
    run(cluster, operator, "Drained")


def test_rule_8_neither_a_cordon_anew_nor_a_hold_nor_a_restart_moves_the_deadline() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Claimed", seconds=0)
    cluster.fill("w1", 1)
    cluster.is_closed = True
    run(cluster, operator, "Draining")
    first = a_claim(cluster)
    disturbances: list[Callable[[], Any]] = [
        lambda: cluster.turn("w1", unschedulable=False),
        operator.restart,
        lambda: cluster.annotate("w1", HOLD_ANNOTATION, ""),
        lambda: cluster.annotate("w1", HOLD_ANNOTATION, None),
    ]
    for disturb in disturbances:
        disturb()
        operator.list_all()
        passes(cluster, operator)
        cluster.pass_time(30)
    found = a_claim(cluster)
    assert found.uncordons == 1
    assert (found.deadline, found.drain_until) == (first.deadline, first.drain_until)


# The machine is the judge


def test_rule_12_a_machine_at_the_target_is_enough_whatever_the_actor_says() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    restart(cluster)
    run(cluster, operator, "UpToDate", seconds=5)
    assert UPGRADE_DONE_ANNOTATION not in cluster.nodes["w1"].annotations


def test_rule_12_an_actor_that_is_done_off_the_target_has_failed_before_any_deadline() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    cluster.annotate("w1", UPGRADE_DONE_ANNOTATION, a_claim(cluster).claim)
    restart(cluster, OLD)
    run(cluster, operator, "Rejoining")
    deadline = a_claim(cluster).deadline
    assert deadline is not None
    run(cluster, operator, "Failed")
    assert deadline - cluster.now > timedelta(minutes=10)
    assert "does not run the target" in a_claim(cluster).reason


def test_rule_12_a_claim_asks_for_one_restart_and_a_second_one_is_another_claim() -> None:
    cluster, operator = a_cluster(actuator={"type": "External", "external": {"timeoutSeconds": 60}})
    run(cluster, operator, "Upgrading")
    first = a_claim(cluster).claim
    run(cluster, operator, "Failed")
    cluster.annotate("w1", UPGRADE_RETRY_ANNOTATION, "")
    run(cluster, operator, "Upgrading")
    assert a_claim(cluster).claim != first
    handed_over = [name for _, name, state in cluster.promises.trail if state == "Upgrading"]
    assert handed_over == ["w1", "w1"], "once for each"


def test_rule_14_lists_that_fail_cost_time_and_are_no_verdict() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    restart(cluster)
    cluster.can_list = False
    operator.restart()
    run(cluster, operator, "Validating")
    until(cluster, operator, lambda: cluster.now > a_claim(cluster).since + timedelta(seconds=200))
    assert state(cluster, "w1") == "Validating"
    cluster.can_list = True
    run(cluster, operator, "UpToDate", seconds=5)


@pytest.mark.slow
def test_rule_15_a_node_that_joins_when_all_are_done_is_upgraded_too() -> None:
    world = a_world(1)
    world.upgrade_all()
    assert world.state("w1") == "UpToDate"
    world.join("w2", boot_id="1")
    world.list_pods()
    world.upgrade_all()
    assert (world.state("w1"), world.state("w2")) == ("UpToDate", "UpToDate")


# Pace


@pytest.mark.slow
def test_rule_17_the_next_node_waits_until_what_was_evicted_is_ready_elsewhere() -> None:
    cluster, operator = a_cluster(2)
    cluster.fill("w1", 1)
    run(cluster, operator, "Upgrading")
    restart(cluster)
    run(cluster, operator, "Soaking")
    cluster.absent = {"a pod": cluster.now + timedelta(days=1)}
    soaking = a_claim(cluster).since
    until(cluster, operator, lambda: cluster.now > soaking + timedelta(minutes=20))
    assert (state(cluster, "w1"), state(cluster, "w2")) == ("Soaking", "gone")
    cluster.absent.clear()
    until(cluster, operator, lambda: state(cluster, "w2") == "Draining")
    assert state(cluster, "w1") == "UpToDate"


def test_rule_18_validation_that_lasts_fails_at_its_deadline_and_says_for_what_it_waited() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    restart(cluster)
    run(cluster, operator, "Validating")
    cluster.turn("w1", ready="False", ready_since=cluster.now)
    deadline = a_claim(cluster).deadline
    run(cluster, operator, "Failed", seconds=5)
    assert deadline is not None
    assert deadline <= cluster.now <= deadline + timedelta(seconds=10)
    assert "did not pass validation in time: " in a_claim(cluster).reason
    assert not a_claim(cluster).reason.endswith(": ")


def test_rule_19_two_nodes_that_are_not_ready_after_their_upgrade_stop_the_others() -> None:
    cluster, operator = a_cluster(3, maxUnavailable=3, soakSeconds=600)
    cluster.annotate("w3", HOLD_ANNOTATION, "")
    for name in ("w1", "w2"):
        until(cluster, operator, lambda name=name: state(cluster, name) == "Upgrading")  # type: ignore[misc]
    for name in ("w1", "w2"):
        cluster.turn(name, boot_id="another", versions=kernel(TARGET))
    until(cluster, operator, lambda: state(cluster, "w1") == state(cluster, "w2") == "Soaking")
    cluster.pass_time(600)  # what changed Ready lately is no storm of the pool
    for name in ("w1", "w2"):
        cluster.turn(name, ready="False", ready_since=cluster.now)
    cluster.annotate("w3", HOLD_ANNOTATION, None)
    soaking = cluster.now
    until(cluster, operator, lambda: cluster.now > soaking + timedelta(minutes=5))
    assert state(cluster, "w3") == "gone"
    cluster.turn("w1", ready="True", ready_since=cluster.now)
    until(cluster, operator, lambda: state(cluster, "w3") == "Draining")


# Machines that are replaced


@every("revision", [OLD, TARGET])
def test_rule_30_a_machine_that_is_made_again_under_its_name_is_cordoned_in_the_first_pass(
    revision: int,
) -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    before = a_claim(cluster)
    cluster.remove("w1")
    cluster.join("w1", revision)
    operator.see()
    operator.act()
    assert cluster.nodes["w1"].unschedulable
    assert a_claim(cluster).claim == before.claim
