"""Records of other pools, of nobody, and of people who mean harm: what is not ours is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import GUARD, GUARDED, a_node, a_taint, record_on
from harness.ownership import UID, conformed, released, wanting
from harness.strategies import (
    LABEL_KEYS,
    PROTECTED_LABELS,
    PROTECTED_TAINTS,
    RESERVED_TAINTS,
    haunted_nodes,
    wishes,
)
from harness.wishes import Wanted, conform, release
from harness.writes import foreign_labels, patched
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.model.node import Node, Taint
from winpool.ownership.record import MAX_BYTES, Owned, Unreadable, record_of

# A key that pools may set can be claimed by a record: that is what a record is for.
FREE_KEYS = ("zone", "agentpool", *LABEL_KEYS)


def test_there_is_no_record_on_a_new_node() -> None:
    assert record_of(a_node()) is None


def test_a_record_of_another_pool_is_undone_first() -> None:
    before = a_node(labels={"team": "b"}, taints=["os=linux:NoSchedule"])
    theirs = conformed(
        before, wanting({"team": "a"}, "os=x:NoSchedule", "gpu:NoSchedule", uid="gone", name="old")
    )
    mine = wanting({"example.com/tier": "x"}, "os=windows:NoSchedule")
    assert conformed(theirs, mine) == conformed(before, mine)


def test_nothing_of_another_pool_is_released() -> None:
    node = conformed(a_node(), wanting({"team": "a"}, uid="other", name="other"))
    assert release(node, pool_uid=UID, pool_name="pool", rights=GUARDED).patch is None


def test_nothing_is_released_of_a_node_without_anything_of_ours() -> None:
    assert release(a_node(labels={"team": "a"}), pool_uid=UID, pool_name="pool", rights=GUARDED).patch is None


UNREADABLE = {
    "no JSON": "{",
    "wrong version": '{"v":2,"pool":"uid-of-pool","labels":{"team":{"set":"a","before":null}},"taints":[]}',
    "NaN": '{"v":1,"pool":NaN}',
    "too large": '{"v":1,"pool":"uid-of-pool","x":"' + "x" * MAX_BYTES + '"}',
    "deep": "[" * 50_000,
}


@pytest.fixture(params=list(UNREADABLE.values()), ids=list(UNREADABLE))
def haunted(request: pytest.FixtureRequest) -> Node:
    annotations = {APPLIED_ANNOTATION: str(request.param)}
    labels = {POOL_LABEL: "pool", "team": "a"}
    return a_node(labels=labels, taints=["os=x:NoSchedule", *PROTECTED_TAINTS], annotations=annotations)


def test_with_an_unreadable_record_only_our_own_keys_come_off(haunted: Node) -> None:
    assert isinstance(record_of(haunted), Unreadable)
    node = released(haunted)
    assert foreign_labels(node) == foreign_labels(haunted)
    assert node.taints == haunted.taints
    assert POOL_LABEL not in node.labels
    assert APPLIED_ANNOTATION not in node.annotations


def test_with_an_unreadable_record_and_the_label_of_another_pool_nothing_comes_off(haunted: Node) -> None:
    assert release(haunted, pool_uid=UID, pool_name="other", rights=GUARDED).patch is None


def test_with_an_unreadable_record_what_stands_there_counts_as_foreign(haunted: Node) -> None:
    wanted = wanting({"team": "a", "example.com/tier": "x"}, "os=windows:NoSchedule")
    found = conform(haunted, wanted=wanted)
    assert found.unreadable
    node = patched(haunted, found.patch)
    assert record_on(node).labels == {"example.com/tier": Owned("x")}
    assert record_on(node).taints == {("os", "NoSchedule"): Owned("windows", "x")}
    after = released(node)
    assert foreign_labels(after) == foreign_labels(haunted)
    assert after.taints == haunted.taints


@pytest.mark.parametrize(
    ("key", "value"),
    [(OS_LABEL, OS_WINDOWS), *(each for each in PROTECTED_LABELS.items() if each[0] not in FREE_KEYS)],
)
def test_a_hostile_record_cannot_make_us_take_off_a_label_that_is_not_ours(key: str, value: str) -> None:
    entry = f'"{key}":{{"set":"{value}","before":"stolen"}}'
    text = f'{{"v":1,"pool":"{UID}","labels":{{{entry}}},"taints":[]}}'
    node = a_node(labels=PROTECTED_LABELS, annotations={APPLIED_ANNOTATION: text})
    assert foreign_labels(released(node)) == foreign_labels(node)
    assert foreign_labels(conformed(node, wanting())) == foreign_labels(node)


@pytest.mark.parametrize("taint", RESERVED_TAINTS, ids=lambda taint: taint.key)
def test_a_hostile_record_cannot_make_us_take_off_a_taint_that_is_not_ours(taint: Taint) -> None:
    entry = f'{{"key":"{taint.key}","effect":"{taint.effect}","value":"{taint.value}","before":null}}'
    text = f'{{"v":1,"pool":"{UID}","labels":{{}},"taints":[{entry}]}}'
    node = a_node(taints=PROTECTED_TAINTS, annotations={APPLIED_ANNOTATION: text})
    assert released(node).taints == PROTECTED_TAINTS
    assert conformed(node, wanting()).taints == PROTECTED_TAINTS


@given(haunted_nodes(), wishes(), st.booleans())
def test_no_record_can_make_us_touch_what_no_pool_may_set(
    before: Node, wanted: Wanted, release_it: bool
) -> None:
    """Whatever the annotation says, and whether the pool wants something or goes."""
    node = released(before) if release_it else conformed(before, wanted)
    for key, value in foreign_labels(before).items():
        assert key in FREE_KEYS or node.labels[key] == value
    assert {key for key in foreign_labels(node) if key not in before.labels} <= {*FREE_KEYS}
    stays = [taint for taint in before.taints if taint in RESERVED_TAINTS]
    assert [taint for taint in node.taints if taint in RESERVED_TAINTS] == stays


@given(haunted_nodes(), wishes())
def test_an_unreadable_record_takes_nothing_off(before: Node, wanted: Wanted) -> None:
    if not isinstance(record_of(before), Unreadable):
        return
    assert foreign_labels(released(before)) == foreign_labels(before)
    assert released(before).taints == before.taints
    node = conformed(before, wanted)
    assert foreign_labels(node) == {**foreign_labels(before), **wanted.labels}
    kept = [taint for taint in before.taints if taint.identity not in wanted.taints]
    assert [taint for taint in node.taints if taint.identity not in wanted.taints] == kept


BAD_TIMES = [
    "2026-19-39T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T25:00:00Z",
    "2026-01-01T23:59:60Z",
    "2026-01-02T03:04:07+25:00",
    "2026-01-02",
    "now",
    "",
    7,
]


@pytest.mark.parametrize("time", BAD_TIMES)
def test_a_time_in_a_record_that_no_api_server_takes_is_left_out(time: object) -> None:
    text = json.dumps(
        {
            "v": 1,
            "guard": GUARD,
            "pool": "uid-of-pool",
            "labels": {},
            "taints": [
                {"key": "os", "effect": "NoSchedule", "value": "a", "before": "b", "beforeTimeAdded": time}
            ],
        }
    )
    node = a_node(taints=(a_taint("os=a:NoSchedule"),), annotations={APPLIED_ANNOTATION: text})
    patch = release(node, pool_uid="uid-of-pool", pool_name="pool", rights=GUARDED).patch
    assert patch is not None
    assert patch.taints == (a_taint("os=b:NoSchedule"),)
