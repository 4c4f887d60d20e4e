"""Events of nodes: one for each of a few nodes that share a cause, one of their pool for more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import NOON, a_node, a_pool, by_name, with_status
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.status import Issue, WindowsNodePoolStatus
from winpool.features.contract.feature import NOTHING_FOUND
from winpool.features.memory import findings
from winpool.ownership.members import Claim
from winpool.status.assessment import Assessment
from winpool.status.events import Announcement, NodeEvent, announced, of_issues, shared_by_many

NAMES = [f"w{number:02d}" for number in range(12)]
LABEL = "somebody removed label team on {nodes}; see kubectl label node {node} team-"
TAINT = "somebody removed taint os on {nodes}"


def event(name: str, said: str = LABEL, reason: EventReason = EventReason.DRIFT_REPAIRED) -> NodeEvent:
    return NodeEvent(reason, said, "pool", "uid-of-pool", name, f"uid-of-{name}")


def where(found: Sequence[Announcement]) -> list[tuple[str, str]]:
    return [(each.regarding, each.name) for each in found]


# Patches: what was done to nodes


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_of_a_few_nodes_has_an_event_with_its_pool_and_its_own_name(number: int) -> None:
    found = list(announced(map(event, NAMES[:number])))
    assert where(found) == [("Node", name) for name in NAMES[:number]]
    assert [each.uid for each in found] == [f"uid-of-{name}" for name in NAMES[:number]]
    assert "pool" in found[0].note
    assert "kubectl label node w00 team-" in found[0].note


@pytest.mark.parametrize(("number", "said"), [(4, "4 nodes (w00, w01, w02 and 1 more)"), (12, "12 nodes")])
def test_many_nodes_are_one_event_of_the_pool_that_counts_them_and_names_the_first(
    number: int, said: str
) -> None:
    [found] = announced(map(event, reversed(NAMES[:number])))
    assert (found.regarding, found.name, found.uid) == (Regarding.POOL, "pool", "uid-of-pool")
    assert said in found.note
    assert "kubectl label node NODE team-" in found.note, "no command names one of many"


def test_events_of_a_few_nodes_come_in_the_order_of_their_names() -> None:
    found = announced(map(event, reversed(NAMES[:3])))
    assert where(list(found)) == [("Node", name) for name in NAMES[:3]]


def test_nodes_with_different_causes_are_told_of_apart() -> None:
    many, few = [event(name) for name in NAMES[:4]], [event(name, TAINT) for name in NAMES[4:6]]
    assert where(list(announced([*many, *few]))) == [
        ("WindowsNodePool", "pool"),
        ("Node", "w04"),
        ("Node", "w05"),
    ]
    other = [event(name, reason=EventReason.NODE_VALIDATED) for name in NAMES[6:8]]
    assert len(list(announced([*many[:2], *other]))) == 4


def test_a_node_that_is_written_again_counts_once() -> None:
    assert where(list(announced([event("w00")] * 5))) == [("Node", "w00")]


def test_few_nodes_of_a_cause_that_many_share_are_told_of_their_pool() -> None:
    shared = shared_by_many(map(event, NAMES))
    [found] = announced([event("w00"), event("w01")], shared=shared)
    assert found.regarding is Regarding.POOL
    assert "2 nodes (w00, w01)" in found.note, "no more are counted than were written"
    assert shared_by_many(map(event, NAMES[:3])) == frozenset()


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from((LABEL, TAINT)))))
def test_a_cause_has_three_events_of_nodes_at_most_or_one_of_the_pool(pairs: list[tuple[str, str]]) -> None:
    found = list(announced(event(name, said) for name, said in pairs))
    for said, word in ((LABEL, "label"), (TAINT, "taint")):
        of_cause = [each for each in found if word in each.note]
        names = {name for name, other in pairs if other == said}
        if len(names) <= NODES_WITH_OWN_EVENTS:
            assert sorted(where(of_cause)) == [("Node", name) for name in sorted(names)]
        else:
            assert where(of_cause) == [("WindowsNodePool", "pool")]
            assert f"{len(names)} nodes" in of_cause[0].note


# Issues: what is wrong with nodes

REFUSED = IssueReason.WRITE_REFUSED
FRIDAY, QUOTA = "The API server refuses to change these nodes: not on Fridays.", "A quota."


def issue(names: Sequence[str], *, message: str = FRIDAY, reason: IssueReason = REFUSED) -> Issue:
    return Issue(
        reason=reason,
        node_count=len(names),
        nodes=tuple(sorted(names)[:3]),
        since=NOON,
        message=message,
        fix="Change the policy.",
    )


ASSESSED = [
    Assessment(node, Claim.OURS, NOTHING_FOUND)
    for node in by_name(*(a_node(name) for name in NAMES)).values()
]


def said(before: Sequence[Issue], after: Sequence[Issue]) -> list[Announcement]:
    pool = with_status(a_pool(), WindowsNodePoolStatus(issues=tuple(before)))
    return list(of_issues(pool, pool.status, WindowsNodePoolStatus(issues=tuple(after)), ASSESSED))


POOL = [("WindowsNodePool", "pool")]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (0, 1, [("Node", "w00")]),
        (0, 3, [("Node", "w00"), ("Node", "w01"), ("Node", "w02")]),
        (0, 4, POOL),
        (0, 12, POOL),
        (1, 3, [("Node", "w01"), ("Node", "w02")]),
        (3, 4, POOL),
        (3, 12, POOL),
        (4, 12, []),
        (12, 4, []),
        (12, 2, []),
        (3, 1, []),
        (2, 2, []),
        (12, 12, []),
        (2, 0, []),
    ],
)
def test_what_is_new_is_said_of_few_nodes_each_and_of_many_once(
    before: int, after: int, told: list[tuple[str, str]]
) -> None:
    found = said([issue(NAMES[:before])] if before else [], [issue(NAMES[:after])] if after else [])
    assert where(found) == told
    assert {each.reason for each in found} <= {EventReason.WRITE_REFUSED}
    assert all("not on Fridays" in each.note for each in found)


def test_the_event_of_many_counts_them_and_names_the_first() -> None:
    [found] = said([], [issue(NAMES)])
    assert "12 nodes (w00, w01, w02 and 9 more)" in found.note
    assert (found.name, found.uid) == ("pool", "uid-of-pool")


def test_a_node_that_takes_the_place_of_another_is_told() -> None:
    assert where(said([issue(["w00", "w01"])], [issue(["w00", "w05"])])) == [("Node", "w05")]


def test_a_node_whose_trouble_has_another_cause_now_was_told() -> None:
    assert said([issue(["w00"])], [issue(["w00"], message=QUOTA)]) == []
    assert where(said([issue(["w00"])], [issue(NAMES[:4], message=QUOTA)])) == POOL


def test_each_cause_is_told_by_itself() -> None:
    found = said([issue(NAMES[:4])], [issue(NAMES[:4]), issue(NAMES[4:], message=QUOTA)])
    assert (where(found), "A quota." in found[0].note) == (POOL, True)


def test_a_node_that_is_gone_has_no_event() -> None:
    assert said([], [issue(["gone"])]) == []


def test_an_issue_that_no_node_has_an_event_of_has_none() -> None:
    assert said([], [issue(NAMES, reason=IssueReason.POOL_OVERLAP)]) == []


def test_issues_as_an_earlier_version_wrote_them_were_told() -> None:
    """One for each node, which is not named any more."""
    old = Issue(reason=REFUSED, since=NOON, message="the API server does not let this", fix="see to it")
    assert said([old, old], [issue(NAMES[:2])]) == []
    assert said([old] * 10, [issue(NAMES)]) == []


groups = st.lists(
    st.tuples(st.sampled_from((FRIDAY, QUOTA)), st.sets(st.sampled_from(NAMES), min_size=1)),
    max_size=2,
    unique_by=lambda pair: pair[0],
)


@given(st.lists(groups, max_size=6))
def test_of_a_cause_a_transition_has_three_events_of_nodes_at_most_or_one_of_the_pool(
    reports: list[list[tuple[str, set[str]]]],
) -> None:
    before: list[Issue] = []
    for report in reports:
        after = [issue(sorted(names), message=message) for message, names in report]
        found = Counter((each.regarding, each.note.rpartition(": ")[2]) for each in said(before, after))
        for message in (FRIDAY, QUOTA):
            ending = message.rpartition(": ")[2]
            of_nodes, of_pool = found[Regarding.NODE, ending], found[Regarding.POOL, ending]
            assert of_nodes <= NODES_WITH_OWN_EVENTS
            assert of_pool <= 1
            assert not (of_nodes and of_pool)
        assert said(after, after) == []
        before = after


BY_THE_NODES: Final = (
    FRIDAY,
    "Someone repeatedly undoes what the pool sets on these nodes: taint a:NoSchedule.",
    "These nodes did not pass validation in time, because they wait for pods.",
    "The kubelets reserve 1Gi of memory, but the pool declares 2.5Gi.",
    *findings._WHAT.values(),
    findings._ENDING,
    *findings._UNATTRIBUTED.values(),
    *(message for _, (message, _), _ in findings._BLOCKS),
)
"""What issues say whose nodes have an event of their own."""


def test_an_event_of_one_node_speaks_of_one_node() -> None:
    plural = re.compile(
        r"these nodes|(the|their) kubelets|of them |they wait|they can|their pods|and page\b|do little",
        re.IGNORECASE,
    )
    assert all(plural.search(each) for each in BY_THE_NODES)
    found = [said([], [issue(["w00"], message=each)])[0].note for each in BY_THE_NODES]
    assert [each for each in found if plural.search(each)] == []
    assert "This node has hardly any RAM left, and does little but page" in "".join(found)
    assert "this node: not on Fridays" in found[0]
    [of_many] = said([], [issue(NAMES)])
    assert "these nodes: not on Fridays" in of_many.note
