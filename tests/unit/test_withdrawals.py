"""A permission to upgrade a node that no longer holds is withdrawn, also where nothing else is written."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_spec, edited, with_guard
from harness.house import House
from harness.second_feature import FIRST
from winpool.api.keys import HOLD_ANNOTATION, POOL_LABEL, UPGRADE_STATE_LABEL
from winpool.controllers.backoff import FREE_CHANGES
from winpool.decide import decide
from winpool.features.feature import AllowedActions, Feature, FeatureResult
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, Desired, DesiredValue
from winpool.ownership.members import Members

NAMES: Final = ("w1", "w2")
LABELS: Final = {"team": "payments"}
OTHER_LABELS: Final = {"team": "billing"}
NEW_TAINTS: Final = ("os=windows:NoSchedule",)

REFUSED: Final = [{"key": "a" * 60 + str(n), "value": "x" * 60, "effect": "NoSchedule"} for n in range(16)]


class Wishing:
    """A feature that wants this state on every node, whatever may be done but a release."""

    def __init__(self, wish: DesiredValue) -> None:
        self.wish = wish

    def __call__(self, _: Snapshot, members: Members, allowed: AllowedActions) -> FeatureResult:
        if allowed is AllowedActions.RELEASE:
            return FeatureResult()
        desired = Desired(labels={UPGRADE_STATE_LABEL: self.wish})
        return FeatureResult(desired={each.node.uid: desired for each in members.ours})


def a_house(**changes: Any) -> tuple[House, Wishing]:
    """Return a settled house whose nodes may all be upgraded."""
    wishing = Wishing("Required")
    features: tuple[Feature, ...] = (*FIRST, wishing)
    house = House(a_pool(labels=LABELS, **changes), {name: a_node(name) for name in NAMES}, features=features)
    house.settle()
    assert states(house) == ["Required", "Required"]
    house.patches.clear()
    return house, wishing


def states(house: House) -> list[str | None]:
    return [house.nodes[name].labels.get(UPGRADE_STATE_LABEL) for name in NAMES]


def stop(house: House, how: str) -> None:
    """Make the operator write nothing, although another label is due on every node."""
    if how == "hold":
        for name in NAMES:
            house.write(name, annotations={HOLD_ANNOTATION: ""})
        house.edit(edited(house.pool, a_spec(labels=OTHER_LABELS)))
    elif how == "refused":
        more = {"supportMatrix": [{"osVersion": "2022", "minRevision": 681, "build": "10.0.99999"}]}
        house.edit(edited(house.pool, a_spec(labels=OTHER_LABELS, more=more)))
    else:
        house.edit(edited(house.pool, a_spec(labels=OTHER_LABELS, mode=how)))


STOPS: Final = ("Paused", "DryRun", "hold", "refused")


@pytest.mark.parametrize("how", STOPS)
def test_it_is_withdrawn_and_nothing_else_is_written(how: str) -> None:
    house, wishing = a_house()
    stop(house, how)
    wishing.wish = "Gated"
    house.settle()
    assert states(house) == ["Gated", "Gated"]
    assert sorted(each.node.name for each in house.patches) == list(NAMES)
    for patch in house.patches:
        assert patch.labels == {UPGRADE_STATE_LABEL: "Gated"}
        assert (patch.annotations, patch.taints, patch.unschedulable) == ({}, None, None)
    assert {house.nodes[name].labels["team"] for name in NAMES} == {"payments"}


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("wish", ["Required", "UpToDate", KEEP, None], ids=str)
def test_nothing_but_a_withdrawal_is_written_there(how: str, wish: DesiredValue) -> None:
    house, wishing = a_house()
    stop(house, how)
    wishing.wish = wish
    house.settle()
    assert house.patches == []


@pytest.mark.parametrize("how", STOPS)
def test_a_permission_is_not_given_there(how: str) -> None:
    house, wishing = a_house()
    wishing.wish = "Gated"
    house.settle()
    house.patches.clear()
    stop(house, how)
    wishing.wish = "Required"
    house.settle()
    assert (house.patches, states(house)) == ([], ["Gated", "Gated"])


@pytest.mark.parametrize("how", STOPS)
def test_no_event_tells_of_a_repair_that_was_not_made(how: str) -> None:
    house, wishing = a_house()
    house.write("w1", labels={"team": None})
    stop(house, how)
    wishing.wish = "Gated"
    decision = house.decide()
    assert [each.node.name for each in decision.writes.patches] == list(NAMES)
    assert not decision.node_events
    assert not decision.repaired


def test_it_is_withdrawn_before_anything_else_is_written() -> None:
    house, wishing = a_house()
    house.edit(edited(house.pool, a_spec(labels=OTHER_LABELS, taints=NEW_TAINTS)))
    wishing.wish = "Gated"
    first = house.decide().writes
    assert not first.status_first
    assert {each.node.name for each in first.patches} == first.withdrawn == set(NAMES)
    house.settle()
    taken, rest = house.patches[:2], house.patches[2:]
    assert all(each.only_takes_permission for each in taken)
    assert [each.labels for each in rest] == [{"team": "billing"}] * 2


def test_it_is_withdrawn_before_the_finalizer_that_someone_keeps_removing() -> None:
    house, wishing = a_house()
    house.pool = replace(house.pool, finalizers=())
    assert house.decide().writes.restores_finalizer
    wishing.wish = "Gated"
    writes = house.decide().writes
    assert (writes.finalizers, writes.restores_finalizer) == (None, False)
    assert writes.takes_permissions


def test_where_the_record_is_all_that_changes_with_it_one_patch_does_both() -> None:
    house, wishing = a_house()
    wishing.wish = "Gated"
    house.settle()
    assert sorted(each.node.name for each in house.patches) == list(NAMES)


def test_it_waits_for_no_pace_of_other_writes() -> None:
    house, wishing = a_house()
    for number in range(2 * FREE_CHANGES):
        house.pool = edited(house.pool, a_spec(labels={"team": f"t{number}"}))
        house.settle()
    house.pool = edited(house.pool, a_spec(labels=LABELS))
    assert house.decide().writes.patches == (), "the nodes wait"
    house.patches.clear()
    wishing.wish = "Gated"
    house.settle()
    assert states(house) == ["Gated", "Gated"]
    assert all(each.only_takes_permission for each in house.patches)


def test_a_permission_that_someone_else_gives_is_taken_back_at_once_then_after_pauses() -> None:
    house, wishing = a_house()
    wishing.wish = "Gated"
    house.settle()
    taken_after = []
    for _ in range(6):
        house.patches.clear()
        house.write("w1", labels={UPGRADE_STATE_LABEL: "Required"})
        begun = house.clock.now
        while not house.patches:
            house.settle()
            house.clock.now += 1 if not house.patches else 0
        taken_after.append(house.clock.now - begun)
    assert taken_after[0] == 0
    assert taken_after == sorted(taken_after)
    assert taken_after[-1] >= 8
    assert "ForeignTaintConflict" in [each.issue.reason for each in house.decide().issues]


def test_one_held_node_keeps_no_other_from_its_patch() -> None:
    house, wishing = a_house()
    house.write("w2", annotations={HOLD_ANNOTATION: ""})
    house.edit(edited(house.pool, a_spec(labels=OTHER_LABELS)))
    wishing.wish = "Gated"
    house.settle()
    found = {each.node.name: dict(each.labels) for each in house.patches}
    assert found == {"w1": {"team": "billing"}, "w2": {UPGRADE_STATE_LABEL: "Gated"}}


def test_a_label_on_a_node_of_no_pool_is_left_alone() -> None:
    house, wishing = a_house()
    house.nodes["other"] = a_node("other", labels={"agentpool": "blue", UPGRADE_STATE_LABEL: "Required"})
    stop(house, "Paused")
    wishing.wish = "Gated"
    house.settle()
    assert house.nodes["other"].labels[UPGRADE_STATE_LABEL] == "Required"


def test_a_deleted_pool_takes_it_back_while_it_is_not_known_whether_the_guard_is_in_force() -> None:
    house, _ = a_house()
    house.delete()
    snapshot = with_guard(house.snapshot(guard=""), is_unknown=True)
    writes = decide(snapshot, house.features).writes
    assert {each.node.name for each in writes.patches} == writes.withdrawn == set(NAMES)
    assert not writes.releases_pool


def test_a_deleted_pool_removes_the_label_instead() -> None:
    house, wishing = a_house()
    wishing.wish = "Gated"
    house.delete()
    house.settle()
    assert states(house) == [None, None]
    assert all(POOL_LABEL not in house.nodes[name].labels for name in NAMES)
