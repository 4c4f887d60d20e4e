"""Ownership of labels: what is put on a node, what is remembered, and what comes off again."""

from __future__ import annotations

import pytest

from harness.builders import GUARD, a_node, record_on
from harness.ownership import UID, conformed, labels_on, released, wanting
from harness.wishes import conform
from harness.writes import patched, relabelled
from winpool.api.keys import POOL_LABEL
from winpool.ownership.record import Owned, Record


def test_a_wanted_label_is_put_on_and_taken_off_again() -> None:
    before = a_node()
    node = conformed(before, wanting({"team": "a"}))
    assert labels_on(node) == {"team": "a"}
    assert record_on(node) == Record(UID, {"team": Owned("a")}, guard=GUARD)
    assert released(node) == before


def test_the_pool_label_names_the_pool() -> None:
    node = conformed(a_node(), wanting(name="win-2022"))
    assert node.labels[POOL_LABEL] == "win-2022"
    assert POOL_LABEL not in released(node, name="win-2022").labels


def test_a_label_with_another_value_is_replaced_and_restored() -> None:
    before = a_node(labels={"team": "b"})
    node = conformed(before, wanting({"team": "a"}))
    assert labels_on(node) == {"team": "a"}
    assert record_on(node).labels == {"team": Owned("a", "b")}
    assert released(node) == before


def test_a_label_with_the_empty_value_is_restored_and_not_taken_for_none() -> None:
    before = a_node(labels={"team": ""})
    node = conformed(before, wanting({"team": "a"}))
    assert record_on(node).labels == {"team": Owned("a", "")}
    assert released(node) == before


def test_an_equal_label_already_there_is_not_recorded_and_not_removed() -> None:
    before = a_node(labels={"team": "a"})
    node = conformed(before, wanting({"team": "a"}))
    assert record_on(node).labels == {}
    assert released(node) == before


@pytest.mark.parametrize("theirs", ["c", "", None])
@pytest.mark.parametrize("before", ["b", None])
def test_a_label_changed_or_removed_by_others_is_left_on_undo(before: str | None, theirs: str | None) -> None:
    node = conformed(a_node(labels={} if before is None else {"team": before}), wanting({"team": "a"}))
    assert labels_on(released(relabelled(node, team=theirs))) == ({} if theirs is None else {"team": theirs})


@pytest.mark.parametrize("theirs", ["c", None])
def test_a_label_changed_by_others_is_put_back_and_what_was_before_is_not_forgotten(
    theirs: str | None,
) -> None:
    before = a_node(labels={"team": "b"})
    drifted = relabelled(conformed(before, wanting({"team": "a"})), team=theirs)
    found = conform(drifted, wanted=wanting({"team": "a"}))
    assert any("team" in text for text in found.drifted)
    node = patched(drifted, found.patch)
    assert record_on(node).labels == {"team": Owned("a", "b")}
    assert released(node) == before


def test_a_label_edited_in_the_spec_keeps_what_was_before() -> None:
    before = a_node(labels={"team": "b"})
    node = before
    for value in ("a", "c", "d"):
        node = conformed(node, wanting({"team": value}))
        assert labels_on(node) == {"team": value}
        assert record_on(node).labels == {"team": Owned(value, "b")}
    assert released(node) == before


def test_a_label_edited_in_the_spec_while_others_changed_it_keeps_what_was_before() -> None:
    node = relabelled(conformed(a_node(labels={"team": "b"}), wanting({"team": "a"})), team="c")
    assert record_on(conformed(node, wanting({"team": "d"}))).labels == {"team": Owned("d", "b")}


def test_a_label_dropped_from_the_spec_is_restored() -> None:
    node = conformed(a_node(labels={"team": "b"}), wanting({"team": "a", "example.com/tier": "x"}))
    node = conformed(node, wanting({"example.com/tier": "x"}))
    assert labels_on(node) == {"team": "b", "example.com/tier": "x"}
    assert record_on(node).labels == {"example.com/tier": Owned("x")}


@pytest.mark.parametrize("theirs", ["c", None])
def test_a_label_dropped_from_the_spec_after_others_changed_it_is_theirs(theirs: str | None) -> None:
    node = relabelled(conformed(a_node(labels={"team": "b"}), wanting({"team": "a"})), team=theirs)
    node = conformed(node, wanting())
    assert labels_on(node) == ({} if theirs is None else {"team": theirs})
    assert record_on(node).labels == {}


def test_a_label_edited_to_what_was_before_is_no_longer_recorded() -> None:
    """The same end as if the spec had asked for it in the first place."""
    before = a_node(labels={"team": "b"})
    edited = conformed(conformed(before, wanting({"team": "a"})), wanting({"team": "b"}))
    assert edited == conformed(before, wanting({"team": "b"}))
    assert record_on(edited).labels == {}


def test_a_label_that_was_equal_and_is_then_changed_by_others_becomes_ours() -> None:
    node = relabelled(conformed(a_node(labels={"team": "a"}), wanting({"team": "a"})), team="c")
    node = conformed(node, wanting({"team": "a"}))
    assert record_on(node).labels == {"team": Owned("a", "c")}
    assert labels_on(released(node)) == {"team": "c"}
