"""The plan: what a dry run would do, and nothing of it in any other mode."""

from __future__ import annotations

import pytest
from hypothesis import given

from harness.builders import Nodes, a_node, a_pool, a_snapshot, deleted, edited
from harness.strategies import fleets, pools
from harness.writes import acted, relabelled
from winpool.api.v1alpha1 import MAX_PLAN_STEPS, Mode, Plan
from winpool.decide import decide
from winpool.objects.pool import Pool

LABELS = {"team": "a"}
TAINT = "os=windows:NoSchedule"


def plan_of(pool: Pool, nodes: Nodes) -> Plan:
    plan = decide(a_snapshot(pool, nodes)).status.plan
    assert plan is not None
    return plan


def on(*names: str) -> Nodes:
    return {name: a_node(name) for name in names}


def test_a_dry_run_names_the_nodes_and_what_differs() -> None:
    bare = acted(decide(a_snapshot(a_pool(), on("w1"))), on("w1"))
    for labels, taints, reason in (
        (LABELS, [], "Labels"),
        ({}, [TAINT], "Taints"),
        (LABELS, [TAINT], "LabelsAndTaints"),
    ):
        plan = plan_of(a_pool(labels=labels, taints=taints, mode="DryRun"), bare)
        assert [(step.node, step.action, step.reason) for step in plan.steps] == [("w1", "Update", reason)]


def test_a_dry_run_with_nothing_to_do_says_so() -> None:
    nodes = acted(decide(a_snapshot(a_pool(labels=LABELS), on("w1"))), on("w1"))
    assert plan_of(a_pool(labels=LABELS, mode="DryRun"), nodes) == Plan(total_nodes=0)


def test_a_dry_run_also_plans_to_release_what_has_left() -> None:
    nodes = acted(decide(a_snapshot(a_pool(labels=LABELS), on("w1"))), on("w1"))
    nodes["w1"] = relabelled(nodes["w1"], agentpool="blue")
    assert [step.node for step in plan_of(a_pool(labels=LABELS, mode="DryRun"), nodes).steps] == ["w1"]


def test_a_long_plan_counts_all_and_shows_the_first() -> None:
    names = [f"w{number:03d}" for number in range(MAX_PLAN_STEPS + 7)]
    plan = plan_of(a_pool(labels=LABELS, mode="DryRun"), on(*reversed(names)))
    assert plan.total_nodes == len(names)
    assert [step.node for step in plan.steps] == names[:MAX_PLAN_STEPS]


@pytest.mark.parametrize("mode", ["Active", "Paused"])
def test_only_a_dry_run_has_a_plan(mode: str) -> None:
    assert decide(a_snapshot(a_pool(labels=LABELS, mode=mode), on("w1"))).status.plan is None


def test_a_deleted_dry_run_has_no_plan() -> None:
    assert decide(a_snapshot(deleted(a_pool(mode="DryRun")), on("w1"))).status.plan is None


@given(pools(), fleets())
def test_the_plan_is_what_active_does(pool: Pool, fleet: Nodes) -> None:
    assert pool.spec is not None
    patches = decide(a_snapshot(pool, fleet)).patches
    dry = pool.spec.model_copy(update={"mode": Mode.DRY_RUN})
    plan = plan_of(edited(pool, dry), fleet)
    assert plan.total_nodes == len(patches)
    assert [step.node for step in plan.steps] == sorted(patch.node.name for patch in patches)
