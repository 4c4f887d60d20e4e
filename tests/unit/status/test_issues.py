"""Issues: one entry per reason and cause, the worst first, in an order that stays, with since when."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_survey,
    deleted,
    unreadable,
    with_nodes,
    with_status,
)
from harness.strategies import fleets, haunted_nodes, pools
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.spec import read_status
from winpool.api.status import MAX_ISSUE_NODES, MAX_ISSUES, Issue, WindowsNodePoolStatus
from winpool.decide import FEATURES, Decision, decide
from winpool.features.feature import FeatureResult, Finding
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.status.findings import REFUSAL_LENGTH

SHARED = {"example.com/shared": "yes"}
RIVAL = a_pool("rival", selector={"matchLabels": SHARED})


def why(name: str, text: str = "not on Fridays") -> str:
    """Return what is known of a write that a webhook refused, with the name of the node as often as it is."""
    return f'patch nodes {name}: 403 admission webhook "no.example.com" denied node {name}: {text} ({name})'


def shared(name: str) -> Node:
    return a_node(name, labels=SHARED, annotations=a_record(RIVAL.uid))


def unknown(name: str) -> Node:
    return a_node(name, annotations=a_record("stranger"))


def broken(name: str) -> Node:
    return a_node(name, annotations={APPLIED_ANNOTATION: "{"})


def status_of(snapshot: Snapshot) -> WindowsNodePoolStatus:
    return decide(snapshot).status


def issues_of(snapshot: Snapshot) -> tuple[Issue, ...]:
    return status_of(snapshot).issues


def told(found: Iterable[Issue]) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(issue.reason, issue.node_count, issue.nodes) for issue in found]


def refusing(*names: str, text: str = "not on Fridays", **more: Any) -> Snapshot:
    """Return nodes that the API server does not let us write, all for one reason."""
    nodes = [a_node(name) for name in names]
    return a_snapshot(a_pool(), nodes, refused={node.uid: why(node.name, text) for node in nodes}, **more)


def finding(*found: Finding, pool: Pool | None = None, **more: Any) -> tuple[Issue, ...]:
    """Return the issues where a feature has found this and nothing else is to be said."""
    snapshot = a_snapshot(pool or a_pool(), [a_node("plain")], **more)
    return decide(snapshot, (*FEATURES, lambda *_: FeatureResult(findings=found))).status.issues


# What each says


@pytest.mark.parametrize(
    ("node", "reason", "word"),
    [
        (broken("w1"), IssueReason.OWNERSHIP_RECORD_UNREADABLE, APPLIED_ANNOTATION),
        (unknown("w1"), IssueReason.OWNER_UNKNOWN, APPLIED_ANNOTATION),
        (shared("w1"), IssueReason.POOL_OVERLAP, "rival"),
    ],
)
def test_each_kind_of_trouble_has_an_issue_with_a_fix(node: Node, reason: IssueReason, word: str) -> None:
    (issue,) = issues_of(a_snapshot(a_pool(), [a_node("fine"), node], rivals=[RIVAL]))
    assert (issue.reason, issue.node_count, issue.nodes, issue.since) == (reason, 1, ("w1",), NOON)
    assert word in issue.message
    assert issue.fix


def test_a_refused_write_is_an_issue_in_the_words_of_the_api_server() -> None:
    """The longest answer fits as well: the API server would refuse a status with a longer text."""
    for text in ("not on Fridays", "x" * 1024):
        (issue,) = issues_of(refusing("w1", text=text))
        assert (issue.reason, issue.nodes) == (IssueReason.WRITE_REFUSED, ("w1",))
        assert text[:400] in issue.message
        assert len(issue.message) <= 1024
        assert "policy, webhook" in issue.fix


def test_an_overlap_is_an_issue_in_both_pools() -> None:
    pool = a_pool("pool")
    for mine, other in ((pool, RIVAL), (RIVAL, pool)):
        (issue,) = issues_of(a_snapshot(mine, [shared("w1")], rivals=[other]))
        assert (issue.reason, issue.nodes) == (IssueReason.POOL_OVERLAP, ("w1",))
        assert other.name in issue.message


def test_a_free_node_that_two_pools_select_is_an_issue_in_both() -> None:
    first, second = a_pool("a"), a_pool("b")
    for mine, other in ((first, second), (second, first)):
        (issue,) = issues_of(a_snapshot(mine, [a_node("w1")], rivals=[other]))
        assert (issue.reason, issue.nodes) == (IssueReason.POOL_OVERLAP, ("w1",))
        assert f"pool {other.name} " in issue.message


def test_a_pool_that_cannot_claim_is_no_overlap() -> None:
    for other in (deleted(a_pool("rival")), unreadable(a_pool("rival")), RIVAL):
        assert issues_of(a_snapshot(a_pool(), [a_node("w1")], rivals=[other])) == ()


def test_with_several_rivals_the_issue_does_not_depend_on_their_order() -> None:
    """Or the status of a pool at rest would change with every list of pools."""
    rivals = [a_pool("b"), a_pool("c"), a_pool("d")]
    for mine in (a_pool("a"), a_pool("z")):
        found = {
            issues_of(a_snapshot(mine, [a_node("w1")], rivals=order))
            for order in itertools.permutations(rivals)
        }
        assert len(found) == 1


def test_a_pool_without_trouble_has_no_issues() -> None:
    status = status_of(a_snapshot(a_pool(), [a_node(), a_node("sick", ready="False")]))
    assert (status.issues, status.issue_count) == ((), 0)


def test_a_node_that_only_the_other_pool_selects_is_no_issue_of_its_own() -> None:
    blue = a_node(labels={"agentpool": "blue", **SHARED}, annotations=a_record(RIVAL.uid))
    found = issues_of(a_snapshot(a_pool(), [blue, a_node("w2")], rivals=[RIVAL]))
    assert found == ()


# One per reason and cause


def test_nodes_with_the_same_cause_are_one_issue_that_counts_them_and_names_the_first() -> None:
    names = [f"w{number}" for number in range(5)]
    found = issues_of(a_snapshot(a_pool(), [broken(name) for name in names]))
    assert told(found) == [(IssueReason.OWNERSHIP_RECORD_UNREADABLE, 5, ("w0", "w1", "w2"))]


def test_forty_nodes_refused_by_one_policy_are_one_issue_without_a_name_in_its_message() -> None:
    names = [f"win-{number:02}.example.com" for number in range(40)]
    for text in ("not on Fridays", "system:node:%s may not, nor kube-proxy-%s; " * 40):
        nodes = [a_node(name) for name in names]
        said = {node.uid: why(node.name, text.replace("%s", node.name))[:1024] for node in nodes}
        (issue,) = issues_of(a_snapshot(a_pool(), nodes, refused=said))
        assert (issue.reason, issue.node_count) == (IssueReason.WRITE_REFUSED, 40)
        assert "no.example.com" in issue.message
        assert not [name for name in names if name in issue.message]


def test_a_refusal_that_names_a_request_of_its_own_is_the_same_for_all_nodes() -> None:
    nodes = [a_node(f"w{number}") for number in range(4)]
    said = {
        node.uid: why(node.name, f"request 0a1b2c3d-0000-4000-8000-00000000000{number}")
        for number, node in enumerate(nodes)
    }
    (issue,) = issues_of(a_snapshot(a_pool(), nodes, refused=said))
    assert issue.node_count == 4


def test_nodes_of_different_length_of_name_are_refused_alike_where_the_answer_was_cut() -> None:
    names = ("w", "a-name-that-is-much-longer")
    nodes = [a_node(name) for name in names]
    said = {node.uid: why(node.name, "y" * 2000)[:1024] for node in nodes}
    (issue,) = issues_of(a_snapshot(a_pool(), nodes, refused=said))
    assert issue.node_count == 2
    assert REFUSAL_LENGTH <= len(issue.message) <= REFUSAL_LENGTH + 100


def test_different_refusals_are_issues_of_their_own() -> None:
    nodes = [a_node(name) for name in ("w1", "w2", "w3")]
    texts = ("not on Fridays", "too many labels", "not on Fridays")
    said = {node.uid: why(node.name, text) for node, text in zip(nodes, texts, strict=True)}
    found = issues_of(a_snapshot(a_pool(), nodes, refused=said))
    assert told(found) == [
        (IssueReason.WRITE_REFUSED, 2, ("w1", "w3")),
        (IssueReason.WRITE_REFUSED, 1, ("w2",)),
    ]


def test_what_somebody_undoes_is_told_by_the_keys_and_not_by_the_nodes() -> None:
    nodes = [a_node(name) for name in ("w1", "w2", "w3")]
    keys = (("label team", "taint os:NoSchedule"), ("taint os:NoSchedule", "label team"), ("label team",))
    contested = {node.uid: undone for node, undone in zip(nodes, keys, strict=True)}
    found = issues_of(a_snapshot(a_pool(), nodes, contested=contested))
    assert sorted(told(found)) == [
        (IssueReason.FOREIGN_TAINT_CONFLICT, 1, ("w3",)),
        (IssueReason.FOREIGN_TAINT_CONFLICT, 2, ("w1", "w2")),
    ]


def test_an_overlap_is_told_for_each_rival() -> None:
    other = a_pool("other", selector={"matchLabels": {"example.com/other": "yes"}})
    nodes = [
        shared("w1"),
        shared("w2"),
        a_node("w3", labels={"example.com/other": "yes"}, annotations=a_record(other.uid)),
    ]
    found = issues_of(a_snapshot(a_pool(), nodes, rivals=[RIVAL, other]))
    assert sorted(told(found)) == [
        (IssueReason.POOL_OVERLAP, 1, ("w3",)),
        (IssueReason.POOL_OVERLAP, 2, ("w1", "w2")),
    ]


def test_findings_of_one_cause_are_one_issue_in_whatever_words_and_order_they_come() -> None:
    parts = [
        Finding(IssueReason.BUILD_WARNED, ("w4", "w2"), "b", "fix b", cause="c"),
        Finding(IssueReason.BUILD_WARNED, ("w1", "w2"), "a", "fix a", cause="c"),
        Finding(IssueReason.BUILD_WARNED, ("w3",), "a", "fix a", cause="another"),
    ]
    for order in itertools.permutations(parts):
        one, other = sorted(finding(*order), key=lambda issue: issue.node_count)
        assert (one.node_count, one.nodes) == (1, ("w3",))
        assert (other.node_count, other.nodes) == (3, ("w1", "w2", "w4"))
        assert (other.message, other.fix) == ("a", "fix a")


def test_what_is_about_the_pool_as_a_whole_counts_and_names_no_node() -> None:
    (issue,) = finding(Finding(IssueReason.NO_NODES_SELECTED, (), "m", "f"))
    assert (issue.node_count, issue.nodes) == (0, ())
    written = a_pool(status=WindowsNodePoolStatus(issues=(issue,), issue_count=1)).written_status
    assert written["issueCount"] == 1
    assert (written["issues"][0]["nodeCount"], written["issues"][0]["nodes"]) == (0, [])


# The order, and how many


def test_the_worst_come_first() -> None:
    nodes = [shared("a"), unknown("b"), broken("c"), shared("d"), unknown("e"), broken("f")]
    nodes += [a_node("g"), a_node("h")]
    refused = {node.uid: why(node.name) for node in nodes[-2:]}
    random.shuffle(nodes)
    reasons = [
        IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        IssueReason.WRITE_REFUSED,
        IssueReason.OWNER_UNKNOWN,
        IssueReason.POOL_OVERLAP,
    ]
    assert sorted(reasons, key=list(IssueReason).index) == reasons
    expected = [
        (reason, 2, tuple(pair)) for reason, pair in zip(reasons, ("cf", "gh", "be", "ad"), strict=True)
    ]
    assert told(issues_of(a_snapshot(a_pool(), nodes, rivals=[RIVAL], refused=refused))) == expected


def many(number: int, *, reason: IssueReason = IssueReason.BUILD_WARNED) -> list[Finding]:
    return [Finding(reason, (f"w{n}",), f"message {n:02}", "f") for n in range(number)]


def test_no_more_than_the_limit_are_shown_they_are_the_worst_and_all_are_counted() -> None:
    found = [*many(20), *many(4, reason=IssueReason.WRITE_REFUSED)]
    features = (*FEATURES, lambda *_: FeatureResult(findings=tuple(found)))
    status = decide(a_snapshot(a_pool(), [a_node("plain")]), features).status
    assert (len(status.issues), status.issue_count) == (MAX_ISSUES, 24)
    reasons = [issue.reason for issue in status.issues]
    assert reasons == [IssueReason.WRITE_REFUSED] * 4 + [IssueReason.BUILD_WARNED] * 6


def test_of_what_keeps_its_place_there_are_three_at_most_and_the_worst_come_first() -> None:
    found = [
        *many(12, reason=IssueReason.INTOLERANT_NODE_AGENTS),
        *many(4, reason=IssueReason.WRITE_REFUSED),
        *many(9, reason=IssueReason.BUILD_UNSUPPORTED),
        *many(2, reason=IssueReason.SUPPORT_ENDING),
    ]
    assert [issue.reason for issue in finding(*found)] == [
        *[IssueReason.WRITE_REFUSED] * 4,
        *[IssueReason.BUILD_UNSUPPORTED] * 4,
        IssueReason.INTOLERANT_NODE_AGENTS,
        IssueReason.SUPPORT_ENDING,
    ]


def decided(found: Iterable[Finding], pool: Pool | None = None, **more: Any) -> Decision:
    features = (*FEATURES, lambda *_: FeatureResult(findings=tuple(found)))
    snapshot = a_snapshot(pool or a_pool(), [a_node(f"w{number}") for number in range(20)])
    return decide(replace(snapshot, **more), features)


CUT = Finding(IssueReason.RESERVED_MEMORY_MISMATCH, ("w1",), "other memory", "f")
WORSE = many(11, reason=IssueReason.OWNER_UNKNOWN)


def said(decision: Decision) -> list[str]:
    return [each.note for each in decision.pool_events if "other memory" in each.note]


def test_an_issue_that_is_not_shown_has_its_event_once() -> None:
    first = decided((*WORSE, CUT))
    assert CUT.message not in [issue.message for issue in first.status.issues]
    assert len(said(first)) == 1
    pool = with_status(a_pool(), first.status)
    assert said(decided((*WORSE, CUT), pool, known_issues=first.issues)) == []


def test_since_stays_of_an_issue_that_had_no_room_for_a_while() -> None:
    found = decided((CUT,))
    pushed_out = decided((*WORSE, CUT), with_status(a_pool(), found.status), known_issues=found.issues)
    pool = with_status(a_pool(), pushed_out.status)
    back = decided((CUT,), pool, known_issues=pushed_out.issues, now=NOON + MINUTE)
    assert [issue.since for issue in back.status.issues] == [NOON]
    assert said(back) == []


def test_since_goes_on_with_the_cause_in_whatever_words() -> None:
    first = [replace(each, cause=str(number)) for number, each in enumerate(many(3))]
    second = [replace(each, message=f"other words {number}") for number, each in enumerate(first)]
    before = decided(first)
    after = decided(
        second, with_status(a_pool(), before.status), known_issues=before.issues, now=NOON + MINUTE
    )
    assert [issue.since for issue in after.status.issues] == [NOON] * 3


def test_more_than_five_different_refusals_are_told_together_and_once() -> None:
    def refused(turn: int) -> Snapshot:
        nodes = [a_node(f"w{number:02}") for number in range(20)]
        said = {node.uid: why(node.name, f"trace {turn}/{node.name[1:]}") for node in nodes}
        return a_snapshot(a_pool(), nodes, refused=said)

    first = decide(refused(0))
    assert sorted(count for _, count, _ in told(first.status.issues)) == [1] * 5 + [15]
    [various] = [issue for issue in first.status.issues if issue.node_count == 15]
    assert "for various reasons" in various.message
    assert "trace 0/" in various.message
    assert len(first.pool_events) <= 5 + 3
    snapshot = refused(1)
    pool = with_status(snapshot.pool, first.status)
    second = decide(replace(snapshot, pool=pool, known_issues=first.issues, now=NOON + MINUTE))
    assert [each for each in second.pool_events if each.reason == "WriteRefused"] == []
    [various] = [issue for issue in second.status.issues if issue.node_count == 15]
    assert various.since == NOON


def test_the_order_does_not_change_when_other_nodes_come_to_have_the_same() -> None:
    found = [Finding(IssueReason.BUILD_WARNED, (name,), f"about {name}", "f") for name in ("w5", "w7")]
    before = [issue.message for issue in finding(*found)]
    more = [
        replace(each, nodes=(*each.nodes, *extra))
        for each, extra in zip(found, ("", ("w1", "w2")), strict=True)
    ]
    assert [issue.message for issue in finding(*more)] == before


# Since when


def after(minutes: int, snapshot: Snapshot, before: WindowsNodePoolStatus) -> Snapshot:
    """Return the snapshot so much later, with a status on the pool as it is read after a restart."""
    stored = read_status({"status": before.to_object()})
    return replace(snapshot, pool=with_status(snapshot.pool, stored), now=NOON + minutes * MINUTE)


def test_since_stays_as_long_as_the_issue_goes_on() -> None:
    pool = a_pool()
    for minute in range(3):
        snapshot = a_snapshot(pool, [shared("w1")], rivals=[RIVAL], now=NOON + minute * MINUTE)
        pool = with_status(pool, decide(snapshot).status)
        assert pool.status.issues[0].since == NOON


def test_since_begins_anew_for_another_reason_and_after_a_break() -> None:
    pool = with_status(a_pool(), decide(a_snapshot(a_pool(), [shared("w1")], rivals=[RIVAL])).status)
    (issue,) = issues_of(a_snapshot(pool, [unknown("w1")], rivals=[RIVAL], now=NOON + MINUTE))
    assert issue.since == NOON + MINUTE
    quiet = with_status(pool, decide(a_snapshot(pool, [a_node()], rivals=[RIVAL], now=NOON + MINUTE)).status)
    assert quiet.status.issues == ()
    (issue,) = issues_of(a_snapshot(quiet, [shared("w1")], rivals=[RIVAL], now=NOON + 2 * MINUTE))
    assert issue.since == NOON + 2 * MINUTE


def test_since_stays_whichever_nodes_have_it_and_come_first() -> None:
    first = status_of(refusing("w3", "w4", "w5", "w6"))
    for names in (("w4",), ("w6", "w7"), ("w1", "w2", "w3"), ("w8", "w9")):
        (issue,) = issues_of(after(5, refusing(*names), first))
        assert (issue.nodes, issue.since) == (names, NOON)


def test_each_cause_has_a_time_of_its_own() -> None:
    old, new = refusing("w1", text="old"), refusing("w2", text="new")
    first = status_of(old)
    both = replace(
        with_nodes(old, *old.nodes, *new.nodes),
        attempts=replace(old.attempts, refused={**old.attempts.refused, **new.attempts.refused}),
    )
    second = status_of(after(5, both, first))
    times = {issue.nodes: issue.since for issue in second.issues}
    assert times == {("w1",): NOON, ("w2",): NOON + 5 * MINUTE}
    third = status_of(after(9, both, second))
    assert {issue.nodes: issue.since for issue in third.issues} == times


def test_since_stays_where_the_only_issue_of_a_reason_says_something_else_by_now() -> None:
    first = status_of(refusing("w1", text="old"))
    (issue,) = issues_of(after(5, refusing("w1", text="new"), first))
    assert ("new" in issue.message, issue.since) == (True, NOON)


def test_since_stays_over_a_restart_for_each_cause() -> None:
    found = many(3)
    before = finding(*found)
    stored = WindowsNodePoolStatus(issues=before, issue_count=3)
    pool = with_status(a_pool(), read_status({"status": stored.to_object()}))
    again = finding(*found, pool=pool, now=NOON + 9 * MINUTE)
    assert [issue.since for issue in again] == [NOON] * 3
    assert again == before


OLD_FORM = [
    {"node": "w1", "reason": "WriteRefused", "since": "2026-11-01T11:30:00Z", "message": "old 1", "fix": "f"},
    {"node": "w2", "reason": "WriteRefused", "since": "2026-11-01T11:10:00Z", "message": "old 2", "fix": "f"},
    {"node": "w3", "reason": "WriteRefused", "since": "2026-11-01T11:20:00Z", "message": "old 3", "fix": "f"},
    {"node": "w4", "reason": "OwnerUnknown", "since": "2026-11-01T11:00:00Z", "message": "old 4", "fix": "f"},
]
"""Issues as earlier versions wrote them: one for each node. Under the new CRD ``node`` is pruned."""


@pytest.mark.parametrize("is_pruned", [False, True])
def test_of_a_status_in_the_old_form_the_earliest_since_of_the_reason_goes_on(*, is_pruned: bool) -> None:
    entries = [{key: each[key] for key in each if not (is_pruned and key == "node")} for each in OLD_FORM]
    stored = read_status({"status": {"observedGeneration": 1, "nodes": 4, "issues": entries}})
    assert [issue.reason for issue in stored.issues] == [each["reason"] for each in OLD_FORM]
    nodes = [a_node(name) for name in ("w1", "w2", "w3")]
    refused = {node.uid: why(node.name, node.name) for node in nodes[:2]} | {nodes[2].uid: why("w3", "other")}
    snapshot = a_snapshot(with_status(a_pool(), stored), [*nodes, unknown("w4")], refused=refused)
    found = issues_of(snapshot)
    assert told(found) == [
        (IssueReason.WRITE_REFUSED, 2, ("w1", "w2")),
        (IssueReason.WRITE_REFUSED, 1, ("w3",)),
        (IssueReason.OWNER_UNKNOWN, 1, ("w4",)),
    ]
    assert [issue.since for issue in found] == [NOON - 50 * MINUTE, NOON - 50 * MINUTE, NOON - 60 * MINUTE]
    later = decide(
        replace(snapshot, pool=with_status(snapshot.pool, decide(snapshot).status), now=NOON + MINUTE)
    )
    assert [issue.since for issue in later.status.issues] == [issue.since for issue in found]


@pytest.mark.parametrize(
    "since", [NOON + timedelta(seconds=1), NOON + timedelta(days=1), datetime.max.replace(tzinfo=UTC)]
)
def test_a_since_that_lies_ahead_counts_as_now_and_then_stays(since: datetime) -> None:
    found = [Finding(IssueReason.POD_LIST_FAILING, ["w1"], "m", "f", cause="c")]
    [before] = finding(*found)
    ahead = before.model_copy(update={"since": since})
    pool = with_status(a_pool(), WindowsNodePoolStatus(issues=(ahead,)))
    [now] = finding(*found, pool=pool)
    assert now.since == NOON
    [again] = finding(*found, pool=with_status(pool, WindowsNodePoolStatus(issues=(now,))), now=NOON + MINUTE)
    assert again.since == NOON


def test_the_new_fields_may_be_absent() -> None:
    stored = read_status({"status": {"issues": OLD_FORM}})
    assert stored.issue_count == 0
    assert {(issue.node_count, issue.nodes) for issue in stored.issues} == {(0, ())}


# A pool with five kinds of trouble

HARSH = "os=windows:NoExecute"
OLD = replace(SUPPORTED, kernel="10.0.14393.8000", runtime="containerd://2.9.0")
"""A release that no Kubernetes lists, and a runtime of which nothing is said."""
FIVE = [
    IssueReason.OWNERSHIP_RECORD_UNREADABLE,
    IssueReason.WRITE_REFUSED,
    IssueReason.INTOLERANT_PODS,
    IssueReason.POOL_OVERLAP,
    IssueReason.BUILD_UNSUPPORTED,
]


def troubled(*, shuffler: random.Random | None = None) -> Snapshot:
    """Return forty nodes: eight each refused, of a rival, unreadable, with pods, and of an old build."""
    names = [f"win-{number:02}" for number in range(40)]
    pool = a_pool(taints=[HARSH])
    nodes = [
        *(a_node(name) for name in names[:8]),
        *(shared(name) for name in names[8:16]),
        *(broken(name) for name in names[16:24]),
        *(a_node(name) for name in names[24:32]),
        *(a_node(name, versions=OLD) for name in names[32:]),
    ]
    if shuffler:
        shuffler.shuffle(nodes)
    pods = [f"{name}/default/web-{number}" for number, name in enumerate(names[24:32])]
    return a_snapshot(
        pool,
        nodes,
        rivals=[RIVAL],
        refused={f"uid-of-{name}": why(name) for name in names[:8]},
        survey=a_survey(pool, nodes, intolerant={HARSH: pods}),
    )


def test_forty_nodes_with_five_kinds_of_trouble_are_a_handful_of_issues() -> None:
    status = status_of(troubled())
    assert [issue.reason for issue in status.issues if issue.reason in FIVE] == FIVE
    assert FIVE[0] == status.issues[0].reason
    assert status.issue_count == len(status.issues) < MAX_ISSUES, "more may be said of the old release"
    assert {issue.node_count for issue in status.issues} == {8}
    assert all(len(issue.nodes) == MAX_ISSUE_NODES for issue in status.issues)


def test_of_forty_nodes_with_five_kinds_of_trouble_no_sentence_stands_twice_in_the_issues() -> None:
    texts = [text for issue in issues_of(troubled()) for text in (issue.message, issue.fix)]
    sentences = [each.strip() for text in texts for each in text.split(". ")]
    assert len(sentences) == len(set(sentences))


def test_an_issue_is_at_most_ten_lines_as_kubectl_describe_writes_it() -> None:
    """A line for each text, time and number, one for the list, and one for each name."""
    for issue in issues_of(troubled()):
        written = issue.model_dump(mode="json")
        assert len(written) + len(written["nodes"]) <= 10
        assert "\n" not in issue.message + issue.fix


# Whatever the world


@given(pools(), pools("rival"), fleets(), haunted_nodes("w9"), st.randoms())
def test_issues_do_not_depend_on_the_order_in_which_nodes_are_seen(
    pool: Pool, rival: Pool, fleet: Nodes, haunted: Node, shuffler: random.Random
) -> None:
    nodes = [*fleet.values(), haunted]
    found = issues_of(a_snapshot(pool, nodes, rivals=[rival]))
    shuffler.shuffle(nodes)
    assert issues_of(a_snapshot(pool, nodes, rivals=[rival])) == found
    ranks = [list(IssueReason).index(IssueReason(issue.reason)) for issue in found]
    assert ranks == sorted(ranks)
    assert all(len(text) <= 1024 for issue in found for text in (issue.message, issue.fix))


@pytest.mark.parametrize("seed", range(5))
def test_nor_do_those_of_forty_nodes_with_five_kinds_of_trouble(seed: int) -> None:
    assert status_of(troubled(shuffler=random.Random(seed))) == status_of(troubled())


NAMES = ("w-1", "w-2", "a.example.com", "b.example.com", "ip-10-0-0-1", "10.0.0.2")
"""Names of which none is a part of another, or of a word that an issue says."""


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(("refused", "broken", "shared", "contested", "old"))
    ),
    st.permutations(NAMES),
)
def test_no_message_names_a_node_each_issue_counts_its_nodes_and_names_the_first(
    troubles: Mapping[str, str], order: list[str]
) -> None:
    makers = {"broken": broken, "shared": shared}
    nodes = [
        a_node(name, versions=OLD)
        if troubles.get(name) == "old"
        else makers.get(troubles.get(name, ""), a_node)(name)
        for name in order
    ]
    of = {kind: [name for name in sorted(NAMES) if troubles.get(name) == kind] for kind in troubles.values()}
    found = issues_of(
        a_snapshot(
            a_pool(),
            nodes,
            rivals=[RIVAL],
            refused={f"uid-of-{name}": why(name) for name in of.get("refused", ())},
            contested={f"uid-of-{name}": ("label team",) for name in of.get("contested", ())},
        )
    )
    assert not [name for issue in found for name in NAMES if name in issue.message]
    reasons = {
        "refused": IssueReason.WRITE_REFUSED,
        "broken": IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        "shared": IssueReason.POOL_OVERLAP,
        "contested": IssueReason.FOREIGN_TAINT_CONFLICT,
        "old": IssueReason.BUILD_UNSUPPORTED,
    }
    by_reason = {issue.reason: (issue.node_count, issue.nodes) for issue in found}
    for kind, names in of.items():
        assert by_reason[reasons[kind]] == (len(names), tuple(names[:MAX_ISSUE_NODES]))


FINDINGS = st.lists(
    st.builds(
        Finding,
        st.sampled_from((IssueReason.WRITE_REFUSED, IssueReason.BUILD_WARNED, IssueReason.POD_LIST_FAILING)),
        st.lists(st.sampled_from(NAMES), max_size=4),
        st.sampled_from(("a", "b", "c")),
        st.just("f"),
        st.sampled_from(("", "a", "d")),
    ),
    max_size=8,
)


def test_two_causes_with_one_message_and_the_same_first_nodes_have_one_order() -> None:
    first = Finding(IssueReason.WRITE_REFUSED, NAMES[:3], "b", "f", "a")
    second = Finding(IssueReason.WRITE_REFUSED, sorted(NAMES)[:3], "b", "f", "c")
    many = Finding(IssueReason.WRITE_REFUSED, NAMES, "b", "f", "d")
    assert finding(many, second, first) == finding(first, second, many)


@given(FINDINGS, st.randoms())
def test_issues_count_all_nodes_of_a_cause_whatever_the_order_of_findings(
    found: list[Finding], shuffler: random.Random
) -> None:
    expected: dict[tuple[str, str], set[str]] = {}
    for each in found:
        expected.setdefault((each.reason, each.key), set()).update(each.nodes)
    issues = finding(*found)
    assert (
        sorted(told(issues))
        == sorted(
            (reason, len(names), tuple(sorted(names)[:MAX_ISSUE_NODES]))
            for (reason, _), names in expected.items()
        )[:MAX_ISSUES]
    )
    shuffled = [replace(each, nodes=shuffler.sample(each.nodes, len(each.nodes))) for each in found]
    shuffler.shuffle(shuffled)
    assert finding(*shuffled) == issues


@given(FINDINGS)
def test_since_of_what_is_found_again_never_changes(found: list[Finding]) -> None:
    before = finding(*found)
    stored = WindowsNodePoolStatus(issues=before, issue_count=len(before))
    pool = with_status(a_pool(), read_status({"status": stored.to_object()}))
    assert finding(*found, pool=pool, now=NOON + MINUTE) == before
