"""A damaged ownership record: what stands there is no longer the pool's, and people are told what that is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    GUARD,
    NOON,
    Nodes,
    a_node,
    a_pool,
    a_snapshot,
    a_spec,
    deleted,
    edited,
    record_on,
    with_status,
)
from harness.ownership import UID
from harness.strategies import hostile_records, nodes, wishes
from harness.wishes import Wanted, compare, conform, release
from harness.writes import acted, patched, relabelled, retainted
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.api.status import Issue, WindowsNodePoolStatus
from winpool.decide import Decision, decide
from winpool.model.node import NO_KEYS, Keys, Node
from winpool.model.pool import Pool
from winpool.ownership.record import Record, Unreadable, parse, record_of, render
from winpool.ownership.trust import RecordTrust, standing

LABELS = {"team": "payments", "example.com/tier": "gold"}
TAINT = "os=windows:NoSchedule"
BEFORE = a_node(labels={"zone": "a"}, taints=["gpu:NoSchedule"])
DAMAGE = {
    "no JSON": "{",
    "another version": '{"v":2,"pool":"uid-of-pool"}',
    "an entry of the wrong type": json.dumps(
        {
            "v": 1,
            "guard": GUARD,
            "pool": "uid-of-pool",
            "labels": {"team": "payments", "example.com/tier": {"set": 7}},
            "taints": [{"key": "os", "effect": "NoSchedule", "value": ["windows"]}],
        }
    ),
}


class Tale:
    """One node and its pool, pass by pass: whatever is decided is done, and the status stands there then."""

    def __init__(self, node: Node = BEFORE, **spec: Any) -> None:
        self.pool: Pool = a_pool(**{"labels": LABELS, "taints": [TAINT], **spec})
        self.nodes: Nodes = {node.name: node}
        self.guard = GUARD
        self.settle()

    @property
    def node(self) -> Node:
        return self.nodes["w1"]

    @node.setter
    def node(self, node: Node) -> None:
        self.nodes = {"w1": node}

    @property
    def told(self) -> list[Issue]:
        return told(self.pool.status)

    def decide(self) -> Decision:
        return decide(a_snapshot(self.pool, self.nodes, guard=self.guard, now=NOON))

    def step(self) -> Decision:
        found = self.decide()
        if found.writes.finalizers is not None:
            self.pool = replace(self.pool, finalizers=found.writes.finalizers)
        if not found.writes.status_first:
            self.nodes = acted(found, self.nodes)
        self.pool = with_status(self.pool, (found if found.writes.status_first else self.decide()).status)
        return found

    def settle(self) -> None:
        for _ in range(8):
            before = (self.pool, self.nodes)
            self.step()
            if (self.pool, self.nodes) == before:
                return
        raise AssertionError("never quiet")

    def damage(self, text: str | None = "{") -> None:
        """Have somebody spoil the record on the node, or take it off."""
        self.node = spoilt(self.node, text)

    def delete(self) -> None:
        self.pool = deleted(self.pool)


def spoilt(node: Node, text: str | None = "{") -> Node:
    kept = {key: value for key, value in node.annotations.items() if key != APPLIED_ANNOTATION}
    return replace(node, annotations=kept if text is None else {**kept, APPLIED_ANNOTATION: text})


def told(status: WindowsNodePoolStatus) -> list[Issue]:
    return [each for each in status.issues if each.reason == IssueReason.OWNERSHIP_RECORD_UNREADABLE]


def names_all(issue: Issue) -> bool:
    return all(word in issue.message for word in ("team", "example.com/tier", "os:NoSchedule"))


@pytest.fixture(params=[*DAMAGE.values(), None], ids=[*DAMAGE, "taken off"])
def damage(request: pytest.FixtureRequest) -> str | None:
    text: str | None = request.param
    return text


def test_the_issue_names_the_keys_and_stays_as_long_as_they_do(damage: str | None) -> None:
    tale = Tale()
    assert tale.told == []
    tale.damage(damage)
    [issue] = told(tale.decide().status)
    assert names_all(issue), "before anything is written"
    tale.settle()
    [issue] = tale.told
    assert names_all(issue), "and afterwards"
    assert (issue.since, POOL_LABEL in issue.message) == (NOON, False)
    assert issue.fix.endswith(
        "kubectl label node w1 example.com/tier- team-; kubectl taint node w1 os:NoSchedule-"
    )
    assert tale.node.labels["team"] == "payments"
    assert record_on(tale.node).labels == {}
    assert tale.decide().writes.patches == ()
    assert tale.pool.status.up_to_date_nodes == 1


def test_what_the_pool_puts_back_after_the_fix_is_its_own(damage: str | None) -> None:
    tale = Tale()
    tale.damage(damage)
    tale.settle()
    tale.node = retainted(relabelled(tale.node, team=None, **{"example.com/tier": None}), "gpu:NoSchedule")
    tale.settle()
    assert tale.told == []
    assert tale.node.labels["team"] == "payments"
    tale.delete()
    tale.settle()
    assert comparable(tale.node) == comparable(BEFORE)


def test_a_part_of_the_fix_leaves_the_rest_in_the_issue() -> None:
    tale = Tale()
    tale.damage()
    tale.settle()
    tale.node = relabelled(tale.node, team=None)
    tale.settle()
    [issue] = tale.told
    assert "team" not in issue.message
    assert "example.com/tier" in issue.message


def test_the_deletion_leaves_them_and_the_status_says_so_before(damage: str | None) -> None:
    tale = Tale()
    tale.damage(damage)
    tale.delete()
    first = tale.step()
    assert first.writes.status_first
    [issue] = tale.told
    assert names_all(issue)
    assert "kubectl label node w1" in issue.fix
    then = tale.step()
    assert not then.writes.status_first
    [event] = then.node_events.values()
    assert event.reason == "OwnershipRecordUnreadable"
    assert "kubectl taint node w1 os:NoSchedule-" in event.note
    assert {key: value for key, value in tale.node.labels.items() if key in LABELS} == LABELS
    assert APPLIED_ANNOTATION not in tale.node.annotations
    assert POOL_LABEL not in tale.node.labels
    tale.settle()
    assert tale.pool.finalizers == ()


def test_it_is_said_once_more_when_a_pool_goes_that_has_got_over_it() -> None:
    tale = Tale()
    tale.damage()
    tale.settle()
    tale.delete()
    first = tale.step()
    assert first.writes.status_first, "it says now that they stay, with the command"
    [event] = tale.step().node_events.values()
    assert "team" in event.note
    assert APPLIED_ANNOTATION not in tale.node.annotations


def test_the_nodes_of_which_all_is_told_are_released_at_once() -> None:
    tale = Tale()
    tale.nodes |= {"w2": a_node("w2")}
    tale.settle()
    tale.nodes |= {"w1": spoilt(tale.node)}
    tale.delete()
    first = tale.step()
    assert [each.node.name for each in first.writes.patches] == ["w2"]
    assert not first.writes.status_first
    assert POOL_LABEL not in tale.nodes["w2"].labels
    assert told(tale.pool.status)[0].nodes == ("w1",)
    assert [each.node.name for each in tale.step().writes.patches] == ["w1"]
    tale.settle()
    assert tale.pool.finalizers == ()


def test_a_kubelet_that_toggles_a_label_does_not_hold_up_the_deletion() -> None:
    tale = Tale()
    tale.damage()
    tale.delete()
    assert tale.step().writes.status_first
    tale.node = relabelled(tale.node, team=None)
    then = tale.step()
    assert not then.writes.status_first
    assert POOL_LABEL not in tale.node.labels


def test_a_node_waits_ten_seconds_at_most_for_the_status() -> None:
    tale = Tale()
    tale.delete()
    status = tale.decide().status
    tale.pool = with_status(tale.pool, status)
    tale.damage()
    for seconds, waits in ((9, True), (10, False)):
        found = decide(
            a_snapshot(tale.pool, tale.nodes, guard=tale.guard, now=NOON + timedelta(seconds=seconds))
        )
        assert found.writes.status_first is waits
        assert found.writes.patches


def test_a_release_without_anything_lost_waits_for_no_status() -> None:
    tale = Tale()
    tale.delete()
    assert not tale.step().writes.status_first
    assert comparable(tale.node) == comparable(BEFORE)


def test_a_paused_pool_tells_of_it_too() -> None:
    tale = Tale()
    tale.pool = edited(tale.pool, a_spec(labels=LABELS, taints=[TAINT], mode="Paused"))
    tale.settle()
    tale.damage()
    tale.settle()
    assert tale.node.annotations[APPLIED_ANNOTATION] == "{"
    [issue] = tale.told
    assert names_all(issue)


def test_keys_that_the_pool_has_set_and_no_longer_asks_for_are_named_too() -> None:
    tale = Tale()
    tale.pool = edited(tale.pool, a_spec(labels={"team": "payments"}))
    tale.damage()
    tale.settle()
    [issue] = tale.told
    assert names_all(issue)
    tale.node = relabelled(tale.node, **{"example.com/tier": None})
    tale.settle()
    assert "example.com/tier" not in tale.node.labels


def test_a_value_that_gave_way_comes_back_and_is_told_until_somebody_removes_the_key() -> None:
    tale = Tale()
    tale.pool = edited(tale.pool, a_spec(labels={"team": "billing"}))
    tale.damage()
    tale.settle()
    [issue] = tale.told
    assert "team" in issue.message
    assert tale.node.labels["team"] == "billing"
    tale.node = relabelled(tale.node, team=None)
    tale.settle()
    assert tale.node.labels["team"] == "billing"
    assert record_on(tale.node).labels["team"].before is None


def test_a_key_of_others_beside_a_sound_record_is_no_issue() -> None:
    tale = Tale(a_node(labels=LABELS, taints=[TAINT]))
    assert record_on(tale.node) == Record(UID, guard=GUARD)
    assert tale.pool.status.issues == ()


def test_a_damaged_annotation_on_a_node_without_anything_of_the_pool_is_no_trouble_for_long() -> None:
    tale = Tale(a_node(annotations={APPLIED_ANNOTATION: "{"}))
    assert tale.pool.status.issues == ()
    assert record_on(tale.node).lost == NO_KEYS


def test_nodes_with_the_same_keys_are_one_cause() -> None:
    pool, fleet = a_pool(labels=LABELS), {f"w{n}": a_node(f"w{n}") for n in range(5)}
    fleet = acted(decide(a_snapshot(pool, fleet)), fleet)
    broken = {n: replace(node, annotations={APPLIED_ANNOTATION: "{"}) for n, node in fleet.items()}
    issues = told(decide(a_snapshot(pool, broken)).status)
    assert len({(each.message, each.fix) for each in issues}) == 1
    assert not any(name in issues[0].message for name in fleet)


def test_without_a_guard_a_forged_record_can_name_keys_of_the_pool_only() -> None:
    tale = Tale()
    record = record_on(tale.node)
    forged = replace(
        record, lost=Keys(frozenset({"zone", "team"}), frozenset({("gpu", "NoSchedule")})), guard=""
    )
    tale.guard = ""
    tale.damage(render(forged))
    tale.settle()
    assert not any("zone" in each.message or "gpu" in each.message for each in tale.told)


# The record


def test_a_record_says_what_was_lost_and_is_read_back() -> None:
    lost = Keys(frozenset({"team"}), frozenset({("os", "NoSchedule")}))
    record = Record("uid", guard=GUARD, lost=lost)
    assert parse(render(record)) == record
    assert json.loads(render(record))["lost"] == {"labels": ["team"], "taints": ["os:NoSchedule"]}
    assert "lost" not in json.loads(render(Record("uid")))


@pytest.mark.parametrize(
    "labels",
    [
        {"kubernetes.io/os": 7, "team": 7},
        {"team": {"set": "a", "before": 7}},
        {"team": None, "not a key ": 7},
    ],
)
def test_a_damaged_entry_is_lost_where_a_pool_could_have_set_its_key(labels: Mapping[str, Any]) -> None:
    found = parse(json.dumps({"v": 1, "pool": "uid", "labels": labels, "taints": [7, {"key": "os"}]}))
    assert isinstance(found, Record)
    assert found.lost == Keys(frozenset({"team"}))
    assert found.labels == {}


# Properties


def comparable(node: Node) -> tuple[object, ...]:
    return (node.labels, node.annotations, frozenset(node.taints))


def knowing(*wanted: Wanted) -> RecordTrust:
    """Return the rights of a pool that has asked for all of this."""
    known = Keys(
        frozenset(key for each in wanted for key in each.labels),
        frozenset(identity for each in wanted for identity in each.taints),
    )
    return RecordTrust(guard=GUARD, pools={UID: known})


@given(
    nodes(),
    wishes(),
    wishes(),
    wishes(),
    hostile_records() | st.sampled_from(("{", "", "[]")),
)
def test_what_is_said_to_stay_is_what_stays(
    before: Node, first: Wanted, second: Wanted, third: Wanted, text: str
) -> None:
    """Whatever the damage is, and however the spec was edited before and after it."""
    if not isinstance(parse(text), Unreadable):
        return
    rights = knowing(first, second, third)
    known = rights.pools[UID]
    first, second, third = (dataclasses.replace(each, rights=rights) for each in (first, second, third))
    node = patched(before, conform(before, wanted=first).patch)
    node = replace(node, annotations={APPLIED_ANNOTATION: text})
    for wanted in (second, third):
        said = compare(node, record_of(node), wanted=wanted).lost
        node = patched(node, conform(node, wanted=wanted).patch)
        again = compare(node, record_of(node), wanted=wanted)
        assert (again.patch, again.lost) == (None, said)
        found = release(node, pool_uid=UID, pool_name="pool", rights=rights)
        assert found.lost == standing(known, patched(node, found.patch)) == said


@given(nodes(), wishes(), wishes(), st.sets(st.sampled_from(("team", "example.com/tier", "zone"))))
def test_what_a_record_says_is_lost_gives_no_right(
    before: Node, first: Wanted, second: Wanted, lost: set[str]
) -> None:
    rights = knowing(first, second)
    first, second = (dataclasses.replace(each, rights=rights) for each in (first, second))
    node = patched(before, conform(before, wanted=first).patch)
    claimed = replace(record_on(node), lost=Keys(frozenset(lost & node.labels.keys())))
    marked = replace(node, annotations={APPLIED_ANNOTATION: render(claimed)})
    for wanted in (first, second):
        plain, other = (conform(each, wanted=wanted).patch for each in (node, marked))
        assert patched(marked, other).labels == patched(node, plain).labels
    released = [
        patched(each, release(each, pool_uid=UID, pool_name="pool", rights=rights).patch)
        for each in (node, marked)
    ]
    assert comparable(released[0]) == comparable(released[1])
