"""Nodes that join: when they get startup taints, and when these come off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.builders import (
    NOON,
    a_node,
    a_pool,
    a_snapshot,
    a_spec,
    a_survey,
    a_taint,
    deleted,
    edited,
    record_on,
)
from harness.strategies import extreme_times
from harness.writes import patched
from winpool.api.selector import NodeValidation
from winpool.api.text import written_moment
from winpool.decide import Decision, decide
from winpool.features.contract.taints import question_of
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import Readiness

KEY = "example.com/starting"
READY_SECONDS = 120
LONGEST_READY_SECONDS = 3600
TIMEOUT_SECONDS = 600
FIT = {"w1": Readiness()}


MORE = {"startupTaints": [{"key": KEY, "effect": "NoSchedule"}]}


def a_starting_pool(**validation: Any) -> Pool:
    """Return a pool with a startup taint; a field of ``validation`` that does not exist would be ignored."""
    assert validation.keys() <= {field.alias for field in NodeValidation.model_fields.values()}
    return a_pool(more={**MORE, "validation": validation} if validation else MORE)


def a_young_node(*, age: float = 10, ready_for: float | None = 0) -> Node:
    since = None if ready_for is None else NOON - timedelta(seconds=ready_for)
    return replace(
        a_node(ready="False" if ready_for is None else "True"),
        created=NOON - timedelta(seconds=age),
        ready_since=since,
    )


def step(snapshot: Snapshot) -> tuple[Decision, Node]:
    found = decide(snapshot)
    [node] = snapshot.nodes
    return found, patched(node, next(iter(found.writes.patches), None))


def starting(pool: Pool, **node: Any) -> Node:
    """Return a node that joined the pool and carries the startup taint."""
    young = a_young_node(**node)
    _, node_now = step(a_snapshot(pool, [young]))
    assert carries(node_now)
    return node_now


def carries(node: Node) -> bool:
    return KEY in {taint.key for taint in node.taints}


def looked(pool: Pool, node: Node, *, now: datetime = NOON, **more: Any) -> Snapshot:
    return a_snapshot(pool, [node], survey=a_survey(pool, [node], now=now, **more), now=now)


def later(node: Node, seconds: float) -> datetime:
    assert node.created
    return NOON + timedelta(seconds=seconds)


def test_a_node_that_has_just_joined_gets_them_with_its_first_write_as_the_pools() -> None:
    found, node = step(a_snapshot(a_starting_pool(), [a_young_node()]))
    assert carries(node)
    assert record_on(node).taints.keys() == {(KEY, "NoSchedule")}
    assert found.status.up_to_date_nodes == 0


def test_they_wait_for_no_look_and_nor_do_its_labels() -> None:
    pool, node = a_starting_pool(), a_young_node()
    pool = replace(pool, spec=a_spec(labels={"team": "a"}, more=MORE))
    gone = replace(node, uid="uid-of-the-machine-before")
    looks = (None, a_survey(pool, [a_node("w9")]), a_survey(pool, [gone], busy=frozenset({"w1"})))
    for survey in looks:
        _, after = step(a_snapshot(pool, [node], survey=survey))
        assert carries(after)
        assert after.labels["team"] == "a"


def test_a_newcomers_other_taints_follow_its_own_look_in_a_second_write() -> None:
    pool = a_starting_pool()
    pool = replace(pool, spec=a_spec(taints=["os=windows:NoSchedule", "os=windows:NoExecute"], more=MORE))
    found, joined = step(a_snapshot(pool, [a_young_node()], survey=None))
    assert {taint.key for taint in joined.taints} == {KEY}
    assert [each.name for each in found.node_lists] == ["w1"]
    _, after = step(a_snapshot(pool, [joined], survey=None, looks=[a_survey(pool, [joined])]))
    assert {taint.effect for taint in after.taints if taint.key == "os"} == {"NoSchedule", "NoExecute"}
    assert carries(after)


def test_another_value_in_the_spec_leaves_the_old_one_until_the_node_is_valid_and_as_the_pools() -> None:
    pool = a_starting_pool(readySeconds=0)
    node = starting(pool)
    changed = {"key": KEY, "effect": "NoSchedule", "value": "v2"}
    pool = edited(pool, a_spec(more={"startupTaints": [changed], "validation": {"readySeconds": 0}}))
    found, after = step(looked(pool, node))
    assert carries(after)
    assert record_on(after).taints.keys() == {(KEY, "NoSchedule")}
    assert found.status.up_to_date_nodes == 0
    _, released = step(a_snapshot(deleted(pool), [after]))
    assert not carries(released)
    _, valid = step(looked(pool, after, readiness=FIT))
    assert not carries(valid)
    assert record_on(valid).taints == {}


@pytest.mark.parametrize("age", [600, 6000])
def test_a_node_that_is_ten_minutes_old_gets_none_and_waits_for_nothing(age: float) -> None:
    found, node = step(a_snapshot(a_starting_pool(), [a_young_node(age=age)], survey=None))
    assert found.writes.patches
    assert not carries(node)


@pytest.mark.parametrize(
    ("timeout", "age", "joins"), [(120, 119, True), (120, 120, False), (3600, 599, True)]
)
def test_a_newcomer_that_is_older_than_its_time_would_be_gets_none(
    timeout: int, age: float, *, joins: bool
) -> None:
    pool = a_starting_pool(timeoutSeconds=timeout)
    found, node = step(a_snapshot(pool, [a_young_node(age=age)]))
    assert carries(node) is joins
    assert found.status.issues == ()


def test_they_carry_the_time_at_which_they_were_added_and_other_taints_carry_none() -> None:
    pool = replace(a_starting_pool(), spec=a_spec(taints=["os=windows:NoSchedule"], more=MORE))
    _, node = step(a_snapshot(pool, [a_young_node()]))
    assert {taint.key: taint.time_added for taint in node.taints} == {KEY: "2026-11-01T12:00:00Z", "os": None}
    assert [taint.added for taint in node.taints if taint.key == KEY] == [NOON]


def test_one_that_takes_the_place_of_another_value_carries_its_own_time_and_gives_the_old_one_back() -> None:
    old = "2026-10-31T08:00:00Z"
    theirs = (a_taint(f"{KEY}=theirs:NoSchedule", time_added=old),)
    pool = a_starting_pool()
    _, node = step(a_snapshot(pool, [replace(a_young_node(), taints=theirs)]))
    assert [taint.added for taint in node.taints] == [NOON]
    _, released = step(a_snapshot(deleted(pool), [node]))
    assert released.taints == theirs


def test_taints_without_a_time_are_timed_by_the_age_of_the_node() -> None:
    """An earlier version of the operator added them."""
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=300)
    node = starting(pool, age=200)
    node = replace(node, taints=tuple(structs.replace(taint, time_added=None) for taint in node.taints))
    lacking = {"w1": Readiness(missing_required=("monitoring/app=exporter",))}
    for seconds, overdue in ((99, False), (100, True)):
        now = NOON + timedelta(seconds=seconds)
        found, _ = step(looked(pool, node, now=now, readiness=lacking))
        assert [each.reason for each in found.status.issues] == ["ValidationTimedOut"] * overdue


@given(
    timeout=st.integers(1, 4000),
    age=st.integers(0, 700),
    later=st.integers(0, 5000),
    text=st.sampled_from((None, "", "now", "2026-11-01T12:00:00", "2026-13-01T00:00:00Z")),
)
def test_no_node_is_late_before_its_taints_have_stood_there_for_its_time(
    timeout: int, age: int, later: int, text: str | None
) -> None:
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=timeout)
    young = a_young_node(age=age)
    _, node = step(a_snapshot(pool, [young]))
    assert carries(node) is (age < min(600, timeout))
    if not carries(node):
        return
    lacking = {"w1": Readiness(missing_required=("monitoring/app=exporter",))}
    now = NOON + timedelta(seconds=later)
    found, _ = step(looked(pool, node, now=now, readiness=lacking))
    assert bool(found.status.issues) is (later >= timeout)
    odd = replace(node, taints=tuple(structs.replace(taint, time_added=text) for taint in node.taints))
    found, _ = step(looked(pool, odd, now=now, readiness=lacking))
    assert bool(found.status.issues) is (later + age >= timeout), "a time that is none is not gone by"


def test_a_node_with_pods_of_its_own_gets_none() -> None:
    pool, node = a_starting_pool(), a_young_node()
    _, after = step(looked(pool, node, busy=frozenset({"w1"})))
    assert not carries(after)
    assert record_on(after).taints == {}


def test_a_node_that_has_a_record_gets_none() -> None:
    young = a_young_node()
    _, ours = step(a_snapshot(a_pool(), [young]))
    _, after = step(a_snapshot(a_starting_pool(), [ours]))
    assert not carries(after)


def test_they_stay_until_the_kubelet_was_ready_for_long_enough() -> None:
    pool = a_starting_pool()
    node = starting(pool, ready_for=0)
    found, after = step(looked(pool, node, readiness=FIT))
    assert carries(after)
    assert found.look_again == NOON + timedelta(seconds=READY_SECONDS)
    assert not found.needs_pods
    _, after = step(looked(pool, node, now=NOON + timedelta(seconds=READY_SECONDS), readiness=FIT))
    assert not carries(after)


def test_they_stay_while_the_kubelet_is_not_ready() -> None:
    pool = a_starting_pool()
    node = starting(pool, ready_for=None)
    _, after = step(looked(pool, node, now=NOON + timedelta(hours=1), readiness=FIT))
    assert carries(after)


@pytest.mark.parametrize(
    ("readiness", "says"),
    [
        ({"w1": Readiness(unready=1, unready_agents=("kube-system/cni",))}, "kube-system/cni"),
        ({"w1": Readiness(missing_required=("monitoring/app=exporter",))}, "monitoring/app=exporter"),
    ],
)
def test_they_stay_until_the_pods_that_it_needs_are_ready(readiness: dict[str, Readiness], says: str) -> None:
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=300)
    node = starting(pool)
    found, after = step(looked(pool, node, readiness=readiness))
    assert carries(after)
    assert found.node_lists == (node,)
    overdue, _ = step(looked(pool, node, now=NOON + timedelta(minutes=10), readiness=readiness))
    [issue] = overdue.status.issues
    assert issue.reason == "ValidationTimedOut"
    assert says in issue.message


def test_a_node_of_which_nothing_is_known_to_be_missing_is_not_late() -> None:
    """An operator that comes back after the deadline has to look first (P4)."""
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=30)
    node = starting(pool)
    for survey in (None, a_survey(pool, [node])):
        found, after = step(a_snapshot(pool, [node], survey=survey, now=NOON + timedelta(hours=1)))
        assert carries(after)
        assert found.status.issues == ()
        assert found.node_lists == (node,)


def test_a_look_from_before_the_kubelet_was_ready_again_does_not_count() -> None:
    pool = a_starting_pool(readySeconds=0)
    node = replace(starting(pool), ready_since=NOON + timedelta(seconds=10))
    survey = a_survey(pool, [node], now=NOON, readiness=FIT)
    found, after = step(a_snapshot(pool, [node], survey=survey, now=NOON + timedelta(seconds=31)))
    assert carries(after)
    assert found.node_lists == (node,)


def test_what_a_node_waits_for_is_told_the_same_however_long_ago_it_was_seen() -> None:
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=30)
    node = starting(pool)
    lacking = {"w1": Readiness(unready=1, unready_agents=("kube-system/cni",))}
    messages = set()
    for minutes in (1, 9):
        survey = a_survey(pool, [node], now=NOON, readiness=lacking)
        found = decide(a_snapshot(pool, [node], survey=survey, now=NOON + timedelta(minutes=minutes)))
        messages |= {each.message for each in found.status.issues}
        assert not found.needs_pods, "its time is over: the regular looks have to do"
        assert found.node_lists == ()
    assert len(messages) == 1


def test_what_was_seen_a_while_ago_does_not_count() -> None:
    pool = a_starting_pool(readySeconds=0)
    node = starting(pool)
    old = a_survey(pool, [node], now=NOON - timedelta(minutes=2), readiness=FIT)
    found, after = step(a_snapshot(pool, [node], survey=old))
    assert carries(after)
    assert found.node_lists == (node,)


def test_a_node_that_passes_loses_them_for_good_and_has_an_event() -> None:
    pool = a_starting_pool(readySeconds=0)
    node = starting(pool)
    found, after = step(looked(pool, node, readiness=FIT))
    assert not carries(after)
    assert found.node_events["w1"].reason == "NodeValidated"
    assert record_on(after).taints == {}
    for again in (after, replace(after, ready="False"), replace(after, taints=())):
        _, now = step(looked(pool, again, readiness=FIT))
        assert not carries(now)


def test_one_that_a_person_takes_off_is_not_put_back() -> None:
    pool = a_starting_pool(readySeconds=0)
    node = replace(starting(pool), taints=())
    _, after = step(looked(pool, node))
    assert not carries(after)
    assert record_on(after).taints == {}


def test_one_that_somebody_had_put_there_before_is_never_the_pools() -> None:
    pool = a_starting_pool(readySeconds=0)
    young = replace(a_young_node(), taints=a_node(taints=[f"{KEY}:NoSchedule"]).taints)
    _, node = step(a_snapshot(pool, [young]))
    _, after = step(looked(pool, node, readiness=FIT))
    assert carries(after)
    _, released = step(a_snapshot(deleted(pool), [after]))
    assert carries(released)


def test_deletion_takes_them_off_and_so_does_a_spec_without_them() -> None:
    pool = a_starting_pool()
    node = starting(pool)
    for next_pool in (deleted(pool), a_pool()):
        _, after = step(a_snapshot(next_pool, [node]))
        assert not carries(after)


def test_while_a_node_is_validated_the_operator_is_at_work_and_after_its_time_it_is_not() -> None:
    pool = a_starting_pool(timeoutSeconds=TIMEOUT_SECONDS)
    node = starting(pool, age=500, ready_for=None)
    found, _ = step(looked(pool, node))
    conditions = {each.type: (each.status, each.reason) for each in found.status.conditions}
    assert conditions["Reconciling"] == ("True", "ValidatingNodes")
    assert conditions["NodesUpToDate"] == ("False", "ValidatingNodes")
    deadline = NOON + timedelta(seconds=TIMEOUT_SECONDS)
    assert found.look_again == deadline
    found, after = step(looked(pool, node, now=deadline))
    conditions = {each.type: (each.status, each.reason) for each in found.status.conditions}
    assert conditions["Stalled"] == ("True", "ValidationTimedOut")
    assert conditions["Reconciling"] == ("False", "Settled")
    assert carries(after)
    assert {each.reason for each in found.pool_events} >= {"ValidationTimedOut"}


def test_a_newer_look_that_was_not_asked_what_has_to_be_ready_hides_none_that_was() -> None:
    pool = a_starting_pool()
    node = starting(pool, ready_for=READY_SECONDS)
    asked = a_survey(pool, [node], began=1.0, readiness=FIT)
    own = a_survey(pool, [node], began=2.0)
    _, after = step(a_snapshot(pool, [node], survey=asked, looks=[own]))
    assert not carries(after)


def test_a_newer_look_that_was_asked_and_could_not_read_a_pod_there_is_no_answer() -> None:
    pool = a_starting_pool()
    node = starting(pool, ready_for=READY_SECONDS)
    asked = a_survey(pool, [node], began=1.0, readiness=FIT)
    own = a_survey(pool, [node], began=2.0, unreadable=frozenset({"w1"}))
    _, after = step(a_snapshot(pool, [node], survey=asked, looks=[own]))
    assert carries(after)


def test_agents_of_another_machine_of_that_name_count_for_nothing() -> None:
    """Neither those that are Ready nor those that are not: the node waits for a look at itself."""
    pool = a_starting_pool(readySeconds=0, timeoutSeconds=300)
    node = starting(pool)
    gone = replace(node, uid="uid-of-another")
    lacking = {"w1": Readiness(unready=1, unready_agents=("kube-system/cni",))}
    late = NOON + timedelta(minutes=10)
    for readiness, now in ((FIT, NOON), (FIT, late), (lacking, late)):
        theirs = a_survey(pool, [gone], now=now, readiness=readiness)
        for survey, looks in ((theirs, ()), (None, [theirs])):
            found, after = step(a_snapshot(pool, [node], survey=survey, looks=looks, now=now))
            assert carries(after)
            assert found.status.issues == ()
            assert found.node_lists == (node,)


# Times that others write


@given(ready_since=st.none() | extreme_times(), added=st.none() | extreme_times(), created=extreme_times())
@example(ready_since=datetime.max.replace(tzinfo=UTC), added=None, created=NOON)
@example(ready_since=NOON, added=datetime.max.replace(tzinfo=UTC), created=NOON)
def test_no_time_that_another_writes_keeps_a_pool_from_being_decided_and_asked(
    ready_since: datetime | None, added: datetime | None, created: datetime
) -> None:
    pool = a_starting_pool(readySeconds=LONGEST_READY_SECONDS, timeoutSeconds=TIMEOUT_SECONDS)
    node = starting(pool, age=10)
    taints = tuple(
        structs.replace(each, time_added=written_moment(added) if added else None)
        if each.key == KEY
        else each
        for each in node.taints
    )
    node = replace(node, created=created, ready_since=ready_since, taints=taints)
    assert decide(a_snapshot(pool, [node])).status.nodes == 1
    assert question_of(pool, [node], now=NOON) is not None


def test_a_kubelet_that_is_ready_from_the_last_moment_on_is_not_ready_yet() -> None:
    pool = a_starting_pool(readySeconds=LONGEST_READY_SECONDS)
    node = replace(starting(pool), ready_since=datetime.max.replace(tzinfo=UTC))
    found, after = step(looked(pool, node, readiness=FIT))
    assert carries(after)
    question = question_of(pool, [node], now=NOON)
    assert question is not None
    assert not question.joining
    deadline = NOON + timedelta(seconds=TIMEOUT_SECONDS)
    assert found.look_again == deadline, "that of the taints"
    [issue] = step(looked(pool, node, now=deadline, readiness=FIT))[0].status.issues
    assert f"the kubelet to report Ready for {LONGEST_READY_SECONDS} s" in str(issue)


def test_a_startup_taint_that_comes_back_on_a_valid_node_is_told_and_left_alone() -> None:
    """As Karpenter restored them: https://github.com/kubernetes-sigs/karpenter/issues/1772."""
    pool = a_starting_pool(readySeconds=0)
    node = starting(pool)
    found, valid = step(looked(pool, node, readiness=FIT))
    assert not carries(valid)
    again = replace(valid, taints=(*valid.taints, a_taint(f"{KEY}:NoSchedule")))
    for now in (NOON, NOON + timedelta(days=1)):
        found, after = step(looked(pool, again, readiness=FIT, now=now))
        assert (found.writes.patches, carries(after)) == ((), True)
        [issue] = found.status.issues
        assert (issue.reason, issue.nodes) == ("StartupTaintStays", ("w1",))
        assert f"kubectl taint nodes NODE {KEY}:NoSchedule-" in issue.fix
    found, _ = step(looked(pool, node))
    assert [issue.reason for issue in found.status.issues] == [], "one that waits for validation has its own"
