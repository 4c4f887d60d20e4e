"""What no pool takes off any more: by its record, exactly as the pool would have done it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import GUARDED, NOON, a_node, a_pool, a_record, a_snapshot, a_taint, deleted, unreadable
from harness.strategies import haunted_nodes, nodes, pools
from harness.writes import acted, carries_ours, foreign_labels, patched, relabelled
from winpool.api.fields import is_restricted_label
from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, OS_LABEL, POOL_LABEL, PREFIX
from winpool.api.text import written_moment
from winpool.decide import decide
from winpool.model.node import Node, NodePatch
from winpool.model.pool import Pool, PoolName
from winpool.ownership.diff import NodeDiff
from winpool.ownership.leftovers import release_orphan, release_stray
from winpool.ownership.record import Owned, Unreadable, record_of

BLUE = {"matchLabels": {"agentpool": "blue"}}
RESTRICTED = "shop.node-restriction.kubernetes.io/tenant"
ROLE = "node-role.kubernetes.io/win"
NO_WINDOWS = ["linux", "", None]


def conformed(node: Node, pool: Pool) -> Node:
    return acted(decide(a_snapshot(pool, [node])), {node.name: node})[node.name]


Gone = tuple[str | PoolName, ...]


def gone(*identities: str | PoolName) -> Callable[[str | PoolName], bool]:
    return identities.__contains__


def let_go(node: Node) -> NodeDiff:
    """Release it as a stray of a pool that someone has deleted."""
    return release_stray(node, is_let_go=lambda _: True, rights=GUARDED, now=NOON)


def kept(node: Node) -> NodeDiff:
    """Treat it as a stray of a pool that nobody has deleted."""
    return release_stray(node, is_let_go=lambda _: False, rights=GUARDED, now=NOON)


ALL_GONE: Gone = ("uid-of-pool", PoolName("pool"))


def orphan_of(node: Node, *pools: Pool, gone_: Gone = ALL_GONE) -> NodePatch | None:
    return release_orphan(node, pools=pools, is_vanished=gone(*gone_), rights=GUARDED).patch


LABELS = {"team": "a"}
BEFORE = a_node(labels={"team": "x"}, taints=["os=linux:NoSchedule", "a=b:NoExecute"])
OWNED = conformed(BEFORE, a_pool(labels=LABELS, taints=["os=windows:NoSchedule"]))


# Strays


@pytest.mark.parametrize("os", NO_WINDOWS)
def test_a_stray_of_a_deleted_pool_is_given_back_as_it_was(os: str | None) -> None:
    stray = relabelled(OWNED, **{OS_LABEL: os})
    assert patched(stray, let_go(stray).patch) == relabelled(BEFORE, **{OS_LABEL: os})


def test_a_windows_node_is_no_stray() -> None:
    assert let_go(OWNED).patch is None


@pytest.mark.parametrize("os", NO_WINDOWS)
def test_a_node_with_nothing_of_ours_is_no_stray(os: str | None) -> None:
    assert let_go(a_node(os=os, labels={"team": "a"})).patch is None


def test_what_others_changed_on_a_stray_is_left() -> None:
    stray = relabelled(OWNED, team="theirs", **{OS_LABEL: "linux"})
    assert patched(stray, let_go(stray).patch).labels["team"] == "theirs"


@pytest.mark.parametrize("record", ["{", '{"v":2,"pool":"uid-of-pool","labels":{"team":{"set":"a"}}}'])
def test_a_stray_with_an_unreadable_record_loses_our_own_keys_alone(record: str) -> None:
    labels = {"team": "a", POOL_LABEL: "pool"}
    stray = a_node(os="linux", labels=labels, annotations={APPLIED_ANNOTATION: record})
    node = patched(stray, let_go(stray).patch)
    assert foreign_labels(node) == foreign_labels(stray)
    assert not carries_ours(node)


@pytest.mark.parametrize("os", NO_WINDOWS)
def test_a_stray_of_a_pool_that_nobody_deleted_keeps_what_its_kubelet_may_not_remove(os: str | None) -> None:
    """P3: a kubelet may change the label of its system, and would be rid of its taints by that."""
    pool = a_pool(
        labels={"team": "a", RESTRICTED: "shop", ROLE: ""}, taints=["os=windows:NoSchedule", "gpu:NoExecute"]
    )
    owned = conformed(BEFORE, pool)
    stray = relabelled(owned, **{OS_LABEL: os})
    after = patched(stray, kept(stray).patch)
    assert after.taints == stray.taints
    assert after.labels == {**stray.labels, "team": "x"}, "a kubelet could give itself this one back"
    assert kept(after).patch is None
    given_back = patched(after, let_go(after).patch)
    assert (given_back.labels, given_back.taints) == (
        relabelled(BEFORE, **{OS_LABEL: os}).labels,
        BEFORE.taints,
    )


@pytest.mark.parametrize("value", ["", "until Monday", written_moment(NOON + timedelta(hours=1))])
def test_a_stray_that_someone_holds_keeps_all_until_its_pool_is_deleted(value: str) -> None:
    held = replace(OWNED, annotations={**OWNED.annotations, HOLD_ANNOTATION: value})
    stray = relabelled(held, **{OS_LABEL: "linux"})
    assert kept(stray).patch is None
    given_back = patched(stray, let_go(stray).patch)
    assert given_back.taints == BEFORE.taints
    assert given_back.annotations == {HOLD_ANNOTATION: value}, "it is of others, and stays"


def test_a_stray_whose_hold_has_ended_loses_what_its_kubelet_could_remove() -> None:
    held = replace(OWNED, annotations={**OWNED.annotations, HOLD_ANNOTATION: written_moment(NOON)})
    stray = relabelled(held, **{OS_LABEL: "linux"})
    assert patched(stray, kept(stray).patch).labels["team"] == "x"


def test_an_orphan_is_released_though_someone_holds_it() -> None:
    """Its pool is gone, and would have released it too."""
    held = replace(OWNED, annotations={**OWNED.annotations, HOLD_ANNOTATION: ""})
    patch = orphan_of(held)
    assert patch is not None
    assert patched(held, patch).labels == BEFORE.labels


def test_a_stray_that_is_a_windows_node_again_becomes_what_it_was() -> None:
    pool = a_pool(labels=LABELS, taints=["os=windows:NoSchedule"])
    stray = relabelled(OWNED, **{OS_LABEL: "linux"})
    back = relabelled(patched(stray, kept(stray).patch), **{OS_LABEL: "windows"})
    again = conformed(back, pool)
    assert (again.labels, again.taints, again.annotations) == (OWNED.labels, OWNED.taints, OWNED.annotations)


def test_a_stray_without_a_readable_record_stays_as_it_is_until_its_pool_is_deleted() -> None:
    taint = a_taint("winpool.dev/reserved-memory-mismatch:NoSchedule")
    labels = {"team": "a", POOL_LABEL: "pool"}
    stray = a_node(os="linux", labels=labels, taints=[taint], annotations={APPLIED_ANNOTATION: "{"})
    assert kept(stray).patch is None
    assert patched(stray, let_go(stray).patch).taints == ()


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
    assert patched(stray, let_go(stray).patch) == relabelled(before, **{OS_LABEL: os})


@given(haunted_nodes(), GONE, st.sampled_from(("windows", *NO_WINDOWS)))
def test_no_record_can_make_the_sweep_touch_what_no_pool_may_set(
    haunted: Node, gone_: Gone, os: str | None
) -> None:
    node = relabelled(haunted, **{OS_LABEL: os})
    patch = orphan_of(node, gone_=gone_) if os == "windows" else let_go(node).patch
    after = patched(node, patch)
    free = ("zone", "agentpool", "team", "example.com/tier", "node-role.kubernetes.io/win")
    kept = {key: value for key, value in foreign_labels(node).items() if key not in free}
    assert {key: value for key, value in foreign_labels(after).items() if key not in free} == kept
    if isinstance(record_of(node), Unreadable):
        assert (foreign_labels(after), after.taints) == (foreign_labels(node), node.taints)


@given(haunted_nodes(), st.sampled_from(NO_WINDOWS))
def test_nothing_on_a_node_makes_the_sweep_do_what_its_kubelet_may_not(haunted: Node, os: str | None) -> None:
    """P3: as long as nobody has deleted the pool, whatever the record says."""
    stray = relabelled(haunted, **{OS_LABEL: os})
    after = patched(stray, kept(stray).patch)
    assert after.taints == stray.taints
    assert restricted(after) == restricted(stray)
    assert kept(after).patch is None


def restricted(node: Node) -> dict[str, str]:
    """Return the labels that its kubelet may not write."""
    return {
        key: value for key, value in node.labels.items() if is_restricted_label(key) or key.startswith(PREFIX)
    }


@pytest.mark.slow
@given(haunted_nodes(), GONE)
def test_sweeping_twice_writes_once(node: Node, gone_: Gone) -> None:
    assert orphan_of(patched(node, orphan_of(node, gone_=gone_)), gone_=gone_) is None
    stray = relabelled(node, **{OS_LABEL: "linux"})
    assert let_go(patched(stray, let_go(stray).patch)).patch is None


def test_a_reserved_taint_in_the_record_of_an_orphan_stays() -> None:
    taint = a_taint("ToBeDeletedByClusterAutoscaler=1761900000:NoSchedule")
    record = a_record(taints={taint.identity: Owned(taint.value)})
    node = replace(a_node(taints=[taint]), annotations=record)
    assert patched(node, orphan_of(node)).taints == (taint,)
