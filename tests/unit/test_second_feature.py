"""The proof of shape: a second feature, written in the tests, gets all that each gets through ``decide``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, Nodes, a_node, a_pool, a_spec, a_taint, edited, record_on
from harness.house import PASSES, House
from harness.second_feature import BORROWED, CONDITION, FIRST, TAINT, second
from harness.strategies import FOREIGN_VALUES, nodes, pools, specs
from winpool.api.issues import IssueReason
from winpool.api.keys import (
    HOLD_ANNOTATION,
    OS_REVISION_LABEL,
    OS_VERSION_LABEL,
    POOL_LABEL,
    RELEASE_FINALIZER,
    UPGRADE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.spec import WindowsNodePoolSpec
from winpool.decide import Decision
from winpool.features.feature import AllowedActions, Feature, FeatureResult
from winpool.model.node import Eviction, Node, NodeCondition, NodePatch, Taint
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import Desired, FeaturesDisagreeError
from winpool.ownership.members import Members
from winpool.ownership.record import Owned

LABELS: Final = {"team": "payments"}
TAINTS: Final = ["os=windows:NoSchedule"]
ALL: Final = {"state": "Draining", "annotate": True, "taint": True, "cordon": True}
"""All that goes into the one patch of a node."""
PRESSURE: Final = Taint(*TAINT)
PODS: Final = ("default/web/uid-1", "data/sql/uid-2")


def a_house(*found: Node, **changes: Any) -> House:
    """Return a settled house of these nodes, else of three; ``changes`` are of the pool."""
    listed = found or tuple(a_node(name) for name in ("w1", "w2", "w3"))
    house = House(
        a_pool(**({"labels": LABELS, "taints": TAINTS} | changes)), {node.name: node for node in listed}
    )
    house.settle()
    house.patches.clear()
    house.repaired.clear()
    return house


def without_request(house: House) -> Nodes:
    """Return the nodes without what others ask for, and without the count of their writes."""
    return {
        name: replace(
            node,
            annotations={k: v for k, v in node.annotations.items() if k != UPGRADE_REQUESTED_ANNOTATION},
        )
        for name, node in house.nodes.items()
    }


def only_patch(house: House) -> NodePatch:
    [patch] = house.patches
    return patch


def also(**given: Any) -> Feature:
    """Return a third feature that wants this on each node."""

    def third(_: Snapshot, members: Members, allowed: AllowedActions) -> FeatureResult:
        desired = Desired(**given)
        return FeatureResult(desired={each.node.uid: desired for each in members.ours})

    return third


def finishing(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> FeatureResult:
    """Be the second feature, which finishes what it has begun."""
    return replace(second(snapshot, members, allowed), finishes=True)


# One patch


def test_what_two_rooms_want_comes_in_one_patch_for_each_node() -> None:
    house = House(a_pool(labels=LABELS, taints=TAINTS), {name: a_node(name) for name in ("w1", "w2", "w3")})
    house.ask("w1", "w2", **ALL)
    house.settle()
    assert sorted(patch.node.name for patch in house.patches) == ["w1", "w2", "w3"]
    for name in ("w1", "w2"):
        node = house.nodes[name]
        assert node.labels.items() >= {**LABELS, UPGRADE_STATE_LABEL: "Draining"}.items()
        assert node.annotations[BORROWED] == "true"
        assert node.annotations[UPGRADE_ANNOTATION] == '{"state":"Draining"}'
        assert set(node.taints) == {a_taint(TAINTS[0]), PRESSURE}
        assert node.unschedulable
    bare = house.nodes["w3"]
    assert UPGRADE_STATE_LABEL not in bare.labels
    assert (bare.taints, bare.unschedulable) == ((a_taint(TAINTS[0]),), False)
    assert {BORROWED, UPGRADE_ANNOTATION}.isdisjoint(bare.annotations)


def test_what_comes_later_goes_again_in_one_patch_and_leaves_what_the_contract_wants() -> None:
    house = a_house()
    before = dict(house.nodes)
    house.ask("w1", "w2", **ALL)
    house.settle()
    assert sorted(patch.node.name for patch in house.patches) == ["w1", "w2"]
    house.patches.clear()
    house.ask("w1", "w2")
    house.settle()
    assert sorted(patch.node.name for patch in house.patches) == ["w1", "w2"]
    assert house.nodes == before


def test_an_edit_of_the_spec_and_another_wish_of_the_room_are_one_patch() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    house.patches.clear()
    house.edit(edited(house.pool, a_spec(labels={"team": "billing"})))
    house.ask("w1", state="Drained")
    house.settle()
    [patch] = [each for each in house.patches if each.node.name == "w1"]
    assert patch.labels == {"team": "billing", UPGRADE_STATE_LABEL: "Drained"}
    assert patch.taints == ()
    assert patch.unschedulable is False
    assert patch.annotations.items() >= {BORROWED: None, UPGRADE_ANNOTATION: None}.items()


def test_deciding_twice_on_what_was_written_writes_nothing() -> None:
    house = a_house()
    house.ask("w1", **ALL, condition="True")
    assert house.settle()
    decision = house.decide()
    assert (decision.writes.patches, decision.writes.conditions, decision.writes.finalizers) == ((), (), None)


def test_the_request_itself_is_left_to_those_who_wrote_it() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    asked = house.nodes["w1"].annotations[UPGRADE_REQUESTED_ANNOTATION]
    house.settle()
    house.delete()
    house.settle()
    assert house.nodes["w1"].annotations == {UPGRADE_REQUESTED_ANNOTATION: asked}


def test_a_room_that_leaves_its_keys_leaves_them_as_they_stand() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    house.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: "not JSON"})
    stood = house.nodes["w1"]
    house.settle()
    assert house.nodes["w1"] == stood
    house.ask("w1")
    house.settle()
    assert UPGRADE_STATE_LABEL not in house.nodes["w1"].labels
    assert (house.nodes["w1"].taints, house.nodes["w1"].unschedulable) == ((a_taint(TAINTS[0]),), False)


# What is borrowed


def test_the_record_names_what_is_borrowed_and_not_what_stands_under_our_prefix() -> None:
    house = a_house()
    house.ask("w1", **ALL, condition="True")
    house.settle()
    record = record_on(house.nodes["w1"])
    assert record.annotations == {BORROWED: Owned(set="true")}
    assert record.unschedulable
    assert record.conditions == {CONDITION}
    assert set(record.labels) == set(LABELS)
    assert set(record.taints) == {a_taint(TAINTS[0]).identity}


@pytest.mark.parametrize(("before", "recorded"), [("false", True), ("true", False)])
def test_what_stood_in_the_place_of_a_borrowed_annotation_comes_back(before: str, recorded: bool) -> None:
    house = a_house(a_node("w1", annotations={BORROWED: before}))
    house.ask("w1", annotate=True)
    house.settle()
    assert house.nodes["w1"].annotations[BORROWED] == "true"
    assert record_on(house.nodes["w1"]).annotations == (
        {BORROWED: Owned(set="true", before="false")} if recorded else {}
    )
    house.ask("w1")
    house.settle()
    assert house.nodes["w1"].annotations[BORROWED] == before


def test_a_borrowed_annotation_that_others_changed_is_theirs_once_it_is_not_wanted() -> None:
    house = a_house()
    house.ask("w1", annotate=True)
    house.settle()
    house.write("w1", annotations={BORROWED: "theirs", UPGRADE_REQUESTED_ANNOTATION: None})
    house.settle()
    assert house.nodes["w1"].annotations[BORROWED] == "theirs"
    assert record_on(house.nodes["w1"]).annotations == {}


@pytest.mark.parametrize("deletes", [False, True])
def test_a_cordon_by_somebody_else_is_not_ours_and_stays(deletes: bool) -> None:
    house = a_house(a_node("w1", unschedulable=True))
    house.ask("w1", cordon=True, state="Draining")
    house.settle()
    assert not record_on(house.nodes["w1"]).unschedulable
    if deletes:
        house.delete()
    else:
        house.ask("w1")
    house.settle()
    assert house.nodes["w1"].unschedulable


def test_a_cordon_that_nobody_has_asked_us_for_is_never_touched() -> None:
    house = a_house()
    house.write("w1", unschedulable=True)
    house.ask("w1", state="Draining")
    house.settle()
    house.ask("w1")
    house.settle()
    house.delete()
    house.settle()
    assert house.nodes["w1"].unschedulable
    assert all(patch.unschedulable is None for patch in house.patches)


def test_a_cordon_by_somebody_else_is_ours_from_when_they_lift_it() -> None:
    house = a_house(a_node("w1", unschedulable=True))
    house.ask("w1", cordon=True)
    house.settle()
    house.write("w1", unschedulable=False)
    house.settle()
    assert house.nodes["w1"].unschedulable
    assert record_on(house.nodes["w1"]).unschedulable
    assert not any(house.repaired)
    house.ask("w1")
    house.settle()
    assert not house.nodes["w1"].unschedulable


# Node conditions


def test_the_record_names_a_condition_before_it_is_written_and_until_it_is_gone() -> None:
    house = a_house()
    house.ask("w1", condition="True")
    house.run()
    assert record_on(house.nodes["w1"]).conditions == {CONDITION}
    assert not house.nodes["w1"].conditions
    house.run()
    [standing] = house.nodes["w1"].conditions
    assert (standing.type, standing.status) == (CONDITION, "True")
    house.settle()
    house.ask("w1")
    for _ in range(PASSES):
        house.run()
        named = record_on(house.nodes["w1"]).conditions
        assert named == {CONDITION} or not house.nodes["w1"].conditions
    assert house.nodes["w1"].conditions == ()
    assert record_on(house.nodes["w1"]).conditions == frozenset()


def test_another_status_of_a_condition_needs_no_patch_of_the_node() -> None:
    house = a_house()
    house.ask("w1", condition="True")
    house.settle()
    house.patches.clear()
    house.conditions.clear()
    house.ask("w1", condition="False")
    house.settle()
    assert house.patches == []
    [written] = house.conditions
    assert [(each.type, each.status) for each in written.conditions] == [(CONDITION, "False")]


def test_conditions_of_others_stay_also_those_that_we_may_borrow() -> None:
    theirs = NodeCondition("DrainInProgress", "True", "Theirs", "by another actor")
    house = a_house()
    house.tell("w1", theirs)
    house.ask("w1", condition="True")
    house.settle()
    assert theirs in house.nodes["w1"].conditions
    house.delete()
    house.settle()
    assert house.nodes["w1"].conditions == (theirs,)
    assert house.is_let_go


# A feature that is gone, and a pool that is


def test_what_a_room_has_left_is_taken_off_when_there_is_no_such_room_any_more() -> None:
    house = a_house()
    before = dict(house.nodes)
    house.ask("w1", **ALL, condition="True")
    house.settle()
    house.features = FIRST
    house.restart()
    house.settle()
    assert without_request(house) == before


def test_deletion_takes_conditions_off_first_then_all_the_rest_and_the_finalizer_last() -> None:
    found = {name: a_node(name) for name in ("w1", "w2", "w3")}
    house = a_house(*found.values())
    house.ask("w1", "w2", **ALL, condition="True", evict=PODS)
    house.settle()
    house.patches.clear()
    house.conditions.clear()
    house.delete()

    first = house.run()
    assert first.writes.evictions == ()
    assert {each.node.name: each.conditions for each in first.writes.conditions} == {"w1": (), "w2": ()}
    assert [patch.node.name for patch in first.writes.patches] == ["w3"], (
        "it has no condition that is to go first"
    )
    assert first.writes.finalizers is None
    for name in ("w1", "w2"):
        node = house.nodes[name]
        assert node.conditions == ()
        assert node.labels[POOL_LABEL] == "pool"
        assert record_on(node).conditions == {CONDITION}

    second_pass = house.run()
    assert sorted(patch.node.name for patch in second_pass.writes.patches) == ["w1", "w2"]
    assert (second_pass.writes.conditions, second_pass.writes.finalizers) == ((), None)
    assert without_request(house) == found

    assert house.run().writes.releases_pool
    assert RELEASE_FINALIZER not in house.pool.finalizers


def test_deletion_goes_on_where_a_restart_has_cut_it_short() -> None:
    house = a_house(a_node("w1"))
    house.ask("w1", **ALL, condition="True")
    house.settle()
    house.delete()
    house.run()
    house.restart()
    house.settle()
    assert without_request(house) == {"w1": a_node("w1")}
    assert house.is_let_go


def test_a_node_that_leaves_the_pool_gives_everything_back() -> None:
    house = a_house()
    house.ask("w1", **ALL, condition="True")
    house.settle()
    house.write("w1", labels={"agentpool": "blue"})
    house.settle()
    node = without_request(house)["w1"]
    assert node == a_node("w1", labels={"agentpool": "blue"})


# What may be done


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_without_leave_the_room_judges_and_nothing_is_done(mode: str) -> None:
    house = a_house()
    house.edit(edited(house.pool, a_spec(labels=LABELS, taints=TAINTS, mode=mode)))
    house.settle()
    house.ask("w1", **ALL, condition="True", evict=PODS, stage="HELD", finding="w1 is odd")
    decision = house.decide()
    assert not decision.writes
    assert decision.writes.finalizers is None
    assert "The second feature is at work" in up_to_date(decision)[2]
    assert [issue.message for issue in decision.status.issues] == ["w1 is odd"]


def test_what_was_begun_is_neither_gone_on_with_nor_taken_back_while_paused() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    house.edit(edited(house.pool, a_spec(labels=LABELS, taints=TAINTS, mode="Paused")))
    stood = dict(house.nodes)
    house.settle()
    assert house.nodes == stood


def test_a_room_that_finishes_goes_on_while_the_keys_of_the_contract_stay_as_they_are() -> None:
    house = a_house()
    house.features = (*FIRST, finishing)
    house.ask("w1", **ALL)
    house.settle()
    house.write("w1", labels={"team": "theirs"})
    house.ask("w1", state="Upgrading", cordon=True, condition="True", evict=PODS)
    decisions = house.settle(pods_forbidden="list pods")
    assert decisions
    for decision in decisions:
        assert decision.writes.evictions == ()
    node = house.nodes["w1"]
    assert node.labels["team"] == "theirs"
    assert node.labels[UPGRADE_STATE_LABEL] == "Upgrading"
    assert set(node.taints) == {a_taint(TAINTS[0])}
    assert node.unschedulable
    assert BORROWED not in node.annotations
    assert [each.type for each in node.conditions] == [CONDITION]
    house.settle()
    assert house.nodes["w1"].labels["team"] == "payments"


def test_a_room_that_finishes_may_lift_its_own_cordon_too() -> None:
    house = a_house()
    house.features = (*FIRST, finishing)
    house.ask("w1", **ALL)
    house.settle()
    house.ask("w1", state="Validating")
    house.settle(pods_forbidden="list pods")
    assert house.nodes["w1"].labels[UPGRADE_STATE_LABEL] == "Validating"
    assert not house.nodes["w1"].unschedulable


def test_a_room_that_does_not_finish_stops_where_the_spec_cannot_be_acted_on() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    stood = dict(house.nodes)
    house.ask("w1", state="Upgrading", condition="True", evict=PODS)
    assert not house.decide(pods_forbidden="list pods").writes
    house.settle(pods_forbidden="list pods")
    assert house.nodes["w1"].labels == stood["w1"].labels


TOO_MUCH: Final = a_spec(
    labels={f"{'x' * 245}.com/{'y' * 60}-{number}": "z" * 63 for number in range(32)},
    taints=[f"{'x' * 245}.com/{'y' * 60}-{number}={'z' * 63}:NoSchedule" for number in range(16)],
)
"""Its ownership record could be too long for a node, so that it is refused."""


def test_a_room_finishes_also_under_a_refused_spec_that_asks_for_new_keys() -> None:
    house = a_house()
    house.features = (*FIRST, finishing)
    house.ask("w1", **ALL)
    house.settle()
    house.edit(edited(house.pool, TOO_MUCH))
    house.ask("w1", state="Upgrading")
    house.settle()
    assert accepted(house) == "False"
    assert house.nodes["w1"].labels[UPGRADE_STATE_LABEL] == "Upgrading"
    assert house.nodes["w1"].labels["team"] == "payments"
    assert TOO_MUCH.labels.keys().isdisjoint(house.nodes["w1"].labels)


def test_no_new_node_is_claimed_by_a_room_that_finishes() -> None:
    house = a_house()
    house.features = (*FIRST, finishing)
    house.nodes["new"] = a_node("new")
    house.ask("new", state="Upgrading")
    stood = house.nodes["new"]
    house.settle(pods_forbidden="list pods")
    assert house.nodes["new"] == stood


def test_a_record_that_was_written_without_the_guard_gives_no_right_on_cordon_and_annotation() -> None:
    house = a_house()
    house.guard = ""
    house.ask("w1", **ALL)
    house.settle()
    house.ask("w1")
    house.settle()
    node = house.nodes["w1"]
    assert node.unschedulable
    assert node.annotations[BORROWED] == "true"
    assert UPGRADE_STATE_LABEL not in node.labels
    assert PRESSURE not in node.taints
    house.guard = "another-guard"
    house.settle()
    house.delete()
    house.settle()
    assert house.nodes["w1"].unschedulable
    assert house.nodes["w1"].annotations == {BORROWED: "true"}


def test_people_are_told_of_a_cordon_and_an_annotation_that_are_left_alone() -> None:
    house = a_house()
    house.guard = ""
    house.ask("w1", **ALL)
    house.settle()
    house.ask("w1")
    house.settle()
    [issue] = [each for each in house.pool.status.issues if each.reason == IssueReason.KEYS_LEFT_ALONE]
    for told in (issue.message, issue.fix):
        assert BORROWED in told
        assert "cordon" in told or "unschedulable" in told


# Features do not share


@pytest.mark.parametrize(
    "wanted",
    [
        {"labels": {UPGRADE_STATE_LABEL: "Drained"}},
        {"labels": {UPGRADE_STATE_LABEL: None}},
        {"labels": {"team": "theirs"}},
        {"annotations": {BORROWED: "true"}},
        {"taints": {TAINT: ""}},
        {"taints": {("os", "NoSchedule"): "windows"}},
        {"unschedulable": True},
        {"conditions": (NodeCondition(CONDITION, "False"),)},
    ],
    ids=str,
)
def test_two_rooms_that_name_one_key_are_a_bug(wanted: dict[str, Any]) -> None:
    house = a_house()
    house.features = (*FIRST, second, also(**wanted))
    house.ask("w1", **ALL, condition="True")
    with pytest.raises(FeaturesDisagreeError):
        house.decide()


@pytest.mark.parametrize(
    "wanted",
    [
        {"labels": {"winpool.dev/mine": "x"}},
        {"annotations": {"winpool.dev/mine": "x"}},
        {"annotations": {"example.com/mine": "x"}},
        {"annotations": {HOLD_ANNOTATION: ""}},
        {"taints": {("winpool.dev/mine", "NoSchedule"): ""}},
        {"taints": {(TAINT[0], "NoExecute"): ""}},
        {"conditions": (NodeCondition("MemoryPressure", "True"),)},
    ],
    ids=str,
)
def test_a_key_that_is_not_in_the_table_is_a_bug(wanted: dict[str, Any]) -> None:
    house = a_house()
    house.features = (*FIRST, also(**wanted))
    with pytest.raises(FeaturesDisagreeError):
        house.decide()


# Drift and pace

NINE: Final[tuple[dict[str, Any], ...]] = (
    ALL,
    {**ALL, "state": "Drained"},
    {**ALL, "state": "Drained", "taint": False},
    {**ALL, "state": "Upgrading"},
    {"state": "Upgrading", "cordon": True},
    {"state": "Validating"},
    {"state": "Validating", "annotate": True},
    ALL,
    {},
)
"""Nine transitions of a node, the eighth back to the first."""


@pytest.mark.parametrize("with_condition", [False, True])
def test_nine_transitions_back_to_back_are_no_drift_and_know_no_pause(with_condition: bool) -> None:
    house = a_house()
    for number, asked in enumerate(NINE):
        has_one = with_condition and number % 2 == 0 and asked
        house.ask("w1", **asked, **({"condition": "True"} if has_one else {}))
        house.settle()
        node = house.nodes["w1"]
        assert node.labels.get(UPGRADE_STATE_LABEL) == asked.get("state"), f"transition {number + 1} waits"
        assert bool(node.conditions) is bool(has_one)
        assert house.backoff.seconds_to_next() is None, f"a pause after transition {number + 1}"
    assert not any(house.repaired)
    if not with_condition:
        assert len(house.patches) == len(NINE)


@pytest.mark.parametrize("with_condition", [False, True])
def test_to_and_fro_between_two_goals_is_no_quarrel(with_condition: bool) -> None:
    house = a_house()
    for number in range(9):
        on = {**ALL, **({"condition": "True"} if with_condition else {})}
        house.ask("w1", **(on if number % 2 == 0 else {}))
        house.settle()
        assert house.nodes["w1"].unschedulable is (number % 2 == 0), f"transition {number + 1} waits"
        assert bool(house.nodes["w1"].conditions) is (with_condition and number % 2 == 0)
    assert not any(house.repaired)


def remove_label(house: House) -> None:
    house.write("w1", labels={UPGRADE_STATE_LABEL: None})


def change_annotation(house: House) -> None:
    house.write("w1", annotations={UPGRADE_ANNOTATION: "theirs"})


def remove_borrowed(house: House) -> None:
    house.write("w1", annotations={BORROWED: None})


def remove_taint(house: House) -> None:
    rest = tuple(taint for taint in house.nodes["w1"].taints if taint != PRESSURE)
    house.write("w1", taints=rest)


def uncordon(house: House) -> None:
    house.write("w1", unschedulable=False)


every_undoing = pytest.mark.parametrize(
    ("undo", "named"),
    [
        (remove_label, f"label {UPGRADE_STATE_LABEL}"),
        (change_annotation, f"annotation {UPGRADE_ANNOTATION}"),
        (remove_borrowed, f"annotation {BORROWED}"),
        (remove_taint, f"taint {TAINT[0]}:{TAINT[1]}"),
        (uncordon, "spec.unschedulable"),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)


@every_undoing
def test_what_a_neighbour_undid_is_drift_by_its_name(undo: Callable[[House], None], named: str) -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    wanted = house.nodes["w1"]
    undo(house)
    decision = house.run()
    assert house.nodes["w1"] == wanted
    assert decision.repaired == {"w1": (named,)}
    assert named in decision.node_events["w1"].note


@every_undoing
def test_a_neighbour_who_undoes_it_again_is_paced(undo: Callable[[House], None], named: str) -> None:
    house = a_house()
    for asked in NINE[:-1]:
        house.ask("w1", **asked)
        house.settle()
    undo(house)
    house.run()
    undo(house)
    torn = house.nodes["w1"]
    assert house.decide().writes.patches == ()
    house.clock.now += 1.9
    assert house.decide().writes.patches == ()
    house.clock.now += 0.2
    house.run()
    assert house.nodes["w1"] != torn
    undo(house)
    house.clock.now += 3.9
    assert house.decide().writes.patches == ()
    house.clock.now += 0.2
    assert len(house.decide().writes.patches) == 1


def test_another_transition_goes_at_once_while_a_neighbour_is_paced() -> None:
    house = a_house()
    house.ask("w1", **ALL)
    house.settle()
    uncordon(house)
    house.run()
    uncordon(house)
    assert house.decide().writes.patches == ()
    house.ask("w1", **{**ALL, "state": "Drained"})
    house.run()
    assert house.nodes["w1"].labels[UPGRADE_STATE_LABEL] == "Drained"
    assert house.nodes["w1"].unschedulable


# What else a feature returns


def test_evictions_are_asked_for_each_pod_once_whoever_wants_it() -> None:
    house = a_house()
    house.ask("w1", state="Draining", evict=(*PODS, PODS[0]))
    house.features = (*FIRST, second, lambda *given: FeatureResult(evictions=second(*given).evictions))
    acts = house.decide().writes
    assert [(each.full_name, each.uid, each.node) for each in acts.evictions] == [
        ("default/web", "uid-1", "w1"),
        ("data/sql", "uid-2", "w1"),
    ]
    assert all(isinstance(each, Eviction) for each in acts.evictions)


def test_a_finding_of_the_room_is_an_issue_in_the_status() -> None:
    house = a_house()
    house.ask("w2", finding="the node is odd")
    house.settle()
    [issue] = house.pool.status.issues
    assert (issue.nodes, issue.message) == (("w2",), "the node is odd")
    assert (issue.reason, issue.fix) == (IssueReason.BUILD_WARNED, "take the request off")
    house.ask("w2")
    house.settle()
    assert not house.pool.status.issues


@pytest.mark.parametrize(
    ("stage", "done", "reconciling", "stalled"),
    [
        ("WAITING", "False", "True", "False"),
        ("VALIDATING", "False", "True", "False"),
        ("HELD", "False", "False", "True"),
        ("TIMED_OUT", "False", "False", "True"),
        ("DUE", "False", "False", "False"),
        ("UNKNOWN", "Unknown", "False", "False"),
    ],
)
def test_the_stage_that_a_room_names_decides_how_far_the_pool_is(
    stage: str, done: str, reconciling: str, stalled: str
) -> None:
    house = a_house()
    assert house.pool.status.up_to_date_nodes == 3
    house.ask("w1", stage=stage)
    house.settle()
    status = house.pool.status
    assert status.up_to_date_nodes == 2
    assert {each.type: each.status for each in status.conditions}.items() >= {
        "NodesUpToDate": done, "Reconciling": reconciling, "Stalled": stalled,
    }.items()  # fmt: skip
    [told] = [each for each in status.conditions if each.type == "Ready"]
    assert told.message == "The second feature is at work on 1 node (w1)."


def test_a_room_may_ask_for_looks_at_pods_and_for_another_pass() -> None:
    house = a_house()
    later = NOON + timedelta(seconds=40)
    house.ask("w1", look=True, again=later)
    decision = house.decide()
    assert [node.name for node in decision.node_lists] == ["w1"]
    assert decision.look_again == later
    house.ask("w1", look=True, again=NOON - timedelta(seconds=1))
    assert house.decide().look_again is None


def up_to_date(decision: Decision) -> tuple[str, str, str]:
    """Return status and reason of NodesUpToDate, and the message of Ready, which says it in full."""
    [ready, told] = [each for each in decision.status.conditions if each.type in ("Ready", "NodesUpToDate")]
    return told.status, told.reason, ready.message


def accepted(house: House) -> str:
    [told] = [each for each in house.pool.status.conditions if each.type == "Accepted"]
    return told.status


# Any sequence

wishes = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(("Draining", "Drained")),
        "annotate": st.booleans(),
        "taint": st.booleans(),
        "cordon": st.booleans(),
        "condition": st.sampled_from(("True", "False")),
    },
)


@st.composite
def strangers(draw: st.DrawFn, name: str) -> Node:
    """Return a node as others have it, also with what the feature borrows."""
    node = draw(nodes(name))
    value = draw(st.sampled_from((None, "true", *FOREIGN_VALUES)))
    told = draw(st.booleans())
    return replace(
        node,
        annotations={} if value is None else {BORROWED: value},
        conditions=(NodeCondition("DrainInProgress", "True", "Theirs"),) if told else (),
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(("w1", "w2")), wishes),
        st.tuples(st.just("edit"), specs()),
        st.tuples(st.just("restart")),
    ),
    max_size=6,
)


@given(pools(), st.tuples(strangers("w1"), strangers("w2")), steps, st.booleans())
def test_any_sequence_of_wishes_and_then_release_gives_the_node_as_it_was(
    pool: Any, found: tuple[Node, Node], asked: list[tuple[Any, ...]], ends_with_the_room: bool
) -> None:
    before = {node.name: node for node in found}
    house = House(pool, dict(before))
    for step, *given_ in asked:
        if step == "ask":
            house.ask(given_[0], **given_[1])
        elif step == "edit":
            spec: WindowsNodePoolSpec = given_[0]
            house.edit(edited(house.pool, spec))
        else:
            house.restart()
        house.settle()
        assert not house.decide().writes.patches
        assert not house.decide().writes.conditions
    if ends_with_the_room:
        house.features = FIRST
        house.restart()
    house.delete()
    house.settle()
    after = without_request(house)
    assert after == before
    assert not any(house.repaired)
    assert OS_VERSION_LABEL not in after["w1"].labels
    assert OS_REVISION_LABEL not in after["w1"].labels
