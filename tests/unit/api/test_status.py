"""Writing a status: whole, never refused for its length, and equal when it is read back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.strategies import NASTY
from winpool.api.matrix import Verdict
from winpool.api.status import (
    MAX_BUILDS,
    MAX_HISTORY,
    MAX_ISSUES,
    MAX_PLAN_STEPS,
    Build,
    Condition,
    ControlPlaneSeen,
    HistoryEntry,
    HistoryResult,
    Issue,
    NodeTemplate,
    Plan,
    PlanAction,
    PlanStep,
    PlanUpgrade,
    Preflight,
    TemplateTaint,
    WindowsNodePoolStatus,
)
from winpool.api.upgrade import Gate

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def an_issue(*nodes: str, message: str = "m") -> Issue:
    return Issue(
        reason="NodeNotReady", node_count=len(nodes), nodes=nodes, since=NOON, message=message, fix="f"
    )


def a_condition(*, at: datetime = NOON, message: str = "m") -> Condition:
    return Condition(
        type="Ready",
        status="True",
        observed_generation=2,
        last_transition_time=at,
        reason="UpToDate",
        message=message,
    )


def an_upgrade(*, target: str = "2022.4052", overrides: tuple[str, ...] = ()) -> HistoryEntry:
    return HistoryEntry(
        target=target, start_time=NOON, nodes=3, result=HistoryResult.IN_PROGRESS, overrides=overrides
    )


def texts_of(value: object) -> Iterator[str]:
    """Yield every text below ``value``, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)


@given(st.text() | NASTY)
def test_no_text_of_a_status_holds_what_does_not_show(text: str) -> None:
    status = WindowsNodePoolStatus(
        builds=(Build(build=text, os_version=text, nodes=1, verdict=Verdict.UNKNOWN, end_of_support=text),),
        issues=(Issue(reason=text, node_count=1, nodes=(text,), since=NOON, message=text, fix=text),),
        node_template=NodeTemplate(
            labels={"team": text}, taints=(TemplateTaint(key=text, value=text, effect=text),)
        ),
        plan=Plan(
            total_nodes=1,
            steps=(
                PlanStep(node=text, action=PlanAction.UPGRADE, reason=text, batch=1, closed_gates=(text,)),
            ),
            preflight=(Preflight(taint=text, nodes=1, intolerant_pods=1, pods=(text,), daemon_sets=(text,)),),
            upgrade=PlanUpgrade(due_nodes=1, permitted_nodes=0, batches=0, closed_gates=(text,)),
        ),
        control_plane=ControlPlaneSeen(version=text, since=NOON),
        history=(an_upgrade(target=text, overrides=(text,)),),
        conditions=(a_condition(message=text),),
    )
    assert [each for each in texts_of(status.to_object()) if not each.isprintable()] == []
    assert WindowsNodePoolStatus.model_validate(status.to_object()) == status


def test_counts_are_written_when_they_are_zero() -> None:
    assert WindowsNodePoolStatus(observed_generation=2).to_object() == {
        "observedGeneration": 2,
        "nodes": 0,
        "readyNodes": 0,
        "upToDateNodes": 0,
        "upToDateAndReadyNodes": 0,
        "availableNodes": 0,
        "pressuredNodes": 0,
        "misplacedPods": 0,
        "drainingNodes": 0,
        "blockedNodes": 0,
        "failedNodes": 0,
        "builds": [],
        "issues": [],
        "heldNodes": 0,
        "issueCount": 0,
        "conditions": [],
    }


def test_what_is_written_reads_back_equal() -> None:
    status = WindowsNodePoolStatus(
        observed_generation=2,
        nodes=3,
        builds=(
            Build(
                build="10.0.20348",
                os_version="2022",
                nodes=3,
                min_revision=681,
                max_revision=4052,
                verdict=Verdict.SUPPORTED,
                end_of_support="2031-10-14",
            ),
            Build(build="unknown", nodes=1, verdict=Verdict.UNKNOWN),
        ),
        issues=(an_issue(), an_issue("w1", "w2")),
        issue_count=12,
        plan=Plan(
            total_nodes=1,
            steps=(
                PlanStep(node="w1", action=PlanAction.UPDATE, reason="Labels"),
                PlanStep(
                    node="w2",
                    action=PlanAction.UPGRADE,
                    reason="OSRevision",
                    batch=1,
                    closed_gates=(Gate.CAPACITY,),
                ),
            ),
            upgrade=PlanUpgrade(
                due_nodes=1,
                permitted_nodes=0,
                batches=1,
                closed_gates=(Gate.MAINTENANCE_WINDOW,),
                likely_seconds=1200,
                worst_case_seconds=7200,
            ),
        ),
        control_plane=ControlPlaneSeen(version="v1.36.3", since=NOON),
        history=(
            an_upgrade(overrides=(Gate.SUPPORT_MATRIX,)),
            HistoryEntry(
                target="2022",
                start_time=NOON,
                end_time=NOON + timedelta(hours=1),
                nodes=3,
                failed_nodes=1,
                result=HistoryResult.FAILED,
            ),
        ),
        conditions=(a_condition(at=NOON + timedelta(microseconds=5)),),
    )
    assert WindowsNodePoolStatus.model_validate(status.to_object()) == status


