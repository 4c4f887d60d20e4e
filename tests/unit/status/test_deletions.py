"""Pods that a NoExecute taint has deleted: people hear of it before the first write, and afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from harness.builders import Nodes, a_node, a_pool, a_snapshot, a_spec, a_survey, by_name, edited, with_status
from harness.writes import acted
from winpool.api.events import EventReason
from winpool.decide import Decision, decide
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot

TAINT = "os=windows:NoExecute"
GENTLE = "os=windows:NoSchedule"
PODS = ("w1/shop/web-1", "w1/shop/web-2", "w2/shop/web-3")
FLEET = by_name(a_node("w1"), a_node("w2"), a_node("w3"))
SAID = (EventReason.DELETING_INTOLERANT_PODS, EventReason.INTOLERANT_PODS_DELETED)


def a_spec_with(on_intolerant_pods: str | None = "Delete", *, mode: str = "Active") -> dict[str, Any]:
    chosen = {"onIntolerantPods": on_intolerant_pods} if on_intolerant_pods else {}
    taint = {"key": "os", "value": "windows", "effect": "NoExecute", **chosen}
    return {"more": {"taints": [taint]}, "mode": mode}


def seen(pool: Pool, nodes: Nodes = FLEET, pods: tuple[str, ...] = PODS) -> Snapshot:
    """Return what a pass sees after a look at all pods; they do not tolerate the taint."""
    return a_snapshot(pool, nodes, survey=a_survey(pool, nodes.values(), intolerant={TAINT: pods}))


def reported(pool: Pool, decision: Decision) -> Pool:
    return with_status(pool, decision.status)


def said(decision: Decision, *earlier: Decision) -> list[str]:
    """Return what a pass warns of, in a process that has made the ``earlier`` ones."""
    told = {key for each in earlier for key in each.deletions.coming}
    of_status = [event for event in decision.pool_events if event.reason in SAID]
    assert not of_status, "they do not wait for the status"
    return [event.note for event in decision.deletions.warnings(told)]


def test_people_are_warned_with_a_count_before_the_first_node_is_written() -> None:
    pool = a_pool(**a_spec_with())
    first = decide(seen(pool))
    assert first.writes.status_first
    [note] = said(first)
    assert TAINT in note
    assert "3 pods on 2 nodes" in note
    assert "shop/web-1" in note
    [event] = first.deletions.warnings(())
    assert (event.reason, event.name, event.uid) == (SAID[0], pool.name, pool.uid)

    second = decide(seen(reported(pool, first)))
    assert not second.writes.status_first
    assert {each.node.name for each in second.writes.patches} == {"w1", "w2", "w3"}
    assert said(second, first) == [], "they were"


def test_after_the_writes_they_hear_how_many_pods_there_were() -> None:
    pool = a_pool(**a_spec_with())
    decision = decide(seen(reported(pool, decide(seen(pool)))))
    [event] = decision.deletions.told(each.node.name for each in decision.writes.patches)
    assert (event.reason, event.name, event.uid) == (SAID[1], pool.name, pool.uid)
    assert "3 pods" in event.note
    assert "2 nodes (w1, w2)" in event.note
    after = decide(seen(reported(pool, decision), acted(decision, FLEET)))
    assert (said(after), after.deletions.on_nodes) == ([], {})


def test_only_what_was_written_is_told() -> None:
    decision = decide(seen(a_pool(**a_spec_with())))
    [event] = decision.deletions.told(["w2", "w3"])
    assert "1 pod" in event.note
    assert "w1" not in event.note
    assert list(decision.deletions.told(["w3"])) == []
    assert list(decision.deletions.told([])) == []


@pytest.mark.parametrize("choice", ["Hold", None])
def test_of_pods_that_are_not_deleted_nothing_is_said(choice: str | None) -> None:
    pool = a_pool(**a_spec_with(choice))
    decision = decide(seen(pool))
    assert (said(decision), decision.deletions.on_nodes) == ([], {})


def test_where_all_pods_tolerate_it_nothing_is_said() -> None:
    decision = decide(seen(a_pool(**a_spec_with()), pods=()))
    assert (said(decision), decision.deletions.on_nodes) == ([], {})


@pytest.mark.parametrize("mode", ["DryRun", "Paused"])
def test_a_mode_that_writes_nothing_warns_of_nothing_and_the_way_out_of_it_does(mode: str) -> None:
    pool = a_pool(**a_spec_with(mode=mode))
    for _ in range(2):
        decision = decide(seen(pool))
        assert (said(decision), decision.deletions.on_nodes) == ([], {})
        pool = reported(pool, decision)
    pool = edited(pool, a_spec(**a_spec_with()))
    active = decide(seen(pool))
    assert active.writes.status_first, "although the issue stands there already"
    assert len(said(active)) == 1
    assert not decide(seen(reported(pool, active))).writes.status_first


def test_a_process_that_dies_before_the_event_leaves_the_warning_to_the_next() -> None:
    """The status cannot say whether the event was sent: it is written first."""
    pool = a_pool(**a_spec_with())
    pool = reported(pool, decide(seen(pool)))
    fresh = decide(a_snapshot(pool, FLEET, survey=None))
    assert said(fresh) == [], "it has not looked at pods yet, and writes nothing"
    assert len(said(decide(seen(reported(pool, fresh))))) == 1


SECOND = "gpu:NoExecute"


def test_a_second_taint_is_warned_of_although_the_issue_of_the_first_still_stands() -> None:
    pool = a_pool(**a_spec_with())
    first = decide(seen(pool))
    pool = reported(pool, first)
    nodes = {**FLEET, **{n: acted(decide(seen(pool)), FLEET)[n] for n in ("w2", "w3")}}
    spec = a_spec_with()
    spec["more"]["taints"].append({"key": "gpu", "effect": "NoExecute", "onIntolerantPods": "Delete"})
    pool = edited(pool, a_spec(**spec))
    survey = a_survey(pool, nodes.values(), intolerant={TAINT: PODS, SECOND: PODS})
    decision = decide(a_snapshot(pool, nodes, survey=survey))
    assert decision.writes.patches
    [note] = said(decision, first)
    assert SECOND in note
    assert "3 pods on 2 nodes" in note


def test_nodes_that_join_are_warned_of_although_another_one_still_waits() -> None:
    pool = a_pool(**a_spec_with())
    first = decide(seen(pool))
    pool = reported(pool, first)
    joined = {"w1": FLEET["w1"], "w9": a_node("w9")}
    decision = decide(seen(pool, joined, pods=("w1/shop/web-1", "w9/shop/web-9")))
    [note] = said(decision, first)
    assert "1 pod on 1 node" in note
    assert "shop/web-9" in note


def test_a_taint_whose_name_the_status_has_no_room_for_is_warned_of_as_well() -> None:
    key = f"{'a' * 61}.{'b' * 61}.{'c' * 61}.{'d' * 60}/{'e' * 63}"
    taints = [
        {"key": f"{key[:-1]}{end}", "effect": "NoExecute", "onIntolerantPods": "Delete", "value": "v" * 63}
        for end in "xyz"
    ]
    pool = a_pool(more={"taints": taints})
    names = [f"{each['key']}={each['value']}:NoExecute" for each in taints]
    survey = a_survey(pool, FLEET.values(), intolerant=dict.fromkeys(names, PODS))
    decision = decide(a_snapshot(pool, FLEET, survey=survey))
    notes = said(decision)
    assert [any(name in note for note in notes) for name in names] == [True] * 3


def test_only_what_is_about_to_be_written_is_warned_of() -> None:
    pool = a_pool(**a_spec_with())
    survey = a_survey(pool, FLEET.values(), intolerant={TAINT: PODS})
    held = decide(a_snapshot(pool, FLEET, survey=survey, held_back=[n.uid for n in FLEET.values()]))
    assert (held.writes.patches, said(held)) == ((), [])


def test_pods_that_come_later_are_warned_of_anew() -> None:
    pool = a_pool(**a_spec_with())
    first = decide(seen(pool))
    pool = reported(pool, first)
    done = decide(seen(pool))
    nodes = acted(done, FLEET)
    pool = reported(pool, decide(seen(pool, nodes, pods=())))
    joined = {**nodes, "w9": a_node("w9")}
    decision = decide(seen(pool, joined, pods=("w9/shop/web-9",)))
    assert decision.writes.status_first
    [note] = said(decision, first)
    assert "1 pod on 1 node" in note


def test_another_taint_of_the_pool_does_not_count() -> None:
    taints = [
        {"key": "os", "value": "windows", "effect": "NoExecute", "onIntolerantPods": "Delete"},
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
    ]
    pool = a_pool(more={"taints": taints})
    survey = a_survey(pool, FLEET.values(), intolerant={TAINT: PODS[:1], GENTLE: PODS})
    decision = decide(a_snapshot(pool, FLEET, survey=survey))
    [note] = said(decision)
    assert "1 pod on 1 node" in note
    [event] = decision.deletions.told(FLEET)
    assert "1 pod there" in event.note
