"""Issues: what a person should look at, the worst first, in an order that stays."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import (
    MINUTE,
    NOON,
    Nodes,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    deleted,
    unreadable,
    with_status,
)
from harness.strategies import fleets, haunted_nodes, pools
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.v1alpha1 import MAX_ISSUES, Issue
from winpool.decide import decide
from winpool.objects.node import Node
from winpool.objects.pool import Pool
from winpool.snapshot import Snapshot

SHARED = {"example.com/shared": "yes"}
RIVAL = a_pool("rival", selector={"matchLabels": SHARED})


WHY = 'patch nodes w1: 403 admission webhook "no.example.com" denied the request: not on Fridays'


def shared(name: str) -> Node:
    return a_node(name, labels=SHARED, annotations=a_record(RIVAL.uid))


def unknown(name: str) -> Node:
    return a_node(name, annotations=a_record("stranger"))


def broken(name: str) -> Node:
    return a_node(name, annotations={APPLIED_ANNOTATION: "{"})


def issues_of(snapshot: Snapshot) -> tuple[Issue, ...]:
    return decide(snapshot).status.issues


def reasons_of(snapshot: Snapshot) -> list[tuple[str, str | None]]:
    return [(issue.reason, issue.node) for issue in issues_of(snapshot)]


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
    assert (issue.node, issue.reason, issue.since) == ("w1", reason, NOON)
    assert word in issue.message
    assert issue.fix


def test_a_refused_write_is_an_issue_in_the_words_of_the_api_server() -> None:
    """The longest answer fits as well: the API server would refuse a status with a longer text."""
    node = a_node("w1")
    for why in (WHY, "x" * 1024):
        (issue,) = issues_of(a_snapshot(a_pool(), [node, a_node("fine")], refused={node.uid: why}))
        assert (issue.node, issue.reason) == ("w1", IssueReason.WRITE_REFUSED)
        assert why[:900] in issue.message
        assert len(issue.message) <= 1024
        assert "a policy, a webhook" in issue.fix


def test_an_overlap_is_an_issue_in_both_pools() -> None:
    pool = a_pool("pool")
    for mine, other in ((pool, RIVAL), (RIVAL, pool)):
        (issue,) = issues_of(a_snapshot(mine, [shared("w1")], rivals=[other]))
        assert (issue.node, issue.reason) == ("w1", IssueReason.POOL_OVERLAP)
        assert other.name in issue.message


def test_a_free_node_that_two_pools_select_is_an_issue_in_both() -> None:
    first, second = a_pool("a"), a_pool("b")
    for mine, other in ((first, second), (second, first)):
        (issue,) = issues_of(a_snapshot(mine, [a_node("w1")], rivals=[other]))
        assert (issue.node, issue.reason) == ("w1", IssueReason.POOL_OVERLAP)
        assert other.name in issue.message


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
    assert issues_of(a_snapshot(a_pool(), [a_node(), a_node("sick", ready="False")])) == ()


def test_a_node_that_only_the_other_pool_selects_is_no_issue() -> None:
    blue = a_node(labels={"agentpool": "blue", **SHARED}, annotations=a_record(RIVAL.uid))
    assert issues_of(a_snapshot(a_pool(), [blue], rivals=[RIVAL])) == ()


def test_the_worst_come_first_and_then_the_names() -> None:
    nodes = [shared("a"), unknown("b"), broken("c"), shared("d"), unknown("e"), broken("f")]
    nodes += [a_node("g"), a_node("h")]
    refused = {node.uid: WHY for node in nodes[-2:]}
    random.shuffle(nodes)
    names = ("cf", "gh", "be", "ad")
    first = [
        IssueReason.OWNERSHIP_RECORD_UNREADABLE,
        IssueReason.WRITE_REFUSED,
        IssueReason.OWNER_UNKNOWN,
        IssueReason.POOL_OVERLAP,
    ]
    assert sorted(first, key=list(IssueReason).index) == first
    expected = [(reason, name) for reason, pair in zip(first, names, strict=True) for name in pair]
    assert reasons_of(a_snapshot(a_pool(), nodes, rivals=[RIVAL], refused=refused)) == expected


def test_no_more_than_the_limit_are_shown_and_they_are_the_worst() -> None:
    nodes = [shared(f"a{n:02d}") for n in range(20)] + [broken(f"z{n}") for n in range(4)]
    found = reasons_of(a_snapshot(a_pool(), nodes, rivals=[RIVAL]))
    assert len(found) == MAX_ISSUES
    assert [name for _, name in found] == ["z0", "z1", "z2", "z3", *(f"a{n:02d}" for n in range(6))]


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
    quiet = with_status(pool, decide(a_snapshot(pool, [], rivals=[RIVAL], now=NOON + MINUTE)).status)
    assert quiet.status.issues == ()
    (issue,) = issues_of(a_snapshot(quiet, [shared("w1")], rivals=[RIVAL], now=NOON + 2 * MINUTE))
    assert issue.since == NOON + 2 * MINUTE


def test_since_stays_when_the_node_beside_it_gets_well() -> None:
    first = decide(a_snapshot(a_pool(), [shared("w1"), shared("w2")], rivals=[RIVAL])).status
    pool = with_status(a_pool(), first)
    (issue,) = issues_of(a_snapshot(pool, [shared("w2")], rivals=[RIVAL], now=NOON + MINUTE))
    assert (issue.node, issue.since) == ("w2", NOON)


@given(pools(), pools("rival"), fleets(), haunted_nodes("w9"), st.randoms())
def test_issues_do_not_depend_on_the_order_in_which_nodes_are_seen(
    pool: Pool, rival: Pool, fleet: Nodes, haunted: Node, shuffler: random.Random
) -> None:
    nodes = [*fleet.values(), haunted]
    found = issues_of(a_snapshot(pool, nodes, rivals=[rival]))
    shuffler.shuffle(nodes)
    assert issues_of(a_snapshot(pool, nodes, rivals=[rival])) == found
    ranks = [(list(IssueReason).index(IssueReason(issue.reason)), issue.node) for issue in found]
    assert ranks == sorted(ranks)
    assert all(len(text) <= 1024 for issue in found for text in (issue.message, issue.fix))
