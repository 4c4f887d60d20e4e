"""What a pool reports while the operator upgrades its nodes: counts, conditions, issues, events, history."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from harness.builders import with_nodes
from harness.every import every
from harness.rollout_scenes import (
    HOUR,
    MINUTE,
    SCENES,
    a_rollout,
    blocked,
    close_budget,
    draining,
    failed,
    seen_in,
    soaking,
)
from harness.rollout_world import RolloutWorld
from winpool.api.conditions import ConditionType
from winpool.api.events import EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_RETRY_ANNOTATION
from winpool.api.status import Issue, WindowsNodePoolStatus
from winpool.decide import decide
from winpool.features.upgrade.drain import Blocker, DrainBlock, DrainProgress
from winpool.features.upgrade.findings import CAUSES_KEPT, rollout_findings
from winpool.features.upgrade.records import NodeStep, RolloutResult
from winpool.status.view import RolloutProgress

OURS: Final = ("Ready", "NodesUpToDate", "UpgradeAllowed", "Reconciling", "Stalled")


def of(scene: str) -> WindowsNodePoolStatus:
    return decide(seen_in(scene)).status


def issue(status: WindowsNodePoolStatus, reason: IssueReason) -> Issue:
    [found] = [each for each in status.issues if each.reason == reason]
    return found


def message(status: WindowsNodePoolStatus, kind: ConditionType) -> str:
    found = status.condition(kind)
    assert found
    return found.message


@every(
    ("scene", "reasons"),
    [
        (
            "a node is drained",
            ("UpgradeInProgress", "UpgradeInProgress", "UpgradeAllowed", "UpgradeInProgress", "NotStalled"),
        ),
        ("a drain is blocked", ("DrainBlocked", "UpgradeDue", "PoolHealth", "Settled", "DrainBlocked")),
        ("an upgrade failed", ("UpgradeFailed", "UpgradeDue", "PoolHealth", "Settled", "UpgradeFailed")),
        (
            "upgraded nodes are not ready",
            ("NodesUnhealthy", "UpgradeInProgress", "PoolHealth", "UpgradeInProgress", "NodesUnhealthy"),
        ),
        (
            "workloads are not back",
            ("SettleTimedOut", "UpgradeDue", "UpgradeAllowed", "Settled", "SettleTimedOut"),
        ),
        (
            "a machine is replaced",
            ("UpgradeInProgress", "UpgradeInProgress", "UpgradeAllowed", "UpgradeInProgress", "NotStalled"),
        ),
        ("a machine is lost", ("UpgradeFailed", "UpgradeDue", "PoolHealth", "Settled", "UpgradeFailed")),
        ("no upgrade may begin", ("UpgradeDue", "UpgradeDue", "ControlPlane", "Settled", "NotStalled")),
    ],
)
def test_each_scene_has_its_conditions(scene: str, reasons: tuple[str, ...]) -> None:
    found = {each.type: each.reason for each in of(scene).conditions}
    assert tuple(found[kind] for kind in OURS) == reasons


@every("scene", SCENES)
def test_ready_stays_true_in_a_rollout(scene: str) -> None:
    found = of(scene).condition(ConditionType.READY)
    assert found
    assert found.status == "True"


def test_a_pool_says_which_nodes_are_in_work_and_why_no_further_one_begins() -> None:
    assert message(of("a node is drained"), ConditionType.UPGRADE_ALLOWED) == (
        "The operator upgrades w1 (Draining). 2 nodes (w2, w3) are due for an upgrade. w2, w3 wait for their "
        "turn. spec.upgrade.maxUnavailable permits no more at a time."
    )


def test_a_brake_is_named() -> None:
    said = message(of("a drain is blocked"), ConditionType.READY)
    assert "spec.upgrade.maxBlockedNodes is 0, so no other begins." in said
    said = message(of("an upgrade failed"), ConditionType.READY)
    assert "spec.upgrade.maxFailedNodes is 0, so no other begins." in said


@pytest.mark.slow
def test_a_pool_that_continues_with_others_is_stalled_and_reconciling() -> None:
    world = blocked(maxUnavailable=2, maxBlockedNodes=1)
    found = {each.type: each.status for each in decide(world.snapshot()).status.conditions}
    assert (found["Stalled"], found["Reconciling"]) == ("True", "True")


def test_nothing_is_under_way_where_a_vendor_keeps_the_one_node_in_work() -> None:
    snapshot = seen_in("a node is drained")
    label = {"kubernetes.azure.com/upgrade-status": "paused"}
    nodes = [
        replace(each, labels={**each.labels, **label}) if each.name == "w1" else each
        for each in snapshot.nodes
    ]
    found = {each.type: each.status for each in decide(with_nodes(snapshot, *nodes)).status.conditions}
    assert found["Reconciling"] == "False"


@every(
    ("scene", "counts"),
    [
        ("a node is drained", (1, 0, 0)),
        ("a drain is blocked", (1, 1, 0)),
        ("an upgrade failed", (0, 0, 1)),
        ("no upgrade may begin", (0, 0, 0)),
    ],
)
def test_nodes_are_counted(scene: str, counts: tuple[int, int, int]) -> None:
    found = of(scene).to_object()
    assert (found["drainingNodes"], found["blockedNodes"], found["failedNodes"]) == counts


@pytest.mark.slow
def test_a_failed_node_that_is_to_try_again_does_not_count() -> None:
    world = failed(maxUnavailable=1)
    world.write("w1", annotations={UPGRADE_RETRY_ANNOTATION: ""})
    world.run()
    assert world.decision is not None
    assert world.decision.status.failed_nodes == 0


def test_the_next_action_is_the_next_deadline_and_no_list_of_pods() -> None:
    world = draining()
    claim = world.claim("w1")
    assert claim
    for _ in range(3):
        world.pass_time(timedelta(seconds=20))
        assert decide(world.snapshot()).status.next_action_time == claim.deadline
    assert of("a drain is blocked").next_action_time is None
    gated = of("no upgrade may begin")
    assert gated.next_action_time is not None
    assert "Wait until 2026-11-01T12:15:00Z" in message(gated, ConditionType.UPGRADE_ALLOWED)


def test_workloads_that_are_back_in_time_do_not_stall_the_pool() -> None:
    world = soaking()
    world.turn("w1", ready="False", ready_since=world.now)
    world.pass_time(MINUTE)
    assert decide(world.snapshot()).status.condition(ConditionType.STALLED).status == "False"  # type: ignore[union-attr]


@pytest.mark.slow
def test_an_issue_names_pods_and_what_keeps_them_and_is_the_same_a_minute_later() -> None:
    world = blocked()
    first = issue(decide(world.snapshot()).status, IssueReason.DRAIN_BLOCKED)
    assert first.message == (
        "These nodes were not drained in time. shop/web-1: The PodDisruptionBudget shop/web allows no "
        "eviction now: 1 of its 2 pods are healthy and it demands 1. The operator waits until more are Ready."
    )
    world.settle()
    writes = world.status_writes
    world.pass_time(5 * MINUTE)
    assert world.status_writes == writes
    assert issue(decide(world.snapshot()).status, IssueReason.DRAIN_BLOCKED) == first


@pytest.mark.slow
def test_a_cause_is_one_issue_whatever_its_numbers_and_pods() -> None:
    world = blocked()
    assert world.decision is not None
    steps_now = _steps(world).values()
    step = next(each for each in steps_now if each.drain.blockers or each.state == "DrainBlocked")

    def with_blockers(*blockers: tuple[str, str]) -> NodeStep:
        found = tuple(Blocker(pod, DrainBlock.BUDGET, said) for pod, said in blockers)
        return replace(step, drain=DrainProgress(blockers=found))

    steps = {
        "w1": with_blockers(("a/p1", "1 of 3 pods are healthy."), ("a/p2", "1 of 3 pods are healthy.")),
        "w2": with_blockers(("a/p3", "2 of 3 pods are healthy."), ("a/p4", "2 of 3 pods are healthy.")),
    }
    [found] = rollout_findings(RolloutResult(steps=steps), now=world.now)
    assert list(found.nodes) == ["w1", "w2"]
    assert found.message.endswith("a/p1, a/p2, a/p3 and 1 more: 1 of 3 pods are healthy.")
    many = {f"w{n}": with_blockers((f"a/p{n}", f"The budget b{n} is closed.")) for n in range(9)}
    assert len([*rollout_findings(RolloutResult(steps=many), now=world.now)]) == CAUSES_KEPT + 1


def _steps(world: RolloutWorld) -> dict[str, NodeStep]:
    from harness.upgrade_feature import passed

    overview = passed(world.snapshot()).overview
    assert overview
    assert overview.rollout
    return {**overview.rollout.steps}


def events_of(world: RolloutWorld, span: timedelta) -> list[tuple[str, str]]:
    """Return reason and name of what each event is about, that the passes of this time emit."""
    found: list[tuple[str, str]] = []
    run = world.run

    def noted() -> object:
        decision = run()
        written = {patch.node.name for patch in decision.writes.patches}
        found.extend(
            (each.reason, each.name) for name, each in decision.node_events.items() if name in written
        )
        found.extend(
            (each.reason, each.name)
            for each in decision.pool_events
            if each.regarding is Regarding.NODE or each.reason.startswith("Rollout")
        )
        return decision

    world.run = noted  # type: ignore[method-assign, assignment]
    end = world.now + span
    while world.now < end:
        world.pass_time(MINUTE)
        world.actor()
    return found


def test_a_node_has_one_event_for_each_part_of_its_upgrade() -> None:
    found = events_of(a_rollout(1), 30 * MINUTE)
    assert found == [
        (EventReason.DRAIN_STARTED, "w1"),
        (EventReason.NODE_HANDED_OVER, "w1"),
        (EventReason.NODE_UPGRADED, "w1"),
    ]


@pytest.mark.slow
def test_a_drain_that_is_blocked_has_one_event() -> None:
    world = a_rollout(1, drain={"timeoutSeconds": 300})
    world.watchers.append(close_budget)
    assert events_of(world, HOUR) == [(EventReason.DRAIN_STARTED, "w1"), (EventReason.DRAIN_BLOCKED, "w1")]


@pytest.mark.slow
def test_the_history_counts_the_nodes_whose_upgrade_failed() -> None:
    world = failed(maxUnavailable=2)
    world.settle()
    assert [each.failed_nodes for each in world.pool.status.history] == [2]
    world.write("w1", annotations={UPGRADE_RETRY_ANNOTATION: ""})
    world.pass_time(MINUTE)
    assert [each.failed_nodes for each in world.pool.status.history] == [2], "the most at the same time"


def test_a_pool_without_a_rollout_counts_nothing() -> None:
    assert RolloutProgress().said == ""
    assert not RolloutProgress().goes_on
