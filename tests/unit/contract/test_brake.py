"""The brake: when a taint may go on a node, by what is known of its pods (P4). The figures stand here."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_snapshot, a_survey, deleted, edited, record_on, with_pods
from harness.writes import patched
from winpool.decide import decide
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import PodListProblem, Survey

GENTLE = "os=windows:NoSchedule"
HARSH = "os=windows:NoExecute"
WEB = "w1/default/web"

FRESH_SECONDS = 60
NODE_LIST_FRESH_SECONDS = 15
MOST_NODE_LISTS = 16


def a_harsh_pool(*, on_intolerant_pods: str = "Hold", value: str = "windows") -> Pool:
    taint = {"key": "os", "value": value, "effect": "NoExecute", "onIntolerantPods": on_intolerant_pods}
    return a_pool(more={"taints": [taint]})


def standing(node: Node) -> set[str]:
    return {f"{each.key}={each.value}:{each.effect}" for each in node.taints}


def after(snapshot: Snapshot) -> Node:
    """Return the one node of the snapshot after the writes of a pass."""
    patches = {patch.node.name: patch for patch in decide(snapshot).writes.patches}
    [node] = snapshot.nodes
    return patched(node, patches.get(node.name))


def carrying(pool: Pool) -> Node:
    """Return a node that has all that ``pool`` wants."""
    return after(a_snapshot(pool, [a_node()]))


def test_a_look_that_finds_nobody_in_the_way_lets_every_taint_pass() -> None:
    assert standing(after(a_snapshot(a_harsh_pool(), [a_node()]))) == {HARSH}


@pytest.mark.parametrize("taint", [GENTLE, HARSH])
def test_until_all_pods_were_looked_at_a_node_that_lacks_a_taint_is_not_written_at_all(taint: str) -> None:
    snapshot = a_snapshot(a_pool(labels={"team": "a"}, taints=[taint]), [a_node()], survey=None)
    found = decide(snapshot)
    assert found.writes.patches == ()
    assert found.needs_pods
    assert found.status.up_to_date_nodes == 0


@pytest.mark.parametrize("taint", [GENTLE, HARSH])
def test_where_the_pods_cannot_be_looked_at_no_taint_is_added_but_labels_are(taint: str) -> None:
    pool = a_pool(labels={"team": "a"}, taints=[taint])
    snapshot = a_snapshot(pool, [a_node()], survey=None, pods_problem="list pods: 500")
    node = after(snapshot)
    assert standing(node) == set()
    assert node.labels["team"] == "a"
    assert decide(snapshot).needs_pods


@pytest.mark.parametrize("taint", [GENTLE, HARSH])
def test_a_look_made_for_another_spec_counts_for_nothing(taint: str) -> None:
    pool = a_pool(taints=[taint])
    newer = edited(pool, pool.spec) if pool.spec else pool
    snapshot = a_snapshot(newer, [a_node()], survey=a_survey(pool, [a_node()]))
    assert standing(after(snapshot)) == set()
    assert decide(snapshot).needs_pods


def test_an_intolerant_pod_holds_no_execute_back_from_its_node_only() -> None:
    pool, nodes = a_harsh_pool(), [a_node("w1"), a_node("w2")]
    snapshot = a_snapshot(pool, nodes, survey=a_survey(pool, nodes, intolerant={HARSH: [WEB]}))
    found = decide(snapshot)
    assert {patch.node.name: bool(patch.taints) for patch in found.writes.patches} == {
        "w1": False,
        "w2": True,
    }
    assert not found.needs_pods


def test_an_intolerant_pod_does_not_hold_a_taint_that_deletes_nobody() -> None:
    pool, nodes = a_pool(taints=[GENTLE]), [a_node()]
    snapshot = a_snapshot(pool, nodes, survey=a_survey(pool, nodes, intolerant={GENTLE: [WEB]}))
    assert standing(after(snapshot)) == {GENTLE}


def test_where_the_spec_says_delete_nothing_is_held_once_it_is_known_what_it_means() -> None:
    pool, nodes = a_harsh_pool(on_intolerant_pods="Delete"), [a_node()]
    old = timedelta(hours=1)
    survey = a_survey(pool, nodes, now=NOON - old, intolerant={HARSH: [WEB]})
    assert standing(after(a_snapshot(pool, nodes, survey=survey))) == {HARSH}
    assert standing(after(a_snapshot(pool, nodes, survey=None))) == set()


MANY = [a_node(f"w{number:02}") for number in range(MOST_NODE_LISTS + 1)]
"""So many nodes that a look at all pods has to serve them."""


@pytest.mark.parametrize(("age", "passes"), [(FRESH_SECONDS, True), (FRESH_SECONDS + 1, False)])
def test_a_look_at_all_pods_permits_no_execute_for_a_minute_from_its_start(age: float, passes: bool) -> None:
    pool = a_harsh_pool()
    survey = a_survey(pool, MANY, now=NOON - timedelta(seconds=age), finished=NOON - timedelta(seconds=9))
    found = decide(a_snapshot(pool, MANY, survey=survey, looks=()))
    assert len(found.writes.patches) == (len(MANY) if passes else 0)
    assert found.needs_pods is not passes
    assert found.node_lists == ()


@pytest.mark.parametrize(
    ("age", "passes"), [(NODE_LIST_FRESH_SECONDS, True), (NODE_LIST_FRESH_SECONDS + 1, False)]
)
def test_the_own_look_of_a_node_permits_it_for_a_moment_from_its_start(age: float, passes: bool) -> None:
    pool, node = a_harsh_pool(), a_node()
    own = a_survey(pool, [node], now=NOON - timedelta(seconds=age), finished=NOON)
    snapshot = a_snapshot(pool, [node], survey=None, looks=[own])
    assert (standing(after(snapshot)) == {HARSH}) is passes
    assert decide(snapshot).node_lists == (() if passes else (node,))


def test_few_nodes_are_looked_at_by_themselves_however_young_the_look_at_all_pods_is() -> None:
    pool, few = a_harsh_pool(), MANY[:MOST_NODE_LISTS]
    found = decide(a_snapshot(pool, few, survey=a_survey(pool, few), looks=()))
    assert (found.writes.patches, found.node_lists) == ((), tuple(few))
    assert not found.needs_pods
    own = [a_survey(pool, [node]) for node in few]
    found = decide(a_snapshot(pool, few, survey=a_survey(pool, few), looks=own))
    assert (len(found.writes.patches), found.node_lists) == (len(few), ())


def test_a_look_from_before_the_taint_was_gone_permits_nothing() -> None:
    pool = a_harsh_pool()
    bare = replace(carrying(pool), taints=())
    old = a_survey(pool, [bare], began=100.0)
    found = decide(a_snapshot(pool, [bare], survey=old, taint_absent_since={bare.uid: 101.0}))
    assert (found.writes.patches, found.node_lists) == ((), (bare,))
    since = a_survey(pool, [bare], began=102.0)
    snapshot = a_snapshot(pool, [bare], survey=old, looks=[since], taint_absent_since={bare.uid: 101.0})
    assert standing(after(snapshot)) == {HARSH}


def test_of_many_nodes_those_that_lost_it_after_the_look_at_all_pods_wait_for_the_next() -> None:
    pool = a_harsh_pool()
    survey = a_survey(pool, MANY, began=100.0)
    since = {node.uid: 101.0 for node in MANY[1:]}
    found = decide(a_snapshot(pool, MANY, survey=survey, looks=(), taint_absent_since=since))
    assert {patch.node.name for patch in found.writes.patches} <= {MANY[0].name}
    since = {node.uid: 101.0 for node in MANY}
    found = decide(a_snapshot(pool, MANY, survey=survey, looks=(), taint_absent_since=since))
    assert found.writes.patches == ()
    assert found.needs_pods


def test_a_node_of_which_it_is_not_known_since_when_it_lacks_a_taint_is_not_written() -> None:
    pool, node = a_harsh_pool(), a_node()
    snapshot = with_pods(a_snapshot(pool, [node]), taint_absent_since={})
    assert decide(snapshot).writes.patches == ()


def test_where_a_look_at_all_pods_takes_longer_than_it_permits_nodes_are_looked_at_by_themselves() -> None:
    pool = a_harsh_pool()
    slow = a_survey(pool, MANY, now=NOON - timedelta(seconds=FRESH_SECONDS + 1), finished=NOON)
    found = decide(a_snapshot(pool, MANY, survey=slow, looks=()))
    assert found.node_lists == tuple(MANY[:MOST_NODE_LISTS])


def test_the_newest_look_that_saw_the_node_counts_and_people_are_told_what_it_found() -> None:
    pool, node = a_harsh_pool(), a_node()
    for survey, own, holds in (([], [WEB], True), ([WEB], [], False)):
        snapshot = a_snapshot(
            pool,
            [node],
            survey=a_survey(pool, [node], began=1.0, intolerant={HARSH: survey}),
            looks=[a_survey(pool, [node], began=2.0, intolerant={HARSH: own})],
        )
        assert (standing(after(snapshot)) == set()) is holds
        assert [each.reason for each in decide(snapshot).status.issues] == ["IntolerantPods"] * holds


def test_where_own_looks_fail_everything_but_no_execute_is_written() -> None:
    pool = a_pool(labels={"team": "a"}, taints=[GENTLE, HARSH])
    node = a_node()
    survey = a_survey(pool, [node])
    problems = {node.uid: PodListProblem("list pods of node w1: 500")}
    snapshot = a_snapshot(pool, [node], survey=survey, looks=(), pod_list_problems=problems)
    found = after(snapshot)
    assert standing(found) == {GENTLE}
    assert found.labels["team"] == "a"
    assert decide(replace(snapshot, nodes=(found,))).node_lists == (found,)


def test_pods_that_another_machine_of_that_name_had_count_for_nothing() -> None:
    pool = a_harsh_pool()
    gone = replace(a_node(), uid="uid-of-another")
    survey = a_survey(pool, [gone], intolerant={HARSH: [WEB]}, misplaced_on={"w1": 1}, busy=frozenset({"w1"}))
    status = decide(a_snapshot(pool, [a_node()], survey=survey)).status
    assert status.issues == ()
    assert status.misplaced_pods == 0


def test_a_taint_that_is_held_stays_held_until_a_look_shows_otherwise_and_asks_for_none() -> None:
    """Or a pool with one such pod would have all pods listed for ever, and its status would flap."""
    pool, nodes = a_harsh_pool(), [a_node()]
    node = after(a_snapshot(pool, nodes, survey=a_survey(pool, nodes, intolerant={HARSH: [WEB]})))
    old = a_survey(pool, nodes, now=NOON - timedelta(minutes=9), intolerant={HARSH: [WEB]})
    found = decide(a_snapshot(pool, [node], survey=old))
    conditions = {each.type: each.reason for each in found.status.conditions}
    assert conditions["Stalled"] == conditions["NodesUpToDate"] == "TaintsHeld"
    assert not found.needs_pods
    assert found.node_lists == ()


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_a_pool_that_writes_nothing_asks_for_no_look_beyond_the_first(mode: str) -> None:
    pool = a_pool(taints=[HARSH], mode=mode)
    old = a_survey(pool, [], now=NOON - timedelta(minutes=9))
    found = decide(a_snapshot(pool, [a_node()], survey=old))
    assert (found.needs_pods, found.node_lists) == (False, ())
    assert decide(a_snapshot(pool, [a_node()], survey=None)).needs_pods


def test_a_node_that_was_not_looked_at_waits_also_where_one_of_its_name_was() -> None:
    pool = a_harsh_pool()
    survey = a_survey(pool, [a_node()])
    replaced = replace(a_node(), uid="uid-of-another")
    for newcomer in (replaced, a_node("w2")):
        snapshot = a_snapshot(pool, [newcomer], survey=survey)
        assert standing(after(snapshot)) == set()
        assert decide(snapshot).node_lists == (newcomer,)


def test_a_repair_of_no_execute_has_to_pass_the_brake_and_that_of_no_schedule_has_not() -> None:
    pool = a_pool(taints=[GENTLE, HARSH])
    bare = replace(carrying(pool), taints=())
    assert standing(after(a_snapshot(pool, [bare], survey=None))) == {GENTLE}
    held = a_snapshot(pool, [bare], survey=a_survey(pool, [bare], intolerant={HARSH: [WEB]}))
    assert standing(after(held)) == {GENTLE}


def test_a_held_value_leaves_the_old_one_with_its_record() -> None:
    before, pool = carrying(a_harsh_pool()), a_harsh_pool(value="win2025")
    survey = a_survey(pool, [before], intolerant={"os=win2025:NoExecute": [WEB]})
    snapshot = a_snapshot(pool, [before], survey=survey)
    assert decide(snapshot).writes.patches == ()
    assert standing(after(snapshot)) == {HARSH}
    released = after(a_snapshot(deleted(pool), [before]))
    assert standing(released) == set()


def test_a_held_taint_that_is_gone_is_nobodys_and_stays_if_others_put_it_there() -> None:
    pool = a_harsh_pool()
    ours = carrying(pool)
    bare = replace(ours, taints=())
    forgotten = after(a_snapshot(pool, [bare], survey=a_survey(pool, [bare], intolerant={HARSH: [WEB]})))
    assert record_on(forgotten).taints == {}
    theirs = replace(forgotten, taints=ours.taints)
    assert standing(after(a_snapshot(deleted(pool), [theirs]))) == {HARSH}


def test_a_taint_that_waits_for_a_look_is_nobodys_either_and_counts_as_undone() -> None:
    pool = a_harsh_pool()
    ours = carrying(pool)
    snapshot = a_snapshot(pool, [replace(ours, taints=())], survey=None)
    assert decide(snapshot).repaired["w1"] == ("taint os:NoExecute",)
    assert decide(snapshot).node_events == {}, "nothing was put back"
    theirs = replace(after(snapshot), taints=ours.taints)
    assert standing(after(a_snapshot(deleted(pool), [theirs]))) == {HARSH}


def test_an_old_look_is_no_permission_and_changes_nothing_that_is_reported() -> None:
    """Only what is sent depends on its age: or a status would flap with each minute that passes."""
    pool, nodes = a_pool(labels={"team": "a"}, taints=[HARSH]), [a_node()]
    young, old = (a_survey(pool, nodes, now=NOON - timedelta(minutes=age)) for age in (0, 9))
    first = decide(a_snapshot(pool, nodes, survey=young))
    second = decide(a_snapshot(pool, nodes, survey=old))
    assert first.writes.patches
    assert second.writes.patches == ()
    assert second.node_lists == tuple(nodes)
    assert first.status == second.status
    refused = {nodes[0].uid: "no"}
    held_back = decide(a_snapshot(pool, nodes, survey=old, refused=refused, held_back=[nodes[0].uid]))
    assert held_back.node_lists == (), "a node that is not to be tried now needs no look"
    stalled = held_back.status.condition("Stalled")
    assert stalled is not None
    assert stalled.reason == "WriteRefused"


def test_a_clock_that_was_set_back_makes_no_look_young() -> None:
    pool, nodes = a_harsh_pool(), [a_node()]
    survey = a_survey(pool, nodes, now=NOON + timedelta(minutes=59))
    assert decide(a_snapshot(pool, nodes, survey=survey)).writes.patches == ()


def test_delete_waits_for_a_look_at_this_very_node() -> None:
    pool = a_harsh_pool(on_intolerant_pods="Delete")
    newcomer = a_node("w2")
    snapshot = a_snapshot(pool, [newcomer], survey=a_survey(pool, [a_node()]))
    assert standing(after(snapshot)) == set()
    assert decide(snapshot).node_lists == (newcomer,)


def test_the_mismatch_taint_waits_for_the_first_look_like_any_other() -> None:
    pool = a_pool(more={"reservedMemory": {"onMismatch": "Taint"}})
    node = replace(a_node(), memory=NodeMemory(16 * 2**30, 16 * 2**30))
    found = decide(a_snapshot(pool, [node], survey=None))
    assert found.writes.patches == ()
    assert found.needs_pods
    assert found.status.up_to_date_nodes == 0
    assert standing(after(a_snapshot(pool, [node]))) == {"winpool.dev/reserved-memory-mismatch=:NoSchedule"}


def test_an_undo_brings_back_a_no_execute_taint_that_stood_there_before() -> None:
    """It was not ours to take away for good (P3): what it does to pods is up to whoever had put it there."""
    pool = a_harsh_pool()
    theirs = a_node(taints=["os=Win1809:NoExecute"])
    ours = after(a_snapshot(pool, [theirs]))
    assert standing(ours) == {HARSH}
    assert standing(after(a_snapshot(deleted(pool), [ours]))) == {"os=Win1809:NoExecute"}


def test_a_node_whose_pods_cannot_be_read_waits_and_says_so_and_asks_for_no_more_looks() -> None:
    pool, nodes = a_harsh_pool(), [a_node()]
    survey = a_survey(pool, nodes, unreadable=frozenset({"w1"}))
    found = decide(a_snapshot(pool, nodes, survey=survey))
    assert not found.needs_pods
    assert found.node_lists == ()
    assert [each.reason for each in found.status.issues] == ["PodsUnreadable"]
    assert standing(after(a_snapshot(pool, nodes, survey=survey))) == set()


def test_a_held_node_is_not_up_to_date_and_says_so() -> None:
    pool = a_harsh_pool()
    first = a_snapshot(pool, [a_node()], survey=a_survey(pool, [a_node()], intolerant={HARSH: [WEB]}))
    node = after(first)
    found = decide(replace(first, nodes=(node,)))
    conditions = {each.type: (each.status, each.reason) for each in found.status.conditions}
    assert found.writes.patches == ()
    assert found.status.up_to_date_nodes == 0
    assert conditions["NodesUpToDate"] == ("False", "TaintsHeld")
    assert conditions["Stalled"] == ("True", "TaintsHeld")
    assert conditions["Reconciling"] == ("False", "Settled")
    assert conditions["Ready"] == ("True", "TaintsHeld")
    assert [(each.nodes, each.reason) for each in found.status.issues] == [(("w1",), "IntolerantPods")]


@given(
    st.lists(st.sampled_from([HARSH, GENTLE, "gpu:NoExecute"]), unique=True, min_size=1),
    st.sets(st.sampled_from([HARSH, GENTLE, "gpu:NoExecute"])),
    st.sets(st.sampled_from([HARSH, GENTLE, "gpu:NoExecute"])),
    st.sampled_from(["none", "fresh", "old", "of another spec", "of another node"]),
)
def test_no_execute_never_goes_where_it_is_not_known_that_nobody_minds(
    wanted: list[str], there: set[str], minded: set[str], look: str
) -> None:
    pool = a_pool(taints=wanted)
    node = a_node(taints=sorted(there))
    survey = a_survey(pool, [node], intolerant={each: [WEB] for each in minded})
    match look:
        case "none":
            survey = None
        case "old":
            survey = a_survey(pool, [node], now=NOON - timedelta(minutes=5))
        case "of another spec":
            survey = a_survey(replace(pool, generation=99), [node])
        case "of another node":
            survey = a_survey(pool, [a_node("w9")])
    new = set(after(a_snapshot(pool, [node], survey=survey)).taints) - set(node.taints)
    added = {each.key for each in new if each.effect == "NoExecute"}
    if look != "fresh":
        assert added == set()
    else:
        assert added.isdisjoint(
            each.partition(":")[0].partition("=")[0] for each in minded & {HARSH, "gpu:NoExecute"}
        )


moments = st.integers(0, 6)


@given(
    taint_absent_since=moments,
    survey=st.none() | st.tuples(moments, st.booleans()),
    own=st.none() | st.tuples(moments, st.booleans()),
    now=st.integers(0, 80),
    many=st.booleans(),
)
def test_no_execute_goes_only_where_the_newest_look_began_since_and_lately_and_found_nobody(
    taint_absent_since: int,
    survey: tuple[int, bool] | None,
    own: tuple[int, bool] | None,
    now: int,
    many: bool,
) -> None:
    """Each look is the second in which it began, and whether a pod was there; the clocks agree."""
    pool, nodes = a_harsh_pool(), MANY if many else MANY[:1]

    def look(seen: tuple[int, bool] | None, of: list[Node]) -> Survey | None:
        if seen is None:
            return None
        began, minds = seen
        at = NOON + timedelta(seconds=began)
        pods = {HARSH: [f"{nodes[0].name}/default/web"] if minds else []}
        return a_survey(pool, of, now=at, finished=at, began=float(began), intolerant=pods)

    snapshot = a_snapshot(
        pool,
        nodes,
        survey=look(survey, nodes),
        looks=[look(own, nodes[:1])],
        taint_absent_since={nodes[0].uid: float(taint_absent_since)},
        now=NOON + timedelta(seconds=now),
    )
    if any(patch.node is nodes[0] and patch.taints for patch in decide(snapshot).writes.patches):
        began = max(each[0] for each in (survey, own) if each is not None)
        newest = [each for each in (survey, own) if each is not None and each[0] == began]
        assert began > taint_absent_since
        assert 0 <= now - began <= FRESH_SECONDS
        assert any(not each[1] for each in newest), "the newest look found a pod"
        assert many or own is not None, "of few nodes the own look"


def test_an_own_look_that_goes_on_failing_is_replaced_by_a_young_look_at_all_pods() -> None:
    pool, node = a_harsh_pool(), a_node()
    problems = {node.uid: PodListProblem("list pods of node w1: too large", lasts=True)}
    for age, passes in ((FRESH_SECONDS, True), (FRESH_SECONDS + 1, False)):
        survey = a_survey(pool, [node], now=NOON - timedelta(seconds=age))
        snapshot = a_snapshot(pool, [node], survey=survey, looks=(), pod_list_problems=problems)
        assert (standing(after(snapshot)) == {HARSH}) is passes
        assert decide(snapshot).needs_pods is not passes
    late = a_snapshot(
        pool,
        [node],
        survey=a_survey(pool, [node]),
        looks=(),
        pod_list_problems=problems,
        taint_absent_since={node.uid: 5},
    )
    assert standing(after(late)) == set()


def test_an_own_look_that_fails_changes_nothing_for_other_nodes() -> None:
    pool = a_pool(labels={"team": "a"}, taints=[GENTLE, HARSH])
    failing, other = a_node("w1"), a_node("w2")
    problems = {failing.uid: PodListProblem("list pods of node w1: 500")}
    first = decide(a_snapshot(pool, [failing, other], survey=None, pod_list_problems=problems))
    assert first.writes.patches == ()
    survey = a_survey(pool, [failing, other])
    looks = [a_survey(pool, [other], began=1.0)]
    found = decide(a_snapshot(pool, [failing, other], survey=survey, looks=looks, pod_list_problems=problems))
    taints = {
        patch.node.name: {taint.effect for taint in patch.taints or ()} for patch in found.writes.patches
    }
    assert taints == {"w1": {"NoSchedule"}, "w2": {"NoSchedule", "NoExecute"}}
