"""Which pods are deleted that have not left their node in time (``onTimeout: Force``), how, and when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, edited
from harness.rollout_scenes import a_rollout, close_budget, until
from harness.rollout_world import RolloutWorld, rolling_pool
from unit.upgrade.test_drain import (
    BARE,
    CLOSED,
    CORDONED,
    DENIED,
    NEVER,
    OF_BUDGET,
    RULES,
    SEVERAL,
    WEB,
    a_spec,
    a_view,
    answered,
    names,
    refused,
    stays,
    views,
    web,
    whys,
)
from winpool.api.keys import AKS_UPGRADE_STATUS_LABEL, HOLD_ANNOTATION, NAMESPACE, UPGRADE_ANNOTATION
from winpool.api.spec import Mode
from winpool.api.upgrade import Drain, UpgradeState
from winpool.controllers.pool import forced_pods
from winpool.features.upgrade.claims import Claim, Limits, Machine, Target, text_of
from winpool.features.upgrade.drain import DrainBlock, DrainView, drain, objection, preflight
from winpool.model.node import Eviction, Node
from winpool.model.node_pods import Answer
from winpool.model.pods import Pod
from winpool.model.rollout import FORCE_WAITS_SECONDS, ForceTerms

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
DRAIN: Final = {"timeoutSeconds": 600, "onTimeout": "Force"}
SPEC: Final = a_spec(onTimeout="Force")
DELETE_DENIED: Final = 'delete pods shop/web: 403 admission webhook "keep.example.com" denied the request: no'


def forced(*pods: Pod, spec: Drain = SPEC, **view: Any) -> dict[str, Eviction]:
    """Return by name what is deleted of these pods after the deadline of the drain."""
    found = drain(a_view(*pods, cordoned_ago=3600, **view), spec, forces=True).evictions
    return {each.name: each for each in found if each.deletion is not None}


# Which pods.


@pytest.mark.parametrize(
    ("pod", "view", "kept_by"),
    [
        pytest.param(web(), {"rooms": {"web": [CLOSED]}}, DrainBlock.BUDGET, id="budget"),
        pytest.param(web(), {"rooms": {"web": [NEVER]}}, DrainBlock.BUDGET, id="budget for ever"),
        pytest.param(web(), {"rooms": {"web": [WEB, CLOSED]}}, DrainBlock.TWO_BUDGETS, id="two budgets"),
        pytest.param(web(), {"unread": frozenset({"uid-web"})}, DrainBlock.BUDGET_UNREAD, id="unread budget"),
        pytest.param(web(), {"budgets": False}, "", id="budgets unknown"),
        pytest.param(web(), {"answers": {"web": refused(DENIED)}}, DrainBlock.WEBHOOK, id="webhook"),
        pytest.param(web(), {"answers": {"web": refused(SEVERAL)}}, DrainBlock.TWO_BUDGETS, id="refused"),
        pytest.param(web(), {"answers": {"web": refused(OF_BUDGET)}}, DrainBlock.BUDGET, id="just refused"),
        pytest.param(web(**BARE), {}, DrainBlock.UNMANAGED, id="unmanaged"),
        pytest.param(web(), {}, "", id="what nothing is known of"),
    ],
)
def test_rule_20_after_the_deadline_a_pod_is_deleted_whatever_keeps_it(
    pod: Pod, view: dict[str, Any], kept_by: str
) -> None:
    assert forced(pod, **view)["web"].deletion is not None
    deletion = forced(pod, **view)["web"].deletion
    assert deletion is not None
    assert deletion.kept_by == kept_by


def test_rule_20_what_the_spec_keeps_is_deleted_too() -> None:
    wait = {"name": "wait", "namespaces": ["shop"], "behavior": "WaitCompleted"}
    assert [*forced(web(), spec=a_spec(wait, onTimeout="Force"))] == ["web"]
    assert [*forced(web(is_local=True), spec=a_spec(onTimeout="Force", emptyDirPods="Block"))] == ["web"]


def test_rule_20_pods_past_the_deadline_wait_behind_no_other_order() -> None:
    late = {"name": "late", "podSelector": {"matchLabels": {"app": "late"}}, "order": 9}
    spec = a_spec(late, onTimeout="Force")
    pods = (web("first"), web("last", labels={"app": "late"}))
    assert [*forced(*pods, spec=spec, rooms={"first": [CLOSED]})] == ["first", "last"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(web(is_mirror=True), id="mirror pod"),
        pytest.param(web(controller_kind="Node"), id="static pod"),
        pytest.param(web(controller_kind="DaemonSet"), id="of a DaemonSet"),
        pytest.param(web(is_finished=True), id="ended"),
        pytest.param(web(labels={"app": "skip"}), id="skipped by a rule"),
        pytest.param(web(namespace=NAMESPACE), id="of the operator"),
        pytest.param(web(namespace=NAMESPACE, is_terminating=True, ends=NOON + 999 * SECOND), id="its end"),
        pytest.param(web(created=NOON - 599 * SECOND), id="too young"),
        pytest.param(web(created=None), id="of unknown age"),
        pytest.param(web(eviction=None), id="unknown"),
        pytest.param(web(tolerates_cordon=True, created=NOON - 900 * SECOND), id="come back"),
    ],
)
def test_rule_20_a_pod_that_stays_that_would_come_back_or_came_late_is_not_deleted(pod: Pod) -> None:
    assert forced(pod, spec=a_spec(*RULES, onTimeout="Force")) == {}


def test_a_pod_that_came_late_is_evicted_as_before() -> None:
    progress = drain(a_view(web("old", **BARE), web("late", created=NOON)), SPEC, forces=True)
    assert [(each.name, each.deletion is not None) for each in progress.evictions] == [
        ("old", True),
        ("late", False),
    ]


@pytest.mark.parametrize("answer", [Answer.ASKED, Answer.ACCEPTED, Answer.GONE])
def test_p5_a_pod_with_a_request_outstanding_or_on_its_way_out_is_not_deleted(answer: Answer) -> None:
    assert forced(web(), answers={"web": answered(answer)}) == {}


def test_p4_no_pod_is_deleted_by_an_old_list_or_on_a_node_that_is_not_cordoned() -> None:
    assert forced(web(), listed_ago=31) == {}
    assert forced(web(), node=a_node("w1")) == {}


def test_before_the_deadline_no_pod_is_deleted() -> None:
    progress = drain(a_view(web("a", **BARE), web("b")), SPEC)
    assert names(progress) == ["b"]
    assert all(each.deletion is None for each in progress.evictions)


# How.


@pytest.mark.parametrize(("own", "grace"), [(0, 1), (1, 1), (30, 30), (86400, 86400)])
def test_rule_20_the_grace_is_that_of_the_pod_and_never_0(own: int, grace: int) -> None:
    deletion = forced(web(grace_seconds=own, resource_version="17"))["web"].deletion
    assert deletion is not None
    assert (deletion.grace_seconds, deletion.resource_version) == (grace, "17")


def test_a_deletion_names_the_pod_by_its_uid_and_takes_from_no_budget() -> None:
    found = forced(web(), rooms={"web": [WEB]})["web"]
    assert (found.uid, found.budget, found.node_uid, found.drained_uid) == ("uid-web", "", "", CORDONED.uid)


@pytest.mark.parametrize(
    ("ends_in", "is_deleted"),
    [pytest.param(31, True, id="longer"), (30, False), (-1, False), (-3600, False), (None, False)],
)
def test_rule_20_a_pod_that_ends_later_than_its_own_grace_says_is_deleted_again(
    ends_in: int | None, is_deleted: bool
) -> None:
    """Someone has deleted it with a longer grace. One that hangs is not deleted again."""
    ends = None if ends_in is None else NOON + ends_in * SECOND
    pod = web(is_terminating=True, ends=ends, grace_seconds=30)
    assert bool(forced(pod, answers={"web": answered(Answer.ACCEPTED)})) == is_deleted


def test_a_deletion_that_is_denied_is_named_as_such() -> None:
    view = a_view(web(), answers={"web": refused(DELETE_DENIED)}, cordoned_ago=3600)
    [blocker] = drain(view, SPEC, forces=True).blockers
    assert blocker.why is DrainBlock.WEBHOOK
    assert "webhook keep.example.com does not let it be deleted" in blocker.message
    assert blocker.message.endswith('admission webhook "keep.example.com" denied the request: no')


@given(views(), st.booleans())
def test_nothing_is_deleted_that_stays_and_nothing_twice(view: DrainView, is_old: bool) -> None:
    view = replace(view, now=view.now + 600 * SECOND * is_old)
    progress = drain(view, a_spec(*RULES, onTimeout="Force"), forces=True)
    uids = [each.uid for each in progress.evictions]
    assert len(uids) == len(set(uids))
    for each in progress.evictions:
        pod = view.pods.of(each.uid) if view.pods else None
        assert pod is not None
        assert pod in progress.leaving
        assert not stays(pod)
        assert view.node.unschedulable
        assert each.deletion is None or each.deletion.grace_seconds >= 1


# Before the claim.


def test_what_the_spec_keeps_until_the_deadline_keeps_no_node_from_being_claimed() -> None:
    pods = (web("bare", **BARE), web("local", is_local=True))
    spec = a_spec(onTimeout="Force", emptyDirPods="Block")
    assert preflight(a_view(*pods), spec) == ()
    assert len(preflight(a_view(*pods), a_spec(emptyDirPods="Block"))) == 2


def test_no_node_is_claimed_to_be_forced_whose_budget_is_closed_or_that_has_the_operator() -> None:
    pods = (web(), web("own", namespace=NAMESPACE))
    found = preflight(a_view(*pods, rooms={"web": [NEVER]}), SPEC)
    assert whys(found) == {"web": DrainBlock.BUDGET, "own": DrainBlock.OWN_NAMESPACE}


# Right before the request.


def a_deletion() -> Eviction:
    return forced(web())["web"]


def drained(state: str, **annotations: str) -> Node:
    """Return the node of the deletion as it is drained, in a state."""
    claim = Claim(
        claim="abc",
        target=Target("2022"),
        state=UpgradeState(state),
        since=NOON,
        before=Machine.of(CORDONED),
        limits=Limits(600, 600, 7200, 1800, 0, 600, 0, 1800),
    )
    return replace(CORDONED, annotations={UPGRADE_ANNOTATION: text_of(claim), **annotations})


def test_a_deletion_is_not_sent_that_is_not_right_any_more() -> None:
    assert objection(a_deletion(), node=drained("DrainBlocked"), now=NOON) == ""
    said = objection(a_deletion(), node=drained("Draining"), now=NOON)
    assert said == "the drain of the node is not past its deadline any more"
    held = drained("DrainBlocked", **{HOLD_ANNOTATION: ""})
    assert objection(a_deletion(), node=held, now=NOON) == "someone holds the node"
    vetoed = drained("DrainBlocked")
    vetoed = replace(vetoed, labels={**vetoed.labels, AKS_UPGRADE_STATUS_LABEL: "paused"})
    said = objection(a_deletion(), node=vetoed, now=NOON)
    assert said == f"the node has the label {AKS_UPGRADE_STATUS_LABEL}=paused"
    assert objection(a_deletion(), node=None, now=NOON) == "the node is gone"


# When.


def drained_by_force(**upgrade: Any) -> RolloutWorld:
    """The first of three nodes is drained, and a budget has closed meanwhile; all three keys are turned."""
    world = a_rollout(drain=DRAIN, **upgrade)
    world.watchers.append(close_budget)
    until(world, "w1", "Draining")
    return world


def blocked(**upgrade: Any) -> RolloutWorld:
    world = drained_by_force(**upgrade)
    until(world, "w1", "DrainBlocked")
    return world


def deadline(world: RolloutWorld) -> datetime:
    claim = world.claim("w1")
    assert claim is not None
    assert claim.drain_until is not None
    return claim.drain_until


@pytest.mark.slow
def test_at_the_deadline_what_is_left_is_deleted_and_the_node_is_handed_over() -> None:
    world = drained_by_force()
    until(world, "w1", "DrainBlocked")
    assert world.now >= deadline(world)
    [(at, eviction)] = world.forced
    assert at >= deadline(world)
    assert eviction.name == "web-1"
    until(world, "w1", "Upgrading")
    states = [state for name, state in world.trail if name == "w1"]
    assert states[-4:] == ["Draining", "DrainBlocked", "Drained", "Upgrading"]
    assert world.evicted == [], "the budget is closed"


@pytest.mark.slow
def test_the_node_stays_blocked_until_what_was_deleted_is_gone() -> None:
    world = drained_by_force()
    world.hangs.update(each.uid for each in world.pods["w1"])
    until(world, "w1", "DrainBlocked")
    world.pass_time(10 * MINUTE)
    assert world.state("w1") == "DrainBlocked"
    assert len(world.forced) == 1


def test_without_the_flag_the_spec_is_refused_and_no_pod_deleted() -> None:
    world = drained_by_force()
    world.force = replace(world.force, is_allowed=False)
    decision = world.run()
    [accepted] = [each for each in decision.status.conditions if each.type == "Accepted"]
    assert (accepted.status, accepted.reason) == ("False", "SpecRejected")
    assert "started without --allow-force" in accepted.message
    world.pass_time(30 * MINUTE)
    assert (world.forced, world.state("w1")) == ([], "Gated")


def test_without_the_right_the_rule_is_named_and_the_node_given_up() -> None:
    world = drained_by_force()
    world.force = replace(world.force, forbidden="The operator may not. Add the rule.")
    decision = world.run()
    [accepted] = [each for each in decision.status.conditions if each.type == "Accepted"]
    assert (accepted.status, accepted.reason) == ("False", "MissingPermission")
    assert "Add the rule" in accepted.message
    world.pass_time(30 * MINUTE)
    assert (world.forced, world.state("w1")) == ([], "Gated")


def test_a_right_that_only_force_needs_stops_no_other_pool() -> None:
    world = a_rollout(drain={"timeoutSeconds": 600})
    world.force = ForceTerms(forbidden="The operator may not. Add the rule.")
    until(world, "w1", "Upgrading")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"acts_since": None}, id="it does not act"),
        pytest.param({"is_allowed": False}, id="no flag"),
    ],
)
def test_terms_that_permit_nothing_begin_never(change: dict[str, Any]) -> None:
    assert replace(ForceTerms(is_allowed=True, acts_since=NOON), **change).begins_on("w1") is None


def test_force_begins_600_seconds_after_the_last_interruption() -> None:
    terms = ForceTerms(is_allowed=True, acts_since=NOON, freed={"a": NOON + MINUTE, "b": NOON - MINUTE})
    assert terms.begins_on("c") == NOON + FORCE_WAITS_SECONDS * SECOND
    assert terms.begins_on("a") == NOON + MINUTE + FORCE_WAITS_SECONDS * SECOND
    assert terms.begins_on("b") == terms.begins_on("c")


@pytest.mark.slow
def test_p8_force_never_fires_within_600_seconds_of_a_start() -> None:
    world = drained_by_force()
    world.force = replace(world.force, acts_since=deadline(world) - MINUTE)
    world.pass_time(deadline(world) - world.now + 500 * SECOND)
    assert (world.state("w1"), world.forced) == ("DrainBlocked", [])
    world.pass_time(MINUTE)
    [(at, _)] = world.forced
    assert at >= deadline(world) - MINUTE + FORCE_WAITS_SECONDS * SECOND


@pytest.mark.slow
def test_force_never_fires_while_someone_holds_the_node_nor_within_600_seconds_after() -> None:
    world = drained_by_force()
    world.turn("w1", annotations={**world.nodes["w1"].annotations, HOLD_ANNOTATION: ""})
    world.pass_time(15 * MINUTE)
    assert (world.state("w1"), world.forced) == ("Draining", [])
    annotations = {**world.nodes["w1"].annotations}
    del annotations[HOLD_ANNOTATION]
    world.force = replace(world.force, freed={world.nodes["w1"].uid: world.now})
    world.turn("w1", annotations=annotations)
    world.pass_time(9 * MINUTE)
    assert (world.state("w1"), world.forced) == ("DrainBlocked", [])
    world.pass_time(2 * MINUTE)
    assert len(world.forced) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.DRY_RUN])
def test_force_never_fires_in_a_mode_in_which_nothing_is_written(mode: Mode) -> None:
    world = blocked_but_not_forced()
    assert world.pool.spec is not None
    world.edit(edited(world.pool, world.pool.spec.model_copy(update={"mode": mode})))
    world.force = replace(world.force, acts_since=NOON - 60 * MINUTE)
    world.pass_time(15 * MINUTE)
    assert world.forced == []


def blocked_but_not_forced() -> RolloutWorld:
    """A node is past the deadline of its drain, and the operator has just started."""
    world = drained_by_force()
    world.force = replace(world.force, acts_since=deadline(world))
    until(world, "w1", "DrainBlocked")
    assert world.forced == []
    return world


@pytest.mark.slow
def test_force_ends_with_its_maintenance_window() -> None:
    world = blocked_but_not_forced()
    windows = [{"schedule": "0 0 1 1 *", "durationSeconds": 900}]
    closed = rolling_pool({"drain": DRAIN, "maintenanceWindows": windows}).spec
    assert closed is not None
    world.edit(edited(world.pool, closed))
    world.pass_time(30 * MINUTE)
    assert (world.state("w1"), world.forced) == ("Gated", [])


def test_volumes_that_do_not_detach_are_never_forced() -> None:
    world = a_rollout(drain={**DRAIN, "volumeDetachTimeoutSeconds": 60})
    world.volumes["w1"] = ("pv-1",)
    until(world, "w1", "DrainBlocked")
    world.pass_time(15 * MINUTE)
    assert (world.state("w1"), world.forced) == ("DrainBlocked", [])


# What people see of it.


def test_an_event_for_each_node_and_cause_names_what_was_deleted() -> None:
    rooms = {f"web-{place}": [CLOSED] for place in range(7)}
    found = forced(*(web(name) for name in rooms), web("bare", **BARE), rooms=rooms).values()
    other = replace(next(iter(found)), drained_uid="")
    told = list(forced_pods("win-2022", [*found, replace(other, deletion=None)]))
    assert {(each.reason, each.name, each.uid) for each in told} == {("PodsForced", "w1", CORDONED.uid)}
    begin = (
        "Pool win-2022: the operator deleted pods that had not left this node by the deadline of its drain "
        "(onTimeout: Force): "
    )
    assert sorted(each.note.removeprefix(begin) for each in told) == [
        "shop/bare. What had kept them: Unmanaged.",
        "shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4 and 2 more. What had kept them: Budget.",
    ]
