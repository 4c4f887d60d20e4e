"""Ownership of taints: what is put on a node, what is remembered, and what comes off again."""

from __future__ import annotations

import pytest

from harness.builders import GUARDED, a_node, a_taint, record_on, taints_of
from harness.ownership import conformed, released, wanting
from harness.strategies import PROTECTED_TAINTS
from harness.wishes import Wanted, conform, release
from harness.writes import patched, retainted
from winpool.ownership.record import Owned

OS = ("os", "NoSchedule")


def test_a_wanted_taint_is_put_on_behind_the_others_and_taken_off_again() -> None:
    before = a_node(taints=PROTECTED_TAINTS)
    node = conformed(before, wanting(None, "os=windows:NoSchedule"))
    assert node.taints == (*PROTECTED_TAINTS, a_taint("os=windows:NoSchedule"))
    assert record_on(node).taints == {OS: Owned("windows")}
    assert released(node) == before


def test_the_same_key_and_effect_with_another_value_is_replaced_in_place_and_restored() -> None:
    before = a_node(taints=["a=b:NoSchedule", "os=linux:NoSchedule", "c=d:NoExecute"])
    node = conformed(before, wanting(None, "os=windows:NoSchedule"))
    assert node.taints == taints_of("a=b:NoSchedule", "os=windows:NoSchedule", "c=d:NoExecute")
    assert record_on(node).taints == {OS: Owned("windows", "linux")}
    assert released(node) == before


def test_a_taint_with_the_empty_value_is_restored_and_not_taken_for_none() -> None:
    before = a_node(taints=["os:NoSchedule"])
    node = conformed(before, wanting(None, "os=windows:NoSchedule"))
    assert record_on(node).taints == {OS: Owned("windows", "")}
    assert released(node) == before


def test_the_same_key_with_another_effect_is_another_taint() -> None:
    before = a_node(taints=["os=windows:NoExecute", "os=x:PreferNoSchedule"])
    node = conformed(before, wanting(None, "os=windows:NoSchedule"))
    assert node.taints == (*before.taints, a_taint("os=windows:NoSchedule"))
    assert released(node) == before


def test_an_equal_taint_already_there_is_not_recorded_not_touched_and_not_removed() -> None:
    equal = a_taint("os=windows:NoSchedule", time_added="2026-10-31T08:00:00Z")
    before = a_node(taints=[equal])
    node = conformed(before, wanting(None, "os=windows:NoSchedule"))
    assert node.taints == (equal,)
    assert record_on(node).taints == {}
    assert released(node) == before


@pytest.mark.parametrize("theirs", [["os=mac:NoSchedule"], ["os:NoSchedule"], []])
@pytest.mark.parametrize("before", [["os=linux:NoSchedule"], []])
def test_a_taint_changed_or_removed_by_others_is_left_on_undo(before: list[str], theirs: list[str]) -> None:
    node = retainted(conformed(a_node(taints=before), wanting(None, "os=windows:NoSchedule")), *theirs)
    assert released(node).taints == taints_of(*theirs)


@pytest.mark.parametrize("theirs", [["os=mac:NoSchedule"], []])
def test_a_taint_changed_by_others_is_put_back_and_what_was_before_is_not_forgotten(
    theirs: list[str],
) -> None:
    before = a_node(taints=["os=linux:NoSchedule"])
    drifted = retainted(conformed(before, wanting(None, "os=windows:NoSchedule")), *theirs)
    found = conform(drifted, wanted=wanting(None, "os=windows:NoSchedule"))
    assert any("os" in text for text in found.drifted)
    node = patched(drifted, found.patch)
    assert record_on(node).taints == {OS: Owned("windows", "linux")}
    assert released(node) == before


def test_a_taint_edited_in_the_spec_keeps_what_was_before() -> None:
    before = a_node(taints=["os=linux:NoSchedule"])
    node = before
    for value in ("windows", "win", ""):
        node = conformed(node, wanting(None, f"os={value}:NoSchedule"))
        assert node.taints == taints_of(f"os={value}:NoSchedule")
        assert record_on(node).taints == {OS: Owned(value, "linux")}
    assert released(node) == before


def test_a_taint_edited_to_what_was_before_is_no_longer_recorded() -> None:
    before = a_node(taints=["os=linux:NoSchedule"])
    edited = conformed(
        conformed(before, wanting(None, "os=windows:NoSchedule")), wanting(None, "os=linux:NoSchedule")
    )
    assert edited == conformed(before, wanting(None, "os=linux:NoSchedule"))
    assert record_on(edited).taints == {}


def test_an_edited_effect_takes_the_old_taint_off() -> None:
    node = conformed(a_node(), wanting(None, "os=windows:NoSchedule"))
    node = conformed(node, wanting(None, "os=windows:PreferNoSchedule"))
    assert node.taints == taints_of("os=windows:PreferNoSchedule")


def test_foreign_taints_keep_order_value_and_time_through_every_write() -> None:
    node = a_node(taints=PROTECTED_TAINTS)
    steps: tuple[list[str], ...] = (
        ["os=a:NoSchedule"],
        ["os=b:NoSchedule", "gpu:NoSchedule"],
        ["gpu:PreferNoSchedule"],
        [],
    )
    for taints in steps:
        node = conformed(node, wanting(None, *taints))
        assert tuple(taint for taint in node.taints if taint in PROTECTED_TAINTS) == PROTECTED_TAINTS
        assert len(node.taints) == len(PROTECTED_TAINTS) + len(taints)


def test_a_taint_that_gave_way_comes_back_with_its_time_also_after_repairs_and_edits() -> None:
    time = "2026-01-02T03:04:07Z"
    before = a_node(taints=(a_taint("example.com/team=blue:NoSchedule", time_added=time),))
    node = before
    for value in ("red", "green", "red"):
        wanted = Wanted(
            "pool",
            "uid-of-pool",
            labels={},
            taints={("example.com/team", "NoSchedule"): value},
            rights=GUARDED,
        )
        node = patched(node, conform(node, wanted=wanted).patch)
        node = retainted(node)  # somebody takes it off
        node = patched(node, conform(node, wanted=wanted).patch)
    after = patched(node, release(node, pool_uid="uid-of-pool", pool_name="pool", rights=GUARDED).patch)
    assert after.taints == before.taints
