"""What people are told of pods before a taint is written, and in what order."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_snapshot, a_survey, edited, with_status
from harness.writes import patched
from winpool.api.issues import IssueReason
from winpool.api.spec import read_status
from winpool.api.status import WindowsNodePoolStatus
from winpool.decide import FEATURES, Decision, decide
from winpool.features.feature import FeatureResult, Finding
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import IntolerantPods, Misplaced, Survey

GENTLE = "os=windows:NoSchedule"
HARSH = "os=windows:NoExecute"
WEB = "w1/default/web"


def told(found: Decision, reason: str) -> list[tuple[tuple[str, ...], str, str]]:
    return [(each.nodes, each.message, each.fix) for each in found.status.issues if each.reason == reason]


def with_agents(survey: Survey | None, *names: str) -> Survey:
    assert survey is not None
    found = {
        taint: IntolerantPods(
            nodes=frozenset({"w1"}),
            examples=names[:3],
            daemon_sets=names,
            daemon_set_nodes=frozenset({"w1"}),
        )
        for taint in survey.intolerant
    }
    return dataclasses.replace(survey, intolerant=found)


def meeting(pool: Pool, nodes: list[Node], **intolerant: Any) -> Snapshot:
    return a_snapshot(pool, nodes, survey=a_survey(pool, nodes, **intolerant))


@pytest.mark.parametrize(
    ("taint", "more", "consequence"),
    [
        (GENTLE, {}, "do not come back"),
        (HARSH, {}, "does not add the taint"),
        (HARSH, {"onIntolerantPods": "Delete"}, "does not check PodDisruptionBudgets"),
    ],
)
def test_pods_that_do_not_tolerate_a_taint_are_named_with_what_becomes_of_them(
    taint: str, more: dict[str, str], consequence: str
) -> None:
    effect = taint.rpartition(":")[2]
    pool = a_pool(more={"taints": [{"key": "os", "value": "windows", "effect": effect, **more}]})
    found = decide(meeting(pool, [a_node("w1"), a_node("w2")], intolerant={taint: [WEB, "w1/default/db"]}))
    [(nodes, message, fix)] = told(found, "IntolerantPods")
    assert nodes == ("w1",)
    assert taint in message
    assert "default/web" in message
    assert "default/db" in message
    assert consequence in message
    assert "toleration" in fix


def test_they_stand_in_the_status_before_the_first_node_is_written() -> None:
    pool, nodes = a_pool(taints=[GENTLE]), [a_node()]
    first = decide(meeting(pool, nodes, intolerant={GENTLE: [WEB]}))
    assert first.writes.status_first
    second = decide(meeting(with_status(pool, first.status), nodes, intolerant={GENTLE: [WEB]}))
    assert not second.writes.status_first
    assert second.writes.patches


def test_of_many_taints_and_worse_troubles_every_taint_is_told_before_it_is_written() -> None:
    taints = [
        {"key": f"t{number}", "effect": "NoExecute", "onIntolerantPods": "Delete"} for number in range(12)
    ]
    pool = a_pool(more={"taints": taints})
    nodes = [a_node(f"w{number}") for number in range(14)]
    worse = [Finding(IssueReason.OWNERSHIP_RECORD_UNREADABLE, (f"w{n}",), f"m{n}", "f") for n in range(12)]
    meets = {f"t{number}:NoExecute": ["w0/default/web", "w1/default/db"] for number in range(12)}
    survey = a_survey(pool, nodes, intolerant=meets)
    features = (*FEATURES, lambda *_: FeatureResult(findings=tuple(worse)))
    found = decide(a_snapshot(pool, nodes, survey=survey), features)
    assert found.writes.status_first
    [(_, message, _)] = told(found, "IntolerantPods")
    assert all(taint in message for taint in meets)
    assert len(found.status.issues) == 10


def deleting(*keys: str) -> Pool:
    """Return a pool whose NoExecute taints have pods deleted."""
    taints = [{"key": key, "effect": "NoExecute", "onIntolerantPods": "Delete"} for key in keys]
    return a_pool(more={"taints": taints})


FIVE = tuple(f"w{number}" for number in range(1, 6))


def with_pods_on(pool: Pool, *names: str, before: WindowsNodePoolStatus | None = None) -> Decision:
    """Decide with a pod of the same name on each of these of five nodes, and this status on the pool."""
    pool = pool if before is None else with_status(pool, before)
    pods = [f"{name}/default/web" for name in names]
    return decide(meeting(pool, [a_node(name) for name in FIVE], intolerant={"os:NoExecute": pods}))


@pytest.mark.parametrize(
    ("before", "now", "is_news"),
    [
        (("w1",), ("w1",), False),
        (FIVE, FIVE, False),
        (("w1",), ("w1", "w2"), True),
        (("w1", "w2"), ("w2", "w3"), True),
        (FIVE[:4], FIVE, True),
    ],
)
def test_people_are_told_again_before_a_taint_goes_on_further_nodes(
    before: tuple[str, ...], now: tuple[str, ...], *, is_news: bool
) -> None:
    pool = deleting("os")
    first = with_pods_on(pool, *before)
    assert first.writes.status_first
    second = with_pods_on(pool, *now, before=first.status)
    assert second.writes.patches
    assert second.writes.status_first is is_news
    [issue] = second.status.issues
    assert (issue.node_count, issue.nodes) == (len(now), now[:3])


def test_under_a_crd_of_an_earlier_version_nodes_are_written_all_the_same() -> None:
    """It prunes what it does not know: what was told then stands there without its nodes."""
    pool = deleting("os")
    stored = with_pods_on(pool, "w1").status.to_object()
    for issue in stored["issues"]:
        del issue["nodeCount"], issue["nodes"]
    assert not with_pods_on(pool, "w1", before=read_status({"status": stored})).writes.status_first


def test_further_nodes_with_agents_that_are_known_keep_no_node_waiting() -> None:
    pool = a_pool(taints=[GENTLE])
    nodes = [a_node("w1"), a_node("w2")]
    survey = with_agents(a_survey(pool, nodes), "monitoring/exporter")
    first = decide(a_snapshot(pool, nodes, survey=survey, looks=()))
    assert first.writes.status_first
    both = {
        taint: dataclasses.replace(found, daemon_set_nodes=frozenset({"w1", "w2"}))
        for taint, found in survey.intolerant.items()
    }
    known = with_status(pool, first.status)
    second = decide(a_snapshot(known, nodes, survey=dataclasses.replace(survey, intolerant=both), looks=()))
    assert second.writes.patches
    assert not second.writes.status_first
    assert [each.node_count for each in second.status.issues] == [2]


@pytest.mark.parametrize(("taints", "issues"), [(1, 1), (4, 4), (5, 1), (12, 1)])
def test_taints_that_meet_pods_on_different_nodes_are_told_apart_while_there_is_room(
    taints: int, issues: int
) -> None:
    keys = [f"t{number}" for number in range(taints)]
    pool, nodes = deleting(*keys), [a_node(f"w-{key}") for key in keys]
    meets = {f"{key}:NoExecute": [f"w-{key}/default/web"] for key in keys}
    found = decide(meeting(pool, nodes, intolerant=meets))
    assert len(told(found, "IntolerantPods")) == issues
    messages = " ".join(message for _, message, _ in told(found, "IntolerantPods"))
    assert all(taint in messages for taint in meets)
    assert sum(each.node_count for each in found.status.issues) == taints


def test_taints_that_meet_pods_on_the_same_nodes_are_told_together() -> None:
    pool, nodes = deleting("a", "b"), [a_node("w1"), a_node("w2")]
    pods = ["w1/default/web", "w2/default/web"]
    found = decide(meeting(pool, nodes, intolerant={"a:NoExecute": pods, "b:NoExecute": pods}))
    [(names, message, fix)] = told(found, "IntolerantPods")
    assert names == ("w1", "w2")
    for text in (message, fix):
        assert "a:NoExecute, b:NoExecute" in text


def test_only_pods_on_nodes_that_are_to_get_the_taint_are_counted_and_named() -> None:
    pool = a_pool(taints=[HARSH])
    there = a_node("w1", taints=[HARSH])
    pods = [f"w1/default/p{number}" for number in range(500)] + ["w9/default/z"]
    nodes = [there, a_node("w9")]
    [(named, message, _)] = told(decide(meeting(pool, nodes, intolerant={HARSH: pods})), "IntolerantPods")
    assert named == ("w9",)
    assert "default/z" in message
    assert "default/p" not in message


def test_where_there_is_nothing_to_tell_no_write_comes_before_the_nodes() -> None:
    remembered = WindowsNodePoolStatus.model_validate({"setKeys": {"taints": ["os:NoSchedule"]}})
    assert not decide(meeting(a_pool(taints=[GENTLE], status=remembered), [a_node()])).writes.status_first


def test_once_the_taint_stands_pods_are_named_no_more_but_agents_are() -> None:
    pool = a_pool(taints=[GENTLE])
    [patch] = decide(meeting(pool, [a_node()])).writes.patches
    node = patched(a_node(), patch)
    survey = with_agents(a_survey(pool, [node]), "monitoring/exporter")
    found = decide(a_snapshot(pool, [node], survey=survey))
    assert told(found, "IntolerantPods") == []
    [(names, message, _)] = told(found, "IntolerantNodeAgents")
    assert names == ("w1",)
    assert "monitoring/exporter" in message
    assert "do not come back" in message


def test_pods_that_tolerated_the_value_from_before_are_named_as_long_as_they_run() -> None:
    """Windows nodes of OpenShift have ``os=Windows:NoSchedule``, with a capital letter."""
    pool = a_pool(taints=[GENTLE])
    [patch] = decide(meeting(pool, [a_node(taints=["os=Windows:NoSchedule"])])).writes.patches
    nodes = [patched(a_node(taints=["os=Windows:NoSchedule"]), patch), a_node("w2")]
    found = decide(meeting(pool, nodes, intolerant={GENTLE: [WEB, "w2/default/db"]}))
    [(names, message, fix)] = told(found, "IntolerantPods")
    assert names == ("w1", "w2")
    assert "default/web" in message
    assert "do not come back" in message
    assert GENTLE in fix
    assert told(decide(meeting(pool, nodes[:1])), "IntolerantPods") == []


def test_agents_that_do_not_tolerate_a_startup_taint_or_ours_are_named_too() -> None:
    more = {
        "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
        "reservedMemory": {"onMismatch": "Taint"},
    }
    pool, node = a_pool(more=more), a_node()
    found = decide(a_snapshot(pool, [node], survey=with_agents(a_survey(pool, [node]), "kube-system/cni")))
    messages = " ".join(message for _, message, _ in told(found, "IntolerantNodeAgents"))
    assert "example.com/starting:NoSchedule" in messages
    assert "winpool.dev/reserved-memory-mismatch:NoSchedule" in messages


def test_daemon_sets_that_never_had_a_pod_are_named_also_where_a_node_was_looked_at_since() -> None:
    pool, nodes = a_pool(taints=[GENTLE]), [a_node("w1"), a_node("w2")]
    survey = a_survey(pool, nodes)
    assert survey
    kept = {
        key: dataclasses.replace(
            each, kept_away=frozenset({"kube-system/cni"}), kept_away_from=frozenset({"w2", "w3"})
        )
        for key, each in survey.intolerant.items()
    }
    looks = [
        dataclasses.replace(survey, nodes={node.name: node.uid}, began=survey.began + 1) for node in nodes
    ]
    decision = decide(
        a_snapshot(pool, nodes, survey=dataclasses.replace(survey, intolerant=kept), looks=looks)
    )
    [(names, message, _)] = told(decision, "IntolerantNodeAgents")
    assert names == ("w2",)
    assert message.startswith("The DaemonSets kube-system/cni do not tolerate the taint")


def test_agents_of_many_taints_are_told_together_with_how_many_more_there_are() -> None:
    taints = [f"example.com/t{number:02}:NoSchedule" for number in range(12)]
    pool, node = a_pool(taints=taints), a_node()
    survey = with_agents(a_survey(pool, [node]))
    found = {
        key: dataclasses.replace(
            each, daemon_sets=("kube-system/z", f"aaa/agent-{n:02}"), daemon_set_count=40
        )
        for n, (key, each) in enumerate(survey.intolerant.items())
    }
    decision = decide(a_snapshot(pool, [node], survey=dataclasses.replace(survey, intolerant=found)))
    [(_, message, fix)] = told(decision, "IntolerantNodeAgents")
    assert message.startswith("The DaemonSets kube-system/z, aaa/agent-00")
    assert "and 27 more" in message
    assert "these taints" in fix


def test_a_dry_run_has_it_in_its_plan() -> None:
    pool = a_pool(taints=[HARSH], mode="DryRun")
    found = decide(meeting(pool, [a_node()], intolerant={HARSH: [WEB]}))
    assert found.writes.patches == ()
    assert found.status.plan is not None
    [preflight] = found.status.plan.preflight
    assert (preflight.taint, preflight.nodes, preflight.intolerant_pods) == (HARSH, 1, 1)
    assert preflight.pods == ("default/web",)


def test_before_the_first_look_after_a_start_what_stands_in_the_status_stays() -> None:
    pool, nodes = a_pool(taints=[HARSH]), [a_node()]
    example = Misplaced(pod="default/linux", node="w1", why="its spec.os.name is linux")
    survey = a_survey(
        pool,
        nodes,
        intolerant={HARSH: [WEB]},
        misplaced_on={"w1": 1},
        misplaced_examples=(example,),
    )
    before = decide(a_snapshot(pool, nodes, survey=survey)).status
    after = decide(a_snapshot(with_status(pool, before), nodes, survey=None)).status
    assert after.misplaced_pods == 1
    assert {each.reason for each in after.issues} == {"IntolerantPods", "MisplacedPods"}
    assert after.issues == before.issues
    spec = pool.spec
    assert spec is not None
    newer = decide(a_snapshot(with_status(edited(pool, spec), before), nodes, survey=None)).status
    assert newer.issues == ()


def test_the_status_of_a_dry_run_waits_for_its_first_look_and_that_of_a_start_too() -> None:
    """A plan that leaves nodes out would be believed, and a start takes nothing back."""
    dry, active = a_pool(taints=[HARSH], mode="DryRun"), a_pool(taints=[HARSH])
    assert decide(a_snapshot(dry, [a_node()], survey=None)).keeps_status
    assert not decide(a_snapshot(dry, [a_node()], survey=None, pods_problem="500")).keeps_status
    assert not decide(a_snapshot(active, [a_node()], survey=None)).keeps_status, (
        "a new pool is told of at once"
    )
    known = with_status(active, decide(a_snapshot(active, [a_node()])).status)
    assert decide(a_snapshot(known, [a_node()], survey=None)).keeps_status


def test_misplaced_pods_are_counted_and_told_once() -> None:
    pool, nodes = a_pool(), [a_node()]
    example = Misplaced(pod="default/linux", node="w1", why="its spec.os.name is linux")
    survey = a_survey(pool, nodes, misplaced_on={"w1": 3, "gone": 5}, misplaced_examples=(example,))
    first = decide(a_snapshot(pool, nodes, survey=survey))
    assert first.status.misplaced_pods == 3
    assert "MisplacedPods" in {each.reason for each in first.pool_events}
    [(names, message, _)] = told(first, "MisplacedPods")
    assert names == ("w1",)
    assert "default/linux (its spec.os.name is linux)" in message
    again = decide(a_snapshot(with_status(pool, first.status), nodes, survey=survey))
    assert "MisplacedPods" not in {each.reason for each in again.pool_events}


def test_without_the_right_to_list_pods_a_pool_with_taints_is_not_accepted_and_one_without_is() -> None:
    missing = "winpool may not list pods. Add the rule …"
    for pool, status in ((a_pool(taints=[GENTLE]), "False"), (a_pool(labels={"team": "a"}), "True")):
        found = decide(
            a_snapshot(pool, [a_node()], survey=None, pods_forbidden=missing, pods_problem=missing)
        )
        accepted = found.status.condition("Accepted")
        assert accepted is not None
        assert accepted.status == status
        assert bool(found.writes.patches) is (status == "True")
        if status == "False":
            assert accepted.message == missing


def test_the_right_to_list_daemon_sets_is_missed_where_there_are_taints_and_holds_up_nothing() -> None:
    missing = "winpool may not list daemonsets. Add the rule …"
    for pool, is_missed in ((a_pool(taints=[GENTLE]), True), (a_pool(labels={"team": "a"}), False)):
        snapshot = a_snapshot(pool, [a_node()])
        found = decide(replace(snapshot, pods=replace(snapshot.pods, daemon_sets_forbidden=missing)))
        accepted = found.status.condition("Accepted")
        assert accepted is not None
        assert accepted.status == "True"
        assert [fix for _, _, fix in told(found, "IntolerantNodeAgents")] == [missing] * is_missed


def test_while_pods_cannot_be_listed_the_status_says_why_a_taint_waits() -> None:
    pool = a_pool(taints=[GENTLE])
    [patch] = decide(a_snapshot(pool, [a_node()], survey=None, pods_problem="list pods: 500")).writes.patches
    node = patched(a_node(), patch)
    found = decide(a_snapshot(pool, [node], survey=None, pods_problem="list pods: 500"))
    progress = found.status.condition("NodesUpToDate")
    assert progress is not None
    assert (progress.status, progress.reason) == ("False", "PodListFailing")
    ready = found.status.condition("Ready")
    assert ready is not None
    assert ready.message.endswith("See the issue PodListFailing.")
    [issue] = [each for each in found.status.issues if each.reason == "PodListFailing"]
    assert "list pods: 500" in issue.message
