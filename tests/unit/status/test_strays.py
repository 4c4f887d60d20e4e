"""What a pool says of its nodes that do not have the label of a Windows node any more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_record, a_snapshot, a_taint, deleted, with_status
from winpool.api.keys import POOL_LABEL
from winpool.api.status import Issue
from winpool.decide import decide
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.ownership.record import Owned

TAINT = a_taint("os=windows:NoSchedule")
ROLE = "node-role.kubernetes.io/win"


def a_stray(name: str, *, guard: str = "a-guard", value: str = "windows") -> Node:
    record = a_record(
        labels={ROLE: Owned(""), "team": Owned("a")}, taints={TAINT.identity: Owned("windows")}, guard=guard
    )
    taint = a_taint(f"os={value}:NoSchedule")
    labels = {POOL_LABEL: "pool", ROLE: "", "team": "a"}
    return a_node(name, os="linux", labels=labels, taints=[taint], annotations=record)


def told(pool: Pool, *strays: Node) -> list[Issue]:
    status = decide(replace(a_snapshot(pool), strays=strays)).status
    return [issue for issue in status.issues if issue.reason == "NodeNotWindows"]


def test_the_issue_names_the_nodes_what_is_left_and_the_commands_that_remove_it() -> None:
    [issue] = told(a_pool(), a_stray("s2"), a_stray("s1"))
    assert (issue.node_count, issue.nodes) == (2, ("s1", "s2"))
    assert f"label {ROLE}" in issue.message
    assert "taint os:NoSchedule" in issue.message
    assert f"kubectl label node s1 s2 {ROLE}- {POOL_LABEL}-" in issue.fix
    assert "kubectl annotate node s1 s2 winpool.dev/applied-" in issue.fix
    assert "kubectl taint node s1 s2 os:NoSchedule-" in issue.fix
    assert "team" not in issue.message + issue.fix, "the operator removes that itself"


def test_what_someone_has_changed_since_is_not_the_pools_to_name() -> None:
    [issue] = told(a_pool(), a_stray("s1", value="theirs"))
    assert "os:NoSchedule" not in issue.message + issue.fix


def test_a_record_that_may_be_forged_puts_no_foreign_taint_into_a_command() -> None:
    [issue] = told(a_pool(), a_stray("s1", guard=""))
    assert "os:NoSchedule" not in issue.message + issue.fix
    [issue] = told(a_pool(taints=["os=windows:NoSchedule"]), a_stray("s1", guard=""))
    assert "kubectl taint node s1 os:NoSchedule-" in issue.fix


def test_a_pool_that_is_being_deleted_releases_them_and_says_nothing() -> None:
    assert told(deleted(a_pool()), a_stray("s1")) == []


def test_a_node_that_is_a_windows_node_again_is_no_stray_whatever_the_last_list_said() -> None:
    again = replace(a_snapshot(a_pool(), [a_node("s1")]), strays=(a_stray("s1"),))
    assert "NodeNotWindows" not in {issue.reason for issue in decide(again).status.issues}


@pytest.mark.parametrize("strays", [None, ()])
def test_what_the_status_says_stays_until_they_were_listed(strays: tuple[Node, ...] | None) -> None:
    snapshot = replace(a_snapshot(a_pool()), strays=(a_stray("s1"),))
    [issue] = told(a_pool(), a_stray("s1"))
    restarted = replace(a_snapshot(with_status(a_pool(), decide(snapshot).status)), strays=strays)
    found = [each for each in decide(restarted).status.issues if each.reason == "NodeNotWindows"]
    assert found == ([issue] if strays is None else [])
