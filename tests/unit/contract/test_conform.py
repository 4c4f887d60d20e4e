"""From a node as it is to the patch: no more than needed, said once, and the same by every way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.builders import GUARDED, a_node
from harness.ownership import UID, conformed, released, wanting
from harness.strategies import PROTECTED_TAINTS, haunted_nodes, nodes, os_labels, wishes
from harness.wishes import Own, Wanted, compare, conform, is_as_wanted, release
from harness.writes import relabelled, retainted
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.model.node import Node
from winpool.ownership.diff import NodeDiff
from winpool.ownership.record import record_of


def test_a_patch_of_labels_alone_leaves_the_list_of_taints_out() -> None:
    """The list is atomic: who sends it without need can only lose somebody's taint."""
    patch = conform(a_node(taints=PROTECTED_TAINTS), wanted=wanting({"team": "a"})).patch
    assert patch is not None
    assert patch.taints is None


def test_a_patch_carries_nothing_that_stays_as_it_is() -> None:
    node = conformed(a_node(), wanting({"team": "a"}, "os=windows:NoSchedule"))
    patch = conform(
        node, wanted=wanting({"team": "a", "example.com/tier": "x"}, "os=windows:NoSchedule")
    ).patch
    assert patch is not None
    assert patch.labels == {"example.com/tier": "x"}
    assert patch.annotations.keys() == {APPLIED_ANNOTATION}
    assert patch.taints is None


# What is told to people


def test_a_first_write_is_no_drift() -> None:
    found = conform(a_node(labels={"team": "b"}), wanted=wanting({"team": "a"}, "os=windows:NoSchedule"))
    assert (found.drifted, found.unreadable) == ((), "")


def test_an_edit_of_the_spec_is_no_drift() -> None:
    node = conformed(a_node(), wanting({"team": "a"}, "os=windows:NoSchedule"))
    assert conform(node, wanted=wanting({"team": "b"}, "os=win:NoSchedule")).drifted == ()
    assert conform(node, wanted=wanting()).drifted == ()


def test_only_what_others_undid_is_named_as_drift() -> None:
    wanted = wanting({"team": "a", "example.com/tier": "x"}, "os=windows:NoSchedule", "gpu:NoSchedule")
    node = relabelled(conformed(a_node(), wanted), team=None)
    found = conform(retainted(node, "os=windows:NoSchedule"), wanted=wanted)
    assert len(found.drifted) == 2
    assert any("team" in text for text in found.drifted)
    assert any("gpu" in text for text in found.drifted)


# Properties


@given(
    st.one_of(nodes(), haunted_nodes(uid=UID)),
    wishes(),
    wishes(),
    st.sampled_from(("as is", "once", "other")),
    os_labels(),
    os_labels(),
    st.sampled_from((True, False, None)),
)
def test_the_short_way_says_what_the_long_way_says(
    node: Node,
    wanted: Wanted,
    other: Wanted,
    history: str,
    was: Mapping[str, str],
    now: Mapping[str, str],
    mismatch: bool | None,
) -> None:
    """Most nodes of most passes go the short way: it must not overlook anything, nor miss its purpose."""
    if history != "as is":
        node = conformed(node, wanted if history == "once" else other, Own(was))
    found = record_of(node)
    own = Own(now, mismatch=mismatch)
    nothing = compare(node, found, wanted=wanted, own=own) == NodeDiff(patch=None)
    assert nothing is is_as_wanted(node, found, wanted=wanted, own=own)


@given(nodes(), wishes())
def test_a_conformed_node_carries_what_is_wanted(before: Node, wanted: Wanted) -> None:
    node = conformed(before, wanted)
    assert wanted.labels.items() <= node.labels.items()
    assert wanted.taints.items() <= {taint.identity: taint.value for taint in node.taints}.items()


@given(nodes() | haunted_nodes(), wishes())
def test_conforming_twice_writes_once(before: Node, wanted: Wanted) -> None:
    assert conform(conformed(before, wanted), wanted=wanted).patch is None


@given(nodes() | haunted_nodes())
def test_releasing_twice_writes_once(before: Node) -> None:
    assert release(released(before), pool_uid=UID, pool_name="pool", rights=GUARDED).patch is None


@given(nodes(), st.lists(wishes(), min_size=1, max_size=4))
def test_applying_and_releasing_is_the_identity(before: Node, history: list[Wanted]) -> None:
    node = before
    for wanted in history:
        node = conformed(node, wanted)
    assert released(node) == before


def comparable(node: Node) -> dict[str, Any]:
    """Return the node with its taints as a set: new ones go to the end, in the order they came."""
    return {
        "labels": node.labels,
        "annotations": node.annotations,
        "taints": frozenset(node.taints),
        "foreign, in order": [taint for taint in node.taints if taint in PROTECTED_TAINTS],
    }


@given(nodes(), st.lists(wishes(), max_size=4), wishes())
def test_the_way_to_a_spec_does_not_matter(before: Node, history: list[Wanted], last: Wanted) -> None:
    node = before
    for wanted in (*history, last):
        node = conformed(node, wanted)
    assert comparable(node) == comparable(conformed(before, last))
