"""What no pool takes off any more: by its record, exactly as the pool would have done it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import GUARDED, a_node, a_pool, a_record, a_snapshot, a_taint, deleted, unreadable
from harness.strategies import haunted_nodes, nodes, pools
from harness.writes import acted, carries_ours, foreign_labels, patched, relabelled
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL
from winpool.decide import decide
from winpool.objects.acts import NodePatch
from winpool.objects.node import Node
from winpool.objects.others import PoolName
from winpool.objects.pool import Pool
from winpool.ownership.leftovers import release_orphan, release_stray
from winpool.ownership.reading import record_of
from winpool.ownership.record import Owned, Unreadable

BLUE = {"matchLabels": {"agentpool": "blue"}}
NO_WINDOWS = ["linux", "", None]


def conformed(node: Node, pool: Pool) -> Node:
    return acted(decide(a_snapshot(pool, [node])), {node.name: node})[node.name]


Gone = tuple[str | PoolName, ...]


def gone(*identities: str | PoolName) -> Callable[[str | PoolName], bool]:
    return identities.__contains__


ALL_GONE: Gone = ("uid-of-pool", PoolName("pool"))


def orphan_of(node: Node, *pools: Pool, gone_: Gone = ALL_GONE) -> NodePatch | None:
    return release_orphan(node, pools=pools, is_vanished=gone(*gone_), rights=GUARDED).patch


LABELS = {"team": "a"}
BEFORE = a_node(labels={"team": "x"}, taints=["os=linux:NoSchedule", "a=b:NoExecute"])
OWNED = conformed(BEFORE, a_pool(labels=LABELS, taints=["os=windows:NoSchedule"]))


# Strays


@pytest.mark.parametrize("os", NO_WINDOWS)
def test_a_node_that_is_not_windows_any_more_is_given_back_as_it_was(os: str | None) -> None:
    stray = relabelled(OWNED, **{OS_LABEL: os})
    assert patched(stray, release_stray(stray, rights=GUARDED).patch) == relabelled(BEFORE, **{OS_LABEL: os})


def test_a_windows_node_is_no_stray() -> None:
    assert release_stray(OWNED, rights=GUARDED).patch is None


@pytest.mark.parametrize("os", NO_WINDOWS)
def test_a_node_with_nothing_of_ours_is_no_stray(os: str | None) -> None:
    assert release_stray(a_node(os=os, labels={"team": "a"}), rights=GUARDED).patch is None


def test_what_others_changed_on_a_stray_is_left() -> None:
    stray = relabelled(OWNED, team="theirs", **{OS_LABEL: "linux"})
    assert patched(stray, release_stray(stray, rights=GUARDED).patch).labels["team"] == "theirs"


@pytest.mark.parametrize("record", ["{", '{"v":2,"pool":"uid-of-pool","labels":{"team":{"set":"a"}}}'])
def test_a_stray_with_an_unreadable_record_loses_our_own_keys_alone(record: str) -> None:
    labels = {"team": "a", POOL_LABEL: "pool"}
    stray = a_node(os="linux", labels=labels, annotations={APPLIED_ANNOTATION: record})
    node = patched(stray, release_stray(stray, rights=GUARDED).patch)
    assert foreign_labels(node) == foreign_labels(stray)
    assert not carries_ours(node)


# Orphans


def test_an_orphan_is_given_back_as_it_was() -> None:
    assert patched(OWNED, orphan_of(OWNED)) == BEFORE


def test_a_node_whose_pool_is_not_known_to_be_gone_is_no_orphan() -> None:
    """Missing information never causes a removal (P4)."""
    assert orphan_of(OWNED, gone_=()) is None
    assert orphan_of(OWNED, gone_=("another", PoolName("pool"))) is None


@pytest.mark.parametrize("fate", [lambda pool: pool, deleted, unreadable])
def test_a_node_whose_pool_is_there_is_no_orphan(fate: Callable[[Pool], Pool]) -> None:
    assert orphan_of(OWNED, fate(a_pool(selector=BLUE)), gone_=()) is None


def test_an_orphan_that_a_pool_selects_is_left_to_that_pool() -> None:
    assert orphan_of(OWNED, a_pool("new", uid="new")) is None


def test_an_orphan_that_no_pool_selects_is_released_though_there_are_pools() -> None:
    assert patched(OWNED, orphan_of(OWNED, a_pool("new", uid="new", selector=BLUE))) == BEFORE


def test_an_orphan_that_only_a_pool_under_deletion_selects_is_released() -> None:
    """That pool takes over nothing any more."""
    assert patched(OWNED, orphan_of(OWNED, deleted(a_pool("new", uid="new")))) == BEFORE


def test_a_node_with_nothing_of_ours_is_no_orphan() -> None:
    assert orphan_of(a_node(labels={"team": "a"})) is None


def test_with_an_unreadable_record_the_name_of_the_pool_says_whether_it_is_gone() -> None:
    node = a_node(labels={"team": "a", POOL_LABEL: "pool"}, annotations={APPLIED_ANNOTATION: "{"})
    assert orphan_of(node, gone_=("uid-of-pool",)) is None
    after = patched(node, orphan_of(node, gone_=(PoolName("pool"),)))
    assert foreign_labels(after) == foreign_labels(node)
    assert not carries_ours(after)


# Properties

GONE = st.sampled_from((ALL_GONE, ("uid-of-pool",), (PoolName("pool"),), ()))


@given(nodes("w1"), pools(), st.sampled_from(NO_WINDOWS))
def test_a_release_by_record_is_what_the_pool_would_have_done(
    before: Node, pool: Pool, os: str | None
) -> None:
    owned = conformed(before, pool)
    by_pool = acted(decide(a_snapshot(deleted(pool), [owned])), {"w1": owned})["w1"]
    assert patched(owned, orphan_of(owned)) == by_pool == before
    stray = relabelled(owned, **{OS_LABEL: os})
    assert patched(stray, release_stray(stray, rights=GUARDED).patch) == relabelled(before, **{OS_LABEL: os})


@given(haunted_nodes(), GONE, st.sampled_from(("windows", *NO_WINDOWS)))
def test_no_record_can_make_the_sweep_touch_what_no_pool_may_set(
    haunted: Node, gone_: Gone, os: str | None
) -> None:
    node = relabelled(haunted, **{OS_LABEL: os})
    patch = orphan_of(node, gone_=gone_) if os == "windows" else release_stray(node, rights=GUARDED).patch
    after = patched(node, patch)
    free = ("zone", "agentpool", "team", "example.com/tier", "node-role.kubernetes.io/win")
    kept = {key: value for key, value in foreign_labels(node).items() if key not in free}
    assert {key: value for key, value in foreign_labels(after).items() if key not in free} == kept
    if isinstance(record_of(node), Unreadable):
        assert (foreign_labels(after), after.taints) == (foreign_labels(node), node.taints)


@given(haunted_nodes(), GONE)
def test_sweeping_twice_writes_once(node: Node, gone_: Gone) -> None:
    assert orphan_of(patched(node, orphan_of(node, gone_=gone_)), gone_=gone_) is None
    stray = relabelled(node, **{OS_LABEL: "linux"})
    assert (
        release_stray(patched(stray, release_stray(stray, rights=GUARDED).patch), rights=GUARDED).patch
        is None
    )


def test_a_reserved_taint_in_the_record_of_an_orphan_stays() -> None:
    taint = a_taint("ToBeDeletedByClusterAutoscaler=1761900000:NoSchedule")
    record = a_record(taints={taint.identity: Owned(taint.value)})
    node = replace(a_node(taints=[taint]), annotations=record)
    assert patched(node, orphan_of(node)).taints == (taint,)
