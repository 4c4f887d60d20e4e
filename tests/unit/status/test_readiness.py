"""Nodes that are not Ready, and Ready ones that a cloud has left a taint on: once for each cause, in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_snapshot, with_status
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.status import MAX_ISSUES, Issue
from winpool.decide import Decision, decide
from winpool.model.node import Node
from winpool.status.findings import CAUSE_LENGTH, MOST_CAUSES

NO_CNI = "KubeletNotReady: container runtime network not ready: cni plugin not initialized"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"
SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"


def sick(name: str = "w1", said: str = NO_CNI, *, seconds: float = 300, **more: Any) -> Node:
    since = NOON - timedelta(seconds=seconds)
    return replace(a_node(name, **{"ready": "False", **more}), unready=said, ready_since=since)


def marked(*taints: str, seconds: float = 600, age: float = 6000, ready: str = "True") -> Node:
    node = a_node(taints=taints, ready=ready)
    since, created = NOON - timedelta(seconds=seconds), NOON - timedelta(seconds=age)
    return replace(node, ready_since=since, created=created)


def decided(nodes: Iterable[Node]) -> Decision:
    return decide(a_snapshot(a_pool(), nodes))


def found(*nodes: Node) -> list[Issue]:
    reasons = {IssueReason.NODES_NOT_READY, IssueReason.CLOUD_TAINT_STAYS}
    return [each for each in decided(nodes).status.issues if each.reason in reasons]


def test_nodes_that_are_not_ready_for_one_cause_are_one_issue_in_the_words_of_their_kubelets() -> None:
    names = [f"win-{number:02}.example.com" for number in range(40)]
    (issue,) = found(*[sick(name, f'{NO_CNI} on "{name}"') for name in names], a_node("fine"))
    assert (issue.reason, issue.node_count, issue.nodes) == ("NodesNotReady", 40, tuple(names[:3]))
    assert f'The condition Ready says: "{NO_CNI} on "NODE"".' in issue.message
    silent = sick("w1", "NodeStatusUnknown: Kubelet stopped posting node status.", ready="Unknown")
    assert len(found(silent, sick("w2"))) == 2


def test_what_a_kubelet_says_is_shown_without_control_characters_and_cut() -> None:
    (issue,) = found(sick("w1", "Reason: \x1b[2Jgone"))
    assert r"\x1b[2Jgone" in issue.message
    (issue,) = found(*[sick(name, f"{name}: " + "x" * 2000) for name in ("w1", "other")])
    assert CAUSE_LENGTH - 10 < issue.message.count("x") < CAUSE_LENGTH
    (issue,) = found(sick("w1", ""))
    assert "The condition Ready gives no reason." in issue.message


def test_many_causes_are_a_few_issues() -> None:
    """The last of them does not change when another kubelet says something else again."""
    names = [f"w{number:02}" for number in range(3 * MOST_CAUSES)]
    issues = found(*[sick(name, f"Odd: {chr(97 + number)}") for number, name in enumerate(names)])
    assert len(issues) == MOST_CAUSES + 1 < MAX_ISSUES / 2
    assert sum(each.node_count for each in issues) == len(names)


@pytest.mark.parametrize(
    ("node", "at"),
    [
        (sick(seconds=270), 30),
        (marked(UNINITIALIZED, seconds=570), 30),
        (marked(UNINITIALIZED, age=540), 60),
        (sick(seconds=-60), 360),
    ],
)
def test_before_their_time_they_are_no_issue_and_the_pass_asks_to_look_again(node: Node, at: float) -> None:
    snapshot = a_snapshot(a_pool(), [node])
    early = decide(snapshot)
    assert early.status.issues == ()
    assert early.look_again == NOON + timedelta(seconds=at)
    late = decide(replace(snapshot, now=early.look_again))
    assert len(late.status.issues) == 1
    assert late.look_again is None


@pytest.mark.parametrize(
    "node",
    [
        replace(sick(), ready_since=None),
        sick(labels={UPGRADE_STATE_LABEL: "Upgrading"}),
        sick(taints=[SHUTDOWN], ready="Unknown"),
        replace(marked(UNINITIALIZED), ready_since=None),
        marked("node.cloudprovider.kubernetes.io/other:NoSchedule"),
        marked(SHUTDOWN, ready="Unknown", seconds=10),
    ],
    ids=[
        "unknown since when",
        "upgraded",
        "stopped",
        "Ready since an unknown time",
        "another taint",
        "not Ready",
    ],
)
def test_other_nodes_are_no_issue(node: Node) -> None:
    assert found(node) == []


def test_each_taint_that_its_cloud_has_left_is_an_issue_and_stays() -> None:
    node = marked(UNINITIALIZED, SHUTDOWN)
    issues = found(node)
    assert [each.reason for each in issues] == ["CloudTaintStays"] * 2
    assert f"The taint {SHUTDOWN} is still on" in issues[0].message
    assert f"kubectl taint nodes NODE {SHUTDOWN}-" in issues[0].fix
    for patch in decided([node]).writes.patches:
        assert patch.taints is None or set(node.taints) <= set(patch.taints)


def test_nodes_of_a_zone_that_fails_are_reported_in_few_passes() -> None:
    nodes = [sick(f"w{seconds}", seconds=-seconds) for seconds in range(60)]
    snapshot, counts = a_snapshot(a_pool(), nodes), []
    while moment := decide(snapshot).look_again:
        snapshot = replace(snapshot, now=moment)
        counts.append(sum(each.node_count for each in decide(snapshot).status.issues))
    assert counts == [1, 31, 60]


def test_an_issue_stays_the_same_while_time_passes() -> None:
    snapshot = a_snapshot(a_pool(), [sick()])
    status = decide(snapshot).status
    pool = with_status(snapshot.pool, status)
    later = decide(replace(snapshot, pool=pool, now=NOON + timedelta(hours=1)))
    assert later.status.issues == status.issues
