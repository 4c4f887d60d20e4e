"""The plan of a dry run: which nodes are due, and what is closed for them."""

from __future__ import annotations

from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot, by_name
from harness.upgrade_views import DRY_RUN, ONE_DUE, UPGRADING, an_overview, closed, due, told, upgrading
from winpool.api.status import MAX_PLAN_STEPS, Plan, PlanAction
from winpool.api.upgrade import Gate, Trigger
from winpool.decide import decide
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.snapshot import Snapshot


def plan_of(snapshot: Snapshot, overview: UpgradeOverview | None) -> Plan:
    plan = decide(snapshot, told(overview)).status.plan
    assert plan is not None
    return plan


def in_dry_run(overview: UpgradeOverview) -> Plan:
    return plan_of(upgrading(mode="DryRun"), replace(overview, stops=(DRY_RUN,)))


def test_each_node_that_is_due_is_a_step_with_its_first_trigger_and_its_closed_gates() -> None:
    plan = in_dry_run(
        an_overview(
            due("w1", triggers=(Trigger.OS_VERSION, Trigger.REQUEST)),
            due("w2", closed(Gate.RELEASE_CHANGE), closed(Gate.IMAGES)),
        )
    )
    assert plan.total_nodes == 2
    assert [(each.node, each.action, each.reason, each.closed_gates) for each in plan.steps] == [
        ("w1", "Upgrade", "OSVersion", ()),
        ("w2", "Upgrade", "OSRevision", ("ReleaseChange", "Images")),
    ]
    assert all(each.change_count == 0 and not each.changes for each in plan.steps)


def test_steps_are_in_the_order_of_the_batches_that_the_budget_permits() -> None:
    overview = an_overview(*map(due, ("w1", "w2", "w3")))
    for asked, batches in ((1, [1, 2, 3]), (2, [1, 1, 2]), ("50%", [1, 1, 1])):
        snapshot = upgrading(mode="DryRun", more={"upgrade": {"maxUnavailable": asked}})
        plan = plan_of(snapshot, replace(overview, stops=(DRY_RUN,)))
        assert [each.batch for each in plan.steps] == batches
        assert plan.upgrade
        assert plan.upgrade.batches == batches[-1]
        assert plan.upgrade.likely_seconds
        assert plan.upgrade.worst_case_seconds
        assert 0 < plan.upgrade.likely_seconds <= plan.upgrade.worst_case_seconds


def test_a_budget_of_none_has_no_batch_and_no_time() -> None:
    snapshot = upgrading(mode="DryRun", more={"upgrade": {"maxUnavailable": 0}})
    plan = plan_of(snapshot, replace(ONE_DUE, stops=(DRY_RUN,)))
    assert [each.batch for each in plan.steps] == [None]
    assert plan.upgrade
    assert plan.upgrade.batches == 0
    assert plan.upgrade.likely_seconds is plan.upgrade.worst_case_seconds is None


def test_the_gates_of_the_pool_are_told_once() -> None:
    gates = [closed(Gate.MAINTENANCE_WINDOW), closed(Gate.BUDGET)]
    upgrade = in_dry_run(an_overview(due("w1"), due("w2", closed(Gate.IMAGES)), gates=gates)).upgrade
    assert upgrade
    assert (upgrade.due_nodes, upgrade.permitted_nodes) == (2, 1)
    assert upgrade.closed_gates == ("MaintenanceWindow", "Budget")


def test_without_the_block_nothing_is_planned_of_upgrades() -> None:
    plan = plan_of(a_snapshot(a_pool(mode="DryRun"), [a_node()]), None)
    assert plan.upgrade is None
    assert [each.action for each in plan.steps] == ["Update"]


def test_only_a_dry_run_has_a_plan() -> None:
    assert decide(upgrading(), told(ONE_DUE)).status.plan is None


def test_a_node_that_is_written_and_due_is_two_steps_and_one_node() -> None:
    pool = a_pool(more=UPGRADING, labels={"team": "a"}, mode="DryRun")
    plan = plan_of(a_snapshot(pool, [a_node("w1")]), replace(ONE_DUE, stops=(DRY_RUN,)))
    assert [(each.node, each.action) for each in plan.steps] == [("w1", "Update"), ("w1", "Upgrade")]
    assert plan.total_nodes == 1


def test_where_there_is_no_room_each_kind_of_step_has_half_of_it() -> None:
    names = [f"w{number:03}" for number in range(2 * MAX_PLAN_STEPS)]
    pool = a_pool(more=UPGRADING, labels={"team": "a"}, mode="DryRun")
    for number, updates in ((100, 25), (30, 25), (10, 40), (0, 50)):
        overview = an_overview(*map(due, names[:number]), stops=(DRY_RUN,))
        plan = plan_of(a_snapshot(pool, by_name(*map(a_node, names))), overview)
        actions = [each.action for each in plan.steps]
        assert len(actions) == MAX_PLAN_STEPS
        assert actions.count(PlanAction.UPDATE) == updates
        assert actions == sorted(actions), "what is written comes first"
        assert plan.total_nodes == len(names)
        assert plan.upgrade
        assert plan.upgrade.due_nodes == number
