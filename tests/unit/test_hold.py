"""A node that someone holds: nothing is written to it, by no room, until the hold ends or the pool goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_spec, edited
from harness.house import House
from harness.second_feature import FIRST, second
from harness.views import CALM, HARD, all_of, told
from winpool.api.issues import IssueReason
from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL, PRESSURE_CONDITION
from winpool.api.text import written_moment
from winpool.decide import FEATURES, Decision
from winpool.features.feature import FeatureResult
from winpool.model.node import hold_end, is_held
from winpool.ownership.desired import Desired

NAMES: Final = ("w1", "w2")
HOUR: Final = timedelta(hours=1)
LATER: Final = written_moment(NOON + HOUR)
BEFORE: Final = written_moment(NOON - HOUR)
HOLDING: Final = ("", LATER, "true", "until Monday", "2026-13-01T00:00:00Z")
LABELS: Final = {"team": "payments"}


def a_house(**changes: Any) -> House:
    house = House(a_pool(**({"labels": LABELS} | changes)), {name: a_node(name) for name in NAMES})
    house.settle()
    house.patches.clear()
    return house


def hold(house: House, value: str | None = "", name: str = "w1") -> None:
    house.write(name, annotations={HOLD_ANNOTATION: value})


def relabel(house: House, value: str = "billing") -> None:
    house.edit(edited(house.pool, a_spec(labels={"team": value})))


def written(decisions: list[Decision]) -> set[str]:
    return {each.node.name for decision in decisions for each in decision.writes.patches}


# Which values hold


@pytest.mark.parametrize("value", HOLDING)
def test_any_value_that_is_no_time_in_the_past_holds(value: str) -> None:
    assert is_held(a_node(annotations={HOLD_ANNOTATION: value}), now=NOON)


@pytest.mark.parametrize("value", [BEFORE, written_moment(NOON), "2020-01-01T00:00:00+02:00"])
def test_a_time_in_the_past_holds_nothing(value: str) -> None:
    assert not is_held(a_node(annotations={HOLD_ANNOTATION: value}), now=NOON)


def test_a_node_without_the_annotation_is_not_held() -> None:
    assert not is_held(a_node(), now=NOON)


@given(value=st.text(), at=st.datetimes(timezones=st.just(NOON.tzinfo)))
def test_a_value_without_a_time_holds_at_any_time(value: str, at: Any) -> None:
    node = a_node(annotations={HOLD_ANNOTATION: value})
    if hold_end(node) is None:
        assert is_held(node, now=at)


# What it stops


@pytest.mark.parametrize("value", HOLDING)
def test_the_spec_is_not_written_to_a_node_that_is_held(value: str) -> None:
    house = a_house()
    hold(house, value)
    stood = house.nodes["w1"]
    relabel(house)
    assert written(house.settle()) == {"w2"}
    assert house.nodes["w1"] == stood


def test_once_the_annotation_is_removed_the_node_is_written() -> None:
    house = a_house()
    hold(house)
    relabel(house)
    house.settle()
    hold(house, None)
    house.settle()
    assert house.nodes["w1"].labels["team"] == "billing"


def test_once_its_time_has_passed_the_node_is_written_and_the_operator_looks_then() -> None:
    house = a_house()
    hold(house, LATER)
    relabel(house)
    house.settle()
    assert house.decide().look_again == NOON + HOUR
    assert written([house.decide(now=NOON + HOUR)]) == {"w1"}


def test_what_someone_undoes_on_a_held_node_stays_undone() -> None:
    house = a_house()
    hold(house)
    house.write("w1", labels={"team": None})
    assert house.settle() == []


def test_a_node_that_joins_and_is_held_is_not_written() -> None:
    house = a_house()
    house.nodes["new"] = a_node("new", annotations={HOLD_ANNOTATION: ""})
    assert house.settle() == []
    assert POOL_LABEL not in house.nodes["new"].labels


def test_a_held_node_that_leaves_the_pool_keeps_all() -> None:
    house = a_house()
    hold(house)
    house.write("w1", labels={"agentpool": "blue"})
    assert house.settle() == []
    assert house.nodes["w1"].labels[POOL_LABEL] == "pool"


ALL: Final[dict[str, Any]] = {"state": "Draining", "annotate": True, "taint": True, "cordon": True}


def test_no_room_writes_evicts_or_sets_a_condition_there() -> None:
    house = a_house()
    for name in NAMES:
        hold(house, name=name)
    house.ask("w1", **ALL, condition="True", evict=("default/web/uid-1",))
    decision = house.decide()
    assert not decision.writes
    hold(house, None)
    house.settle()
    assert [each.node for each in house.decide().writes.evictions] == ["w1"]
    hold(house)
    assert not house.decide().writes


def test_memory_pressure_is_told_and_not_signalled_there() -> None:
    house = a_house(more={"memoryPressure": {"mode": "Signal"}})
    house.features = FEATURES
    house.memory = all_of(NAMES, CALM)
    house.settle()
    hold(house)
    house.memory = told({"w1": HARD, "w2": CALM})
    assert house.settle() == []
    assert house.pool.status.pressured_nodes == 1
    hold(house, None)
    house.settle()
    stood = house.nodes["w1"]
    assert stood.taints
    hold(house)
    house.memory = all_of(NAMES, CALM)
    assert house.settle() == []
    assert [each.type for each in house.nodes["w1"].conditions] == [PRESSURE_CONDITION]


def test_a_room_that_finishes_does_not_write_there() -> None:
    house = a_house()
    house.features = (*FIRST, lambda *seen: replace(second(*seen), finishes=True))
    house.ask("w1", **ALL)
    house.settle()
    house.ask("w1", state="Upgrading")
    hold(house)
    assert not house.decide(pods_forbidden="list pods").writes


def test_a_deleted_pool_releases_its_held_nodes_too() -> None:
    house = a_house(more={"memoryPressure": {"mode": "Signal"}})
    house.features = FEATURES
    house.memory = told({"w1": HARD, "w2": CALM})
    house.settle()
    hold(house)
    house.delete()
    house.settle()
    assert house.nodes["w1"] == a_node("w1", annotations={HOLD_ANNOTATION: ""})
    assert house.is_let_go


@pytest.mark.slow
def test_a_dry_run_plans_nothing_for_a_held_node() -> None:
    house = a_house()
    hold(house)
    house.edit(edited(house.pool, a_spec(labels={"team": "billing"}, mode="DryRun")))
    plan = house.decide().status.plan
    assert plan
    assert [step.node for step in plan.steps] == ["w2"]


# What is told


def test_held_nodes_are_counted_and_named() -> None:
    house = a_house()
    hold(house)
    status = house.decide().status
    assert status.held_nodes == 1
    [issue] = status.issues
    assert (issue.reason, issue.nodes) == (IssueReason.NODES_HELD, ("w1",))
    up_to_date = status.condition("NodesUpToDate")
    assert up_to_date
    assert up_to_date.status == "True", "nothing is to be written there"


def test_a_value_that_may_be_a_slip_is_told() -> None:
    house = a_house()
    hold(house, "2026-13-01T00:00:00Z")
    [issue] = house.decide().status.issues
    assert "neither empty nor a time" in issue.message


def test_nobody_waits_for_a_held_node_and_it_is_not_up_to_date() -> None:
    house = a_house()
    hold(house)
    relabel(house)
    house.settle()
    status = house.pool.status
    found = {each.type: (each.status, each.reason) for each in status.conditions}
    assert found["NodesUpToDate"] == ("False", "NodesHeld")
    assert found["Ready"] == ("True", "NodesHeld")
    assert (found["Reconciling"][0], found["Stalled"][0]) == ("False", "False")
    assert (status.up_to_date_nodes, status.held_nodes) == (1, 1)


def test_a_held_node_that_joins_is_not_being_validated() -> None:
    startup = [{"key": "example.com/starting", "effect": "NoSchedule"}]
    house = House(a_pool(more={"startupTaints": startup}), {"w1": replace(a_node("w1"), created=NOON)})
    house.settle()
    assert house.nodes["w1"].taints
    hold(house)
    found = {each.type: (each.status, each.reason) for each in house.decide().status.conditions}
    assert found["NodesUpToDate"] == ("False", "NodesHeld")
    assert found["Reconciling"] == ("False", "Settled")


@given(values=st.lists(st.sampled_from((None, *HOLDING, BEFORE)), min_size=3, max_size=3), more=st.booleans())
def test_a_held_node_is_in_no_act(values: list[str | None], more: bool) -> None:
    names = ("a", "b", "c")
    house = House(a_pool(labels=LABELS), {name: a_node(name) for name in names})
    if more:
        everywhere = Desired(labels={"winpool.dev/upgrade-state": "Draining"})
        house.features = (
            *FIRST,
            lambda _, members, __: FeatureResult(
                desired={each.node.uid: everywhere for each in members.ours}
            ),
        )
    for name, value in zip(names, values, strict=True):
        if value is not None:
            hold(house, value, name)
    held = {name for name in names if is_held(house.nodes[name], now=NOON)}
    assert written(house.settle()) == {*names} - held