def test_times_are_written_as_the_api_server_keeps_them() -> None:
    berlin = NOON.astimezone(timezone(timedelta(hours=1))) + timedelta(milliseconds=999)
    assert a_condition(at=berlin).model_dump(mode="json")["lastTransitionTime"] == "2026-11-01T12:00:00Z"


def test_a_time_without_a_zone_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        a_condition(at=NOON.replace(tzinfo=None))


def test_texts_are_cut_to_what_the_api_server_takes() -> None:
    issue = an_issue("n" * 300, message="ü" * 2000)
    assert issue.nodes == ("n" * 252 + "…",)
    assert issue.message == "ü" * 1023 + "…"
    assert len(a_condition(message="m" * 9999).message) == 4096


def test_lists_are_cut_to_what_the_api_server_takes() -> None:
    status = WindowsNodePoolStatus(issues=tuple(an_issue(f"w{number}") for number in range(MAX_ISSUES + 1)))
    assert [issue.nodes for issue in status.issues] == [(f"w{number}",) for number in range(MAX_ISSUES)]
    crowd = an_issue(*(f"w{number}" for number in range(40)))
    assert (crowd.node_count, crowd.nodes) == (40, ("w0", "w1", "w2"))
    builds = tuple(Build(build=f"b{n}", nodes=1, verdict=Verdict.UNKNOWN) for n in range(MAX_BUILDS + 1))
    assert len(WindowsNodePoolStatus(builds=builds).builds) == MAX_BUILDS
    steps = tuple(
        PlanStep(node=f"w{n}", action=PlanAction.UPDATE, reason="Labels") for n in range(MAX_PLAN_STEPS + 9)
    )
    plan = Plan(total_nodes=len(steps), steps=steps)
    assert (plan.total_nodes, len(plan.steps)) == (MAX_PLAN_STEPS + 9, MAX_PLAN_STEPS)
    upgrades = tuple(an_upgrade(target=f"2022.{number}") for number in range(MAX_HISTORY + 1))
    kept = WindowsNodePoolStatus(history=upgrades).history
    assert kept == upgrades[:MAX_HISTORY], "the latest are first, and stay"


def test_what_is_only_about_upgrades_is_absent_without_them() -> None:
    """No pool that has no upgrade has its status written again for a field that says nothing."""
    step = PlanStep(node="w1", action=PlanAction.UPDATE, reason="Labels")
    written = WindowsNodePoolStatus(plan=Plan(total_nodes=1, steps=(step,))).to_object()
    assert written.keys().isdisjoint({"controlPlane", "history"})
    assert "upgrade" not in written["plan"]
    assert written["plan"]["steps"][0].keys().isdisjoint({"batch", "closedGates"})


def test_counts_of_an_issue_about_the_pool_as_a_whole_are_written_too() -> None:
    written = WindowsNodePoolStatus(issues=(an_issue(),)).to_object()["issues"][0]
    assert (written["nodeCount"], written["nodes"]) == (0, [])


def test_an_issue_of_an_earlier_version_is_read() -> None:
    old = {"node": "w1", "reason": "R", "since": "2026-11-01T12:00:00Z", "message": "m", "fix": "f"}
    status = WindowsNodePoolStatus.model_validate({"issues": [old]})
    assert status == WindowsNodePoolStatus(
        issues=(Issue(reason="R", since=NOON, message="m", fix="f"),), issue_count=0
    )


def test_a_condition_is_found_by_its_type() -> None:
    status = WindowsNodePoolStatus(conditions=(a_condition(),))
    assert status.condition("Ready") == a_condition()
    assert status.condition("Paused") is None


def test_verdicts_are_in_order_the_best_first() -> None:
    """A build has the worst verdict of its nodes: whoever adds one has to say where it stands."""
    assert list(Verdict) == [Verdict.SUPPORTED, Verdict.WARNED, Verdict.UNKNOWN, Verdict.UNSUPPORTED]
