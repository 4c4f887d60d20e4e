"""The plan: what a dry run would do, and nothing of it in any other mode."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from harness.builders import Nodes, a_node, a_pool, a_snapshot, a_spec, deleted, edited
from harness.house import House
from harness.strategies import fleets, pools
from harness.views import CALM, HARD, STALE, all_of
from harness.writes import acted, relabelled
from winpool.api.spec import Mode
from winpool.api.status import MAX_CHANGES, MAX_PLAN_STEPS, Plan
from winpool.decide import FEATURES, decide
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Pool

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


def changes_of(pool: Pool, nodes: Nodes) -> list[tuple[str, str, str | None, str | None]]:
    [step] = plan_of(pool, nodes).steps
    return [(each.kind, each.key, each.from_, each.to) for each in step.changes]


def changed_by(before: Nodes, **spec: Any) -> list[tuple[str, str, str | None, str | None]]:
    """Return what a dry run of a pool with another spec would change on its only node."""
    return changes_of(a_pool(mode="DryRun", **spec), before)


def test_a_step_says_what_changes_from_what_to_what() -> None:
    first = a_pool(
        labels={"team": "payments", "tier": "gold"}, taints=["os=windows:NoSchedule", "gpu:NoSchedule"]
    )
    nodes = acted(decide(a_snapshot(first, on("w1"))), on("w1"))
    found = changed_by(
        nodes, labels={"team": "billing", "zone": ""}, taints=["os=win:NoSchedule", "new:NoExecute"]
    )
    assert found == [
        ("Taint", "new:NoExecute", None, ""),
        ("Taint", "gpu:NoSchedule", "", None),
        ("Taint", "os:NoSchedule", "windows", "win"),
        ("Label", "team", "payments", "billing"),
        ("Label", "tier", "gold", None),
        ("Label", "zone", None, ""),
    ]


def test_a_step_says_what_the_operator_adds_by_itself_after_what_the_spec_asks_for() -> None:
    memory = {"reservedMemory": {"systemReserved": "4Gi", "onMismatch": "Taint"}}
    node = replace(a_node(), memory=NodeMemory(capacity=16 * 2**30, allocatable=15 * 2**30))
    found = changed_by({"w1": node}, labels=LABELS, more=memory)
    assert found[:2] == [
        ("Taint", "winpool.dev/reserved-memory-mismatch:NoSchedule", None, ""),
        ("Label", "team", None, "a"),
    ]
    assert ("Label", "winpool.dev/pool", None, "pool") in found[2:]
    assert not any("applied" in key for _, key, _, _ in found)


PRESSURE = "winpool.dev/memory-pressure:NoSchedule"
CONDITION = "WindowsMemoryPressure"
SIGNAL: dict[str, Any] = {"memoryPressure": {"mode": "Signal", "eviction": {"maxPressuredNodes": "100%"}}}


def a_house_under_pressure(mode: str) -> House:
    """Return a pool of one node that runs out of memory; with mode Active it is signalled already."""
    house = House(a_pool(labels=LABELS, more=SIGNAL), on("w1"), features=FEATURES)
    house.memory = all_of(["w1"], CALM)
    house.settle()
    house.edit(edited(house.pool, a_spec(labels=LABELS, mode=mode, more=SIGNAL)))
    house.memory = all_of(["w1"], HARD)
    house.settle()
    return house


def planned(house: House) -> list[tuple[str, str, str | None, str | None]]:
    plan = house.decide().status.plan
    assert plan is not None
    return [(each.kind, each.key, each.from_, each.to) for step in plan.steps for each in step.changes]


def test_a_dry_run_plans_the_taint_and_the_condition_of_memory_pressure() -> None:
    house = a_house_under_pressure("DryRun")
    assert planned(house) == [
        ("Taint", PRESSURE, None, ""),
        ("Condition", CONDITION, None, "True (CommitExhaustionImminent)"),
    ]
    assert house.patches[1:] == []
    assert house.conditions == []


def test_a_dry_run_plans_how_they_are_removed_and_what_only_changes_a_condition() -> None:
    house = a_house_under_pressure("Active")
    house.edit(edited(house.pool, a_spec(labels=LABELS, mode="DryRun", more=SIGNAL)))
    assert planned(house) == [], "all is as it is to be"
    house.memory = all_of(["w1"], CALM)
    assert planned(house) == [
        ("Taint", PRESSURE, "", None),
        ("Condition", CONDITION, "True (CommitExhaustionImminent)", "False (NoPressure)"),
    ]
    house.memory = all_of(["w1"], STALE)
    assert planned(house) == [
        ("Condition", CONDITION, "True (CommitExhaustionImminent)", "Unknown (MetricsStale)")
    ]
    [step] = house.decide().status.plan.steps  # type: ignore[union-attr]
    assert step.reason == "Conditions"
    house.edit(edited(house.pool, a_spec(labels=LABELS, mode="DryRun")))
    assert planned(house) == [
        ("Taint", PRESSURE, "", None),
        ("Condition", CONDITION, "True (CommitExhaustionImminent)", None),
    ]


def test_what_is_planned_of_a_condition_is_what_active_does() -> None:
    dry, active = a_house_under_pressure("DryRun"), a_house_under_pressure("Active")
    [condition] = active.nodes["w1"].conditions
    assert planned(dry)[-1] == ("Condition", condition.type, None, f"{condition.status} ({condition.reason})")


def test_a_step_says_what_comes_back_on_a_node_that_leaves() -> None:
    nodes = {"w1": a_node(labels={"team": "theirs"})}
    nodes = acted(decide(a_snapshot(a_pool(labels=LABELS), nodes)), nodes)
    nodes["w1"] = relabelled(nodes["w1"], agentpool="blue")
    assert ("Label", "team", "a", "theirs") in changed_by(nodes, labels=LABELS)


def test_a_step_that_only_renews_the_record_changes_nothing() -> None:
    nodes = acted(decide(a_snapshot(a_pool(labels=LABELS), on("w1"))), on("w1"))
    dry = a_pool(labels=LABELS, mode="DryRun")
    [step] = decide(a_snapshot(dry, nodes, guard="another-guard")).status.plan.steps  # type: ignore[union-attr]
    assert (step.reason, step.changes) == ("OwnershipRecord", ())


def test_a_step_shows_taints_before_all_else_and_counts_what_it_has_no_room_for() -> None:
    labels = {f"example.com/label-{number:02d}": "a" for number in range(20)}
    pool = a_pool(mode="DryRun", labels=labels, taints=[TAINT, "zz:NoExecute"])
    [step] = plan_of(pool, on("w1")).steps
    shown = ["zz:NoExecute", "os:NoSchedule", *sorted(labels)[: MAX_CHANGES - 2]]
    assert [each.key for each in step.changes] == shown
    assert step.change_count > len(labels) + 2, "and the keys of the operator"


def test_a_change_is_written_as_people_write_it() -> None:
    nodes = acted(decide(a_snapshot(a_pool(labels={"team": "payments"}), on("w1"))), on("w1"))
    written = plan_of(a_pool(labels={"team": "billing"}, mode="DryRun"), nodes)
    [step] = written.model_dump(mode="json", exclude_none=True)["steps"]
    assert step["changes"] == [{"kind": "Label", "key": "team", "from": "payments", "to": "billing"}]
    assert Plan.model_validate({"totalNodes": 1, "steps": [step]}) == written


@given(pools(), fleets())
def test_the_changes_are_what_active_changes(pool: Pool, fleet: Nodes) -> None:
    assert pool.spec is not None
    after = acted(decide(a_snapshot(pool, fleet)), fleet)
    plan = plan_of(edited(pool, pool.spec.model_copy(update={"mode": Mode.DRY_RUN})), fleet)
    for step in plan.steps:
        before, now = fleet[step.node], after[step.node]
        if len(step.changes) == MAX_CHANGES:
            continue
        labels, taints = dict(before.labels), taints_on(before)
        for change in step.changes:
            values = labels if change.kind == "Label" else taints
            assert values.pop(change.key, None) == change.from_
            if change.to is not None:
                values[change.key] = change.to
        assert (labels, taints) == (now.labels, taints_on(now))


def taints_on(node: Node) -> dict[str, str]:
    return {f"{taint.key}:{taint.effect}": taint.value for taint in node.taints}


@pytest.mark.parametrize("mode", ["Active", "Paused"])
def test_only_a_dry_run_has_a_plan(mode: str) -> None:
    assert decide(a_snapshot(a_pool(labels=LABELS, mode=mode), on("w1"))).status.plan is None


def test_a_deleted_dry_run_has_no_plan() -> None:
    assert decide(a_snapshot(deleted(a_pool(mode="DryRun")), on("w1"))).status.plan is None


@given(pools(), fleets())
def test_the_plan_is_what_active_does(pool: Pool, fleet: Nodes) -> None:
    assert pool.spec is not None
    patches = decide(a_snapshot(pool, fleet)).writes.patches
    dry = pool.spec.model_copy(update={"mode": Mode.DRY_RUN})
    plan = plan_of(edited(pool, dry), fleet)
    assert plan.total_nodes == len(patches)
    assert [step.node for step in plan.steps] == sorted(patch.node.name for patch in patches)
