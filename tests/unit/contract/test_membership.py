"""Whose a node is: the selector, the recorded owner, then age and name, and the same answer for all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_record, a_snapshot, deleted, unreadable
from harness.strategies import SELECTORS, haunted_nodes, nodes, pools
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.api.selector import NodeSelector, selects
from winpool.decide import decide
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.ownership import members
from winpool.ownership.members import Claim, Selections, divide, is_asked_for

BLUE = {"matchLabels": {"agentpool": "blue"}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator}
    return {"matchExpressions": [found | ({"values": list(values)} if values else {})]}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchLabels": {"a": "1"}}, {}, False),
        ({"matchLabels": {"a": ""}}, {"a": ""}, True),
        ({"matchLabels": {"a": ""}}, {}, False),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        (expression("a", "In", "1", "2"), {"a": "2"}, True),
        (expression("a", "In", "1", "2"), {"a": "3"}, False),
        (expression("a", "In", "1"), {}, False),
        (expression("a", "NotIn", "1"), {"a": "2"}, True),
        (expression("a", "NotIn", "1"), {"a": "1"}, False),
        (expression("a", "NotIn", "1"), {}, True),
        (expression("a", "Exists"), {"a": ""}, True),
        (expression("a", "Exists"), {}, False),
        (expression("a", "DoesNotExist"), {}, True),
        (expression("a", "DoesNotExist"), {"a": ""}, False),
        ({"matchLabels": {"a": "1"}, **expression("b", "Exists")}, {"a": "1"}, False),
        ({"matchLabels": {"a": "1"}, **expression("b", "Exists")}, {"a": "1", "b": ""}, True),
    ],
)
def test_a_selector_takes_what_kubernetes_would_take(
    selector: dict[str, Any], labels: dict[str, str], expected: bool
) -> None:
    assert selects(NodeSelector.model_validate(selector), labels) is expected


def claim_of(node: Node, pool: Pool, *rivals: Pool, vanished: tuple[str, ...] = ()) -> tuple[Claim, str]:
    """Return the claim, and who has the node where that is another pool."""
    for member in divide(a_snapshot(pool, [node], rivals=rivals, vanished=vanished)).all:
        return member.claim, member.rival if member.claim is Claim.RIVAL else ""
    return Claim.NONE, ""


def owned_by(uid: str, **changes: Any) -> Node:
    return a_node(annotations=a_record(uid), **changes)


def test_a_free_node_that_is_selected_is_ours() -> None:
    assert claim_of(a_node(), a_pool()) == (Claim.OURS, "")


def test_a_node_that_is_not_selected_is_not_ours() -> None:
    assert claim_of(a_node(), a_pool(selector=BLUE)) == (Claim.NONE, "")


@pytest.mark.parametrize("os", ["linux", "Windows", "", None])
@pytest.mark.parametrize("selector", SELECTORS)
def test_only_windows_nodes_are_ours_whatever_the_selector_says(
    os: str | None, selector: dict[str, Any]
) -> None:
    pool = a_pool(selector=selector)
    assert claim_of(a_node(os=os), pool)[0] is Claim.NONE
    assert claim_of(owned_by(pool.uid, os=os), pool)[0] is Claim.NONE, "a stray: its kubelet may write its OS"


def test_a_node_that_left_the_selector_is_to_be_released() -> None:
    pool = a_pool(selector=BLUE)
    assert claim_of(owned_by(pool.uid), pool) == (Claim.LEFT, "")


def test_the_oldest_pool_gets_a_free_node() -> None:
    old, young = a_pool("z", age=timedelta(hours=2)), a_pool("a", age=timedelta(hours=1))
    assert claim_of(a_node(), old, young) == (Claim.OURS, "")
    assert claim_of(a_node(), young, old) == (Claim.RIVAL, "z")


def test_of_pools_of_one_age_the_first_by_name_gets_a_free_node() -> None:
    a, b = a_pool("a"), a_pool("b")
    assert claim_of(a_node(), a, b) == (Claim.OURS, "")
    assert claim_of(a_node(), b, a) == (Claim.RIVAL, "a")


def test_a_pool_without_an_age_comes_last() -> None:
    a, b = replace(a_pool("a"), created=None), a_pool("b")
    assert claim_of(a_node(), b, a) == (Claim.OURS, "")
    assert claim_of(a_node(), a, b) == (Claim.RIVAL, "b")


def test_the_recorded_owner_keeps_a_node_from_an_older_pool() -> None:
    old, young = a_pool("old", age=timedelta(hours=2)), a_pool("young")
    node = owned_by(young.uid)
    assert claim_of(node, young, old) == (Claim.OURS, "")
    assert claim_of(node, old, young) == (Claim.RIVAL, "young")


def test_the_recorded_owner_has_a_node_until_it_is_released_though_it_left() -> None:
    leaving, coming = a_pool("leaving", selector=BLUE), a_pool("coming")
    node = owned_by(leaving.uid)
    assert claim_of(node, leaving, coming) == (Claim.LEFT, "")
    assert claim_of(node, coming, leaving) == (Claim.RIVAL, "leaving")


def test_an_owner_under_deletion_has_its_nodes_until_they_are_released() -> None:
    leaving, coming = deleted(a_pool("leaving")), a_pool("coming")
    assert claim_of(owned_by(leaving.uid), coming, leaving) == (Claim.RIVAL, "leaving")


def test_an_owner_whose_spec_cannot_be_read_keeps_its_nodes() -> None:
    broken, coming = unreadable(a_pool("broken")), a_pool("coming")
    assert claim_of(owned_by(broken.uid), coming, broken) == (Claim.RIVAL, "broken")


@pytest.mark.parametrize(
    "broken", [deleted(a_pool("b")), unreadable(a_pool("b"))], ids=["deleted", "unreadable"]
)
def test_a_pool_that_can_claim_nothing_does_not_keep_others_from_free_nodes(broken: Pool) -> None:
    older = replace(broken, created=None if broken.created is None else broken.created - timedelta(days=1))
    assert claim_of(a_node(), a_pool("a"), older) == (Claim.OURS, "")


def test_a_node_of_an_unknown_owner_is_left_alone() -> None:
    """It may be a pool that this operator has not heard of yet (P4)."""
    assert claim_of(owned_by("stranger"), a_pool())[0] is Claim.UNKNOWN


def test_a_pool_created_again_under_its_old_name_is_another_owner() -> None:
    again = a_pool("pool", uid="second")
    node = owned_by("first", labels={POOL_LABEL: "pool"})
    assert claim_of(node, again)[0] is Claim.UNKNOWN
    assert claim_of(node, again, vanished=("first",)) == (Claim.OURS, "")


def test_a_node_of_a_vanished_owner_goes_to_the_next_by_age() -> None:
    old, young = a_pool("old", age=timedelta(hours=2)), a_pool("young")
    node = owned_by("gone")
    assert claim_of(node, old, young, vanished=("gone",)) == (Claim.OURS, "")
    assert claim_of(node, young, old, vanished=("gone",)) == (Claim.RIVAL, "old")


def test_a_node_of_a_vanished_owner_that_nobody_selects_is_none_of_ours() -> None:
    assert claim_of(owned_by("gone"), a_pool(selector=BLUE), vanished=("gone",))[0] is Claim.NONE


def test_an_owner_that_is_there_is_never_taken_for_gone() -> None:
    """Whoever counted lists was wrong: the pool stands right there."""
    owner, other = a_pool("owner"), a_pool("other", age=timedelta(days=9))
    node = owned_by(owner.uid)
    assert claim_of(node, other, owner, vanished=(owner.uid,)) == (Claim.RIVAL, "owner")
    assert claim_of(node, owner, other, vanished=(owner.uid,)) == (Claim.OURS, "")


def test_an_unreadable_record_owns_nothing() -> None:
    node = a_node(annotations={APPLIED_ANNOTATION: "{"})
    assert claim_of(node, a_pool()) == (Claim.OURS, "")


def test_with_an_unreadable_record_the_label_of_the_pool_says_what_to_release() -> None:
    node = a_node(labels={POOL_LABEL: "pool"}, annotations={APPLIED_ANNOTATION: "{"})
    assert claim_of(node, a_pool("pool", selector=BLUE))[0] is Claim.LEFT
    assert claim_of(node, a_pool("other", selector=BLUE))[0] is Claim.NONE


AGES = st.sampled_from((timedelta(hours=1), timedelta(hours=2)))


def shaped(pool: Pool, age: timedelta, fate: str) -> Pool:
    assert pool.created is not None
    aged = replace(pool, created=pool.created - age)
    return {"lives": aged, "deleted": deleted(aged), "unreadable": unreadable(aged)}[fate]


def some_pools(fates: tuple[str, ...]) -> st.SearchStrategy[list[Pool]]:
    each = [
        st.builds(shaped, pools(name), AGES, st.sampled_from(fates)) for name in ("pool", "other", "third")
    ]
    return st.tuples(*each).map(list)


OWNERS = st.sampled_from((None, "uid-of-pool", "uid-of-other", "uid-of-third", "gone", "stranger"))
some_nodes = st.builds(
    lambda node, owner: node if owner is None else replace(node, annotations=a_record(owner)), nodes(), OWNERS
)


def claims(node: Node, them: list[Pool]) -> dict[str, tuple[Claim, str]]:
    """Return the answer of each pool that can claim: what the others have is not theirs to claim."""
    return {
        pool.name: claim_of(node, pool, *(rival for rival in them if rival is not pool), vanished=("gone",))
        for pool in them
        if pool.spec is not None and not pool.deleting
    }


@given(some_nodes | haunted_nodes(), some_pools(("lives", "deleted", "unreadable")))
def test_never_do_two_pools_claim_one_node(node: Node, them: list[Pool]) -> None:
    found = claims(node, them)
    assert sum(each is Claim.OURS for each, _ in found.values()) <= 1


@given(some_nodes, some_pools(("lives",)))
def test_all_pools_agree_whose_a_node_is(node: Node, them: list[Pool]) -> None:
    found = claims(node, them)
    holders = {name for name, (each, _) in found.items() if each in (Claim.OURS, Claim.LEFT)}
    assert len(holders) <= 1
    named = {rival for each, rival in found.values() if each is Claim.RIVAL}
    assert named <= holders
    if any(each is Claim.UNKNOWN for each, _ in found.values()):
        assert not holders


@given(some_nodes, some_pools(("lives", "deleted")))
def test_the_answer_does_not_depend_on_the_order_of_the_rivals(node: Node, them: list[Pool]) -> None:
    first, *rest = them
    answers = {claim_of(node, first, *order, vanished=("gone",)) for order in itertools.permutations(rest)}
    assert len(answers) == 1


CHANGES = st.lists(st.tuples(nodes(), st.lists(pools() | pools("rival"), unique_by=lambda pool: pool.uid)))


@given(CHANGES)
def test_what_is_remembered_of_selectors_is_what_they_say(changes: list[tuple[Node, list[Pool]]]) -> None:
    """Whatever changed meanwhile, of pools or of nodes."""
    known: dict[str, Node] = {}
    selections = Selections()
    for node, them in changes:
        known[node.name] = node
        for found in (selections.of_all(tuple(known.values()), them), selections.of_all((node,), them)):
            assert found
            for name, uids in found.items():
                assert uids == {pool.uid for pool in them if is_asked_for(known[name], by=pool)}
        known = {node.name: node}


def test_a_pass_asks_no_selector_and_a_change_asks_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty pools of a thousand values, asked about every node in every pass, held up others for minutes."""
    asked: list[Mapping[str, str]] = []

    def selects(_: object, labels: Mapping[str, str]) -> bool:
        asked.append(labels)
        return True

    monkeypatch.setattr(members, "selects", selects)
    them = [a_pool(f"rival-{number}") for number in range(60)]
    known = [a_node(f"w{number}", labels={"number": str(number)}) for number in range(50)]
    selections = Selections()
    selections.of_all(known, them)
    assert len(asked) == 60 * 50
    for again in (them, [replace(pool, resource_version="2") for pool in them]):
        selections.of_all(known, again)
        selections.of(known[0], again)
    assert len(asked) == 60 * 50, "a status that was written changes no selector"
    selections.of_all(known, [*them[1:], a_pool("rival-0", selector=BLUE)])
    assert len(asked) == 60 * 50 + 50
    selections.of(replace(known[0], labels={**known[0].labels, "number": "other"}), them[1:])
    assert len(asked) == 60 * 50 + 50 + 59


def test_a_pass_compares_no_pool_with_the_others_that_select_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 600 such pools that took 50 ms of each pass, and half a minute of all passes."""
    them = [a_pool(f"rival-{number}") for number in range(60)]
    snapshot = a_snapshot(them[-1], [a_node("w1")], rivals=them[:-1])

    def compared(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(Pool, "__eq__", compared)
    [member] = divide(snapshot).all
    assert member.claim is Claim.RIVAL


def test_what_is_remembered_of_selectors_is_bounded_by_the_nodes_that_there_are() -> None:
    """A kubelet may change the labels of its node for ever, and nodes come and go for years."""
    them = [a_pool(f"of-{each}", selector={"matchLabels": {f"key-{each}": "1"}}) for each in range(10)]
    selections = Selections()
    for number in range(1000):
        labels = {f"key-{each}": "1" for each in range(10) if number >> each & 1}
        assert len(selections.of(a_node("w1", labels=labels), them)) == number.bit_count()
        selections.of(a_node(f"gone-{number}"), them)
        selections.forget(f"gone-{number}")
    assert (len(selections._found), len(selections._labels)) == (1, 1)
    assert len(selections._same) <= 3


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (a_pool(), True),
        (deleted(a_pool()), True),
        (unreadable(a_pool()), True),
        (a_pool(selector=BLUE), True),
        (a_pool("other"), False),
        (deleted(a_pool("other")), False),
    ],
    ids=["of its own", "to release", "kept", "left", "of another", "of another, deleted"],
)
def test_a_pool_has_nodes_as_long_as_something_of_it_is_on_one(pool: Pool, expected: bool) -> None:
    node = a_node(labels={"agentpool": "red", POOL_LABEL: "pool"}, annotations=a_record())
    rivals = [a_pool()] if pool.name == "other" else []
    assert decide(a_snapshot(pool, [node], rivals=rivals)).has_nodes is expected
